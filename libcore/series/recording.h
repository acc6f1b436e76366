/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_SERIES_RECORDING_H
#define FLMEM_SERIES_RECORDING_H

/*
 * A watch in a file, appended to as it goes on: about 7 bytes per process and sample.
 *
 * The file is a sequence of blocks: the magic "FLMB", the length and the CRC-32 of what follows (32
 * bits each, little endian), and records. A block says everything that is needed to read it, but
 * for the session and its processes, which are said again after a block could not be written, and
 * now and then: the same session or process again means nothing, unless the process is another
 * program since. So a writer that is killed loses
 * the block that it was filling, a full disk loses the blocks that did not fit, and a reader goes
 * on behind what is damaged. Nothing in the file is ever changed; when it has outgrown its budget,
 * one with coarser old samples takes its place (series/thin_job.h).
 *
 * Records are a byte for their kind and numbers, seven bits per byte, lowest first, the eighth bit
 * telling that more follow (LEB128); differences are folded to be small whatever their sign
 * (zigzag). Everything in a recording is untrusted.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <flmem/error.h>

#include "base/buf.h"

enum flmem_record_kind {
	FLMEM_RECORD_SESSION = 1, /* a watch begins */
	FLMEM_RECORD_PROCESS,	  /* one is followed from now on */
	FLMEM_RECORD_TICK,	  /* the time of the samples that follow */
	FLMEM_RECORD_SAMPLE,	  /* resident memory of a process */
	FLMEM_RECORD_SPLIT,	  /* kinds of memory of a process */
	FLMEM_RECORD_END,	  /* a process has ended */
	FLMEM_RECORD_ROUND_START,
	FLMEM_RECORD_ROUND_END,
	FLMEM_RECORD_ROUND_RUNS, /* one whose start was not seen */
	FLMEM_RECORD_ACTION,	 /* an automatic trim of a process, or a decision about them */
	FLMEM_RECORD_PRESSURE,	 /* want of memory in the control group of a process */
	FLMEM_RECORD_OWN_ROUNDS, /* a process has rounds of its own from now on */
	FLMEM_RECORD_OWN_START,
	FLMEM_RECORD_OWN_END,
};

/* Kinds of memory that a split tells, in this order; UINT64_MAX: unknown. */
enum {
	FLMEM_RECORD_ANON,
	FLMEM_RECORD_FILE,
	FLMEM_RECORD_SHMEM,
	FLMEM_RECORD_SWAP,
	FLMEM_RECORD_KINDS,
};

/* The numbers of an action, UINT64_MAX: unknown. */
enum {
	FLMEM_RECORD_EVERY,
	FLMEM_RECORD_ROUND,
	FLMEM_RECORD_BEFORE,
	FLMEM_RECORD_AFTER,
	FLMEM_RECORD_RELEASED,
	FLMEM_RECORD_STOPPED,
	FLMEM_RECORD_OF_ACTION,
};

/* Those of a pressure. */
enum {
	FLMEM_RECORD_HIGH,
	FLMEM_RECORD_MAX,
	FLMEM_RECORD_OOM,
	FLMEM_RECORD_OOM_KILL,
	FLMEM_RECORD_SOME,
	FLMEM_RECORD_FULL,
	FLMEM_RECORD_TOTAL,
	FLMEM_RECORD_NUMBERS,
};

#define FLMEM_RECORD_TEXT_MAX 4096U

/* Processes of one session; each has a number below this. */
#define FLMEM_RECORD_PROCESSES_MAX 65536U

struct flmem_record {
	enum flmem_record_kind kind;
	bool of_host;	      /* of pressures: the stalls are the host's */
	uint64_t elapsed_us;  /* since the session began; of ticks and sessions, whole ms */
	uint64_t at_us;	      /* since 1970; of ticks and sessions, whole ms */
	uint64_t interval_us; /* of sessions */
	uint64_t process;     /* number within the session; of all that tell of a process */
	uint64_t pid, start_time, framework, role; /* of processes */
	const char *command; /* of processes; a reader's lives until its next record */
	const char *site;    /* of processes; "": none */
	uint64_t bytes;	     /* of samples */
	uint64_t kinds[FLMEM_RECORD_KINDS];	/* of splits */
	uint64_t round;				/* of rounds */
	uint64_t action;			/* of actions: kind */
	uint64_t numbers[FLMEM_RECORD_NUMBERS]; /* of actions and pressures */
	const char *reason; /* of actions; a reader's lives until its next record */
};

