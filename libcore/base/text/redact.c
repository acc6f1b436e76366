/* SPDX-License-Identifier: Apache-2.0 */
#include "base/text/redact.h"

#include <stdbool.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "base/text/secret_name.h"
#include "base/text/secret_options.h"
#include "base/text/text.h"

#define BLANKS " \t\r\n"

/* Prefixes of known tokens, with the shortest length of such a token. */
static const struct {
	const char *start;
	size_t shortest;
} token_forms[] = {
	{"ghp_", 20},	     {"gho_", 20},    {"ghu_", 20},	{"ghs_", 20},	  {"ghr_", 20},
	{"github_pat_", 30}, {"glpat-", 20},  {"gldt-", 20},	{"glrt-", 20},	  {"hf_", 20},
	{"api_org_", 20},    {"sk-", 20},     {"sk_live_", 20}, {"sk_test_", 20}, {"rk_live_", 20},
	{"AKIA", 20},	     {"ASIA", 20},    {"AKID", 20},	{"LTAI", 16},	  {"AIza", 30},
	{"ya29.", 20},	     {"GOCSPX-", 20}, {"xoxa-", 20},	{"xoxb-", 20},	  {"xoxe-", 20},
	{"xoxp-", 20},	     {"xoxs-", 20},   {"xapp-", 20},	{"eyJ", 30},	  {"nvapi-", 20},
	{"wandb_", 30},	     {"hvs.", 20},    {"hvb.", 20},	{"npm_", 30},	  {"pypi-", 30},
	{"dckr_pat_", 20},   {"dop_v1_", 30}, {"dapi", 36},	{"SG.", 30},	  {"lsv2_", 20},
	{"pcsk_", 20},	     {"r8_", 30},     {"gsk_", 20},	{"tskey-", 20},	  {"ATATT", 30},
	{"shpat_", 20},	     {"glsa_", 20},   {"pplx-", 20},	{"xai-", 20},	  {"tgp_v1_", 20},
	{"PMAK-", 20},	     {"NRAK-", 20},   {"sntrys_", 20},	{"KGAT_", 20},
};

/*
 * A run of this many hexadecimal digits may be a key (of wandb: 40), a checksum or a commit; all
 * are hidden.
 */
#define HEX_KEY_MIN 32

/* Addresses in which the path is the secret. */
static const char *const secret_paths[] = {"hooks.slack.com/", "webhook/", "webhooks/"};

/* Options whose value may be USER:PASSWORD, as of curl(1). */
static const char *const user_options[] = {"-u", "-U", "--user", "--proxy-user"};

/*
 * Limit of program names in one text after which options are checked: bounds the time for hostile
 * text.
 */
#define PROGRAMS_MAX 16U

struct redaction {
	const char *text; /* the rest of the text */
	struct flmem_buf *out;
	const char *run_end; /* end of the run of non-blank characters at or after `text` */
	const char *last_at; /* '@' in that run, or NULL */
	unsigned programs;
	bool after_blank; /* also true at the start */
};

/* True when a variable, option or key of this name holds a secret ("HF_TOKEN", "--api-key"). */
static bool is_secret_name(const char *name, size_t length)
{
	return flmem_secrecy_of_name(name, length) != FLMEM_SECRECY_NONE;
}

static bool is_alphanumeric(char c)
{
	return flmem_name_has(c) && c != '_' && c != '-' && c != '.';
}

static bool is_hex(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

static bool is_token_form(const char *text, size_t length)
{
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(token_forms); i++)
		if (length >= token_forms[i].shortest &&
		    flmem_text_starts(text, token_forms[i].start))
			return true;
	return false;
}

/* Reports whether a word that looks like a name is a token, or has one after a punctuation mark. */
static bool holds_token(const char *text, size_t length)
{
	size_t digits = 0;

	for (size_t at = 0; at < length; at++) {
		if ((!at || !is_alphanumeric(text[at - 1])) &&
		    is_token_form(text + at, length - at))
			return true;
		digits = is_hex(text[at]) ? digits + 1 : 0;
		if (digits >= HEX_KEY_MIN)
			return true;
	}
	return false;
}

/*
 * Returns the length of the separator between a name and its value: `=`, `:`, quotes, or encoded; 0
 * for none.
 */
static size_t measure_separator(const char *text)
{
	if (*text == '=' || *text == ':' || *text == '>')
		return 1;
	return strncasecmp(text, "%3d", 3) == 0 || strncasecmp(text, "%3a", 3) == 0 ? 3 : 0;
}

/*
 * Returns the offset of the value after a secret's name, also when the name is quoted, the key of
 * an index or an item of a list. 0: no value follows.
 */
