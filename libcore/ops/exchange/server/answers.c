/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/exchange/server/answers.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/text/text.h"
#include "exchange/valid_names.h"
#include "exchange/wire.h"
#include "ops/exchange/server/lockstep_upload.h"
#include "ops/exchange/server/openapi.h"
#include "ops/exchange/server/upload_body.h"
#include "ops/exchange/server/uploads.h"

#define DETAIL_MAX 700

static const struct {
	unsigned status;
	const char *title;
} titles[] = {
	{400, "Bad Request"},
	{401, "Unauthorized"},
	{403, "Forbidden"},
	{404, "Not Found"},
	{405, "Method Not Allowed"},
	{409, "Conflict"},
	{410, "Gone"},
	{412, "Precondition Failed"},
	{413, "Content Too Large"},
	{415, "Unsupported Media Type"},
	{416, "Range Not Satisfiable"},
	{422, "Unprocessable Content"},
	{423, "Locked"},
	{429, "Too Many Requests"},
	{FLMEM_STATUS_CHECKSUM, "Checksum Mismatch"},
	{500, "Internal Server Error"},
	{503, "Service Unavailable"},
	{507, "Insufficient Storage"},
};

static const char *title_of(unsigned status)
{
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(titles); i++)
		if (titles[i].status == status)
			return titles[i].title;
	return "Error";
}

unsigned flmem_exchange_disk_status(int sys_errno)
{
	return sys_errno == ENOSPC || sys_errno == EDQUOT || sys_errno == EFBIG ? 507 : 500;
}

/* Returns true for the path of the collection of uploads, or of an upload below it. */
static bool is_upload_path(const char *path, const char **ret_rest)
{
	size_t length = strlen(FLMEM_EXCHANGE_UPLOADS_PATH);

	if (strncmp(path, FLMEM_EXCHANGE_UPLOADS_PATH, length) != 0 ||
	    (path[length] && path[length] != '/'))
		return false;
	*ret_rest = path[length] ? path + length + 1 : "";
	return true;
}

const char *flmem_exchange_methods(const struct flmem_http_request *request)
{
	const char *rest;

	if (!is_upload_path(flmem_http_request_path(request), &rest))
		return "GET, HEAD";
	return *rest ? "OPTIONS, HEAD, PATCH, DELETE" : "OPTIONS, POST";
}

static void add_refusal_fields(const struct flmem_http_request *request, unsigned status,
			       struct flmem_http_answer *answer)
{
	if (flmem_text_starts(flmem_http_request_path(request), FLMEM_EXCHANGE_UPLOADS_PATH))
		flmem_http_answer_field(answer, FLMEM_TUS_RESUMABLE, FLMEM_TUS_VERSION);
	if (status == 405)
		flmem_http_answer_field(answer, "Allow", "%s", flmem_exchange_methods(request));
	if (status == 412)
		flmem_http_answer_field(answer, FLMEM_TUS_VERSIONS, FLMEM_TUS_VERSION);
	if (status == 423 || status == 503)
		flmem_http_answer_field(answer, "Retry-After", "2");
	if (status == 401)
		flmem_http_answer_field(answer, "WWW-Authenticate", "Bearer");
}

static void refuse_with(struct flmem_http_request *request, const char *title, const char *detail,
			struct flmem_http_answer *answer)
{
	FLMEM_AUTO_BUF struct flmem_buf text = FLMEM_BUF_INIT;

	answer->type = FLMEM_EXCHANGE_PROBLEM_TYPE;
	flmem_exchange_problem_print(answer->status, title ?: title_of(answer->status), detail,
				     &text);
	answer->body = text.data;
	answer->length = text.length;
	add_refusal_fields(request, answer->status, answer);
	flmem_http_request_answer(request, answer);
}

void flmem_exchange_refuse(struct flmem_http_request *request, unsigned status, const char *title,
			   const char *format, ...)
{
	struct flmem_http_answer answer = {.status = status};
	char detail[DETAIL_MAX];
	va_list values;

	va_start(values, format);
	vsnprintf(detail, sizeof(detail), format, values);
	va_end(values);
	refuse_with(request, title, detail, &answer);
}

