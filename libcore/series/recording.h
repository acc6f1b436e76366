/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_SERIES_RECORDING_H
#define FLMEM_SERIES_RECORDING_H

/*
 * A watch recorded in a file to which it appends: about 7 bytes per process and sample.
 *
 * The file is a sequence of blocks: the magic "FLMB", the length and the CRC-32 of what follows (32
 * bits each, little endian), and records. A block can be read by itself, except for the session and
 * its processes, which are repeated after a failed write and at intervals: a repeated session or
 * process is ignored, unless the process has since executed another program. So a killed writer
 * loses only its current block, a full disk loses the blocks that did not fit, and a reader
 * continues after damaged blocks. The file is never changed in place; when it exceeds its budget, a
 * file with coarser old samples replaces it (series/downsample_job.h).
 *
 * Records are a byte for their kind and numbers, seven bits per byte, lowest first, the eighth bit
 * set if more follow (LEB128); signed differences use zigzag encoding. Everything in a recording is
 * untrusted.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <flmem/error.h>

#include "base/text/buf.h"
#include "series/last_samples.h"

enum flmem_record_kind {
	FLMEM_RECORD_SESSION = 1, /* a watch begins */
	FLMEM_RECORD_PROCESS,	  /* a process is watched from now on */
	FLMEM_RECORD_TICK,	  /* the time of the samples that follow */
	FLMEM_RECORD_SAMPLE,	  /* resident memory of a process */
	FLMEM_RECORD_SPLIT,	  /* kinds of memory of a process */
	FLMEM_RECORD_END,	  /* a process has ended */
	FLMEM_RECORD_ROUND_START,
	FLMEM_RECORD_ROUND_END,
	FLMEM_RECORD_ROUND_RUNS, /* a round that runs, whose start was not seen */
	/* An automatic trim of a process, or a decision about automatic trims. */
	FLMEM_RECORD_ACTION,
	FLMEM_RECORD_PRESSURE,	 /* memory pressure in the control group of a process */
	FLMEM_RECORD_OWN_ROUNDS, /* a process has its own rounds from now on */
	FLMEM_RECORD_OWN_START,
	FLMEM_RECORD_OWN_END,
};

/* Kinds of memory in a split, in this order; UINT64_MAX: unknown. */
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

/* The numbers of a record about pressure. */
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

/* Limit of processes of one session; each has a number below it. */
#define FLMEM_RECORD_PROCESSES_MAX 65536U

struct flmem_record {
	enum flmem_record_kind kind;
	bool of_host;	      /* for pressures: the stalls are the host's */
	uint64_t elapsed_us;  /* time since the session began; for ticks and sessions, whole ms */
	uint64_t at_us;	      /* time since 1970; for ticks and sessions, whole ms */
	uint64_t interval_us; /* for sessions */
	uint64_t process;     /* number within the session; for all records about a process */
	uint64_t pid, start_time, framework, role; /* for processes */
	/* For processes; valid until the reader's next record. */
	const char *command;
	const char *site;			/* for processes; "": none */
	uint64_t bytes;				/* for samples */
	uint64_t kinds[FLMEM_RECORD_KINDS];	/* for splits */
	uint64_t round;				/* for rounds */
	uint64_t action;			/* for actions: the kind */
	uint64_t numbers[FLMEM_RECORD_NUMBERS]; /* for actions and pressures */
	const char *reason; /* for actions; valid until the reader's next record */
};

/*
 * Limit of a recording's size per process. A month of samples at intervals of a second, 7 bytes
 * each, is not thinned; noisier ones are thinned earlier. Together with the thinned file, of a
 * little more than half that size, a process never needs 50 MB.
 */
#define FLMEM_RECORDING_BUDGET (UINT64_C(24) << 20)

