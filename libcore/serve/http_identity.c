/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/http_identity.h"

#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include <flmem/plugin.h>

#include "base/cleanup.h"

/* The functions used, without the prefix gnutls_. */
#define GNUTLS_FUNCTIONS(X)         \
	X(certificate_verify_peers) \
	X(certificate_get_peers)    \
	X(fingerprint)              \
	X(x509_crt_init)            \
	X(x509_crt_import)          \
	X(x509_crt_get_dn_by_oid)   \
	X(x509_crt_deinit)

static struct gnutls_api {
#define MEMBER(name) __typeof__ (&gnutls_##name)(name);
	GNUTLS_FUNCTIONS(MEMBER)
#undef MEMBER
} gnutls_functions;

static const struct flmem_plugin http_identity_plugin = {
	.sonames = {"libgnutls.so.30"},
	.missing = "certificates of clients need GnuTLS (Debian: libgnutls30)",
	.stays = true,
};

static int load_gnutls(struct flmem_error *err)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static bool loaded;
	const struct flmem_plugin_symbol symbols[] = {
#define ROW(name) {.names = {"gnutls_" #name}, .slot = &gnutls_functions.name},
		GNUTLS_FUNCTIONS(ROW)
#undef ROW
	};
	int rc = 0;

	pthread_mutex_lock(&lock);
	if (!loaded)
		rc = flmem_plugin_load(&http_identity_plugin, symbols, FLMEM_ARRAY_SIZE(symbols),
				       NULL, err);
	loaded = !rc;
	pthread_mutex_unlock(&lock);
	return rc;
}

static const char *explain_status(unsigned status)
{
	if (status & GNUTLS_CERT_EXPIRED)
		return "the client certificate has expired";
	if (status & GNUTLS_CERT_NOT_ACTIVATED)
		return "the client certificate is not valid yet";
	if (status & GNUTLS_CERT_REVOKED)
		return "the client certificate was revoked";
	if (status & GNUTLS_CERT_PURPOSE_MISMATCH)
		return "the certificate is not for clients (extendedKeyUsage)";
	if (status & GNUTLS_CERT_SIGNER_NOT_FOUND)
		return "the client certificate is not issued by an authority that this server "
		       "trusts";
	return "the client certificate is not valid";
}

static bool has_second_cn(const struct gnutls_api *api, gnutls_x509_crt_t certificate)
{
	char cn[1];
	size_t size = sizeof(cn);

	return api->x509_crt_get_dn_by_oid(certificate, GNUTLS_OID_X520_COMMON_NAME, 1, 0, cn,
					   &size) != GNUTLS_E_REQUESTED_DATA_NOT_AVAILABLE;
}

/*
 * Reads the CN. It stays empty if it does not identify exactly one client: of two names each reader
 * could use another one.
 */
static int read_cn(const struct gnutls_api *api, const gnutls_datum_t *certificate, char *cn,
		   size_t size)
{
	gnutls_x509_crt_t parsed;
	int rc = api->x509_crt_init(&parsed);

	if (rc < 0)
		return rc;
	rc = api->x509_crt_import(parsed, certificate, GNUTLS_X509_FMT_DER);
	/* A NUL within the name would hide the rest of it. */
	if (rc >= 0 && (api->x509_crt_get_dn_by_oid(parsed, GNUTLS_OID_X520_COMMON_NAME, 0, 0, cn,
						    &size) < 0 ||
			strlen(cn) != size || has_second_cn(api, parsed)))
		*cn = '\0';
	api->x509_crt_deinit(parsed);
	return rc;
}

/*
 * Checks the purpose, too: otherwise the certificate of any server of the same authority would name
 * a client.
 */
static int verify_client_certificate(const struct gnutls_api *api, gnutls_session_t session,
				     struct flmem_error *err)
{
	gnutls_typed_vdata_st purpose = {
		.type = GNUTLS_DT_KEY_PURPOSE_OID,
		.data = (unsigned char *)GNUTLS_KP_TLS_WWW_CLIENT,
	};
	unsigned status;

	if (api->certificate_verify_peers(session, &purpose, 1, &status) < 0)
		return flmem_error_set(err, FLMEM_EPERM, 0,
				       "the client certificate could not be verified");
	return status ? flmem_error_set(err, FLMEM_EPERM, 0, "%s", explain_status(status)) : 0;
}

static int read_fingerprint(const struct gnutls_api *api, const gnutls_datum_t *certificate,
			    char *fingerprint)
{
	unsigned char hash[32];
	size_t size = sizeof(hash);
	int rc = api->fingerprint(GNUTLS_DIG_SHA256, certificate, hash, &size);

	for (size_t i = 0; rc >= 0 && i < size; i++)
		snprintf(fingerprint + 2 * i, 3, "%02x", hash[i]);
	return rc;
}

static bool is_proven(const struct flmem_http_proven *last, time_t second, const char *fingerprint)
{
	return last && last->second == second &&
	       strcmp(last->identity.fingerprint, fingerprint) == 0;
}

int flmem_http_identity_read(void *session, struct flmem_http_proven *last,
			     struct flmem_http_identity *ret_identity, struct flmem_error *err)
{
	const struct gnutls_api *api = &gnutls_functions;
	struct flmem_http_identity identity = {0};
	const gnutls_datum_t *certificates;
	unsigned count = 0;
	time_t second = time(NULL); /* before the check: a later second is checked again */
	int rc = load_gnutls(err);

	if (rc)
		return rc;
	certificates = api->certificate_get_peers(session, &count);
	if (!certificates || !count)
		return flmem_error_set(err, FLMEM_EPERM, 0, "the client sent no certificate");
	if (read_fingerprint(api, certificates, identity.fingerprint) >= 0 &&
	    is_proven(last, second, identity.fingerprint)) {
		*ret_identity = last->identity;
		return 0;
	}
	rc = verify_client_certificate(api, session, err);
	if (rc)
		return rc;
	if (!identity.fingerprint[0] ||
	    read_cn(api, certificates, identity.cn, sizeof(identity.cn)) < 0)
		return flmem_error_set(err, FLMEM_EPERM, 0,
				       "the client certificate could not be read");
	if (last)
		*last = (struct flmem_http_proven){second, identity};
	*ret_identity = identity;
	return 0;
}
