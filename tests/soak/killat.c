/* SPDX-License-Identifier: Apache-2.0 */
/*
 * killat STOP PROGRAM [ARGS]: kills PROGRAM with SIGKILL at one exact place: its STOP-th stop at a
 * system call, counted from the first ptrace() or pwrite() of one of its threads on and in that
 * thread alone, or, when it has ended, in the next that does so, entry and exit being two stops.
 * Prints
 * `killed NUMBER` with the number of that system call, or, when the program ends before,
 * `ended STATUS STOPS TOUCHES`: its exit status, the stops that there were, and how many of its
 * system calls could have changed another process. STOP 0 never kills.
 *
 * killat --hold WAY STOP PROGRAM [ARGS]: holds it there instead, at the STOP-th end of a system
 * call, and lets go of it as a tracer. WAY: `stop` (SIGSTOP), `tstp` (SIGTSTP, which it may put
 * off), or a cgroup, which is frozen. Once it stands it prints `held NUMBER PID THREAD`, THREAD
 * being what PROGRAM itself holds as a tracer just then, or 0; when a line has come on standard
 * input it lets it go on and prints `ended` as above.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/ptrace.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

/* <sys/ptrace.h> and <linux/ptrace.h> exclude each other in older C libraries. */
long ptrace(int request, ...);

#define OPTIONS \
	(PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL | PTRACE_O_TRACECLONE | PTRACE_O_TRACESECCOMP)
#define THREADS_MAX 64
#define SYSCALL_BIT 0x80

static _Noreturn void die(const char *what)
{
	fprintf(stderr, "killat: %s: %s\n", what, strerror(errno));
	exit(2);
}

/*
 * Whether a filter stops the program at ptrace() and pwrite() alone: most of its system calls are
 * before the first of these, and need no stop.
 */
static bool *filtered;

static int filter_install(const struct sock_fprog *program)
{
	return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, program);
}

static bool filter_calls(void)
{
	struct sock_filter steps[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_ptrace, 1, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_pwrite64, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRACE),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {.len = sizeof(steps) / sizeof(*steps), .filter = steps};

	if (filter_install(&program) == 0)
		return true;
	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && filter_install(&program) == 0;
}

/*
 * Starts the program in a separate group, so that SIGTSTP stops it. The program ends with this one,
 * also when stopped. A filter would refuse the calls of a program that is no longer traced.
 */
static pid_t start(char **argv, bool let_go)
{
	pid_t pid;

	filtered = mmap(NULL, sizeof(*filtered), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
			-1, 0);
	if (filtered == MAP_FAILED)
		die("mmap");
	pid = fork();
	if (pid < 0 || !argv[0])
		die("fork");
	if (pid == 0) {
		setpgid(0, 0);
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		*filtered = !let_go && filter_calls();
		raise(SIGSTOP);
		execv(argv[0], argv);
		_exit(127);
	}
	return pid;
}

/* Seizes the program, so that its threads can be stopped and released at any moment. */
static void seize(pid_t pid)
{
	int status;

	if (waitpid(pid, &status, WUNTRACED) != pid || !WIFSTOPPED(status))
		die("the program did not start");
	if (ptrace(PTRACE_SEIZE, pid, NULL, (void *)OPTIONS) != 0)
		die("PTRACE_SEIZE");
	if (kill(pid, SIGCONT) != 0 || waitpid(pid, &status, __WALL) != pid || !WIFSTOPPED(status))
		die("the program does not go on");
}

/* The threads of the program that are traced, the first of them its main thread. */
static pid_t threads[THREADS_MAX];
static size_t thread_count;

static bool is_known(pid_t tid)
{
	for (size_t i = 0; i < thread_count; i++)
		if (threads[i] == tid)
			return true;
	return false;
}

static bool know_thread(pid_t tid)
{
	if (is_known(tid))
		return true;
	if (thread_count < THREADS_MAX)
		threads[thread_count++] = tid;
	return false;
}

static void forget_thread(pid_t tid)
{
	for (size_t i = 0; i < thread_count; i++)
		if (threads[i] == tid)
			threads[i] = threads[--thread_count];
}

/*
 * Continues a thread. COUNTED: stop at each of its system calls, not only at those that the filter
 * stops.
 */
static void go_on(pid_t tid, bool counted, int deliver)
{
	int request = counted || !*filtered ? PTRACE_SYSCALL : PTRACE_CONT;

	/* A thread that has ended meanwhile is reported by the next wait. */
	if (ptrace(request, tid, NULL, (void *)(intptr_t)deliver) != 0 && errno != ESRCH)
		die("PTRACE_SYSCALL");
}

