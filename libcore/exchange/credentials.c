/* SPDX-License-Identifier: Apache-2.0 */
#include "exchange/credentials.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/files/io.h"
#include "base/text/buf.h"
#include "base/text/text.h"
#include "exchange/digest.h"
#include "exchange/valid_names.h"

#define FILE_MAX    ((size_t)4 << 20)
#define ENTRIES_MAX 100000U
#define TOKEN_LEAST 16U

void flmem_credentials_clear(struct flmem_credentials *credentials)
{
	for (size_t i = 0; i < credentials->count; i++)
		explicit_bzero(&credentials->entries[i], sizeof(credentials->entries[i]));
	free(credentials->entries);
	*credentials = (struct flmem_credentials){0};
}

static struct flmem_credential *add_credential(struct flmem_credentials *credentials)
{
	struct flmem_credential *larger;

	if (!(credentials->count & (credentials->count - 1))) {
		size_t room = credentials->count ? 2 * credentials->count : 1;

		larger = reallocarray(credentials->entries, room, sizeof(*larger));
		if (!larger)
			return NULL;
		credentials->entries = larger;
	}
	larger = &credentials->entries[credentials->count++];
	memset(larger, 0, sizeof(*larger));
	return larger;
}

static bool is_token(const char *value)
{
	for (const char *c = value; *c; c++)
		if (*c <= ' ' || *c > '~')
			return false;
	return strlen(value) >= TOKEN_LEAST;
}

static bool take_fingerprint(struct flmem_credential *entry, const char *digits)
{
	unsigned char bytes[FLMEM_SHA256_BYTES];

	if (strlen(digits) != 2 * sizeof(bytes) || !flmem_hex_read(digits, bytes, sizeof(bytes)))
		return false;
	entry->kind = FLMEM_CREDENTIAL_FINGERPRINT;
	flmem_hex_print(bytes, sizeof(bytes), entry->value);
	return true;
}

static bool take_value(struct flmem_credential *entry, const char *value, bool tokens)
{
	if (strlen(value) >= sizeof(entry->value))
		return false;
	if (!tokens && flmem_text_starts(value, "sha256:"))
		return take_fingerprint(entry, value + strlen("sha256:"));
	if (!tokens && !(flmem_text_starts(value, "CN=") && value[3]))
		return false;
	if (tokens && !is_token(value))
		return false;
	entry->kind = tokens ? FLMEM_CREDENTIAL_TOKEN : FLMEM_CREDENTIAL_CN;
	value += tokens ? 0 : 3;
	memcpy(entry->value, value, strlen(value));
	return true;
}

static int take_credential_line(char *line, const char *path, size_t number, bool tokens,
				struct flmem_credentials *credentials, struct flmem_error *err)
{
	size_t name = strcspn(line, " \t");
	char *value = line + name + strspn(line + name, " \t");
	struct flmem_credential *entry = add_credential(credentials);

	if (!entry)
		return flmem_error_nomem(err, "cannot read '%s'", path);
	line[name] = '\0';
	if (flmem_exchange_client_name_is_valid(line)) {
		memcpy(entry->name, line, name);
		if (take_value(entry, value, tokens))
			return 0;
	}
	return flmem_error_set(err, FLMEM_EUSAGE, 0, "'%s', line %zu: expected %s", path, number,
			       tokens ? "'NAME TOKEN' with a token of 16 to 255 characters"
				      : "'NAME CN=TEXT' or 'NAME sha256:FINGERPRINT'");
}

/* Refuses a value with two names: which name counts would depend on the order. */
static int check_values(const struct flmem_credentials *credentials, const char *path,
			struct flmem_error *err)
{
	const struct flmem_credential *last = &credentials->entries[credentials->count - 1];

	for (const struct flmem_credential *e = credentials->entries; e < last; e++)
		if (e->kind == last->kind && memcmp(e->value, last->value, sizeof(e->value)) == 0)
			return flmem_error_set(err, FLMEM_EUSAGE, 0,
					       "'%s': '%s' and '%s' have the same credential", path,
					       e->name, last->name);
	return 0;
}

int flmem_credentials_parse(const char *text, const char *path, bool tokens,
			    struct flmem_credentials *credentials, struct flmem_error *err)
{
	FLMEM_AUTO_FREE char *copy = strdup(text);
	size_t number = 0;
	int rc = 0;

	if (!copy)
		return flmem_error_nomem(err, "cannot read '%s'", path);
	for (char *rest = copy, *line; !rc && (line = strsep(&rest, "\n"));) {
		number++;
		for (size_t end = strlen(line); end && strchr(" \t\r", line[end - 1]);)
			line[--end] = '\0';
		if (!*line || *line == '#')
			continue;
		if (credentials->count == ENTRIES_MAX)
			return flmem_error_set(err, FLMEM_EUSAGE, 0, "'%s' has more than %u lines",
					       path, ENTRIES_MAX);
		rc = take_credential_line(line, path, number, tokens, credentials, err);
		if (!rc)
			rc = check_values(credentials, path, err);
	}
	explicit_bzero(copy, strlen(text));
	return rc;
}

int flmem_credentials_read(const char *path, bool tokens, struct flmem_credentials *credentials,
			   struct flmem_error *err)
{
	FLMEM_AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	FLMEM_AUTO_BUF struct flmem_buf text = FLMEM_BUF_INIT;
	struct stat status;
	int rc;

	if (fd < 0 || fstat(fd, &status) < 0)
		return flmem_error_set(err, flmem_code_of_open(errno), errno, "cannot read '%s'",
				       path);
	if (tokens && S_ISREG(status.st_mode) && (status.st_mode & S_IROTH))
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "every user can read the tokens in '%s'; chmod o-rwx it",
				       path);
	rc = flmem_io_read_pipe(fd, FILE_MAX, &text);
	if (rc || text.failed)
		return flmem_error_set(err, flmem_code_of_open(-rc), -rc, "cannot read '%s'", path);
	rc = flmem_credentials_parse(text.data, path, tokens, credentials, err);
	explicit_bzero(text.data, text.length);
	if (!rc && !credentials->count)
		rc = flmem_error_set(err, FLMEM_EUSAGE, 0, "'%s' names no client", path);
	return rc;
}

const char *flmem_credentials_find(const struct flmem_credentials *credentials,
				   enum flmem_credential_kind kind, const char *value)
{
	char padded[FLMEM_CREDENTIAL_MAX] = {0};
	size_t length = strnlen(value, sizeof(padded)), found = 0;

	if (length == sizeof(padded))
		return NULL;
	memcpy(padded, value, length);
	for (size_t i = 0; i < credentials->count; i++) {
		const struct flmem_credential *entry = &credentials->entries[i];
		unsigned different = entry->kind != kind;

		for (size_t k = 0; k < sizeof(padded); k++)
			different |= (unsigned char)(entry->value[k] ^ padded[k]);
		/* The mask is all ones where the values are equal. */
		found |= (i + 1) & (0 - (size_t)(different == 0));
	}
	explicit_bzero(padded, sizeof(padded));
	return found ? credentials->entries[found - 1].name : NULL;
}
