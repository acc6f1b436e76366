/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_PRELOAD_SAMPLER_STATE_H
#define FLMEM_PRELOAD_SAMPLER_STATE_H

/*
 * Describes the state that a sampler exposes to a flmem that reads the memory of its process, under
 * the name flmem_sampler_state. A reader must not trust it. In a child of fork() it is all zeros.
 */

#include <stdint.h>

#define FLMEM_SAMPLER_STATE_SYMBOL  "flmem_sampler_state"
#define FLMEM_SAMPLER_STATE_MAGIC   UINT64_C(0x3153504d4153464c)
#define FLMEM_SAMPLER_STATE_VERSION 1U
#define FLMEM_SAMPLER_STATE_PATH    4096U

/*
 * This symbol is the function that executes an order: void (const char *order, char *answer). flmem
 * calls it in its own thread, without the lock of an interpreter.
 */
#define FLMEM_SAMPLER_ORDER_SYMBOL "flmem_sampler_order"
#define FLMEM_SAMPLER_ORDER_ATTACH "attach " /* the path of the profile follows */
#define FLMEM_SAMPLER_ORDER_DETACH "detach"
#define FLMEM_SAMPLER_DONE	   "flmem: ok"
#define FLMEM_SAMPLER_REFUSED	   "flmem: refused " /* the reason follows */
#define FLMEM_SAMPLER_ANSWER_MAX   512U

/*
 * The socket of `flmem start --profile-socket` takes the same orders, and one more: SOCK_SEQPACKET,
 * one order and one answer to a connection. It has a path, so that the permissions of a directory
 * decide which users may connect: an abstract name could be taken and be connected to by everybody,
 * and means another process in each container that shares the network. The directory is in the root
 * of the process, has mode 0700, and the effective user id (as the process sees it) in its name.
 * The socket is named by the inode of the PID namespace and the PID in it, so that containers may
 * share the directory.
 */
#define FLMEM_SAMPLER_SOCKET_DIRECTORY "/tmp/flmem-"
#define FLMEM_SAMPLER_SOCKET_NAME      "sampler-" /* two numbers follow, with "-" between them */
#define FLMEM_SAMPLER_SOCKET_NAME_MAX  64U
#define FLMEM_SAMPLER_ORDER_STATE      "state" /* the answer is a struct flmem_sampler_state */
#define FLMEM_SAMPLER_ORDER_MAX	       (sizeof(FLMEM_SAMPLER_ORDER_ATTACH) + 4096U)

/*
 * This environment variable says whether a process creates a socket, and which seccomp filters it
 * may have.
 */
#define FLMEM_SAMPLER_SOCKET_VARIABLE	"FLMEM_PROFILE_SOCKET"
#define FLMEM_SAMPLER_SOCKET_UNFILTERED "unfiltered" /* a socket only without filters */
#define FLMEM_SAMPLER_SOCKET_ASSUMED	"assume-seccomp"

/* X(identifier, number, name) */
#define FLMEM_SAMPLER_PHASES(X)      \
	X(IDLE, 0, "idle")           \
	X(ATTACHING, 1, "attaching") \
	X(SAMPLING, 2, "sampling")   \
	X(DETACHING, 3, "detaching")

enum flmem_sampler_phase {
#define FLMEM_SAMPLER_ROW(identifier, number, name) FLMEM_SAMPLER_##identifier = (number),
	FLMEM_SAMPLER_PHASES(FLMEM_SAMPLER_ROW)
#undef FLMEM_SAMPLER_ROW
};

/* These counts are of entries in the tables of loaded objects that name an allocator function. */
struct flmem_sampler_entries {
	uint64_t redirected;
	uint64_t fixed; /* pointers in data, which are not changed */
	/* Entries that lead to another function, of another tool or allocator. */
	uint64_t elsewhere;
	uint64_t unresolved; /* entries that are not bound yet, where the function is not certain */
	uint64_t locked;     /* entries whose page could not be made writable */
	uint64_t objects;    /* number of objects that have entries */
	uint64_t still_loading; /* objects that were being loaded at that moment */
};

/*
 * A sampler's file has these read-only contents under this name, which identify it: another library
 * may have a symbol of the same name, and a malloc() that does not forward calls.
 */
#define FLMEM_SAMPLER_MARK_SYMBOL "flmem_sampler_mark"
#define FLMEM_SAMPLER_MARK	  "flmem heap sampler: forwards each call to the next allocator"

/* X(identifier, why there is no socket) */
#define FLMEM_SAMPLER_SOCKET_STAGES(X)                                                            \
	X(UNASKED, "the process was not asked for one")                                           \
	X(STARTING, "its thread has not made it yet")                                             \
	X(LISTENING, "its socket was removed, or is in another directory")                        \
	X(FILTERED, "seccomp filters may forbid it")                                              \
	X(NO_THREAD, "the process could not start a thread for it")                               \
	X(NO_TABLE, "its thread could not have its own descriptors (Linux 5.9)")                  \
	X(NO_DIRECTORY, "the process could not make the directory for it")                        \
	X(FOREIGN_DIRECTORY, "the directory for it belongs to another user, or others may enter " \
			     "it")                                                                \
	X(NO_SOCKET, "the process could not make it")                                             \
	X(NOT_ALONE, "the process has another sampler, as that of flmem profile run")

enum flmem_sampler_socket_stage {
#define FLMEM_SAMPLER_ROW(identifier, why) FLMEM_SAMPLER_SOCKET_##identifier,
	FLMEM_SAMPLER_SOCKET_STAGES(FLMEM_SAMPLER_ROW)
#undef FLMEM_SAMPLER_ROW
	FLMEM_SAMPLER_SOCKET_STAGE_COUNT
};

/* If flmem may read the memory, this symbol shows why a process has no socket. */
#define FLMEM_SAMPLER_SOCKET_SYMBOL "flmem_sampler_socket"
#define FLMEM_SAMPLER_SOCKET_MAGIC  UINT64_C(0x4b4353504d4c4653)

struct flmem_sampler_socket {
	uint64_t magic;
	uint32_t stage; /* enum flmem_sampler_socket_stage */
	uint32_t error; /* errno, or 0 */
	/* PID as the process sees it, or 0. A child of fork() has that of its parent. */
	uint32_t process;
};

struct flmem_sampler_state {
	uint64_t magic;
	uint32_t version;
	uint32_t phase;	    /* enum flmem_sampler_phase */
	uint32_t preloaded; /* the program calls the sampler without redirected entries */
	uint32_t inside;    /* number of calls that use the profile now */
	struct flmem_sampler_entries entries;
	char path[FLMEM_SAMPLER_STATE_PATH]; /* path of the profile, as the process names it */
};

#endif
