/* SPDX-License-Identifier: Apache-2.0 */
#include "proc/host_facts.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <stdio.h>
#include <string.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <flmem/parse.h>

#include "base/cleanup.h"
#include "base/files/io.h"
#include "base/text/buf.h"
#include "proc/status.h"

#define FILE_LIMIT ((size_t)1 << 20)

/* Inode numbers of the first namespaces, include/linux/proc_ns.h; the kernel keeps them fixed. */
#define FIRST_USER_NAMESPACE "user:[4026531837]"
#define FIRST_PID_NAMESPACE  "pid:[4026531836]"

/* Returns the start of the value after "name" and blanks at the start of a line, or NULL. */
static const char *find_field(const char *text, const char *name)
{
	size_t length = strlen(name);

	for (const char *line = text; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (strncmp(line, name, length) == 0)
			return line + length + strspn(line + length, " \t");
	}
	return NULL;
}

/* Parses the decimal number at the start of the text; false for NULL. */
static bool parse_host_number(const char *text, uint64_t *ret_value)
{
	size_t length = text ? strspn(text, "0123456789") : 0;
	char digits[24];

	if (!length || length >= sizeof(digits))
		return false;
	snprintf(digits, sizeof(digits), "%.*s", (int)length, text);
	return flmem_parse_u64(digits, 0, UINT64_MAX, ret_value, NULL) == 0;
}

/*
 * Reads "0.54 0.31 0.20 3/412 9999": the fourth word has the number of runnable threads
 * (proc_loadavg(5)).
 */
bool flmem_host_is_busy_at(int rootfd, uint64_t processors)
{
	FLMEM_AUTO_BUF struct flmem_buf buf = FLMEM_BUF_INIT;
	const char *at;
	uint64_t runnable;

	if (flmem_io_read_file_at(rootfd, "proc/loadavg", FILE_LIMIT, &buf))
		return false;
	at = buf.data;
	for (int field = 0; field < 3; field++) {
		at = strchr(at, ' ');
		if (!at)
			return false;
		at++;
	}
	return parse_host_number(at, &runnable) && runnable > processors;
}

bool flmem_host_is_busy(void)
{
	FLMEM_AUTO_CLOSE int rootfd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);

	return rootfd >= 0 && flmem_host_is_busy_at(rootfd, (uint64_t)get_nprocs());
}

static struct flmem_u64 parse_meminfo_bytes(const char *text, const char *name)
{
	uint64_t kib, bytes;

	if (!*text)
		return FLMEM_UNKNOWN("/proc/meminfo cannot be read");
	if (!parse_host_number(find_field(text, name), &kib) ||
	    __builtin_mul_overflow(kib, 1024U, &bytes))
		return FLMEM_UNKNOWN("/proc/meminfo does not have it");
	return FLMEM_KNOWN(bytes);
}

static void read_meminfo(int rootfd, struct flmem_host_facts *facts)
{
	FLMEM_AUTO_BUF struct flmem_buf buf = FLMEM_BUF_INIT;

	if (flmem_io_read_file_at(rootfd, "proc/meminfo", FILE_LIMIT, &buf))
		flmem_buf_reset(&buf);
	facts->memory_total_bytes = parse_meminfo_bytes(buf.data, "MemTotal:");
	facts->memory_available_bytes = parse_meminfo_bytes(buf.data, "MemAvailable:");
	facts->swap_total_bytes = parse_meminfo_bytes(buf.data, "SwapTotal:");
	facts->swap_free_bytes = parse_meminfo_bytes(buf.data, "SwapFree:");
}

/* Reads "always [madvise] never": the mode in force is the one in brackets. */
static void read_thp(int rootfd, struct flmem_host_facts *facts)
{
	FLMEM_AUTO_BUF struct flmem_buf buf = FLMEM_BUF_INIT;
	const char *open, *close;

	if (flmem_io_read_file_at(rootfd, "sys/kernel/mm/transparent_hugepage/enabled", FILE_LIMIT,
				  &buf))
		return;
	open = strchr(buf.data, '[');
	close = open ? strchr(open, ']') : NULL;
	if (close && (size_t)(close - open) <= sizeof(facts->thp_mode))
		snprintf(facts->thp_mode, sizeof(facts->thp_mode), "%.*s", (int)(close - open - 1),
			 open + 1);
}

/* Reads a small number from a file; `otherwise` if it cannot be read. */
static int read_level(int rootfd, const char *path, int otherwise)
{
	FLMEM_AUTO_BUF struct flmem_buf buf = FLMEM_BUF_INIT;
	uint64_t value;

	if (flmem_io_read_file_at(rootfd, path, FILE_LIMIT, &buf) ||
	    !parse_host_number(buf.data, &value) || value > 9)
		return otherwise;
	return (int)value;
}