/* Waits for the next stop of any thread; 0 when the program has ended, with its status. */
static pid_t next_stop(pid_t pid, int *ret_status)
{
	for (;;) {
		pid_t tid = waitpid(-1, ret_status, __WALL);

		if (tid < 0)
			die("waitpid");
		if (WIFSTOPPED(*ret_status))
			return tid;
		forget_thread(tid);
		if (tid == pid)
			return 0;
	}
}

static bool is_touch(uint64_t number)
{
	return number == SYS_ptrace || number == SYS_pwrite64 || number == SYS_process_vm_writev ||
	       number == SYS_process_madvise || number == SYS_kill || number == SYS_tgkill ||
	       number == SYS_pidfd_send_signal;
}

struct count {
	pid_t tid; /* the thread that traces, once there is one */
	bool exits_only;
	bool at_exit;
	long stops;
	long touches;
	uint64_t number; /* number of the system call */
	uint64_t args[2];
	uint64_t stopped; /* the thread that the program has seized and not released, or 0 */
};

/*
 * Follows which thread the program holds. From PTRACE_INTERRUPT on, and once seized also from a
 * signal on, a thread does not run its program; only detaching ends that.
 */
static void follow_ptrace(struct count *count, bool failed)
{
	if (count->number != SYS_ptrace)
		return;
	if ((count->args[0] == PTRACE_SEIZE || count->args[0] == PTRACE_INTERRUPT) && !failed)
		count->stopped = count->args[1];
	else if (count->args[0] == PTRACE_DETACH)
		count->stopped = 0;
}

/* True before a system call, also where the filter and the syscall stop report it. */
static bool is_entry(const struct ptrace_syscall_info *info)
{
	return info->op == PTRACE_SYSCALL_INFO_ENTRY || info->op == PTRACE_SYSCALL_INFO_SECCOMP;
}

/* True when the stop is at a system call that counts. */
static bool count_stop(pid_t tid, struct count *count)
{
	struct ptrace_syscall_info info;

	if (count->tid && count->tid != tid && is_known(count->tid))
		return false;
	if (ptrace(PTRACE_GET_SYSCALL_INFO, tid, sizeof(info), &info) <= 0) {
		/* Another thread has ended the program since this one stopped. */
		if (errno == ESRCH)
			return false;
		die("PTRACE_GET_SYSCALL_INFO");
	}
	if (count->tid != tid &&
	    (!is_entry(&info) || (info.entry.nr != SYS_ptrace && info.entry.nr != SYS_pwrite64)))
		return false;
	if (count->tid != tid)
		count->stopped = 0; /* the end of a thread releases what it has seized */
	count->tid = tid;
	count->at_exit = info.op == PTRACE_SYSCALL_INFO_EXIT;
	if (is_entry(&info)) {
		count->number = info.entry.nr;
		memcpy(count->args, info.entry.args, sizeof(count->args));
		count->touches += is_touch(info.entry.nr);
	} else if (count->at_exit) {
		follow_ptrace(count, info.exit.is_error);
	}
	if (count->exits_only && !count->at_exit)
		return false;
	count->stops++;
	return true;
}

/*
 * Runs the program to its stop number `wanted`; false when it has ended before, with its wait
 * status.
 */
static bool run_to(pid_t pid, long wanted, struct count *count, int *ret_status)
{
	pid_t tid = pid;
	int deliver = 0;

	for (;;) {
		int signal_number;

		go_on(tid, tid == count->tid, deliver);
		tid = next_stop(pid, ret_status);
		if (!tid)
			return false;
		signal_number = WSTOPSIG(*ret_status);
		deliver = 0;
		if (!know_thread(tid) && signal_number == SIGSTOP)
			continue; /* its first stop */
		if (signal_number != (SIGTRAP | SYSCALL_BIT) &&
		    (*ret_status >> 16 != PTRACE_EVENT_SECCOMP || tid == count->tid)) {
			deliver = signal_number == SIGTRAP ? 0 : signal_number;
			continue;
		}
		if (count_stop(tid, count) && count->stops == wanted)
			return true;
	}
}

static void tell_end(const struct count *count, int status)
{
	printf("ended %d %ld %ld\n", WIFEXITED(status) ? WEXITSTATUS(status) : -1, count->stops,
	       count->touches);
}

static void kill_it(pid_t pid, const struct count *count)
{
	int status;

	kill(pid, SIGKILL);
	while (waitpid(-1, &status, __WALL) > 0)
		continue;
	printf("killed %llu\n", (unsigned long long)count->number);
}

/* Writes a word into a file of the cgroup; -1 when there is no such file. */
static int cgroup_write(const char *cgroup, const char *name, const char *word)
{
	char path[512];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", cgroup, name);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	if (write(fd, word, strlen(word)) < 0)
		die(path);
	close(fd);
	return 0;
}