static size_t find_value(const char *name, size_t length, enum flmem_secrecy secrecy)
{
	size_t at = length + strspn(name + length, "\"'\\])}"), separator;

	at += strspn(name + at, BLANKS);
	separator = measure_separator(name + at);
	if (!separator && name[0] == '-' && name[at] == ',')
		separator = 1;
	if (separator)
		return at + separator + strspn(name + at + separator, BLANKS "\"'\\=:>");
	if (name[0] != '-' && secrecy != FLMEM_SECRECY_ALL)
		return 0;
	at += strspn(name + at, "\"'");
	return at > length ? at : 0;
}

static bool is_scheme(const char *text, size_t length)
{
	static const char *const schemes[] = {"basic", "bearer", "digest", "negotiate"};

	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(schemes); i++)
		if (strlen(schemes[i]) == length && strncasecmp(text, schemes[i], length) == 0)
			return true;
	return false;
}

/* True for "user:password" or, for SMB, "user%password"; an address has "//" after its colon. */
static bool has_password(const char *value)
{
	const char *sign = value + strcspn(value, ":%\"'" BLANKS);

	return (*sign == ':' || *sign == '%') && sign[1] && strncmp(sign + 1, "//", 2) != 0;
}

static bool is_user_option(const char *word, size_t length)
{
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(user_options); i++)
		if (strlen(user_options[i]) == length && memcmp(word, user_options[i], length) == 0)
			return true;
	return false;
}

/* Returns the offset of USER:PASSWORD in or after an option that takes it; 0: none. */
static size_t find_user(const char *text, size_t length)
{
	size_t at = length + strspn(text + length, BLANKS "=\"'");

	if (is_user_option(text, length))
		return at > length && has_password(text + at) ? at : 0;
	/* The value may be attached to the option: -uuser:password */
	if (length > 2 && is_user_option(text, 2))
		return has_password(text + 2) ? 2 : 0;
	return 0;
}

/* Returns the offset of the secret that follows this name; 0: none. */
static size_t find_secret(const struct redaction *r, size_t length)
{
	const char *text = r->text;
	enum flmem_secrecy secrecy = flmem_secrecy_of_name(text, length);
	size_t at = secrecy ? find_value(text, length, secrecy) : 0;

	if (!at && is_scheme(text, length) && strchr(BLANKS, text[length]))
		at = length + strspn(text + length, BLANKS);
	if (!at && r->after_blank)
		at = find_user(text, length);
	for (size_t i = 0; !at && i < FLMEM_ARRAY_SIZE(secret_paths); i++)
		if (flmem_text_starts(text, secret_paths[i]))
			at = strlen(secret_paths[i]);
	return at && text[at] ? at : 0;
}

/*
 * Returns the offset of a secret in the options of a program within one word, a shell's command
 * string; 0: none.
 */
static size_t find_program_secret(struct redaction *r, size_t length)
{
	const struct flmem_secret_options *program = flmem_secret_options_of(r->text, length);
	const char *first = NULL;

	if (!program || !r->text[length] || !strchr(BLANKS, r->text[length]))
		return 0;
	/* A module of NVFlare takes three secrets, so the whole rest is hidden. */
	if (memchr(r->text, '.', length))
		return length + 1;
	if (r->programs++ >= PROGRAMS_MAX)
		return length + 1;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(program->options); i++) {
		const char *option = program->options[i], *at = r->text + length;

		while (option && (at = strstr(at, option)) && !strchr(BLANKS, at[-1]))
			at++;
		if (option && at && (!first || at < first))
			first = at + strlen(option);
	}
	return first && *first ? (size_t)(first - r->text) : 0;
}

/* Returns the '@' after "user:password" at the start of the remaining text, or NULL. */
static const char *find_redacted_user_end(struct redaction *r)
{
	if (!r->run_end || r->text >= r->run_end) {
		size_t length = strcspn(r->text, BLANKS "\"'");

		r->run_end = r->text + length + !length;
		r->last_at = memrchr(r->text, '@', length);
	}
	return r->last_at && r->last_at > r->text ? r->last_at : NULL;
}

/* Hides what follows "://" up to the '@'; a password may hold every character of an address. */
static void redact_address(struct redaction *r)
{
	size_t authority = strcspn(r->text, "/?#" BLANKS "\"'");
	const char *end = memrchr(r->text, '@', authority);

	if (!end && memchr(r->text, ':', authority))
		end = find_redacted_user_end(r);
	if (!end)
		return;
	flmem_buf_puts(r->out, FLMEM_REDACTED);
	r->text = end;
}

static void hide_rest(struct redaction *r, size_t shown)
{
	flmem_buf_append(r->out, r->text, shown);
	flmem_buf_puts(r->out, FLMEM_REDACTED);
	r->text += strlen(r->text);
}

