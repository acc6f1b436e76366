/* SPDX-License-Identifier: Apache-2.0 */
#include "frameworks/limits.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <flmem/text.h>

#include "base/text/text.h"

/* Percent of a limit that may be planned, as of a node. */
#define USABLE_PERCENT 90U

#define GIB (UINT64_C(1) << 30)

/*
 * Reads a unit. Units are powers of 1000 or 1024, depending on the style and an "i" after the
 * letter.
 */
static bool read_unit(enum flmem_limit_style style, const char *unit, double *ret_factor)
{
	static const char letters[] = "kmgtp";
	bool decimal = style == FLMEM_LIMIT_KUBERNETES && unit[0] && unit[1] != 'i';
	char lower = unit[0] | 0x20;
	const char *letter = unit[0] ? strchr(letters, lower) : NULL;

	*ret_factor = style == FLMEM_LIMIT_SLURM || style == FLMEM_LIMIT_MEBIBYTES ? 1048576 : 1;
	if (!*unit)
		return true;
	if (style == FLMEM_LIMIT_DOCKER && strcmp(unit, "b") == 0)
		return true;
	/* "m" is a thousandth, and letters of the wrong case are not units. */
	if (style == FLMEM_LIMIT_KUBERNETES && (decimal && lower == 'k') != (unit[0] == lower))
		return false;
	if (!letter || style == FLMEM_LIMIT_MEBIBYTES)
		return false;
	unit += 1 + (unit[1] == 'i');
	if (style != FLMEM_LIMIT_KUBERNETES)
		unit += *unit == 'b' || *unit == 'B';
	*ret_factor = 1;
	for (const char *p = letters; p <= letter; p++)
		*ret_factor *= decimal ? 1000 : 1024;
	return !*unit;
}

bool flmem_limit_parse(enum flmem_limit_style style, const char *text, uint64_t *ret_bytes)
{
	const char *end = text + strspn(text, "0123456789");
	double number = 0, factor, place = 1;

	if (style == FLMEM_LIMIT_SYSTEMD && strcmp(text, "infinity") == 0) {
		*ret_bytes = UINT64_MAX;
		return true;
	}
	if (end == text)
		return false;
	for (; text < end; text++)
		number = number * 10 + (*text - '0');
	if (*text == '.')
		for (text++; *text >= '0' && *text <= '9'; text++)
			number += (*text - '0') * (place /= 10);
	if (!read_unit(style, text, &factor) || number * factor >= 9e18)
		return false;
	*ret_bytes = (uint64_t)(number * factor);
	if (*ret_bytes)
		return true;
	*ret_bytes = UINT64_MAX;
	return style == FLMEM_LIMIT_DOCKER;
}

