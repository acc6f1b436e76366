/* SPDX-License-Identifier: Apache-2.0 */
#include "options/opt.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <flmem/parse.h>
#include <flmem/text.h>

#define WORD_MAX 63

const struct opt opt_help = {.name = "help", .letter = 'h', .help = "print this help"};

const struct opt opt_globals[] = {
	{.name = "help", .letter = 'h', .help = "list the commands"},
	{.name = "version",
	 .letter = 'V',
	 .help = "print the version; with --json also how it was built"},
	{0},
};

const char *opt_nearest(const char *word, const char *const *names, size_t count)
{
	size_t best = strnlen(word, WORD_MAX) / 3 + 1;
	const char *nearest = NULL;

	for (size_t i = 0; i < count; i++) {
		size_t distance = flmem_text_distance(word, names[i]);

		if (distance <= best && distance < strlen(names[i])) {
			best = distance - (distance > 0);
			nearest = names[i];
		}
	}
	return nearest;
}

const char *opt_nearest_option(const struct opt *table, const char *word)
{
	const char *names[64];
	size_t count = 0;

	if (strncmp(word, "--", 2) != 0)
		return NULL;
	for (const struct opt *o = table; o->name && count < 64; o++)
		names[count++] = o->name;
	return opt_nearest(word + 2, names, count);
}

static int set_unknown_option(const struct opt *table, const char *word, struct flmem_error *err)
{
	const char *nearest = opt_nearest_option(table, word);
	char shown[64];

	flmem_text_escape(word, shown, sizeof(shown));
	if (nearest)
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "unknown option '%s'; did you mean '--%s'?", shown, nearest);
	return flmem_error_set(err, FLMEM_EUSAGE, 0, "unknown option '%s'; see --help", shown);
}

static const struct opt *find_long(const struct opt *table, const char *name, size_t length)
{
	for (const struct opt *o = table; o->name; o++)
		if (strncmp(o->name, name, length) == 0 && !o->name[length])
			return o;
	return NULL;
}

static const struct opt *find_letter(const struct opt *table, char letter)
{
	for (const struct opt *o = table; o->name; o++)
		if (o->letter && o->letter == letter)
			return o;
	return NULL;
}

static int add_pid(const struct opt *o, const char *text, struct opt_pids *pids,
		   struct flmem_error *err)
{
	pid_t pid, *grown;

	if (flmem_parse_pid(text, &pid, NULL))
		return flmem_parse_invalid(FLMEM_VALUE_PID, text, o->name, err);
	grown = reallocarray(pids->values, pids->count + 1, sizeof(*grown));
	if (!grown)
		return flmem_error_nomem(err, "cannot store the processes of --%s", o->name);
	pids->values = grown;
	pids->values[pids->count++] = pid;
	return 0;
}

static int add_pids(const struct opt *o, const char *text, struct opt_pids *pids,
		    struct flmem_error *err)
{
	char *copy = strdup(text), *rest = copy;
	int rc = copy ? 0 : flmem_error_nomem(err, "cannot store the processes of --%s", o->name);

	for (char *one; !rc && (one = strsep(&rest, ","));)
		rc = add_pid(o, one, pids, err);
	free(copy);
	return rc;
}

static int add_text_option(struct opt_texts *texts, const char *text, struct flmem_error *err)
{
	const char **grown = reallocarray(texts->values, texts->count + 1, sizeof(const char *));

	if (!grown)
		return flmem_error_nomem(err, "cannot store the arguments");
	texts->values = grown;
	texts->values[texts->count++] = text;
	return 0;
}

static int find_choice(const struct opt *o, const char *text, const char **ret_choice,
		       struct flmem_error *err)
{
	char list[160] = "";
	size_t used = 0;

	for (const char *const *c = o->choices; *c; c++) {
		if (strcmp(*c, text) == 0) {
			*ret_choice = *c;
			return 0;
		}
		used += (size_t)snprintf(list + used, used < sizeof(list) ? sizeof(list) - used : 0,
					 "%s%s", used ? ", " : "", *c);
		if (used >= sizeof(list))
			used = sizeof(list) - 1;
	}
	return flmem_parse_invalid_choice(text, o->name, list, err);
}

static int refuse_zero(const struct opt *o, const uint64_t *value, const char *text,
		       struct flmem_error *err)
{
	if (*value || o->zero)
		return 0;
	return flmem_error_set(err, FLMEM_EUSAGE, 0,
			       "invalid value '%s' for --%s; it must be more than 0", text,
			       o->name);
}

/*
 * Refuses a second value. The memory of options begins as zeros, so a value that is set was given
 * before.
 */
static int refuse_second(const struct opt *o, bool given, struct flmem_error *err)
{
	if (!given || !o->once)
		return 0;
	return flmem_error_set(err, FLMEM_EUSAGE, 0, "--%s accepts one value, and two were given",
			       o->name);
}

static int store_number_option(const struct opt *o, uint64_t *place, const char *text,
			       struct flmem_error *err)
{
	static const enum flmem_value_kind kinds[] = {
		[OPT_NUMBER] = FLMEM_VALUE_NUMBER,
		[OPT_COUNT] = FLMEM_VALUE_COUNT,
		[OPT_SIZE] = FLMEM_VALUE_SIZE,
		[OPT_DURATION] = FLMEM_VALUE_DURATION,
	};
	int rc;

