/* SPDX-License-Identifier: Apache-2.0 */
#include "proc/status.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/text/buf.h"
#include "proc/process.h"

/*
 * Limit of the text: twenty times its size on a machine with two processors, each of which adds a
 * few bytes.
 */
#define TEXT_MAX 32768

#define ABSENT "this kernel does not show it for this process"

enum field_kind {
	FIELD_NAME,
	FIELD_STATE,
	FIELD_NUMBER,
	FIELD_LAST_NUMBER,
	FIELD_KILOBYTES,
	FIELD_MASK,
	FIELD_IDS,
	FIELD_FEATURES,
};

struct status_field {
	const char *key;
	enum field_kind kind;
	size_t offset;
};

static const struct status_field status_fields[] = {
	{"Name", FIELD_NAME, offsetof(struct flmem_status, name)},
	{"State", FIELD_STATE, offsetof(struct flmem_status, state)},
	{"Tgid", FIELD_NUMBER, offsetof(struct flmem_status, tgid)},
	{"PPid", FIELD_NUMBER, offsetof(struct flmem_status, parent)},
	{"TracerPid", FIELD_NUMBER, offsetof(struct flmem_status, tracer)},
	{"Uid", FIELD_IDS, offsetof(struct flmem_status, uid)},
	{"Gid", FIELD_IDS, offsetof(struct flmem_status, gid)},
	{"NSpid", FIELD_LAST_NUMBER, offsetof(struct flmem_status, ns_pid)},
	{"VmSize", FIELD_KILOBYTES, offsetof(struct flmem_status, size_bytes)},
	{"VmData", FIELD_KILOBYTES, offsetof(struct flmem_status, data_bytes)},
	{"VmRSS", FIELD_KILOBYTES, offsetof(struct flmem_status, rss_bytes)},
	{"VmHWM", FIELD_KILOBYTES, offsetof(struct flmem_status, peak_bytes)},
	{"RssAnon", FIELD_KILOBYTES, offsetof(struct flmem_status, anon_bytes)},
	{"RssFile", FIELD_KILOBYTES, offsetof(struct flmem_status, file_bytes)},
	{"RssShmem", FIELD_KILOBYTES, offsetof(struct flmem_status, shmem_bytes)},
	{"VmSwap", FIELD_KILOBYTES, offsetof(struct flmem_status, swap_bytes)},
	{"VmLck", FIELD_KILOBYTES, offsetof(struct flmem_status, locked_bytes)},
	{"VmPin", FIELD_KILOBYTES, offsetof(struct flmem_status, pinned_bytes)},
	{"HugetlbPages", FIELD_KILOBYTES, offsetof(struct flmem_status, hugetlb_bytes)},
	{"Threads", FIELD_NUMBER, offsetof(struct flmem_status, threads)},
	{"Seccomp", FIELD_NUMBER, offsetof(struct flmem_status, seccomp_mode)},
	{"Seccomp_filters", FIELD_NUMBER, offsetof(struct flmem_status, seccomp_filters)},
	{"NoNewPrivs", FIELD_NUMBER, offsetof(struct flmem_status, no_new_privs)},
	{"CapEff", FIELD_MASK, offsetof(struct flmem_status, cap_effective)},
	{"SigPnd", FIELD_MASK, offsetof(struct flmem_status, sig_pending)},
	{"ShdPnd", FIELD_MASK, offsetof(struct flmem_status, shared_pending)},
	{"SigBlk", FIELD_MASK, offsetof(struct flmem_status, sig_blocked)},
	{"SigIgn", FIELD_MASK, offsetof(struct flmem_status, sig_ignored)},
	{"SigCgt", FIELD_MASK, offsetof(struct flmem_status, sig_caught)},
	{"voluntary_ctxt_switches", FIELD_NUMBER,
	 offsetof(struct flmem_status, voluntary_switches)},
	{"nonvoluntary_ctxt_switches", FIELD_NUMBER,
	 offsetof(struct flmem_status, involuntary_switches)},
	{"THP_enabled", FIELD_NUMBER, offsetof(struct flmem_status, thp_enabled)},
	{"CoreDumping", FIELD_NUMBER, offsetof(struct flmem_status, core_dumping)},
	{"x86_Thread_features", FIELD_FEATURES, offsetof(struct flmem_status, shadow_stack)},
};