static uint64_t larger_need(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

struct flmem_limit_need flmem_limit_need_of(const struct flmem_plan_peaks *peaks,
					    enum flmem_role role)
{
	uint64_t most = larger_need(peaks->server, peaks->client);

	switch (role) {
	case FLMEM_ROLE_SERVER:
	case FLMEM_ROLE_SERVER_JOB:
		return (struct flmem_limit_need){peaks->server, peaks->server, "the server", NULL};
	case FLMEM_ROLE_CLIENT:
	case FLMEM_ROLE_CLIENT_JOB:
	case FLMEM_ROLE_TRAINER:
		return (struct flmem_limit_need){peaks->client, peaks->client, "a client", NULL};
	case FLMEM_ROLE_SIMULATOR_SERVER:
		if (peaks->simulator)
			return (struct flmem_limit_need){peaks->simulator, peaks->simulator,
							 "the simulator", NULL};
		return (struct flmem_limit_need){most, UINT64_MAX, "the simulator",
						 "how many clients the simulator runs at once is "
						 "not known: plan it with --simulator"};
	default:
		return (struct flmem_limit_need){peaks->server < peaks->client ? peaks->server
									       : peaks->client,
						 most, "the server or a client",
						 "whether it is for a server or a client is not "
						 "known"};
	}
}

/* Writes the limit to propose for a need; it leaves as much free as the plan leaves of a node. */
static void propose_limit(enum flmem_limit_style style, uint64_t need, char out[32])
{
	static const char *const units[] = {"g", "Gi", "G", "G", ""};
	uint64_t gib = (need / USABLE_PERCENT * 100 + GIB - 1) / GIB;

	snprintf(out, 32, "%" PRIu64 "%s", style == FLMEM_LIMIT_MEBIBYTES ? gib * 1024 : gib,
		 units[style]);
}

/*
 * Writes the name of another strategy with which the processes below the limit need less; "" if
 * there is none.
 */
static void put_lower(const struct flmem_plan_peaks *peaks, uint64_t need, char out[96])
{
	uint64_t lower = need == peaks->server	 ? peaks->lower_server
			 : need == peaks->client ? peaks->lower_client
						 : need;
	char bytes[FLMEM_TEXT_BYTES_MAX];

	*out = '\0';
	if (lower < need)
		snprintf(out, 96, "; with '%s' it needs %s", peaks->lower,
			 flmem_text_bytes(lower, bytes, sizeof(bytes)));
}

static void report_low(struct flmem_check *check, const struct flmem_limit *limit, uint64_t bytes)
{
	static const enum flmem_severity warning = FLMEM_SEVERITY_WARNING;
	const struct flmem_plan_peaks *peaks = check->bundle->peaks;
	char needed[FLMEM_TEXT_BYTES_MAX], lower[96], detail[256], proposed[32];
	bool tight = bytes >= limit->need.least;

	flmem_text_bytes(limit->need.least, needed, sizeof(needed));
	put_lower(peaks, limit->need.least, lower);
	snprintf(detail, sizeof(detail), "%s needs %s with the strategy '%s'%s%s",
		 limit->need.whose, needed, peaks->strategy,
		 tight ? ", and less than a tenth is left for what no plan includes" : "", lower);
	propose_limit(limit->style, limit->need.least, proposed);
	flmem_check_report(check, &(struct flmem_remark){.node = limit->node,
							 .path = limit->path,
							 .missing = limit->missing,
							 .detail = detail,
							 .proposed = proposed,
							 .severity = tight ? &warning : NULL});
}

static void report_unclear(struct flmem_check *check, const struct flmem_limit *limit,
			   const char *why)
{
	const struct flmem_plan_peaks *peaks = check->bundle->peaks;
	char server[FLMEM_TEXT_BYTES_MAX], client[FLMEM_TEXT_BYTES_MAX], detail[256];

	snprintf(detail, sizeof(detail), "%s; the server needs %s, a client %s", why,
		 flmem_text_bytes(peaks->server, server, sizeof(server)),
		 flmem_text_bytes(peaks->client, client, sizeof(client)));
	flmem_check_report(check, &(struct flmem_remark){.node = limit->node,
							 .path = limit->path,
							 .missing = limit->missing,
							 .detail = detail});
}

void flmem_limit_compare(struct flmem_check *check, enum flmem_limit_outcome outcome,
			 const struct flmem_limit *limit)
{
	uint64_t bytes = 0, usable;
	bool known = flmem_limit_parse(limit->style, limit->text, &bytes), low, decided;
	bool certain = known && !limit->doubt;

	if (known && bytes == UINT64_MAX) /* there is no limit */
		return;
	usable = bytes / 100 * USABLE_PERCENT;
	low = certain && usable < limit->need.least;
	decided = low || (certain && usable >= limit->need.most);
	if (outcome == FLMEM_LIMIT_UNCLEAR && !decided)
		report_unclear(check, limit,
			       limit->doubt ? limit->doubt
			       : known	    ? limit->need.doubt
					    : "its value is known only when the file is used");
	if (outcome == FLMEM_LIMIT_LOW && decided)
		check->found->held_plan.limits++;
	if (outcome == FLMEM_LIMIT_LOW && low)
		report_low(check, limit, bytes);
}