/*
 * What a recording may take for each process of it. A month of samples a second apart, 7 bytes
 * each, stays as it is; noisier ones get coarser earlier. With the thinned file beside it, which
 * takes some more than half, a process never takes 50 MB.
 */
#define FLMEM_RECORDING_BUDGET (UINT64_C(24) << 20)

struct flmem_recorder {
	int fd;
	char *path;			 /* absolute; NULL: it cannot be told, and is not thinned */
	uint64_t budget;		 /* bytes per process; 0: any */
	uint64_t thin_at;		 /* size at which it is to be thinned */
	struct flmem_thin_job *thinning; /* NULL: none runs */
	uint64_t size;			 /* of the file */
	uint64_t blocks;		 /* flushed */
	uint64_t lost;			 /* blocks that could not be written */
	int error;			 /* errno of the last that was lost */
	struct flmem_buf block;		 /* its records */
	struct flmem_buf intro;		 /* session and processes, to be said again after a loss */
	bool introduced;		 /* `intro` need not be said again */
	uint64_t met;			 /* processes with a number below it may be in `intro` */
	bool ticked;			 /* the block has a tick already */
	uint64_t elapsed_ms, at_ms;	 /* of the last tick in the block */
	uint64_t *pages;		 /* last sample of each process in the block; 0: none yet */
	size_t page_count;
};

/*
 * Opens or creates the file to append to it. FLMEM_EUSAGE for a file that is no recording, for a
 * link, and when another process is writing to it; FLMEM_EPERM for one of another user.
 */
int flmem_recorder_open(const char *path, struct flmem_recorder *ret_recorder,
			struct flmem_error *err);

/* Creates the file, and never opens one that is there. Negative errno. */
int flmem_recorder_open_new(int directory, const char *name, struct flmem_recorder *ret_recorder);

/* Whether the file is this user's, has no other name, and holds a recording or nothing. */
bool flmem_recorder_may_drop(int directory, const char *name);

/* Writes what is left. */
void flmem_recorder_close(struct flmem_recorder *recorder);

/* Adds a record. Samples and splits belong to the last tick. */
void flmem_recorder_add(struct flmem_recorder *recorder, const struct flmem_record *record);

/* Writes the block so far. What cannot be written is lost and counted; the next one is tried. */
void flmem_recorder_flush(struct flmem_recorder *recorder);

struct flmem_recording {
	int fd;
	uint64_t left;		  /* bytes of the file that may still be read */
	uint64_t skipped;	  /* bytes that belong to no whole block */
	struct flmem_buf bytes;	  /* of the file, from `offset` on */
	size_t at;		  /* of the next block in them */
	bool ended;		  /* all of the file is in them */
	size_t record, block_end; /* of the next record and the end of its block, in them */
	uint64_t budget;	  /* bytes that sums may still be taken of in vain */
	bool ticked;
	uint64_t elapsed_ms, at_ms;
	uint64_t *pages;
	size_t page_count;
	char command[FLMEM_RECORD_TEXT_MAX], site[FLMEM_RECORD_TEXT_MAX]; /* of the last record */
	char reason[FLMEM_RECORD_TEXT_MAX];
};

/* Whether a file that may be read begins as a recording does. */
bool flmem_recording_is_one(const char *path);

/* FLMEM_EUSAGE for a file that is no recording, FLMEM_EPERM when it may not be read. */
int flmem_recording_open(const char *path, struct flmem_recording *ret_recording,
			 struct flmem_error *err);

/* The same from memory, which is copied. */
int flmem_recording_open_bytes(const void *bytes, size_t length,
			       struct flmem_recording *ret_recording, struct flmem_error *err);

/* An unopened one, that may be closed. */
#define FLMEM_RECORDING_INIT                      \
	{                                         \
		.fd = -1, .bytes = FLMEM_BUF_INIT \
	}

/* Reads no further than `size` bytes into the file; to be said before anything is read. */
void flmem_recording_limit(struct flmem_recording *recording, uint64_t size);

void flmem_recording_close(struct flmem_recording *recording);

/* The next record; false at the end. Damaged blocks are skipped, and what damaged ones hold. */
bool flmem_recording_next(struct flmem_recording *recording, struct flmem_record *ret_record);

#endif
