/* SPDX-License-Identifier: Apache-2.0 */
#include "base/redact.h"

#include <string.h>
#include <strings.h>

#include "base/text.h"

/* A name that has one of these in it, in any case and with - and _ alike, holds a secret. */
static const char *const secret_parts[] = {
	"TOKEN",       "SECRET",	 "PASSWORD",	"PASSWD",
	"PASSPHRASE",  "API_KEY",	 "APIKEY",	"CREDENTIAL",
	"PRIVATE_KEY", "PRIVATEKEY",	 "ACCESS_KEY",	"ACCESSKEY",
	"SIGNATURE",   "AUTHKEY",	 "AUTH_KEY",	"AUTHORIZATION",
	"BEARER",      "COOKIE",	 "SSID",	"SESSION_ID",
	"SESSION_KEY", "ENCRYPTION_KEY", "SIGNING_KEY", "CONNECTION_STRING",
};

/* Names that only look like it. */
static const char *const harmless_parts[] = {
	"TOKENIZER",  "MAX_TOKENS", "MAX_NEW_TOKENS", "NUM_TOKENS",
	"TOKENS_PER", "PAD_TOKEN",  "EOS_TOKEN",      "BOS_TOKEN",
};

/* Tokens that are known by how they begin, with the shortest length that is one. */
static const struct {
	const char *start;
	size_t shortest;
} token_forms[] = {
	{"ghp_", 20},  {"gho_", 20}, {"ghs_", 20},   {"github_pat_", 30}, {"glpat-", 20},
	{"hf_", 20},   {"sk-", 20},  {"AKIA", 20},   {"ASIA", 20},	  {"xoxb-", 20},
	{"xoxp-", 20}, {"eyJ", 30},  {"nvapi-", 20}, {"wandb_", 30},
};

/*
 * Modules of NVFlare whose short options carry a session's token, its signature and the id of the
 * server's session (up to 2.8; from 2.9 on they are in the environment).
 */
#define NVFLARE_APP "nvflare.private.fed.app."

static const struct {
	const char *module;
	const char *options[4];
} secret_options[] = {
	{NVFLARE_APP "client.worker_process", {"-t", "-ts", "-d", NULL}},
	{NVFLARE_APP "server.runner_process", {"-t", "-ts", "-d", NULL}},
	{NVFLARE_APP "client.sub_worker_process", {"-t", "-ts", "-d", NULL}},
	{NVFLARE_APP "simulator.simulator_worker", {"-t", "-ts", "-d", NULL}},
	{NVFLARE_APP "relay.relay", {"-t", "-ts", "-d", NULL}},
};

#define OPTIONS_MAX 4

static char fold(char c)
{
	if (c >= 'a' && c <= 'z')
		return (char)(c - 'a' + 'A');
	return c == '-' || c == '.' ? '_' : c;
}

static bool contains_part(const char *name, size_t length, const char *part)
{
	size_t part_length = strlen(part);

	for (size_t at = 0; at + part_length <= length; at++) {
		size_t same = 0;

		while (same < part_length && fold(name[at + same]) == part[same])
			same++;
		if (same == part_length)
			return true;
	}
	return false;
}

static bool contains_any(const char *name, size_t length, const char *const *parts, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (contains_part(name, length, parts[i]))
			return true;
	return false;
}

bool flmem_redact_is_secret_name(const char *name, size_t length)
{
	return contains_any(name, length, secret_parts, FLMEM_ARRAY_SIZE(secret_parts)) &&
	       !contains_any(name, length, harmless_parts, FLMEM_ARRAY_SIZE(harmless_parts));
}

static bool is_name_char(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       c == '_' || c == '-' || c == '.';
}

static size_t name_length(const char *text)
{
	size_t length = 0;

	while (is_name_char(text[length]))
		length++;
	return length;
}

/*
 * Where the value of a name begins: behind "=" or ":" with quotes and blanks around it, or behind
 * a blank when the name is an option or the scheme of an HTTP header. 0: no value follows.
 */
static size_t value_offset(const char *name, size_t length)
{
	size_t at = length;

	at += strspn(name + at, "\"'");
	at += strspn(name + at, " \t");
	if (name[at] == '=' || name[at] == ':')
		return at + 1 + strspn(name + at + 1, " \t\"'");
	if (name[0] != '-' && strncasecmp(name, "bearer", length) != 0)
		return 0;
	return at > length ? at : 0;
}

