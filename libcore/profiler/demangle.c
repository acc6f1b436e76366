/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/demangle.h"

#include <ctype.h>
#include <string.h>

#define DEPTH_MAX  48U
#define NUMBER_MAX 100000U

/* State: the rest of the symbol, and the name so far. */
struct demangler {
	const char *at, *end;
	char *out;
	size_t used;
	bool failed;
	unsigned depth;
	const char *last; /* last component of the name, which constructors repeat */
	size_t last_length;
};

static const struct {
	char code[3];
	const char *name;
} operators[] = {
	{"nw", " new"}, {"na", " new[]"}, {"dl", " delete"}, {"da", " delete[]"}, {"ps", "+"},
	{"ng", "-"},	{"ad", "&"},	  {"de", "*"},	     {"co", "~"},	  {"pl", "+"},
	{"mi", "-"},	{"ml", "*"},	  {"dv", "/"},	     {"rm", "%"},	  {"an", "&"},
	{"or", "|"},	{"eo", "^"},	  {"aS", "="},	     {"pL", "+="},	  {"mI", "-="},
	{"mL", "*="},	{"dV", "/="},	  {"ls", "<<"},	     {"rs", ">>"},	  {"eq", "=="},
	{"ne", "!="},	{"lt", "<"},	  {"gt", ">"},	     {"le", "<="},	  {"ge", ">="},
	{"nt", "!"},	{"aa", "&&"},	  {"oo", "||"},	     {"pp", "++"},	  {"mm", "--"},
	{"cm", ","},	{"pt", "->"},	  {"cl", "()"},	     {"ix", "[]"},
};

static char peek_char(const struct demangler *m, size_t ahead)
{
	return m->failed || (size_t)(m->end - m->at) <= ahead ? '\0' : m->at[ahead];
}

static bool take_letter(struct demangler *m, char c)
{
	if (peek_char(m, 0) != c)
		return false;
	m->at++;
	return true;
}

static void put_name_part(struct demangler *m, const char *text, size_t length)
{
	if (m->failed || !m->out)
		return;
	if (length >= FLMEM_DEMANGLED_MAX - m->used) {
		m->failed = true;
		return;
	}
	memcpy(m->out + m->used, text, length);
	m->used += length;
}

static size_t take_count(struct demangler *m)
{
	size_t value = 0;

	while (isdigit((unsigned char)peek_char(m, 0)) && value < NUMBER_MAX)
		value = value * 10 + (size_t)(*m->at++ - '0');
	return value;
}

/* Returns true for characters that no source name has; a terminal would obey some of them. */
static bool has_control_bytes(const char *text, size_t length)
{
	for (size_t i = 0; i < length; i++)
		if ((unsigned char)text[i] <= ' ' || text[i] == 0x7f)
			return true;
	return false;
}

/* Takes "<length>" and that many characters. */
static void take_source_name(struct demangler *m)
{
	size_t length = take_count(m);

	if (m->failed || !length || length > (size_t)(m->end - m->at) ||
	    has_control_bytes(m->at, length)) {
		m->failed = true;
		return;
	}
	m->last = m->at;
	m->last_length = length;
	m->at += length;
	if (length > 8 && strncmp(m->last, "_GLOBAL_", 8) == 0)
		put_name_part(m, "(anonymous)", strlen("(anonymous)"));
	else
		put_name_part(m, m->last, length);
}

/* Skips S_, S1A_, T_, T0_ and the like, after their first letter. */
static void skip_sequence(struct demangler *m)
{
	while (isdigit((unsigned char)peek_char(m, 0)) || isupper((unsigned char)peek_char(m, 0)))
		m->at++;
	m->failed |= !take_letter(m, '_');
}

static void skip_type(struct demangler *m);
static void take_name(struct demangler *m);

/* Reads a part without printing it. */
static void skip_quietly(struct demangler *m, void (*take)(struct demangler *m))
{
	char *out = m->out;

	m->out = NULL;
	take(m);
	m->out = out;
}

static void skip_types_until_end(struct demangler *m)
{
	while (!m->failed && !take_letter(m, 'E'))
		skip_type(m);
}

static void skip_literal(struct demangler *m)
{
	if (take_letter(m, '_'))
		m->failed = true; /* the address of a function: not supported */
	else
		skip_type(m);
	while (isalnum((unsigned char)peek_char(m, 0)) && peek_char(m, 0) != 'E')
		m->at++;
	m->failed |= !take_letter(m, 'E');
}

static void skip_arguments(struct demangler *m)
{
	while (!m->failed && !take_letter(m, 'E')) {
		if (take_letter(m, 'L'))
			skip_literal(m);
		else if (take_letter(m, 'J'))
			skip_types_until_end(m);
		else
			skip_type(m);
	}
}

static void skip_extended_type(struct demangler *m)
{
	char c = peek_char(m, 0);

	m->at += c != '\0';
	if (c == 'p')
		skip_type(m);
	else if (c == 'v') {
		take_count(m);
		m->failed |= !take_letter(m, '_');
		skip_type(m);
	} else if (!c || !strchr("defhisacnu", c))
		m->failed = true;
}

static void skip_substitution(struct demangler *m)
{
	char c = peek_char(m, 0);

	if (c == 't') {
		m->at++;
		skip_quietly(m, take_source_name);
	} else if (c && strchr("absiod", c)) {
		m->at++;
	} else {
		skip_sequence(m);
	}
}

