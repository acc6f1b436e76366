/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/profile/fork_gate.h"

#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>

#include "base/clock.h"
#include "elf/libc.h"
#include "remote/chain.h"

#define PAGE	      FLMEM_FORK_GATE_PAGE
#define CODE_MAX      512U
#define MAGIC	      UINT64_C(0x666c6d656d676174)
#define NOREPLACE     0x100000 /* MAP_FIXED_NOREPLACE, which older headers lack */
#define ADDRESSES_END (UINT64_C(1) << FLMEM_ADDRESS_BITS)
/* Smallest gap for the gate: so large that nothing of the program is near its middle. */
#define GAP_MIN (UINT64_C(1) << 30)

/* Time limit for handlers of a fork that had begun, as in preload/sampler/fork_handlers.c. */
#define HANDLERS_US 200000U
/* Time limit for a fork; copying the page tables of 100 GB takes less. */
#define FORK_US 500000U
#define LOOK_US 100U

static uint64_t draw_gate_number(void)
{
	uint64_t number;

	return getrandom(&number, sizeof(number), GRND_NONBLOCK) == (ssize_t)sizeof(number)
		       ? number
		       : flmem_clock_ns();
}

static size_t gate_offset(const unsigned char *handler)
{
	return (size_t)((uintptr_t)handler - (uintptr_t)flmem_fork_gate_prepare);
}

/*
 * Returns true if the page has this access. With some personalities all readable memory is
 * executable as well.
 */
static bool is_gate_page(const struct flmem_maps *maps, uint64_t address, unsigned access)
{
	const struct flmem_map *map = flmem_maps_find(maps, address);

	return map && map->start == address && map->end == address + PAGE && !map->inode &&
	       (map->flags & (access | FLMEM_MAP_SHARED)) == access;
}

static bool has_gate_code(const struct flmem_process *process, uint64_t address)
{
	const size_t length = gate_offset(flmem_fork_gate_end);
	unsigned char code[CODE_MAX];

	return length <= sizeof(code) &&
	       flmem_process_read_pinned(process, address, code, length) == 0 &&
	       memcmp(code, flmem_fork_gate_prepare, length) == 0;
}

static int read_gate(const struct flmem_fork_gate *gate, struct flmem_fork_gate_data *ret_data)
{
	return flmem_process_read_pinned(&gate->target->process, gate->address + PAGE, ret_data,
					 sizeof(*ret_data));
}

static int write_gate_word(const struct flmem_fork_gate *gate, size_t offset, uint32_t number)
{
	return flmem_process_write_memory(&gate->target->process, gate->address + PAGE + offset,
					  &number, sizeof(number));
}

/*
 * Returns true if a gate can be used. Another flmem may have closed it. Its count may stay above
 * zero, because a thread was cancelled in the middle of a fork or there are always forks: then
 * another gate is made.
 */
static bool is_gate_free(const struct flmem_fork_gate *gate)
{
	const uint64_t start = flmem_clock_us();
	struct flmem_fork_gate_data data;

	do {
		if (read_gate(gate, &data) || data.magic != MAGIC || !data.registered ||
		    data.closed)
			return false;
		if (!data.forks)
			return true;
		flmem_clock_sleep_us(LOOK_US);
	} while (flmem_clock_us() - start < FORK_US);
	return false;
}

static bool find_open_gate(struct flmem_fork_gate *gate)
{
	const struct flmem_maps *maps = &gate->target->maps;

	for (size_t i = 0; i < maps->count; i++) {
		gate->address = maps->rows[i].start;
		if (is_gate_page(maps, gate->address, FLMEM_MAP_READ | FLMEM_MAP_EXEC) &&
		    has_gate_code(&gate->target->process, gate->address) && is_gate_free(gate))
			return true;
	}
	return false;
}