struct flmem_recorder {
	int fd;
	/* Absolute path; NULL: unknown, so the file is not thinned. */
	char *path;
	uint64_t budget;		       /* bytes per process; 0: unlimited */
	uint64_t thin_at;		       /* size at which the file is thinned */
	struct flmem_downsample_job *thinning; /* NULL: none runs */
	uint64_t size;			       /* size of the file */
	uint64_t blocks;		       /* number of blocks flushed */
	uint64_t lost;			       /* number of blocks that could not be written */
	int error;			       /* errno of the last lost block */
	struct flmem_buf block;		       /* records of the current block */
	struct flmem_buf intro;		/* session and processes, repeated after a lost block */
	bool introduced;		/* `intro` need not be repeated */
	uint64_t met;			/* processes with a lower number may be in `intro` */
	bool ticked;			/* the block has a tick already */
	uint64_t elapsed_ms, at_ms;	/* times of the last tick in the block */
	struct flmem_last_samples last; /* last samples in the block */
};

/*
 * Opens or creates the file to append to it. FLMEM_EUSAGE for a file that is not a recording, for a
 * link, and while another process writes to it; FLMEM_EPERM for a file of another user.
 */
int flmem_recorder_open(const char *path, struct flmem_recorder *ret_recorder,
			struct flmem_error *err);

/* Creates the file exclusively. Negative errno. */
int flmem_recorder_open_new(int directory, const char *name, struct flmem_recorder *ret_recorder);

/* Reports whether the file is this user's, has no other name, and holds a recording or nothing. */
bool flmem_recorder_may_drop(int directory, const char *name);

/* Writes the pending records. */
void flmem_recorder_close(struct flmem_recorder *recorder);

/* Adds a record. Samples and splits belong to the last tick. */
void flmem_recorder_add(struct flmem_recorder *recorder, const struct flmem_record *record);

/* Writes the current block. A failed block is lost and counted; the next one is tried again. */
void flmem_recorder_flush(struct flmem_recorder *recorder);

struct flmem_recording {
	int fd;
	uint64_t left;		/* bytes of the file that may still be read */
	uint64_t skipped;	/* bytes outside of whole blocks */
	struct flmem_buf bytes; /* bytes of the file from `offset` on */
	size_t at;		/* offset of the next block in `bytes` */
	bool newer;		/* the file has a whole block of a later version of the format */
	bool foreign;		/* the session is of a later version, or of another one */
	bool ended;		/* `bytes` extends to the end of the file */
	size_t record_at;	/* offset of the last record in `bytes` */
	/* Offsets in `bytes` of the next record and of the end of its block. */
	size_t record, block_end;
	uint64_t budget; /* bytes that failing checksums may still cover */
	bool ticked;
	uint64_t elapsed_ms, at_ms;
	/* Last samples in the block. */
	struct flmem_last_samples last;
	/* Texts of the last record. */
	char command[FLMEM_RECORD_TEXT_MAX], site[FLMEM_RECORD_TEXT_MAX];
	char reason[FLMEM_RECORD_TEXT_MAX];
};

/* Reports whether a readable file begins like a recording. */
bool flmem_recording_is_one(const char *path);

/*
 * Opens a recording. FLMEM_EUSAGE for a file that is not a recording, FLMEM_EPERM without
 * permission to read it.
 */
int flmem_recording_open(const char *path, struct flmem_recording *ret_recording,
			 struct flmem_error *err);

/* An unopened recording, safe to close. */
#define FLMEM_RECORDING_INIT                      \
	{                                         \
		.fd = -1, .bytes = FLMEM_BUF_INIT \
	}

/* Limits reading to the first `size` bytes of the file; call it before the first read. */
void flmem_recording_limit(struct flmem_recording *recording, uint64_t size);

void flmem_recording_close(struct flmem_recording *recording);

/* Reads the next record; false at the end. Damaged blocks are skipped with their records. */
bool flmem_recording_next(struct flmem_recording *recording, struct flmem_record *ret_record);

/* Counts the last record as skipped, alone or with the rest of its block, which is not read. */
void flmem_recording_reject(struct flmem_recording *recording, bool rest_of_block);

#endif
