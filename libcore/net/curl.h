/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_NET_CURL_H
#define FLMEM_NET_CURL_H

/* Loads libcurl when the first address is read, and has the parts that all users of it share. */

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include <curl/curl.h>

#include <flmem/error.h>

#include "base/paused_time.h"

/* The functions of libcurl that are used, without the prefix "curl_". */
#define FLMEM_CURL_FUNCTIONS(X) \
	X(global_init)          \
	X(easy_init)            \
	X(easy_setopt)          \
	X(easy_getinfo)         \
	X(easy_pause)           \
	X(easy_cleanup)         \
	X(easy_strerror)        \
	X(multi_init)           \
	X(multi_add_handle)     \
	X(multi_remove_handle)  \
	X(multi_perform)        \
	X(multi_poll)           \
	X(multi_info_read)      \
	X(multi_cleanup)        \
	X(slist_append)         \
	X(slist_free_all)       \
	X(url)                  \
	X(url_set)              \
	X(url_get)              \
	X(url_cleanup)          \
	X(free)

struct flmem_curl {
	/* The prefix is added in __typeof__ alone: the header makes macros of some names. */
#define FLMEM_CURL_SLOT(name) __typeof__(curl_##name) *(name);
	FLMEM_CURL_FUNCTIONS(FLMEM_CURL_SLOT)
#undef FLMEM_CURL_SLOT
};

/* Loads libcurl once for the process. FLMEM_EUNSUPPORTED where it is absent. */
int flmem_curl_load(const struct flmem_curl **ret_curl, struct flmem_error *err);

/*
 * Sets the options that every connection has: HTTP 1.1 without redirects and without decoding of
 * bodies. False if this libcurl lacks one.
 */
bool flmem_curl_set_common(const struct flmem_curl *curl, CURL *easy, long buffer_bytes,
			   unsigned timeout_seconds);

/* The start of the span in which the bytes of a request are counted, and the count at that time. */
struct flmem_curl_pace {
	uint64_t since_us, bytes;
	struct flmem_paused_time turns;
};

/* Reports whether a span of this length has passed in which less than 1 KiB a second moved. */
bool flmem_curl_is_too_slow(struct flmem_curl_pace *pace, uint64_t bytes, uint64_t seconds);

/*
 * State of blocking SIGPIPE. A library for TLS may write to a closed connection without
 * MSG_NOSIGNAL.
 */
struct flmem_curl_sigpipe {
	sigset_t before;
	bool was_pending;
};

/*
 * Blocks SIGPIPE for this thread. flmem_curl_sigpipe_end() restores the mask, and drops a signal
 * that arrived meanwhile.
 */
void flmem_curl_sigpipe_begin(struct flmem_curl_sigpipe *ret_sigpipe);
void flmem_curl_sigpipe_end(const struct flmem_curl_sigpipe *sigpipe);

/*
 * Reports whether a line of headers exceeded libcurl's limit of 100 KiB; before 8.6 it reported a
 * lack of memory.
 */
bool flmem_curl_is_line_too_long(CURLcode code);

/* Reports whether a request that failed in this way may succeed on a retry. */
bool flmem_curl_is_transient(CURLcode code);

/*
 * Returns what to do about a certificate that was refused; `unknown_authority` if the text has no
 * cause.
 */
const char *flmem_curl_certificate_advice(const char *text, const char *unknown_authority);

/*
 * Returns the file of authorities to trust: `cacert`, else the one that OpenSSL's own variable
 * names, which libcurl ignores.
 */
const char *flmem_curl_authorities(const char *cacert);

#endif