/* Chooses a random address in the middle half of the largest gap, far from the mappings. */
static bool choose_gate_address(struct flmem_fork_gate *gate)
{
	const struct flmem_maps *maps = &gate->target->maps;
	uint64_t start = 0, length = 0;

	for (size_t i = 0; i + 1 < maps->count && maps->rows[i + 1].start < ADDRESSES_END; i++) {
		if (maps->rows[i + 1].start - maps->rows[i].end <= length)
			continue;
		start = maps->rows[i].end;
		length = maps->rows[i + 1].start - start;
	}
	gate->address =
		(start + length / 4 + draw_gate_number() % (length / 2 + 1)) & -(uint64_t)PAGE;
	return length >= GAP_MIN;
}

static int call_libc(const struct flmem_fork_gate *gate, const struct flmem_chain *chain,
		     flmem_fork_gate_call *call, void *context, struct flmem_error *err)
{
	const struct flmem_cpython_function function = {
		.name = chain->calls[0].name,
		.address = chain->calls[0].function,
		.chain = chain,
	};

	if (function.address)
		return call(context, &function, err);
	return flmem_error_set(err, FLMEM_EUNSUPPORTED, 0,
			       "the C library of process %d exports no %s()",
			       (int)gate->target->process.pid, function.name);
}

static struct flmem_call *plan_gate_call(const struct flmem_fork_gate *gate, const char *name,
					 struct flmem_chain *chain)
{
	bool is_glibc;
	const struct flmem_module *library = flmem_libc_module(&gate->target->modules, &is_glibc);
	uint64_t address = 0;

	if (!library || !flmem_module_symbol_any(library, name, &address))
		address = 0;
	return flmem_chain_add(chain, name, address);
}

/* Plans the mapping of a page; the call fails if something has been mapped at that address. */
static void plan_gate_page(const struct flmem_fork_gate *gate, uint64_t address, int access,
			   struct flmem_chain *chain)
{
	struct flmem_call *call = plan_gate_call(gate, "mmap", chain);

	call->args[0] = address;
	call->args[1] = PAGE;
	call->args[2] = (uint64_t)access;
	call->args[3] = MAP_PRIVATE | MAP_ANONYMOUS | NOREPLACE;
	call->args[4] = UINT64_MAX;
}

/* Removes the mapping, which is flmem's own and harmless if it stays. */
static void unmap_gate(const struct flmem_fork_gate *gate, bool has_code, bool has_data,
		       flmem_fork_gate_call *call, void *context)
{
	struct flmem_chain chain = {0};
	struct flmem_call *unmap = plan_gate_call(gate, "munmap", &chain);

	unmap->args[0] = gate->address + (has_code ? 0 : PAGE);
	unmap->args[1] = has_code && has_data ? 2U * PAGE : PAGE;
	if (has_code || has_data)
		call_libc(gate, &chain, call, context, NULL);
}

/*
 * Writes code and data of the gate. A kernel can be set to refuse writes to memory that the process
 * itself may not write to.
 */
static bool write_gate(const struct flmem_fork_gate *gate)
{
	const struct flmem_process *process = &gate->target->process;
	const struct flmem_fork_gate_data data = {.magic = MAGIC};
	struct flmem_fork_gate_data seen;

	return flmem_process_write_memory(process, gate->address, flmem_fork_gate_prepare,
					  gate_offset(flmem_fork_gate_end)) == 0 &&
	       has_gate_code(process, gate->address) &&
	       flmem_process_write_memory(process, gate->address + PAGE, &data, sizeof(data)) ==
		       0 &&
	       read_gate(gate, &seen) == 0 && seen.magic == MAGIC;
}

static int map_gate(struct flmem_fork_gate *gate, flmem_fork_gate_call *call, void *context,
		    struct flmem_error *err)
{
	struct flmem_chain chain = {0};
	bool has_room = choose_gate_address(gate), has_code, has_data;
	int rc;

