/* SPDX-License-Identifier: Apache-2.0 */
#include "base/text/secret_name.h"

#include <string.h>

#include "base/cleanup.h"

/* Where a word must occur in a name, so that the name is a secret's. */
enum word_position {
	ANYWHERE,  /* at any place: "HFTOKENS"; the word is part of no English word */
	AT_END_OF, /* at the end of a word: "SSHPASS", but not "passes" */
	LAST,	   /* the last whole word of the name: "account_key", but not "key_file" */
};

static const struct {
	const char *word;
	enum word_position where;
	enum flmem_secrecy secrecy;
} secret_words[] = {
	{"TOKEN", ANYWHERE, FLMEM_SECRECY_ALL},
	{"SECRET", ANYWHERE, FLMEM_SECRECY_ALL},
	{"PASSWORD", ANYWHERE, FLMEM_SECRECY_ALL},
	{"PASSWD", ANYWHERE, FLMEM_SECRECY_ALL},
	{"PASSWRD", ANYWHERE, FLMEM_SECRECY_ALL},
	{"PSWD", ANYWHERE, FLMEM_SECRECY_ALL},
	{"PASSPHRASE", ANYWHERE, FLMEM_SECRECY_ALL},
	{"PASSCODE", ANYWHERE, FLMEM_SECRECY_ALL},
	{"PASSKEY", ANYWHERE, FLMEM_SECRECY_ALL},
	{"CREDENTIAL", ANYWHERE, FLMEM_SECRECY_ALL},
	{"API_KEY", ANYWHERE, FLMEM_SECRECY_ALL},
	{"APIKEY", ANYWHERE, FLMEM_SECRECY_ALL},
	{"PRIVATE_KEY", ANYWHERE, FLMEM_SECRECY_ALL},
	{"PRIVATEKEY", ANYWHERE, FLMEM_SECRECY_ALL},
	{"ACCESS_KEY", ANYWHERE, FLMEM_SECRECY_ALL},
	{"ACCESSKEY", ANYWHERE, FLMEM_SECRECY_ALL},
	{"ACCOUNT_KEY", ANYWHERE, FLMEM_SECRECY_ALL},
	{"ACCOUNTKEY", ANYWHERE, FLMEM_SECRECY_ALL},
	{"SHARED_KEY", ANYWHERE, FLMEM_SECRECY_ALL},
	{"SHAREDKEY", ANYWHERE, FLMEM_SECRECY_ALL},
	{"MASTERKEY", ANYWHERE, FLMEM_SECRECY_ALL},
	{"STORAGEKEY", ANYWHERE, FLMEM_SECRECY_ALL},
	{"LICENSEKEY", ANYWHERE, FLMEM_SECRECY_ALL},
	{"AUTHKEY", ANYWHERE, FLMEM_SECRECY_ALL},
	{"AUTH_KEY", ANYWHERE, FLMEM_SECRECY_ALL},
	{"SESSION_KEY", ANYWHERE, FLMEM_SECRECY_ALL},
	{"ENCRYPTION_KEY", ANYWHERE, FLMEM_SECRECY_ALL},
	{"SIGNING_KEY", ANYWHERE, FLMEM_SECRECY_ALL},
	{"SIGNATURE", ANYWHERE, FLMEM_SECRECY_ALL},
	{"AUTHORIZATION", ANYWHERE, FLMEM_SECRECY_ALL},
	{"BEARER", ANYWHERE, FLMEM_SECRECY_ALL},
	{"COOKIE", ANYWHERE, FLMEM_SECRECY_ALL},
	{"SESSID", ANYWHERE, FLMEM_SECRECY_ALL},
	{"SESSION_ID", ANYWHERE, FLMEM_SECRECY_ALL},
	{"SESSIONID", ANYWHERE, FLMEM_SECRECY_ALL},
	{"CONNECTION_STRING", ANYWHERE, FLMEM_SECRECY_ALL},
	{"CONNECTIONSTRING", ANYWHERE, FLMEM_SECRECY_ALL},
	{"CONN_STR", ANYWHERE, FLMEM_SECRECY_ALL},
	{"CONNSTR", ANYWHERE, FLMEM_SECRECY_ALL},
	{"WEBHOOK", ANYWHERE, FLMEM_SECRECY_ALL},
	{"MNEMONIC", ANYWHERE, FLMEM_SECRECY_ALL},
	{"CSRF", ANYWHERE, FLMEM_SECRECY_ALL},
	{"XSRF", ANYWHERE, FLMEM_SECRECY_ALL},
	{"PASS", AT_END_OF, FLMEM_SECRECY_VALUE},
	{"PWD", AT_END_OF, FLMEM_SECRECY_VALUE},
	{"KEY", LAST, FLMEM_SECRECY_VALUE},
	{"KEYS", LAST, FLMEM_SECRECY_VALUE},
	{"AUTH", LAST, FLMEM_SECRECY_VALUE},
	{"OAUTH", LAST, FLMEM_SECRECY_VALUE},
	{"CRED", LAST, FLMEM_SECRECY_VALUE},
	{"CREDS", LAST, FLMEM_SECRECY_VALUE},
	{"DSN", LAST, FLMEM_SECRECY_VALUE},
	{"JWT", LAST, FLMEM_SECRECY_VALUE},
	{"OTP", LAST, FLMEM_SECRECY_VALUE},
	{"TOTP", LAST, FLMEM_SECRECY_VALUE},
	{"PASSIN", LAST, FLMEM_SECRECY_VALUE},
	{"PASSOUT", LAST, FLMEM_SECRECY_VALUE},
	{"PIN", LAST, FLMEM_SECRECY_VALUE},
	{"PSK", LAST, FLMEM_SECRECY_VALUE},
	{"PW", LAST, FLMEM_SECRECY_VALUE},
	{"SAS", LAST, FLMEM_SECRECY_VALUE},
	{"SIG", LAST, FLMEM_SECRECY_VALUE},
	{"SSID", LAST, FLMEM_SECRECY_VALUE},
};

