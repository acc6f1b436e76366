/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the formats of c10/cuda/CUDACachingAllocator.cpp: until PyTorch 2.0 "Tried to allocate
 * 20.00 MiB (GPU 0; 23.65 GiB total capacity; 22.01 GiB already allocated; 10.56 MiB free; 22.50
 * GiB reserved in total by PyTorch)", later whole sentences, at first with "capacty". Builds for
 * ROCm report HIP.
 */
#include "proc/limits/gpu_oom_log.h"

#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/text/text.h"

#define AMOUNT_MAX 32U /* length of an amount such as "79.15 GiB" */

static const char gpu_oom_log_absent[] = "the log does not show it";

struct gpu_line {
	const char *start, *end;
};

static const char *find_in_line(const struct gpu_line *line, const char *words)
{
	return memmem(line->start, (size_t)(line->end - line->start), words, strlen(words));
}

/* Returns the text after the words in the line; NULL if the line lacks them. */
static const char *find_after_in_gpu_line(const struct gpu_line *line, const char *words)
{
	const char *found = find_in_line(line, words);

	return found ? found + strlen(words) : NULL;
}

static uint64_t unit_bytes(const char *text)
{
	static const struct {
		const char *name;
		uint64_t bytes;
	} units[] = {{" bytes", 1},
		     {" KiB", UINT64_C(1) << 10},
		     {" MiB", UINT64_C(1) << 20},
		     {" GiB", UINT64_C(1) << 30}};

	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(units); i++)
		if (flmem_text_starts(text, units[i].name))
			return units[i].bytes;
	return 0;
}

/* Reads an amount such as "79.15 GiB", with two digits after the point, or "512 bytes". */
static struct flmem_u64 read_amount(const char *at)
{
	uint64_t whole, hundredths = 0, unit;

	if (!at || !flmem_text_read_digits(&at, &whole))
		return FLMEM_UNKNOWN(gpu_oom_log_absent);
	if (*at == '.') {
		const char *digits = ++at;

		if (!flmem_text_read_digits(&at, &hundredths) || at - digits != 2)
			return FLMEM_UNKNOWN(gpu_oom_log_absent);
	}
	unit = unit_bytes(at);
	if (!unit || whole >= UINT64_MAX / (UINT64_C(100) << 30))
		return FLMEM_UNKNOWN(gpu_oom_log_absent);
	return FLMEM_KNOWN(whole * unit + hundredths * unit / 100);
}

static struct flmem_u64 amount_after(const struct gpu_line *line, const char *words)
{
	return read_amount(find_after_in_gpu_line(line, words));
}

/* Reads the amount that ends before the words, of at most AMOUNT_MAX bytes. */
static struct flmem_u64 amount_before(const struct gpu_line *line, const char *words)
{
	const char *end = find_in_line(line, words), *at = end;

	/* Skips back over the unit, the space before it, and the number. */
	while (at && at > line->start && end - at < AMOUNT_MAX && at[-1] != ' ')
		at--;
	if (at && at > line->start)
		at--;
	while (at && at > line->start && end - at < AMOUNT_MAX &&
	       ((at[-1] >= '0' && at[-1] <= '9') || at[-1] == '.'))
		at--;
	return read_amount(at);
}

static struct flmem_u64 first_known(struct flmem_u64 first, struct flmem_u64 second)
{
	return first.unknown ? second : first;
}

static struct flmem_u64 read_device(const struct gpu_line *line)
{
	const char *at = find_after_in_gpu_line(line, "GPU ");
	uint64_t device;

	return at && flmem_text_read_digits(&at, &device) ? FLMEM_KNOWN(device)
							  : FLMEM_UNKNOWN(gpu_oom_log_absent);
}

/* Computes the unused part of the pool, whose size until 2.0 includes the memory of tensors. */
static struct flmem_u64 read_unused(const struct gpu_line *line, struct flmem_u64 allocated)
{
	struct flmem_u64 pool = amount_before(line, " reserved in total by PyTorch");

	if (pool.unknown || allocated.unknown || pool.value < allocated.value)
		return amount_before(line, " is reserved by PyTorch but unallocated");
	return FLMEM_KNOWN(pool.value - allocated.value);
}

static void read_figures(const struct gpu_line *line, struct flmem_gpu_oom *oom)
{
	oom->device = read_device(line);
	oom->tried_bytes = amount_after(line, "Tried to allocate ");
	oom->total_bytes = first_known(amount_after(line, " total capacity of "),
				       first_known(amount_after(line, " total capacty of "),
						   amount_before(line, " total capacity;")));
	oom->free_bytes =
		first_known(amount_before(line, " is free"), amount_before(line, " free;"));
	oom->allocated_bytes = first_known(amount_before(line, " is allocated by PyTorch"),
					   amount_before(line, " already allocated;"));
	oom->unused_bytes = read_unused(line, oom->allocated_bytes);
}

/*
 * Returns true for a report. The words alone may be prose; PyTorch adds the size, and the runtime's
 * error has a prefix.
 */
static bool is_failure(const struct gpu_line *line)
{
	static const char *const allocations[] = {"CUDA out of memory. Tried to allocate ",
						  "HIP out of memory. Tried to allocate "};
	static const char *const errors[] = {"CUDA error: out of memory",
					     "HIP error: out of memory"};

	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(allocations); i++)
		if (find_in_line(line, allocations[i]) || find_in_line(line, errors[i]))
			return true;
	return false;
}

bool flmem_gpu_oom_log_read(const char *text, struct flmem_gpu_oom *ret_oom)
{
	struct flmem_gpu_oom oom = {0};
	unsigned number = 1;

	for (const char *p = text; *p; number++) {
		const struct gpu_line line = {.start = p, .end = p + strcspn(p, "\n")};

		if (is_failure(&line)) {
			oom.line = number;
			oom.count++;
			read_figures(&line, &oom);
		}
		p = *line.end ? line.end + 1 : line.end;
	}
	if (oom.count)
		*ret_oom = oom;
	return oom.count;
}
