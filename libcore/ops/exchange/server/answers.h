/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_EXCHANGE_ANSWERS_H
#define FLMEM_OPS_EXCHANGE_ANSWERS_H

/* Requests of an exchange by path, and the answers that several of them share. */

#include "base/text/buf.h"
#include "ops/exchange/server/server_state.h"

extern const struct flmem_http_handler flmem_exchange_handler;

/* Returns the HTTP status for an errno of a file of the server: 507 if it lacks space, else 500. */
unsigned flmem_exchange_disk_status(int sys_errno);

/* Answers with a problem document. `title` NULL: the usual phrase of the status. */
void flmem_exchange_refuse(struct flmem_http_request *request, unsigned status, const char *title,
			   const char *format, ...) __attribute__((format(printf, 4, 5)));

/*
 * Answers with a failure of the server (500, 503, 507), and logs it. The log names the client of
 * the upload `id`; NULL: none.
 */
void flmem_exchange_refuse_failed(struct flmem_exchange *x, struct flmem_http_request *request,
				  unsigned status, const char *id, const char *detail);

/*
 * Does the same as flmem_exchange_refuse_failed(), with the name of the client, or NULL. The caller
 * may hold x->lock.
 */
void flmem_exchange_refuse_failed_client(struct flmem_exchange *x,
					 struct flmem_http_request *request, unsigned status,
					 const char *client, const char *detail);

/*
 * Answers 409 because of an unfinished upload of the same client, whose address is in the answer.
 */
void flmem_exchange_refuse_begun(struct flmem_http_request *request, const char *id,
				 const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Answers 409 to a request that works on an upload for which flmem_upload_is_gone() is true. */
void flmem_exchange_refuse_gone(struct flmem_http_request *request);

/* Answers with a printed document; 500 if memory was out. */
void flmem_exchange_answer_text(struct flmem_http_request *request, const char *type,
				const struct flmem_buf *text);

/* Returns the methods that a resource supports, for the header Allow (RFC 9110, 10.2.1). */
const char *flmem_exchange_methods(const struct flmem_http_request *request);

/* Handlers, each for one resource; `rest` is the path after its name. */
void flmem_exchange_status(struct flmem_exchange *x, struct flmem_http_request *request,
			   const char *name);
void flmem_exchange_model(struct flmem_exchange *x, struct flmem_http_request *request,
			  const char *rest);
void flmem_exchange_uploads(struct flmem_exchange *x, struct flmem_http_request *request,
			    const char *rest, const char *name);
void flmem_exchange_metrics(struct flmem_exchange *x, struct flmem_http_request *request);

struct flmem_transfer_start;

/* Receives the body of a request that has seized an upload. */
void flmem_exchange_receive(struct flmem_exchange *x, struct flmem_http_request *request,
			    const struct flmem_transfer_start *start);

/* The receipt of one body for an upload. */
struct flmem_upload_transfer;

bool flmem_transfer_add(struct flmem_upload_transfer *transfer, const char *bytes, size_t length);
void flmem_transfer_end(struct flmem_upload_transfer *transfer, struct flmem_http_request *request);

/* Commits what arrived of a body that was cut, and frees the transfer. NULL is allowed. */
void flmem_transfer_free(struct flmem_upload_transfer *transfer);

#endif