static void skip_compound_type(struct demangler *m, char c)
{
	switch (c) {
	case 'F':
		take_letter(m, 'Y');
		skip_types_until_end(m);
		return;
	case 'A':
		take_count(m);
		m->failed |= !take_letter(m, '_');
		skip_type(m);
		return;
	case 'M':
		skip_type(m);
		skip_type(m);
		return;
	case 'D':
		skip_extended_type(m);
		return;
	case 'S':
		skip_substitution(m);
		return;
	case 'T':
		skip_sequence(m);
		return;
	default:
		m->failed = true;
	}
}

static void skip_type(struct demangler *m)
{
	char c = peek_char(m, 0);

	if (!c || ++m->depth > DEPTH_MAX) {
		m->failed = true;
		return;
	}
	if (isdigit((unsigned char)c) || c == 'N') {
		skip_quietly(m, take_name);
	} else {
		m->at++;
		if (strchr("PROKVrCG", c))
			skip_type(m);
		else if (!strchr("vwbcahstijlmxynofdegz", c))
			skip_compound_type(m, c);
	}
	if (take_letter(m, 'I'))
		skip_arguments(m);
	m->depth--;
}

static bool take_operator(struct demangler *m)
{
	char code[3] = {peek_char(m, 0), peek_char(m, 1), '\0'};

	for (size_t i = 0; i < sizeof(operators) / sizeof(operators[0]); i++)
		if (strcmp(code, operators[i].code) == 0) {
			m->at += 2;
			put_name_part(m, "operator", strlen("operator"));
			put_name_part(m, operators[i].name, strlen(operators[i].name));
			return true;
		}
	return false;
}

/* Takes a lambda: Ul <types> E [number] _. */
static void take_lambda(struct demangler *m)
{
	put_name_part(m, "(lambda)", strlen("(lambda)"));
	skip_types_until_end(m);
	take_count(m);
	m->failed |= !take_letter(m, '_');
}

/* Takes a constructor (C1) or a destructor (D1). */
static void take_structor(struct demangler *m)
{
	const char *name = m->last;
	size_t length = m->last_length;

	if (*m->at == 'D')
		put_name_part(m, "~", 1);
	m->at += 2;
	m->failed |= !name;
	if (name)
		put_name_part(m, name, length);
}

static void take_unqualified(struct demangler *m)
{
	char c = peek_char(m, 0), next = peek_char(m, 1);

	if (c == 'L')
		m->at++;
	if (isdigit((unsigned char)peek_char(m, 0))) {
		take_source_name(m);
	} else if ((c == 'C' || c == 'D') && isdigit((unsigned char)next)) {
		take_structor(m);
	} else if (c == 'U' && next == 'l') {
		m->at += 2;
		take_lambda(m);
	} else if (!take_operator(m)) {
		m->failed = true;
	}
	while (take_letter(m, 'B'))
		skip_quietly(m, take_source_name);
}

/*
 * Takes std:: and substitutions with a letter of their name; other substitutions stand for an
 * earlier part.
 */
static void take_standard(struct demangler *m)
{
	static const char letters[] = "tabsiod";
	static const char *const names[] = {"",	       "allocator", "basic_string", "string",
					    "istream", "ostream",   "iostream"};
	char c = peek_char(m, 0);
	const char *letter = c ? strchr(letters, c) : NULL;

	if (!letter) {
		m->failed |= m->out != NULL;
		skip_sequence(m);
		return;
	}
	m->at++;
	put_name_part(m, "std", 3);
	if (c == 't')
		return;
	m->last = names[letter - letters];
	m->last_length = strlen(m->last);
	put_name_part(m, "::", 2);
	put_name_part(m, m->last, m->last_length);
}

static void take_nested(struct demangler *m)
{
	bool first = true;

	while (peek_char(m, 0) && strchr("rVKRO", peek_char(m, 0)))
		m->at++;
	for (; !m->failed && !take_letter(m, 'E'); first = false) {
		if (!first && take_letter(m, 'I')) {
			put_name_part(m, "<...>", strlen("<...>"));
			skip_arguments(m);
			continue;
		}
		if (!first)
			put_name_part(m, "::", 2);
		if (first && take_letter(m, 'S')) {
			take_standard(m);
		} else if (first && take_letter(m, 'T')) {
			m->failed |= m->out != NULL;
			skip_sequence(m);
		} else {
			take_unqualified(m);
		}
	}
}

static void take_name(struct demangler *m)
{
	if (++m->depth > DEPTH_MAX) {
		m->failed = true;
		return;
	}
	if (take_letter(m, 'N')) {
		take_nested(m);
	} else {
		if (peek_char(m, 0) == 'S' && peek_char(m, 1) == 't') {
			m->at += 2;
			put_name_part(m, "std::", 5);
		}
		take_unqualified(m);
		if (peek_char(m, 0) == 'I' && m->out) {
			m->at++;
			put_name_part(m, "<...>", strlen("<...>"));
		}
	}
	m->depth--;
}

bool flmem_demangle(const char *symbol, size_t length, char out[FLMEM_DEMANGLED_MAX])
{
	struct demangler m = {.at = symbol, .end = symbol + length, .out = out};
	const char *local;

	if (length < 4 || symbol[0] != '_' || symbol[1] != 'Z')
		return false;
	m.at += 2;
	/* For an entity inside a function, the name is that of the function. */
	while (take_letter(&m, 'Z'))
		;
	local = m.at;
	take_name(&m);
	if (m.failed || !m.used || m.at == local)
		return false;
	out[m.used] = '\0';
	return true;
}