static void put_name(struct redaction *r, size_t length)
{
	const char *end;

	if (r->text[length] == ':' && strncmp(r->text + length, "://", 3) != 0 &&
	    (end = find_redacted_user_end(r)) && end > r->text + length) {
		flmem_buf_puts(r->out, FLMEM_REDACTED);
		r->text = end;
		return;
	}
	if (holds_token(r->text, length))
		flmem_buf_puts(r->out, FLMEM_REDACTED);
	else
		flmem_buf_append(r->out, r->text, length);
	r->text += length;
	if (!flmem_text_starts(r->text, "://"))
		return;
	flmem_buf_puts(r->out, "://");
	r->text += strlen("://");
	redact_address(r);
}

/* Appends one word or value without its secrets: URLs with a user, NAME=secret, known tokens. */
static void redact_text(const char *text, struct flmem_buf *out)
{
	static const char pem[] = "-----BEGIN";
	struct redaction r = {.text = text, .out = out, .after_blank = true};

	while (*r.text) {
		size_t length = flmem_name_length(r.text), shown;

		if (!length) {
			r.after_blank = strchr(BLANKS "\"'", *r.text) != NULL;
			flmem_buf_putc(out, *r.text++);
			continue;
		}
		if (memmem(r.text, length, pem, sizeof(pem) - 1)) {
			hide_rest(&r, 0);
			return;
		}
		shown = find_secret(&r, length);
		if (!shown)
			shown = find_program_secret(&r, length);
		/* A secret may hold any character, so the whole rest is hidden. */
		if (shown)
			hide_rest(&r, shown);
		else
			put_name(&r, length);
		r.after_blank = false;
	}
}

void flmem_redact_variable(const char *name, const char *value, struct flmem_buf *out)
{
	if (*value && is_secret_name(name, strlen(name)))
		flmem_buf_puts(out, FLMEM_REDACTED);
	else
		redact_text(value, out);
}

/* State from the previous words that decides about the next one. */
struct next_word {
	bool secret; /* the next word is a secret */
	bool list;   /* all words up to the next option are secrets */
	bool user;   /* the next word may be USER:PASSWORD */
};

/*
 * True for a word of a file name, which does not name a secret: `python3 make_token.py --size 3`.
 */
static bool is_file_name(const char *name, size_t length)
{
	const char *dot = memrchr(name, '.', length);

	return dot && length - (size_t)(dot - name) <= 5;
}

/*
 * Reports whether this word ends with the name of a secret whose value is the next word: --token
 * VALUE, Password: VALUE, or `{"key":` of JSON that a shell has split.
 */
static bool precedes_secret(const char *word, struct next_word *next)
{
	size_t end = strlen(word), from, stop;
	enum flmem_secrecy secrecy;
	bool separated = false;

	for (stop = end; stop && strchr("\"'\\])}=:>" BLANKS, word[stop - 1]); stop--)
		separated |= strchr("=:>", word[stop - 1]) != NULL;
	for (from = stop; from && flmem_name_has(word[from - 1]); from--)
		;
	secrecy = flmem_secrecy_of_name(word + from, stop - from);
	if (!secrecy)
		return false;
	if (separated)
		return true;
	next->list = word[0] == '-' && flmem_secret_name_is_plural(word + from, stop - from);
	return !from &&
	       (word[0] == '-' || (secrecy == FLMEM_SECRECY_ALL && !is_file_name(word, stop)));
}

static struct next_word update_state(const char *word, const char *option, struct next_word now)
{
	struct next_word next = {.user = is_user_option(word, strlen(word))};

	if (option) {
		next.secret = !word[strlen(option)];
		return next;
	}
	/* A hidden word is checked, too: it may have been an option after all. */
	if (!now.secret || word[0] == '-')
		next.secret = precedes_secret(word, &next);
	if (now.secret && (is_scheme(word, strlen(word)) || !word[strspn(word, "=:")]))
		next.secret = true;
	next.list |= now.list && (word[0] != '-' || now.secret);
	return next;
}

static void redact_word(const char *word, const char *option, struct flmem_buf *out)
{
	if (!option || !word[strlen(option)]) {
		redact_text(word, out);
		return;
	}
	flmem_buf_puts(out, option);
	flmem_buf_puts(out, FLMEM_REDACTED);
}

void flmem_redact_command(const char *const *words, size_t count, struct flmem_buf *out)
{
	const struct flmem_secret_options *program = flmem_secret_options_find(words, count);
	struct next_word now = {0};

	for (size_t i = 0; i < count; i++) {
		const char *option = flmem_secret_option_match(program, words[i]);
		bool hide = now.secret || (now.list && words[i][0] != '-') ||
			    (now.user && has_password(words[i]));

		if (i)
			flmem_buf_putc(out, ' ');
		if (hide)
			flmem_buf_puts(out, FLMEM_REDACTED);
		else
			redact_word(words[i], option, out);
		now = update_state(words[i], option, now);
	}
}