	plan_gate_page(gate, gate->address, PROT_READ | PROT_EXEC, &chain);
	plan_gate_page(gate, gate->address + PAGE, PROT_READ | PROT_WRITE, &chain);
	rc = has_room ? call_libc(gate, &chain, call, context, err) : 0;
	if (!rc)
		rc = flmem_target_inspection_renew(gate->target, err);
	if (rc)
		return rc;
	has_code =
		is_gate_page(&gate->target->maps, gate->address, FLMEM_MAP_READ | FLMEM_MAP_EXEC);
	has_data = is_gate_page(&gate->target->maps, gate->address + PAGE,
				FLMEM_MAP_READ | FLMEM_MAP_WRITE);
	if (has_room && has_code && has_data && write_gate(gate))
		return 0;
	if (has_room)
		unmap_gate(gate, has_code, has_data, call, context);
	return flmem_error_set(err, FLMEM_EUNSUPPORTED, 0,
			       "process %d lets flmem make no code in it that holds its forks "
			       "back while the sampler is loaded (a policy or a limit for its "
			       "memory); start it with: flmem start --profile-ready",
			       (int)gate->target->process.pid);
}

static int register_gate(const struct flmem_fork_gate *gate, flmem_fork_gate_call *call,
			 void *context, struct flmem_error *err)
{
	struct flmem_chain chain = {0};
	struct flmem_call *handlers = plan_gate_call(gate, "__register_atfork", &chain);
	int rc;

	handlers->args[0] = gate->address;
	handlers->args[1] = gate->address + gate_offset(flmem_fork_gate_parent);
	handlers->args[2] = gate->address + gate_offset(flmem_fork_gate_child);
	rc = call_libc(gate, &chain, call, context, err);
	if (rc)
		return rc;
	rc = write_gate_word(gate, offsetof(struct flmem_fork_gate_data, registered), 1);
	return rc ? flmem_process_error(&gate->target->process, rc, "the gate for forks", err) : 0;
}

static void await_gate_handlers(void)
{
	const uint64_t start = flmem_clock_us();

	for (uint64_t past = 0; past < HANDLERS_US; past = flmem_clock_us() - start)
		flmem_clock_sleep_us(HANDLERS_US - past);
}

int flmem_fork_gate_make(struct flmem_fork_gate *gate, flmem_fork_gate_call *call, void *context,
			 struct flmem_error *err)
{
	int rc = 0;

	if (!find_open_gate(gate)) {
		rc = map_gate(gate, call, context, err);
		if (!rc)
			rc = register_gate(gate, call, context, err);
	}
	if (!rc)
		await_gate_handlers();
	return rc;
}

int flmem_fork_gate_close(void *context, struct flmem_error *err)
{
	struct flmem_fork_gate *gate = context;
	const uint64_t start = flmem_clock_us();
	struct flmem_fork_gate_data data;
	int rc;

	gate->number = (uint32_t)draw_gate_number() | 1U;
	rc = write_gate_word(gate, offsetof(struct flmem_fork_gate_data, closed), gate->number);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	for (;;) {
		if (!rc)
			rc = read_gate(gate, &data);
		if (rc)
			return flmem_process_error(&gate->target->process, rc, "the gate for forks",
						   err);
		if (!data.forks && data.closed == gate->number)
			return 0;
		if (flmem_clock_us() - start > FORK_US)
			break;
		flmem_clock_sleep_us(LOOK_US);
	}
	flmem_fork_gate_open(gate, true);
	return flmem_error_set(
		err, FLMEM_EUNSAFE, 0,
		"a thread of process %d is in a fork that takes more than %u ms, and "
		"a child that is forked while the sampler is loaded could not load "
		"libraries; try again",
		(int)gate->target->process.pid, FORK_US / 1000U);
}

/*
 * Opens the gate if the calls are over. While they may still be made it stays closed; waiting forks
 * open it after a time limit.
 */
void flmem_fork_gate_open(void *context, bool is_over)
{
	const struct flmem_fork_gate *gate = context;
	struct flmem_fork_gate_data data;

	if (is_over && read_gate(gate, &data) == 0 && data.closed == gate->number)
		write_gate_word(gate, offsetof(struct flmem_fork_gate_data, closed), 0);
}