/* Whole words in which a listed word has another meaning: terms of language models. */
static const char *const harmless_words[] = {
	"TOKENIZER",  "TOKENIZERS",	"TOKENIZE",   "TOKENIZED",	"TOKENIZATION",
	"MAX_TOKENS", "MAX_NEW_TOKENS", "MIN_TOKENS", "MIN_NEW_TOKENS", "NUM_TOKENS",
	"TOKENS_PER", "TOKEN_TYPE",	"PAD_TOKEN",  "EOS_TOKEN",	"BOS_TOKEN",
	"UNK_TOKEN",  "CLS_TOKEN",	"SEP_TOKEN",  "MASK_TOKEN",	"NUM_KEYS",
	"BYPASS",     "COMPASS",
};

/*
 * Words whose abbreviation counts as well: long options may be abbreviated (getopt_long(3),
 * argparse).
 */
static const char *const abbreviated[] = {"TOKEN", "SECRET", "PASSWORD", "PASSPHRASE",
					  "CREDENTIALS"};
#define ABBREVIATION_MIN 3U

static bool is_lower(char c)
{
	return c >= 'a' && c <= 'z';
}

static bool is_upper(char c)
{
	return c >= 'A' && c <= 'Z';
}

static bool is_letter(char c)
{
	return is_lower(c) || is_upper(c);
}

bool flmem_name_has(char c)
{
	return is_letter(c) || (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '.';
}

size_t flmem_name_length(const char *text)
{
	size_t length = 0;

	while (flmem_name_has(text[length]))
		length++;
	return length;
}

static char fold_char(char c)
{
	if (is_lower(c))
		return (char)(c - 'a' + 'A');
	return c == '-' || c == '.' ? '_' : c;
}

/* Reports whether a word of the name may begin or end at this place: "authToken" has two words. */
static bool is_boundary(const char *name, size_t length, size_t at)
{
	return !at || at == length || !is_letter(name[at - 1]) || !is_letter(name[at]) ||
	       (is_lower(name[at - 1]) && is_upper(name[at]));
}

static bool has_word_at(const char *name, size_t length, size_t at, const char *word)
{
	for (; *word; word++, at++)
		if (at >= length || fold_char(name[at]) != *word)
			return false;
	return true;
}

/* Reports whether only digits and punctuation follow: "API-KEY-2". */
static bool is_last_word(const char *name, size_t length, size_t end)
{
	while (end < length && !is_letter(name[end]))
		end++;
	return end == length;
}

static bool is_at_place(const char *name, size_t length, size_t at, size_t end,
			enum word_position where)
{
	switch (where) {
	case ANYWHERE:
		return true;
	case AT_END_OF:
		return is_boundary(name, length, end);
	case LAST:
		return is_boundary(name, length, at) && is_boundary(name, length, end) &&
		       is_last_word(name, length, end);
	}
	return true;
}

/* Reports whether [at, end) is part of a harmless word of the name. */
static bool is_harmless(const char *name, size_t length, size_t at, size_t end)
{
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(harmless_words); i++) {
		const char *word = harmless_words[i];
		size_t size = strlen(word);

		for (size_t back = 0; back <= at && back < size; back++) {
			size_t from = at - back;

			if (from + size >= end && has_word_at(name, length, from, word) &&
			    is_boundary(name, length, from) &&
			    is_boundary(name, length, from + size))
				return true;
		}
	}
	return false;
}

static enum flmem_secrecy match_word_at(const char *name, size_t length, size_t at)
{
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(secret_words); i++) {
		const char *word = secret_words[i].word;
		size_t end;

		if (!has_word_at(name, length, at, word))
			continue;
		end = at + strlen(word);
		if (is_at_place(name, length, at, end, secret_words[i].where) &&
		    !is_harmless(name, length, at, end))
			return secret_words[i].secrecy;
	}
	return FLMEM_SECRECY_NONE;
}

static bool is_abbreviation(const char *name, size_t length)
{
	size_t from = length;

	if (length < 2 || name[0] != '-' || name[1] != '-')
		return false;
	while (from && is_letter(name[from - 1]))
		from--;
	if (length - from < ABBREVIATION_MIN)
		return false;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(abbreviated); i++) {
		size_t same = 0;

		while (from + same < length && fold_char(name[from + same]) == abbreviated[i][same])
			same++;
		if (from + same == length)
			return true;
	}
	return false;
}

static enum flmem_secrecy match_words(const char *name, size_t length)
{
	enum flmem_secrecy found = FLMEM_SECRECY_NONE;

	for (size_t at = 0; at < length && found != FLMEM_SECRECY_ALL; at++) {
		enum flmem_secrecy here = match_word_at(name, length, at);

		found = here > found ? here : found;
	}
	return found;
}

enum flmem_secrecy flmem_secrecy_of_name(const char *name, size_t length)
{
	enum flmem_secrecy found = match_words(name, length);

	if (found == FLMEM_SECRECY_NONE && is_abbreviation(name, length))
		return FLMEM_SECRECY_VALUE;
	return found;
}

bool flmem_secret_name_is_plural(const char *name, size_t length)
{
	return length && fold_char(name[length - 1]) == 'S' &&
	       match_words(name, length - 1) != FLMEM_SECRECY_NONE;
}