	if (o->kind == OPT_COUNT)
		rc = flmem_parse_count(text, place, NULL);
	else if (o->kind == OPT_SIZE)
		rc = flmem_parse_size(text, place, NULL);
	else if (o->kind == OPT_DURATION)
		rc = flmem_parse_duration(text, place, NULL);
	else
		rc = flmem_parse_u64(text, 0, UINT64_MAX, place, NULL);
	return rc ? flmem_parse_invalid(kinds[o->kind], text, o->name, err)
		  : refuse_zero(o, place, text, err);
}

static int store_pid(const struct opt *o, pid_t *place, const char *text, struct flmem_error *err)
{
	int rc = refuse_second(o, *place != 0, err);

	if (!rc && flmem_parse_pid(text, place, NULL))
		rc = flmem_parse_invalid(FLMEM_VALUE_PID, text, o->name, err);
	return rc;
}

static int store_text_option(const struct opt *o, const char **place, const char *text,
			     struct flmem_error *err)
{
	int rc = refuse_second(o, *place != NULL, err);

	if (!rc)
		*place = text;
	return rc;
}

static int store_value(const struct opt *o, void *options, const char *text,
		       struct flmem_error *err)
{
	void *place = (char *)options + o->offset;

	if (o->given)
		*(bool *)((char *)options + o->given) = true;
	switch (o->kind) {
	case OPT_FLAG:
		*(bool *)place = true;
		return 0;
	case OPT_TEXT:
		return store_text_option(o, place, text, err);
	case OPT_TEXTS:
		return add_text_option(place, text, err);
	case OPT_PIDS:
		return add_pids(o, text, place, err);
	case OPT_CHOICE:
		return find_choice(o, text, place, err);
	case OPT_PID:
		return store_pid(o, place, text, err);
	case OPT_NUMBER:
	case OPT_COUNT:
	case OPT_SIZE:
	case OPT_DURATION:
		break;
	}
	return store_number_option(o, place, text, err);
}

/* This walks argv; `index` is the next word to read. */
struct argv_cursor {
	int argc;
	char **argv;
	int index;
};

static int read_value(const struct opt *o, struct argv_cursor *at, void *options,
		      const char *inline_value, struct flmem_error *err)
{
	if (o->kind == OPT_FLAG) {
		if (inline_value)
			return flmem_error_set(err, FLMEM_EUSAGE, 0, "--%s takes no value",
					       o->name);
		return store_value(o, options, NULL, err);
	}
	if (inline_value)
		return store_value(o, options, inline_value, err);
	if (at->index >= at->argc)
		return flmem_error_set(err, FLMEM_EUSAGE, 0, "--%s needs a value", o->name);
	return store_value(o, options, at->argv[at->index++], err);
}

static int parse_long(const struct opt *table, struct argv_cursor *at, void *options, char *word,
		      struct flmem_error *err)
{
	const char *value = strchr(word, '=');
	size_t length = value ? (size_t)(value - word) - 2 : strlen(word + 2);
	const struct opt *o = find_long(table, word + 2, length);

	if (!o)
		return set_unknown_option(table, word, err);
	return read_value(o, at, options, value ? value + 1 : NULL, err);
}

static int parse_letters(const struct opt *table, struct argv_cursor *at, void *options, char *word,
			 struct flmem_error *err)
{
	for (char *p = word + 1; *p; p++) {
		const struct opt *o = find_letter(table, *p);
		int rc;

		if (!o)
			return set_unknown_option(table, word, err);
		if (o->kind != OPT_FLAG)
			return read_value(o, at, options, p[1] ? p + 1 : NULL, err);
		rc = read_value(o, at, options, NULL, err);
		if (rc)
			return rc;
	}
	return 0;
}

int opt_parse(const struct opt *table, void *options, struct opt_rest *words, bool stop_at_first,
	      struct flmem_error *err)
{
	struct argv_cursor at = {.argc = words->count, .argv = words->values};
	int kept = 0;

	while (at.index < at.argc) {
		char *word = at.argv[at.index++];
		int rc;

		if (strcmp(word, "--") == 0)
			break;
		if (word[0] != '-' || !word[1]) {
			at.argv[kept++] = word;
			if (stop_at_first)
				break;
			continue;
		}
		rc = word[1] == '-' ? parse_long(table, &at, options, word, err)
				    : parse_letters(table, &at, options, word, err);
		if (rc)
			return rc;
	}
	while (at.index < at.argc)
		at.argv[kept++] = at.argv[at.index++];
	at.argv[kept] = NULL;
	words->count = kept;
	return 0;
}

bool opt_takes_next_word(const struct opt *table, const char *word)
{
	const struct opt *o = NULL;

	if (word[0] == '-' && word[1] == '-')
		o = find_long(table, word + 2, strlen(word + 2));
	else if (word[0] == '-' && word[1] && !word[2])
		o = find_letter(table, word[1]);
	return o && o->kind != OPT_FLAG;
}

unsigned opt_choice_index(const char *const *choices, const char *value, unsigned absent)
{
	for (unsigned i = 0; value && choices[i]; i++)
		if (strcmp(choices[i], value) == 0)
			return i;
	return absent;
}

void opt_clear(const struct opt *table, void *options)
{
	for (const struct opt *o = table; o->name; o++) {
		void *place = (char *)options + o->offset;
		struct opt_pids *pids = place;
		struct opt_texts *texts = place;

		if (o->kind == OPT_PIDS) {
			free(pids->values);
			*pids = (struct opt_pids){0};
		} else if (o->kind == OPT_TEXTS) {
			free(texts->values);
			*texts = (struct opt_texts){0};
		}
	}
}
