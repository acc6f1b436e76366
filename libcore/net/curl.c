/* SPDX-License-Identifier: Apache-2.0 */
#include "net/curl.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <flmem/plugin.h>

#include "base/cleanup.h"
#include "base/clock.h"

#define BYTES_PER_SECOND 1024U
#define US_PER_SECOND	 UINT64_C(1000000)

static const struct flmem_plugin curl_plugin = {
	.sonames = {"libcurl.so.4", "libcurl-gnutls.so.4"},
	.missing = "reading http:// and https:// addresses needs libcurl (Debian: libcurl4)",
	.stays = true,
};

static struct flmem_curl curl_functions;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static int loaded;
static struct flmem_error why;

static void load_functions(void)
{
	const struct flmem_plugin_symbol symbols[] = {
#define ROW(name) {.names = {"curl_" #name}, .slot = &curl_functions.name},
		FLMEM_CURL_FUNCTIONS(ROW)
#undef ROW
	};

	loaded = flmem_plugin_load(&curl_plugin, symbols, FLMEM_ARRAY_SIZE(symbols), NULL, &why);
	if (!loaded && curl_functions.global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
		loaded = flmem_error_set(&why, FLMEM_EFAILED, 0, "cannot start libcurl");
}

int flmem_curl_load(const struct flmem_curl **ret_curl, struct flmem_error *err)
{
	pthread_once(&once, load_functions);
	if (loaded && err)
		*err = why;
	if (!loaded)
		*ret_curl = &curl_functions;
	return loaded;
}

bool flmem_curl_set_common(const struct flmem_curl *curl, CURL *easy, long buffer_bytes,
			   unsigned timeout_seconds)
{
	CURLcode failed = CURLE_OK;

	failed |= curl->easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
	failed |= curl->easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
	failed |= curl->easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
	failed |= curl->easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
	failed |= curl->easy_setopt(easy, CURLOPT_USERAGENT, "flmem");
	failed |= curl->easy_setopt(easy, CURLOPT_BUFFERSIZE, buffer_bytes);
	failed |= curl->easy_setopt(easy, CURLOPT_HTTP_CONTENT_DECODING, 0L);
	failed |= curl->easy_setopt(easy, CURLOPT_CONNECTTIMEOUT, (long)timeout_seconds);
	return !failed;
}

bool flmem_curl_is_too_slow(struct flmem_curl_pace *pace, uint64_t bytes, uint64_t seconds)
{
	uint64_t paused_us = flmem_paused_time_take(&pace->turns), now;

	pace->since_us = flmem_paused_time_later(pace->since_us, paused_us);
	now = flmem_clock_us();
	if (now - pace->since_us < seconds * US_PER_SECOND)
		return false;
	if (bytes - pace->bytes < seconds * BYTES_PER_SECOND)
		return true;
	pace->since_us = now;
	pace->bytes = bytes;
	return false;
}

void flmem_curl_sigpipe_begin(struct flmem_curl_sigpipe *ret_sigpipe)
{
	sigset_t pipe, pending;

	sigemptyset(&pipe);
	sigaddset(&pipe, SIGPIPE);
	sigpending(&pending);
	ret_sigpipe->was_pending = sigismember(&pending, SIGPIPE) == 1;
	pthread_sigmask(SIG_BLOCK, &pipe, &ret_sigpipe->before);
}

void flmem_curl_sigpipe_end(const struct flmem_curl_sigpipe *sigpipe)
{
	const struct timespec none = {0};
	sigset_t pipe;

	sigemptyset(&pipe);
	sigaddset(&pipe, SIGPIPE);
	if (!sigpipe->was_pending)
		sigtimedwait(&pipe, NULL, &none);
	pthread_sigmask(SIG_SETMASK, &sigpipe->before, NULL);
}

/* Advice by the texts of OpenSSL, and of GnuTLS where it names the cause. */
const char *flmem_curl_certificate_advice(const char *text, const char *unknown_authority)
{
	if (strstr(text, "does not match") || strstr(text, "subject name"))
		return "use a host name of the certificate in the address";
	if (strstr(text, "has expired") || strstr(text, "expiration date"))
		return "the server, or its authority, needs a new one, if the clock here is right";
	if (strstr(text, "not yet valid") || strstr(text, "not activated"))
		return "wait until it is valid, or correct the clock here";
	return unknown_authority;
}

bool flmem_curl_is_line_too_long(CURLcode code)
{
	return code == CURLE_OUT_OF_MEMORY || (int)code == 100 /* CURLE_TOO_LARGE */;
}

bool flmem_curl_is_transient(CURLcode code)
{
	switch ((int)code) {
	case CURLE_COULDNT_RESOLVE_HOST:
	case CURLE_COULDNT_RESOLVE_PROXY:
	case CURLE_COULDNT_CONNECT:
	case CURLE_OPERATION_TIMEDOUT:
	case CURLE_PARTIAL_FILE:
	case CURLE_GOT_NOTHING:
	case CURLE_SEND_ERROR:
	case CURLE_RECV_ERROR:
	case CURLE_SSL_CONNECT_ERROR:
		return true;
	default:
		return false;
	}
}

const char *flmem_curl_authorities(const char *cacert)
{
	return cacert ? cacert : secure_getenv("SSL_CERT_FILE");
}
