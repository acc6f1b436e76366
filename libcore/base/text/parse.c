/* SPDX-License-Identifier: Apache-2.0 */
#include <flmem/parse.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/text/text.h"

#define PID_LIMIT 4194304 /* PID_MAX_LIMIT of 64-bit kernels, include/linux/threads.h */

struct size_unit {
	const char *name;
	uint64_t factor;
};

#define KIB (UINT64_C(1) << 10)
#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)
#define TIB (UINT64_C(1) << 40)
#define PIB (UINT64_C(1) << 50)

static const struct size_unit size_units[] = {
	{"", 1},
	{"B", 1},
	{"K", KIB},
	{"k", KIB},
	{"KiB", KIB},
	{"KB", UINT64_C(1000)},
	{"kB", UINT64_C(1000)},
	{"M", MIB},
	{"m", MIB},
	{"MiB", MIB},
	{"MB", UINT64_C(1000000)},
	{"G", GIB},
	{"g", GIB},
	{"GiB", GIB},
	{"GB", UINT64_C(1000000000)},
	{"T", TIB},
	{"t", TIB},
	{"TiB", TIB},
	{"TB", UINT64_C(1000000000000)},
	{"P", PIB},
	{"p", PIB},
	{"PiB", PIB},
	{"PB", UINT64_C(1000000000000000)},
	{NULL, 0},
};

#define DURATION_MAX_US (36500 * UINT64_C(86400000000))

static const struct size_unit duration_units[] = {
	{"us", 1},
	{"ms", 1000},
	{"s", 1000000},
	{"m", UINT64_C(60000000)},
	{"h", UINT64_C(3600000000)},
	{"d", UINT64_C(86400000000)},
	{NULL, 0},
};

/* Suffixes in names of models: llama-3.1-8b, gpt2-1.5B. */
static const struct size_unit count_units[] = {
	{"", 1},
	{"K", UINT64_C(1000)},
	{"k", UINT64_C(1000)},
	{"M", UINT64_C(1000000)},
	{"m", UINT64_C(1000000)},
	{"B", UINT64_C(1000000000)},
	{"b", UINT64_C(1000000000)},
	{"G", UINT64_C(1000000000)},
	{"g", UINT64_C(1000000000)},
	{"T", UINT64_C(1000000000000)},
	{"t", UINT64_C(1000000000000)},
	{NULL, 0},
};

static int set_invalid(const char *name, const char *text, const char *option, const char *expected,
		       struct flmem_error *err)
{
	char shown[64];

	flmem_text_escape(text, shown, sizeof(shown));
	return flmem_error_set(err, FLMEM_EUSAGE, 0, "invalid %s '%s'%s%s; %s", name, shown,
			       option ? " for --" : "", option ? option : "", expected);
}

int flmem_parse_invalid(enum flmem_value_kind kind, const char *text, const char *option,
			struct flmem_error *err)
{
#define VALUE_ROW(name, text, expected) {text, expected},
	static const struct {
		const char *name, *expected;
	} kinds[] = {FLMEM_VALUES(VALUE_ROW)};
#undef VALUE_ROW

	return set_invalid(kinds[kind].name, text, option, kinds[kind].expected, err);
}

int flmem_parse_invalid_choice(const char *text, const char *option, const char *choices,
			       struct flmem_error *err)
{
	char expected[200];

	snprintf(expected, sizeof(expected), "choose from %s", choices);
	return set_invalid("value", text, option, expected, err);
}

int flmem_parse_u64(const char *text, uint64_t min, uint64_t max, uint64_t *ret_value,
		    struct flmem_error *err)
{
	const char *p = text;
	uint64_t value;
	char expected[80];

	if (!flmem_text_read_digits(&p, &value) || *p || value < min || value > max) {
		snprintf(expected, sizeof(expected), "expected %llu to %llu",
			 (unsigned long long)min, (unsigned long long)max);
		return set_invalid("number", text, NULL, expected, err);
	}
	*ret_value = value;
	return 0;
}

int flmem_parse_pid(const char *text, pid_t *ret_pid, struct flmem_error *err)
{
	uint64_t value = 0;

	if (flmem_parse_u64(text, 1, PID_LIMIT, &value, NULL))
		return flmem_parse_invalid(FLMEM_VALUE_PID, text, NULL, err);
	*ret_pid = (pid_t)value;
	return 0;
}

/* Reads a fraction in millionths; digits after the sixth are ignored. */
static bool read_fraction(const char **text, uint64_t *ret_millionths)
{
	uint64_t value = 0, place = 100000;
	const char *p = *text;

	if (*p != '.') {
		*ret_millionths = 0;
		return true;
	}
	if (*++p < '0' || *p > '9')
		return false;
	for (; *p >= '0' && *p <= '9'; p++, place /= 10)
		value += place * (uint64_t)(*p - '0');
	*text = p;
	*ret_millionths = value;
	return true;
}

static bool parse_scaled(const char *text, const struct size_unit *units, uint64_t *ret_value)
{
	uint64_t whole, millionths, value;
	const char *p = text;

	if (!flmem_text_read_digits(&p, &whole) || !read_fraction(&p, &millionths))
		return false;
	for (const struct size_unit *u = units; u->name; u++) {
		if (strcmp(p, u->name) != 0)
			continue;
		if (__builtin_mul_overflow(whole, u->factor, &value) ||
		    __builtin_add_overflow(
			    value, (uint64_t)((unsigned __int128)u->factor * millionths / 1000000U),
			    &value))
			return false;
		*ret_value = value;
		return true;
	}
	return false;
}

int flmem_parse_size(const char *text, uint64_t *ret_bytes, struct flmem_error *err)
{
	if (!parse_scaled(text, size_units, ret_bytes))
		return flmem_parse_invalid(FLMEM_VALUE_SIZE, text, NULL, err);
	return 0;
}

/* A fraction without a unit is rejected: 1.5 is not a count of parameters. */
int flmem_parse_count(const char *text, uint64_t *ret_count, struct flmem_error *err)
{
	const char *point = strchr(text, '.');
	bool no_unit = point && !point[1 + strspn(point + 1, "0123456789")];

	if (no_unit || !parse_scaled(text, count_units, ret_count))
		return flmem_parse_invalid(FLMEM_VALUE_COUNT, text, NULL, err);
	return 0;
}

int flmem_parse_duration(const char *text, uint64_t *ret_us, struct flmem_error *err)
{
	uint64_t us = 0;

	if (strcmp(text, "0") != 0 &&
	    (!parse_scaled(text, duration_units, &us) || us > DURATION_MAX_US))
		return flmem_parse_invalid(FLMEM_VALUE_DURATION, text, NULL, err);
	*ret_us = us;
	return 0;
}
