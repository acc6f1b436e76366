/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measures from inside the target what a trim does to its threads; loaded by target.py. None of
 * these threads allocates memory or runs Python.
 *
 * - The spinner reads the clock all the time; its longest gap is how long it did not run.
 * - The watchmen wait in read(2) on a pipe each, so that they are the idlest threads there are and
 *   one of them is borrowed. The observer reads that one in /proc every 20 us, and sends it a
 *   byte when it sleeps elsewhere than in its read. The time from the last look
 *   that found it in its read to its answer is how long it did not run its program, by clocks of
 *   this process alone. So what the observer itself misses makes the time longer, never shorter.
 *   It sleeps between two looks: one that spins would need a processor, and with flmem and the
 *   borrowed thread there would be more to run than two processors can.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define WATCHMEN_MAX 32
#define IDLE_MS	     200 /* a timeout makes flmem prefer other threads to these */
#define NAP_NS	     50000
#define LOOK_NS	     20000

/* A thread that works between two calls of the target's main thread. */
struct worker {
	pthread_t thread;
	int wake; /* eventfd */
	atomic_bool wanted;
	atomic_bool working;
};

struct watchman {
	pthread_t thread;
	atomic_int tid;
	int pipe[2];
	atomic_uint_fast64_t answered_ns;
};

static struct worker spinner, observer;
static struct watchman watchmen[WATCHMEN_MAX];
static atomic_uint_fast64_t longest_gap_ns;
static atomic_uint_fast64_t away_ns;
static struct watchman *watched_one;
static int usual_policy;
static struct sched_param usual_param;

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000U + (uint64_t)now.tv_nsec;
}

static void nap(long ns)
{
	const struct timespec time = {.tv_nsec = ns};

	nanosleep(&time, NULL);
}

static void wait_until_wanted(struct worker *worker)
{
	struct pollfd wake = {.fd = worker->wake, .events = POLLIN};
	uint64_t count;

	while (!atomic_load(&worker->wanted))
		if (poll(&wake, 1, IDLE_MS) > 0 && read(worker->wake, &count, sizeof(count)) < 0)
			continue;
}

static void begin(struct worker *worker)
{
	uint64_t one = 1;

	atomic_store(&worker->wanted, true);
	while (write(worker->wake, &one, sizeof(one)) < 0 && errno == EINTR)
		;
	while (!atomic_load(&worker->working))
		nap(NAP_NS);
}

static void end(struct worker *worker)
{
	atomic_store(&worker->wanted, false);
	while (atomic_load(&worker->working))
		nap(NAP_NS);
}

static void *spin(void *unused)
{
	uint64_t last, now, longest;

	(void)unused;
	for (;;) {
		wait_until_wanted(&spinner);
		atomic_store(&spinner.working, true);
		longest = 0;
		last = now_ns();
		while (atomic_load_explicit(&spinner.wanted, memory_order_relaxed)) {
			now = now_ns();
			if (now - last > longest)
				longest = now - last;
			last = now;
		}
		atomic_store(&longest_gap_ns, longest);
		atomic_store(&spinner.working, false);
	}
	return NULL;
}

static void *be_watchman(void *argument)
{
	struct watchman *self = argument;
	char byte;

	atomic_store(&self->tid, (int)syscall(SYS_gettid));
	for (;;)
		if (read(self->pipe[0], &byte, 1) == 1)
			atomic_store(&self->answered_ns, now_ns());
	return NULL;
}

/* Reads where in the kernel a thread sleeps, from /proc: "0" when it does not sleep. */
static void read_place(int fd, char place[64])
{
	ssize_t got = pread(fd, place, 63, 0);

	place[got > 0 ? got : 0] = '\0';
}

/*
 * Watches one thread. The byte is sent only once the thread sleeps elsewhere than in its read: a
 * byte sent while it is on its way out would end the read, and flmem would take another thread.
 */