/* The rest of one line that is being parsed. */
struct status_cursor {
	const char *at, *end;
};

static void skip_blanks(struct status_cursor *c)
{
	while (c->at < c->end && (*c->at == ' ' || *c->at == '\t'))
		c->at++;
}

static int hex_digit_value(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : 16;
}

/*
 * Parses one number and the blanks before it. Returns false if there is none, it overflows or other
 * text follows directly.
 */
static bool take_number(struct status_cursor *c, unsigned base, uint64_t *ret_value)
{
	uint64_t value = 0;
	const char *first;

	skip_blanks(c);
	for (first = c->at; c->at < c->end; c->at++) {
		int digit = hex_digit_value(*c->at);

		if (digit >= (int)base)
			break;
		if (__builtin_mul_overflow(value, base, &value) ||
		    __builtin_add_overflow(value, (uint64_t)digit, &value))
			return false;
	}
	if (c->at == first || (c->at < c->end && *c->at != ' ' && *c->at != '\t'))
		return false;
	*ret_value = value;
	return true;
}

static bool take_kilobytes(struct status_cursor *c, uint64_t *ret_value)
{
	uint64_t value;

	if (!take_number(c, 10, &value) || value > UINT64_MAX / 1024)
		return false;
	skip_blanks(c);
	if (c->end - c->at != 2 || memcmp(c->at, "kB", 2) != 0)
		return false;
	*ret_value = value * 1024;
	return true;
}

static bool take_last_number(struct status_cursor *c, uint64_t *ret_value)
{
	bool any = false;

	/* The limit of the loop: PID namespaces can be nested 32 deep (MAX_PID_NS_LEVEL). */
	for (int i = 0; i <= 32 && take_number(c, 10, ret_value); i++)
		any = true;
	return any;
}

static void take_ids(struct status_cursor *c, struct flmem_ids *ids)
{
	uint64_t values[4];

	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(values); i++)
		if (!take_number(c, 10, &values[i]) || values[i] > UINT32_MAX)
			return;
	*ids = (struct flmem_ids){
		.known = true,
		.real = (uint32_t)values[0],
		.effective = (uint32_t)values[1],
		.saved = (uint32_t)values[2],
		.fs = (uint32_t)values[3],
	};
}

static void take_process_name(struct status_cursor *c, char *name)
{
	size_t length;

	if (c->at < c->end && *c->at == '\t')
		c->at++;
	length = (size_t)(c->end - c->at);
	if (length >= FLMEM_STATUS_NAME_MAX)
		length = FLMEM_STATUS_NAME_MAX - 1;
	memcpy(name, c->at, length);
	name[length] = '\0';
}

static bool has_word(struct status_cursor *c, const char *word)
{
	size_t length = strlen(word);

	for (skip_blanks(c); c->at < c->end; skip_blanks(c)) {
		const char *first = c->at;

		while (c->at < c->end && *c->at != ' ' && *c->at != '\t')
			c->at++;
		if ((size_t)(c->at - first) == length && memcmp(first, word, length) == 0)
			return true;
	}
	return false;
}

static void store_number(struct status_cursor *c, enum field_kind kind, struct flmem_u64 *number)
{
	uint64_t value = 0;
	bool good;

	if (kind == FIELD_KILOBYTES)
		good = take_kilobytes(c, &value);
	else if (kind == FIELD_LAST_NUMBER)
		good = take_last_number(c, &value);
	else
		good = take_number(c, kind == FIELD_MASK ? 16 : 10, &value);
	if (good)
		*number = FLMEM_KNOWN(value);
}

static void store_field(const struct status_field *field, struct status_cursor *c,
			struct flmem_status *status)
{
	void *place = (char *)status + field->offset;