static bool cgroup_is_frozen(const char *cgroup)
{
	char path[512];
	char text[256] = "";
	int fd;

	snprintf(path, sizeof(path), "%s/freezer.state", cgroup);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0) {
		snprintf(path, sizeof(path), "%s/cgroup.events", cgroup);
		fd = open(path, O_RDONLY | O_CLOEXEC);
	}
	if (fd < 0 || read(fd, text, sizeof(text) - 1) < 0)
		die(path);
	close(fd);
	return strstr(text, "FROZEN") || strstr(text, "frozen 1");
}

static void cgroup_join(const char *cgroup, pid_t pid)
{
	char text[16];

	snprintf(text, sizeof(text), "%d", (int)pid);
	if (cgroup_write(cgroup, "cgroup.procs", text) != 0)
		die(cgroup);
}

/* Version 1 of cgroups has the one file, version 2 the other. */
static void cgroup_freeze(const char *cgroup, bool frozen)
{
	if (cgroup_write(cgroup, "freezer.state", frozen ? "FROZEN" : "THAWED") != 0 &&
	    cgroup_write(cgroup, "cgroup.freeze", frozen ? "1" : "0") != 0)
		die(cgroup);
}

/* Returns the signal that stops it, or 0 for a cgroup. */
static int signal_of(const char *way)
{
	return strcmp(way, "stop") == 0 ? SIGSTOP : strcmp(way, "tstp") == 0 ? SIGTSTP : 0;
}

/* Detaches all other threads, which are stopped for that; a signal that arrives is passed on. */
static void let_go_of_others(pid_t tid)
{
	for (size_t i = 0; i < thread_count; i++) {
		int status, deliver;

		if (threads[i] == tid)
			continue;
		ptrace(PTRACE_INTERRUPT, threads[i], NULL, NULL);
		if (waitpid(threads[i], &status, __WALL) != threads[i] || !WIFSTOPPED(status))
			continue;
		deliver = WSTOPSIG(status) & SYSCALL_BIT || status >> 16 ? 0 : WSTOPSIG(status);
		if (ptrace(PTRACE_DETACH, threads[i], NULL, (void *)(intptr_t)deliver) != 0)
			die("PTRACE_DETACH");
	}
}

/* Waits until the program is stopped; false when it has ended instead. */
static bool let_stand(pid_t pid, pid_t tid, const char *way, int *ret_status)
{
	int number = signal_of(way);

	let_go_of_others(tid);
	if (!number)
		cgroup_freeze(way, true);
	if (ptrace(PTRACE_DETACH, tid, NULL, (void *)(intptr_t)number) != 0)
		die("PTRACE_DETACH");
	if (number)
		return waitpid(pid, ret_status, WUNTRACED) == pid && WIFSTOPPED(*ret_status);
	while (!cgroup_is_frozen(way)) {
		if (waitpid(pid, ret_status, WNOHANG) == pid)
			return false;
		usleep(1000);
	}
	return true;
}

static void hold_it(pid_t pid, const char *way, const struct count *count)
{
	char line[16];
	int status;

	if (let_stand(pid, count->tid, way, &status)) {
		printf("held %llu %d %llu\n", (unsigned long long)count->number, (int)pid,
		       (unsigned long long)count->stopped);
		fflush(stdout);
		if (!fgets(line, sizeof(line), stdin))
			fprintf(stderr, "killat: nobody let it go on\n");
		if (signal_of(way))
			kill(pid, SIGCONT);
		else
			cgroup_freeze(way, false);
		if (waitpid(pid, &status, 0) != pid)
			die("waitpid");
	}
	tell_end(count, status);
}

static long read_stop(const char *text)
{
	char *end = NULL;
	long stop = text ? strtol(text, &end, 10) : -1;

	if (stop >= 0 && end != text && !*end)
		return stop;
	fprintf(stderr, "usage: killat [--hold WAY] STOP PROGRAM [ARGS]\n");
	exit(2);
}

int main(int argc, char **argv)
{
	const char *way = argc > 4 && strcmp(argv[1], "--hold") == 0 ? argv[2] : NULL;
	char **rest = argv + (way ? 3 : 1);
	long stop = read_stop(argc > 2 ? rest[0] : NULL);
	struct count count = {.exits_only = way != NULL};
	int status;
	pid_t pid = start(rest + 1, way != NULL);

	seize(pid);
	if (way && !signal_of(way))
		cgroup_join(way, pid);
	if (!run_to(pid, stop, &count, &status))
		tell_end(&count, status);
	else if (way)
		hold_it(pid, way, &count);
	else
		kill_it(pid, &count);
	return 0;
}