static bool is_token(const char *text, size_t length)
{
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(token_forms); i++)
		if (length >= token_forms[i].shortest &&
		    flmem_text_starts(text, token_forms[i].start))
			return true;
	return false;
}

/* Bytes of "user:password" at the start of what follows "://", 0 when there is no user. */
static size_t userinfo_length(const char *text)
{
	size_t length = strcspn(text, "/?# \t\"'");
	const char *at = memrchr(text, '@', length);

	return at ? (size_t)(at - text) : 0;
}

void flmem_redact_text(const char *text, struct flmem_buf *out)
{
	while (*text) {
		size_t length = name_length(text), value;

		if (!length) {
			flmem_buf_putc(out, *text++);
			continue;
		}
		value = flmem_redact_is_secret_name(text, length) ? value_offset(text, length) : 0;
		if (value && text[value]) {
			/* A secret may hold any character, so it takes all that is left. */
			flmem_buf_append(out, text, value);
			flmem_buf_puts(out, FLMEM_REDACTED);
			return;
		}
		if (is_token(text, length))
			flmem_buf_puts(out, FLMEM_REDACTED);
		else
			flmem_buf_append(out, text, length);
		text += length;
		if (!flmem_text_starts(text, "://"))
			continue;
		flmem_buf_puts(out, "://");
		text += strlen("://");
		length = userinfo_length(text);
		if (length)
			flmem_buf_puts(out, FLMEM_REDACTED);
		text += length;
	}
}

void flmem_redact_variable(const char *name, const char *value, struct flmem_buf *out)
{
	if (*value && flmem_redact_is_secret_name(name, strlen(name)))
		flmem_buf_puts(out, FLMEM_REDACTED);
	else
		flmem_redact_text(value, out);
}

/* The options of this command line that carry secrets besides those that say so; or NULL. */
static const char *const *find_secret_options(const char *const *words, size_t count)
{
	for (size_t i = 0; i < count; i++)
		for (size_t k = 0; k < FLMEM_ARRAY_SIZE(secret_options); k++)
			if (strcmp(words[i], secret_options[k].module) == 0)
				return secret_options[k].options;
	return NULL;
}

/*
 * The longest of the options that the word starts with; getopt and argparse also take the value
 * glued on.
 */
static const char *match_option(const char *const *options, const char *word)
{
	const char *best = NULL;

	for (size_t i = 0; options && i < OPTIONS_MAX && options[i]; i++)
		if (flmem_text_starts(word, options[i]) &&
		    (!best || strlen(options[i]) > strlen(best)))
			best = options[i];
	return best;
}

/* True when the next word is the value of a secret that this one names: --token VALUE. */
static bool announces_secret(const char *word)
{
	size_t length = name_length(word);

	return word[0] == '-' && !word[length] && flmem_redact_is_secret_name(word, length);
}

/* Shells get a whole command line as one word; then everything behind the module's name goes. */
static const char *find_glued_module(const char *word)
{
	for (size_t k = 0; k < FLMEM_ARRAY_SIZE(secret_options); k++) {
		const char *module = strstr(word, secret_options[k].module);

		if (module && module[strlen(secret_options[k].module)])
			return module + strlen(secret_options[k].module);
	}
	return NULL;
}

static void redact_word(const char *word, const char *option, struct flmem_buf *out)
{
	const char *rest = find_glued_module(word);

	if (option && word[strlen(option)]) {
		flmem_buf_puts(out, option);
		flmem_buf_puts(out, FLMEM_REDACTED);
	} else if (rest) {
		flmem_buf_append(out, word, (size_t)(rest - word));
		flmem_buf_puts(out, " " FLMEM_REDACTED);
	} else {
		flmem_redact_text(word, out);
	}
}

void flmem_redact_command(const char *const *words, size_t count, struct flmem_buf *out)
{
	const char *const *options = find_secret_options(words, count);
	bool hide_next = false;

	for (size_t i = 0; i < count; i++) {
		const char *option = match_option(options, words[i]);
		bool hide = hide_next;

		/* Also behind a hidden word: that may have been an option after all. */
		hide_next = option ? !words[i][strlen(option)] : announces_secret(words[i]);
		if (i)
			flmem_buf_putc(out, ' ');
		if (hide)
			flmem_buf_puts(out, FLMEM_REDACTED);
		else
			redact_word(words[i], option, out);
	}
}