static void watch_one(struct watchman *watched, int fd)
{
	uint64_t left_ns = now_ns(), looked_ns;
	char place[64], reading[64];
	bool away = false;

	read_place(fd, reading);
	while (!away && atomic_load(&observer.wanted)) {
		looked_ns = now_ns();
		read_place(fd, place);
		if (strcmp(place, reading) == 0)
			left_ns = looked_ns;
		else
			away = strcmp(place, "0") != 0;
		if (!away)
			nap(LOOK_NS);
	}
	if (!away)
		return;
	while (write(watched->pipe[1], "", 1) < 0 && errno == EINTR)
		;
	while (!atomic_load(&watched->answered_ns))
		nap(NAP_NS);
	atomic_store(&away_ns, atomic_load(&watched->answered_ns) - left_ns);
}

/*
 * Gives the observer priority where that is allowed, so that it is on time; it needs little of a
 * processor.
 */
static void come_first(void)
{
	const struct sched_param first = {.sched_priority = 4};

	prctl(PR_SET_TIMERSLACK, 1UL);
	pthread_setschedparam(pthread_self(), SCHED_FIFO, &first);
}

static void *observe(void *unused)
{
	char path[64];
	int fd;

	(void)unused;
	come_first();
	for (;;) {
		wait_until_wanted(&observer);
		snprintf(path, sizeof(path), "/proc/self/task/%d/wchan",
			 atomic_load(&watched_one->tid));
		fd = open(path, O_RDONLY | O_CLOEXEC);
		atomic_store(&observer.working, true);
		if (fd >= 0)
			watch_one(watched_one, fd);
		close(fd);
		while (atomic_load(&observer.wanted))
			nap(NAP_NS);
		atomic_store(&observer.working, false);
	}
	return NULL;
}

static int start_worker(struct worker *worker, void *(*body)(void *))
{
	worker->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	return worker->wake < 0 ? errno : pthread_create(&worker->thread, NULL, body, NULL);
}

/* Starts the threads; returns 0 or an errno. */
int gauge_start(int watchmen_wanted)
{
	int rc = pthread_getschedparam(pthread_self(), &usual_policy, &usual_param);

	if (!rc)
		rc = start_worker(&spinner, spin);
	if (!rc)
		rc = start_worker(&observer, observe);
	for (int i = 0; i < watchmen_wanted && i < WATCHMEN_MAX && !rc; i++) {
		struct watchman *watchman = &watchmen[i];

		rc = pipe2(watchman->pipe, O_CLOEXEC) < 0
			     ? errno
			     : pthread_create(&watchman->thread, NULL, be_watchman, watchman);
		while (!rc && !atomic_load(&watchman->tid))
			nap(NAP_NS);
	}
	return rc;
}

/*
 * Starts the spinner. At realtime no other program's work counts as a gap; returns 0 or an errno.
 */
int gauge_spin(int realtime)
{
	/* Above the priority of `run --realtime`. */
	const struct sched_param above = {.sched_priority = 3};
	int rc = pthread_setschedparam(spinner.thread, realtime ? SCHED_FIFO : usual_policy,
				       realtime ? &above : &usual_param);

	if (!rc)
		begin(&spinner);
	return rc;
}

/* Returns the longest gap since gauge_spin(). */
uint64_t gauge_spun_ns(void)
{
	end(&spinner);
	return atomic_load(&longest_gap_ns);
}

/* Begins to observe a watchman; returns 0, or ESRCH when this is not the id of a watchman. */
int gauge_watch(int tid)
{
	for (int i = 0; i < WATCHMEN_MAX; i++) {
		if (!watchmen[i].tid || watchmen[i].tid != tid)
			continue;
		watched_one = &watchmen[i];
		atomic_store(&watchmen[i].answered_ns, 0);
		atomic_store(&away_ns, 0);
		begin(&observer);
		return 0;
	}
	return ESRCH;
}

/*
 * Returns how long the watchman did not run its program since gauge_watch(), 0 when it always did.
 */
uint64_t gauge_watched_ns(void)
{
	end(&observer);
	return atomic_load(&away_ns);
}
