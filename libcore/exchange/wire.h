/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_EXCHANGE_WIRE_H
#define FLMEM_EXCHANGE_WIRE_H

/*
 * Constants of the protocol that server and client share; see docs/internals/exchange-protocol.md.
 */

#include <stdint.h>

#define FLMEM_EXCHANGE_STATUS_PATH  "/v1/status"
#define FLMEM_EXCHANGE_ROUNDS_PATH  "/v1/rounds/"
#define FLMEM_EXCHANGE_UPLOADS_PATH "/v1/uploads"
#define FLMEM_EXCHANGE_OPENAPI_PATH "/v1/openapi.json"
#define FLMEM_EXCHANGE_METRICS_PATH "/metrics"

#define FLMEM_EXCHANGE_STATE_SCHEMA "flmem.exchange-state/1"
#define FLMEM_EXCHANGE_MODEL_SCHEMA "flmem.exchange-model/1"
#define FLMEM_EXCHANGE_PROBLEM_TYPE "application/problem+json"

#define FLMEM_TUS_VERSION	 "1.0.0"
#define FLMEM_TUS_RESUMABLE	 "Tus-Resumable"
#define FLMEM_TUS_VERSIONS	 "Tus-Version"
#define FLMEM_TUS_MAX_SIZE	 "Tus-Max-Size"
#define FLMEM_TUS_EXTENSION	 "Tus-Extension"
#define FLMEM_TUS_CHECKSUM_NAMES "Tus-Checksum-Algorithm"
#define FLMEM_TUS_LENGTH	 "Upload-Length"
#define FLMEM_TUS_OFFSET	 "Upload-Offset"
#define FLMEM_TUS_METADATA	 "Upload-Metadata"
#define FLMEM_TUS_CHECKSUM	 "Upload-Checksum"
#define FLMEM_TUS_EXPIRES	 "Upload-Expires"
#define FLMEM_TUS_CONCAT	 "Upload-Concat"
#define FLMEM_TUS_BODY_TYPE	 "application/offset+octet-stream"

#define FLMEM_REPR_DIGEST "Repr-Digest" /* RFC 9530: sha-256=:BASE64: */

/* Title of a problem: the round of the sent data no longer collects. */
#define FLMEM_EXCHANGE_OVER_TITLE   "round is over"
#define FLMEM_EXCHANGE_FAILED_TITLE "exchange has failed"

/*
 * Title of a problem of status 503: a client of an exchange in lockstep has to wait for the others.
 */
#define FLMEM_EXCHANGE_AHEAD_TITLE "ahead of the others"

/* Status that tus defines for a checksum that does not match. */
#define FLMEM_STATUS_CHECKSUM 460U

#define FLMEM_EXCHANGE_NAME_MAX	 64U	/* longest name of a client or a file */
#define FLMEM_EXCHANGE_ID_DIGITS 32U	/* digits of an upload's id */
#define FLMEM_EXCHANGE_WAIT_MAX	 60U	/* seconds */
#define FLMEM_EXCHANGE_FILES_MAX 10000U /* most files of a published model */
/* Most files of an update; less than the uploads that a client may have. */
#define FLMEM_UPDATE_FILES_MAX	   1000U
#define FLMEM_EXCHANGE_CHUNK_BYTES (UINT64_C(2) << 20)

#endif
