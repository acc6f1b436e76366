/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_EXCHANGE_OPENAPI_H
#define FLMEM_OPS_EXCHANGE_OPENAPI_H

/* docs/openapi/exchange.json; the build makes it a text. */
extern const char flmem_exchange_openapi[];

#endif