void flmem_exchange_refuse_failed_client(struct flmem_exchange *x,
					 struct flmem_http_request *request, unsigned status,
					 const char *client, const char *detail)
{
	flmem_exchange_log(x, &(struct flmem_exchange_note){
				      .event = status == 507 ? "disk-full" : "request-failed",
				      .warning = true,
				      .round = x->round,
				      .client = client,
				      .detail = detail,
			      });
	flmem_exchange_refuse(request, status, NULL, "%s", detail);
}

void flmem_exchange_refuse_failed(struct flmem_exchange *x, struct flmem_http_request *request,
				  unsigned status, const char *id, const char *detail)
{
	char client[FLMEM_EXCHANGE_NAME_MAX + 1] = "";
	const struct flmem_upload *upload;

	pthread_mutex_lock(&x->lock);
	upload = id ? flmem_uploads_find(x, id) : NULL;
	if (upload)
		memcpy(client, upload->record.metadata.client, sizeof(client));
	flmem_exchange_refuse_failed_client(x, request, status, upload ? client : NULL, detail);
	pthread_mutex_unlock(&x->lock);
}

void flmem_exchange_refuse_begun(struct flmem_http_request *request, const char *id,
				 const char *format, ...)
{
	struct flmem_http_answer answer = {.status = 409};
	char detail[DETAIL_MAX];
	va_list values;

	va_start(values, format);
	vsnprintf(detail, sizeof(detail), format, values);
	va_end(values);
	flmem_http_answer_field(&answer, "Location", FLMEM_EXCHANGE_UPLOADS_PATH "/%s", id);
	refuse_with(request, NULL, detail, &answer);
}

void flmem_exchange_refuse_gone(struct flmem_http_request *request)
{
	flmem_exchange_refuse(request, 409, FLMEM_EXCHANGE_OVER_TITLE,
			      "before the upload was complete the round ended, or another file of "
			      "the update counted or was refused");
}

void flmem_exchange_answer_text(struct flmem_http_request *request, const char *type,
				const struct flmem_buf *text)
{
	struct flmem_http_answer answer = {
		.status = 200,
		.type = type,
		.body = text->data,
		.length = text->length,
	};

	if (text->failed) {
		flmem_exchange_refuse(request, 500, NULL, "no memory");
		return;
	}
	flmem_http_answer_field(&answer, "Cache-Control", "no-store");
	flmem_http_request_answer(request, &answer);
}

static bool authenticate_token(struct flmem_exchange *x, struct flmem_http_request *request,
			       const char **ret_name)
{
	const char *header = flmem_http_request_header(request, "Authorization");
	const char *name = NULL;

	if (header && strncasecmp(header, "Bearer ", 7) == 0)
		name = flmem_credentials_find(&x->tokens, FLMEM_CREDENTIAL_TOKEN,
					      header + 7 + strspn(header + 7, " "));
	if (!name) {
		flmem_exchange_refuse(request, 401, NULL,
				      header ? "the token is not valid"
					     : "a token is needed: Authorization: Bearer TOKEN");
		return false;
	}
	*ret_name = name;
	return true;
}

/* Returns the name that the file of authorised clients gives a certificate, or NULL. */
static const char *name_of_identity(struct flmem_exchange *x,
				    const struct flmem_http_identity *identity)
{
	const char *name;

	/* Without the file the CN is the name: see authenticate_certificate(). */
	if (!x->options->authorised)
		return NULL;
	name = flmem_credentials_find(&x->certificates, FLMEM_CREDENTIAL_FINGERPRINT,
				      identity->fingerprint);
	if (!name && *identity->cn)
		name = flmem_credentials_find(&x->certificates, FLMEM_CREDENTIAL_CN, identity->cn);
	return name;
}

static bool authenticate_certificate(struct flmem_exchange *x, struct flmem_http_request *request,
				     const char **ret_name)
{
	/* Thread-local is enough: a thread is one connection. */
	static _Thread_local struct flmem_http_identity identity;
	struct flmem_error err = {0};
	const char *name;

	if (flmem_http_request_identity(request, &identity, &err)) {
		flmem_exchange_refuse(request, 401, NULL, "%s", err.message);
		return false;
	}
	name = name_of_identity(x, &identity);
	if (!name && !x->options->authorised && flmem_exchange_client_name_is_valid(identity.cn))
		name = identity.cn;
	if (!name) {
		flmem_exchange_refuse(request, 403, NULL,
				      "this certificate is not that of an authorised client");
		return false;
	}
	*ret_name = name;
	return true;
}

