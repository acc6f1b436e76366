/* SPDX-License-Identifier: Apache-2.0 */
/* Replaces connection.c where libcurl's headers are not installed: no connection can be opened. */
#include "net/connection.h"

void flmem_connection_answer_clear(struct flmem_connection_answer *answer)
{
	flmem_buf_clear(&answer->body);
}

int flmem_connection_open(const struct flmem_connection_options *options,
			  struct flmem_connection **ret_connection, struct flmem_error *err)
{
	(void)options;
	*ret_connection = NULL;
	return flmem_error_set(err, FLMEM_EUNSUPPORTED, 0,
			       "this flmem was built without libcurl, which the client of an "
			       "exchange needs; use curl or another client of tus");
}

void flmem_connection_close(struct flmem_connection *connection)
{
	(void)connection;
}

enum flmem_connection_step flmem_connection_send(struct flmem_connection *connection,
						 const struct flmem_connection_request *request,
						 struct flmem_connection_answer *answer,
						 struct flmem_error *err)
{
	(void)connection;
	(void)request;
	(void)answer;
	flmem_error_set(err, FLMEM_EUNSUPPORTED, 0, "there is no libcurl");
	return FLMEM_CONNECTION_FAIL;
}
