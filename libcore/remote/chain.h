/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_REMOTE_CHAIN_H
#define FLMEM_REMOTE_CHAIN_H

/*
 * A chain: calls that one borrowed thread makes in a row. Each function returns into a signal frame
 * that sets up the next call; the last frame restores the thread. Building a chain touches nothing;
 * remote/borrow.h runs it. Arguments are numbers, or offsets into the chain's data, which is copied
 * to the thread's stack and read back after the calls (for strings and out-parameters). Return
 * values are lost.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FLMEM_CHAIN_CALLS 22
#define FLMEM_CHAIN_ARGS  6
#define FLMEM_CHAIN_DATA  768

struct flmem_call {
	const char *name;  /* static; the step's name in reports */
	uint64_t function; /* run-time address in the target */
	uint64_t number;   /* value of the result register: the number of a system call */
	uint64_t args[FLMEM_CHAIN_ARGS]; /* a seventh and an eighth argument are always 0 */
	unsigned data_args;		 /* bit i: args[i] is an offset into the data */
	unsigned area_args;		 /* bit i: args[i] is an offset into the area */
	bool has_mask; /* the call runs with mask `mask`, not with that of a chain */
	uint64_t mask;
};

/* Value of an argument, from 0 on, with the addresses of the data and of the area. */
uint64_t flmem_call_argument(const struct flmem_call *call, size_t index, uint64_t data,
			     uint64_t area);

/* Number of hexadecimal digits of an address, without "0x". */
#define FLMEM_CHAIN_ADDRESS_DIGITS 16

/*
 * Memory for more data than the chain holds: bytes of the caller that are copied to the stack with
 * the data and back after the calls. A text in them can name the address of the area in the target,
 * for code that stores results there.
 */
struct flmem_chain_area {
	unsigned char *bytes; /* must outlive the run; NULL: none */
	size_t length;
	bool writes_address;
	size_t address_at; /* offset in the area of the digits of its own address */
	/* If set, the area begins with a pointer to this offset of it. */
	bool writes_pointer;
	size_t pointer_to;
};

struct flmem_chain {
	struct flmem_call calls[FLMEM_CHAIN_CALLS];
	size_t count;
	unsigned char data[FLMEM_CHAIN_DATA];
	size_t data_length;
	struct flmem_chain_area area;
	bool timed_as_one;  /* times all calls together: needs half as much of the thread's stack */
	uint64_t unblocked; /* signals that stay unblocked in it, besides those of any chain */
	bool overflow;	    /* something did not fit; running the chain fails */
};

/* Appends a call without arguments; the caller fills in `args` and `data_args` of the result. */
struct flmem_call *flmem_chain_add(struct flmem_chain *chain, const char *name, uint64_t function);

/* Appends bytes (zeros if `bytes` is NULL) to the data, aligned to 16; returns their offset. */
uint64_t flmem_chain_put(struct flmem_chain *chain, const void *bytes, size_t length);

uint64_t flmem_chain_put_string(struct flmem_chain *chain, const char *text);

#endif
