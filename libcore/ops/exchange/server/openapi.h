/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_EXCHANGE_OPENAPI_H
#define FLMEM_OPS_EXCHANGE_OPENAPI_H

/* The contents of docs/openapi/exchange.json, which the build turns into this text. */
extern const char flmem_exchange_openapi[];

#endif