/*
 * Authenticates the client: *ret_name is the name of its credential, NULL if none is required.
 * Returns false if the request was refused.
 */
static bool authenticate_client(struct flmem_exchange *x, struct flmem_http_request *request,
				const char **ret_name)
{
	*ret_name = NULL;
	if (x->options->client_ca)
		return authenticate_certificate(x, request, ret_name);
	if (x->options->token_file)
		return authenticate_token(x, request, ret_name);
	return true;
}

static bool is_read_method(const char *method)
{
	return strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0;
}

static void answer_openapi(struct flmem_http_request *request)
{
	FLMEM_AUTO_BUF struct flmem_buf text = FLMEM_BUF_INIT;

	flmem_buf_puts(&text, flmem_exchange_openapi);
	flmem_exchange_answer_text(request, "application/json", &text);
}

static void answer_read(struct flmem_exchange *x, struct flmem_http_request *request,
			const char *path, const char *name)
{
	if (!is_read_method(flmem_http_request_method(request)))
		flmem_exchange_refuse(request, 405, NULL, "use GET or HEAD");
	else if (strcmp(path, FLMEM_EXCHANGE_STATUS_PATH) == 0)
		flmem_exchange_status(x, request, name);
	else if (strcmp(path, FLMEM_EXCHANGE_METRICS_PATH) == 0)
		flmem_exchange_metrics(x, request);
	else if (flmem_text_starts(path, FLMEM_EXCHANGE_ROUNDS_PATH))
		flmem_exchange_model(x, request, path + strlen(FLMEM_EXCHANGE_ROUNDS_PATH));
	else
		flmem_exchange_refuse(request, 404, NULL,
				      "nothing is at this path; " FLMEM_EXCHANGE_OPENAPI_PATH
				      " describes the interface");
}

static void begin_exchange(void *context, struct flmem_http_request *request)
{
	struct flmem_exchange *x = context;
	const char *path = flmem_http_request_path(request), *rest, *name;

	if (strcmp(path, FLMEM_EXCHANGE_OPENAPI_PATH) == 0 &&
	    is_read_method(flmem_http_request_method(request)))
		answer_openapi(request);
	else if (!authenticate_client(x, request, &name))
		return;
	else if (is_upload_path(path, &rest))
		flmem_exchange_uploads(x, request, rest, name);
	else
		answer_read(x, request, path, name);
}

void flmem_exchange_receive(struct flmem_exchange *x, struct flmem_http_request *request,
			    const struct flmem_transfer_start *start)
{
	if (x->lockstep)
		flmem_lockstep_upload_begin(x, request, start);
	else
		flmem_transfer_begin(x, request, start);
}

static bool add_body(void *context, struct flmem_http_request *request, const char *bytes,
		     size_t length)
{
	const struct flmem_exchange *x = context;
	void *transfer = flmem_http_request_get(request);

	if (transfer && x->lockstep)
		flmem_lockstep_upload_add(transfer, bytes, length);
	return !transfer || x->lockstep || flmem_transfer_add(transfer, bytes, length);
}

static void end_exchange(void *context, struct flmem_http_request *request)
{
	const struct flmem_exchange *x = context;
	void *transfer = flmem_http_request_get(request);

	if (transfer && x->lockstep)
		flmem_lockstep_upload_end(transfer, request);
	else if (transfer)
		flmem_transfer_end(transfer, request);
}

static void finish_exchange(void *context, struct flmem_http_request *request, bool whole)
{
	const struct flmem_exchange *x = context;

	(void)whole;
	if (x->lockstep)
		flmem_lockstep_upload_free(flmem_http_request_get(request));
	else
		flmem_transfer_free(flmem_http_request_get(request));
}

const struct flmem_http_handler flmem_exchange_handler = {
	.begin = begin_exchange,
	.body = add_body,
	.end = end_exchange,
	.finished = finish_exchange,
};