	switch (field->kind) {
	case FIELD_NAME:
		take_process_name(c, place);
		break;
	case FIELD_STATE:
		skip_blanks(c);
		*(char *)place = c->at < c->end ? *c->at : '\0';
		break;
	case FIELD_IDS:
		take_ids(c, place);
		break;
	case FIELD_FEATURES:
		*(bool *)place = has_word(c, "shstk");
		break;
	case FIELD_NUMBER:
	case FIELD_LAST_NUMBER:
	case FIELD_KILOBYTES:
	case FIELD_MASK:
		store_number(c, field->kind, place);
		break;
	}
}

static void parse_line(const char *line, const char *end, struct flmem_status *status)
{
	const char *colon = memchr(line, ':', (size_t)(end - line));
	struct status_cursor c;
	size_t length;

	if (!colon)
		return;
	length = (size_t)(colon - line);
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(status_fields); i++) {
		/* Most lines are not needed, and comparing the first letter is a cheap filter. */
		if (status_fields[i].key[0] != line[0] ||
		    strncmp(status_fields[i].key, line, length) != 0 ||
		    status_fields[i].key[length])
			continue;
		c = (struct status_cursor){.at = colon + 1, .end = end};
		store_field(&status_fields[i], &c, status);
		return;
	}
}

static bool is_number(enum field_kind kind)
{
	return kind == FIELD_NUMBER || kind == FIELD_LAST_NUMBER || kind == FIELD_KILOBYTES ||
	       kind == FIELD_MASK;
}

static void forget_numbers(struct flmem_status *status)
{
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(status_fields); i++) {
		void *place = (char *)status + status_fields[i].offset;

		if (is_number(status_fields[i].kind))
			*(struct flmem_u64 *)place = FLMEM_UNKNOWN(ABSENT);
	}
}

int flmem_status_parse(const char *text, struct flmem_status *ret_status, struct flmem_error *err)
{
	struct flmem_status status = {0};

	forget_numbers(&status);
	while (*text) {
		const char *end = strchrnul(text, '\n');

		parse_line(text, end, &status);
		text = *end ? end + 1 : end;
	}
	if (!status.state)
		return flmem_error_set(err, FLMEM_EFAILED, 0,
				       "cannot parse the status file: it has no state");
	*ret_status = status;
	return 0;
}

int flmem_status_read(const struct flmem_process *process, struct flmem_status *ret_status,
		      struct flmem_error *err)
{
	FLMEM_AUTO_BUF struct flmem_buf buf = FLMEM_BUF_INIT;
	int rc = flmem_process_read(process, "status", &buf);

	if (rc)
		return flmem_process_error(process, rc, "read the status", err);
	rc = flmem_status_parse(buf.data, ret_status, err);
	return rc ? flmem_error_prefix(err, rc, "process %d", (int)process->pid) : 0;
}

int flmem_status_open_thread(const struct flmem_process *process, pid_t tid)
{
	char name[40];
	int fd;

	snprintf(name, sizeof(name), "task/%d/status", (int)tid);
	fd = openat(process->dirfd, name, O_RDONLY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

int flmem_status_read_open(int fd, struct flmem_status *ret_status)
{
	char text[TEXT_MAX];
	ssize_t length = pread(fd, text, sizeof(text), 0);

	if (length < 0)
		return -errno;
	if ((size_t)length == sizeof(text))
		return -EPROTO;
	text[length] = '\0';
	return flmem_status_parse(text, ret_status, NULL) ? -EPROTO : 0;
}

int flmem_status_read_thread(const struct flmem_process *process, pid_t tid,
			     struct flmem_status *ret_status)
{
	FLMEM_AUTO_CLOSE int fd = flmem_status_open_thread(process, tid);

	return fd < 0 ? fd : flmem_status_read_open(fd, ret_status);
}

int flmem_status_read_number(pid_t number, struct flmem_status *ret_status)
{
	FLMEM_AUTO_CLOSE int fd = -1;
	char path[40];

	snprintf(path, sizeof(path), "/proc/%d/status", (int)number);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	return fd < 0 ? -errno : flmem_status_read_open(fd, ret_status);
}