static bool is_other_namespace(int rootfd, const char *path, const char *first)
{
	char target[64];
	ssize_t length = readlinkat(rootfd, path, target, sizeof(target) - 1);

	if (length < 0)
		return false;
	target[length] = '\0';
	return strcmp(target, first) != 0;
}

static bool has_capability(const struct flmem_status *status, unsigned capability)
{
	return !status->cap_effective.unknown && (status->cap_effective.value >> capability & 1);
}

static int read_own_status(int rootfd, struct flmem_host_facts *facts, struct flmem_error *err)
{
	FLMEM_AUTO_BUF struct flmem_buf buf = FLMEM_BUF_INIT;
	struct flmem_status status;
	int rc = flmem_io_read_file_at(rootfd, "proc/self/status", FILE_LIMIT, &buf);

	if (rc)
		return flmem_error_set(err, FLMEM_EUNSUPPORTED, -rc,
				       "cannot read /proc/self/status; mount /proc first");
	rc = flmem_status_parse(buf.data, &status, err);
	if (rc)
		return rc;
	facts->may_trace_any = has_capability(&status, CAP_SYS_PTRACE);
	facts->may_open_any = has_capability(&status, CAP_DAC_OVERRIDE);
	facts->seccomp_mode = status.seccomp_mode;
	facts->own_user_namespace =
		is_other_namespace(rootfd, "proc/self/ns/user", FIRST_USER_NAMESPACE);
	facts->own_pid_namespace =
		is_other_namespace(rootfd, "proc/self/ns/pid", FIRST_PID_NAMESPACE);
	return 0;
}

int flmem_host_facts_read_at(int rootfd, struct flmem_host_facts *ret_facts,
			     struct flmem_error *err)
{
	struct flmem_host_facts facts = {.page_bytes = (uint64_t)sysconf(_SC_PAGESIZE)};
	struct utsname names;
	int rc = read_own_status(rootfd, &facts, err);

	if (rc)
		return rc;
	uname(&names);
	snprintf(facts.kernel, sizeof(facts.kernel), "%s", names.release);
	snprintf(facts.architecture, sizeof(facts.architecture), "%s", names.machine);
	read_meminfo(rootfd, &facts);
	read_thp(rootfd, &facts);
	facts.yama_level = read_level(rootfd, "proc/sys/kernel/yama/ptrace_scope", -1);
	/* The file has "1 1": the value in force and the pending one; the first counts. */
	facts.selinux_deny = read_level(rootfd, "sys/fs/selinux/booleans/deny_ptrace", 0) == 1;
	*ret_facts = facts;
	return 0;
}

int flmem_host_facts_read(struct flmem_host_facts *ret_facts, struct flmem_error *err)
{
	FLMEM_AUTO_CLOSE int root = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (root < 0)
		return flmem_error_set(err, FLMEM_EFAILED, errno, "cannot open '/'");
	return flmem_host_facts_read_at(root, ret_facts, err);
}

bool flmem_own_pid_namespace(void)
{
	return is_other_namespace(AT_FDCWD, "/proc/self/ns/pid", FIRST_PID_NAMESPACE);
}

static const struct {
	const char *why, *how;
} gates[] = {
#define GATE_ROW(name, why_, how_) {why_, how_},
	FLMEM_GATES(GATE_ROW)
#undef GATE_ROW
};

const char *flmem_gate_why(enum flmem_gate gate)
{
	return gates[gate].why;
}

const char *flmem_gate_how(enum flmem_gate gate)
{
	return gates[gate].how;
}

/*
 * Finds the gate of a Yama level: Documentation/admin-guide/LSM/Yama.rst. CAP_SYS_PTRACE opens
 * levels 1 and 2, not 3.
 */
static enum flmem_gate find_yama_gate(const struct flmem_host_facts *facts)
{
	if (facts->yama_level == 3)
		return FLMEM_GATE_YAMA_NOBODY;
	if (facts->may_trace_any)
		return FLMEM_GATE_OPEN;
	if (facts->yama_level == 2)
		return FLMEM_GATE_YAMA_ADMIN;
	return facts->yama_level == 1 ? FLMEM_GATE_YAMA_CHILDREN : FLMEM_GATE_OPEN;
}

enum flmem_gate flmem_gate_own(const struct flmem_host_facts *facts)
{
	return facts->selinux_deny ? FLMEM_GATE_SELINUX : find_yama_gate(facts);
}

enum flmem_gate flmem_gate_others(const struct flmem_host_facts *facts)
{
	enum flmem_gate gate = flmem_gate_own(facts);

	if (gate != FLMEM_GATE_OPEN && gate != FLMEM_GATE_YAMA_CHILDREN)
		return gate;
	return facts->may_trace_any ? FLMEM_GATE_OPEN : FLMEM_GATE_CAPABILITY;
}
