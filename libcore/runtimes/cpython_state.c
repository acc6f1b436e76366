/* SPDX-License-Identifier: Apache-2.0 */
#include "runtimes/cpython_state.h"

#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

#include "elf/libc.h"
#include "proc/process.h"
#include "proc/status.h"
#include "proc/task.h"

#define NONE	FLMEM_CPYTHON_NONE
#define RETRIES 10 /* number of tries: lists change while they are read */

/* Why a reading failed; only the last two are worth a retry. */
enum read_fault {
	FAULT_NONE,
	FAULT_ABSENT,	/* the interpreter is not initialised */
	FAULT_MEMORY,	/* out of memory */
	FAULT_NONSENSE, /* inconsistent: an unknown build, or changing */
	FAULT_CHANGING, /* inconsistent, and not in the same way each time */
};

/* State of one read. */
struct state_reading {
	const struct flmem_view *view;
	const struct flmem_cpython_place *place;
	const struct flmem_task_ids *tasks;
	struct flmem_cpython_state *state;
	uint64_t *trail; /* addresses that were reached so far */
};

static void leave_trail(const struct state_reading *in, uint64_t address)
{
	*in->trail = *in->trail * 31 + address;
}

static bool read_state_word(const struct flmem_view *view, uint64_t address, uint64_t *ret_word)
{
	return flmem_process_read_memory(view->process, address, ret_word, sizeof(*ret_word)) == 0;
}

static bool read_int(const struct flmem_view *view, uint64_t address, int32_t *ret_int)
{
	return flmem_process_read_memory(view->process, address, ret_int, sizeof(*ret_int)) == 0;
}

static bool is_plausible_address(uint64_t address)
{
	return address >= 4096 && address % 8 == 0 && address < UINT64_C(1) << 56;
}

static bool find_runtime(const struct flmem_module *module, uint64_t *ret_address)
{
	struct flmem_image *image = flmem_module_image(module, NULL);
	uint64_t value, size;

	if (flmem_module_symbol_any(module, "_PyRuntime", ret_address))
		return true;
	return image && flmem_image_find_section(image, ".PyRuntime", &value, &size) &&
	       flmem_module_address(module, value, ret_address);
}

/* The kernel releases the memory of a process first and reports its end later. */
static int report_ending(const struct flmem_view *view, struct flmem_error *err)
{
	struct flmem_status status;
	int rc = flmem_status_read(view->process, &status, err);

	if (rc || !status.rss_bytes.unknown)
		return rc;
	return flmem_error_set(err, FLMEM_EUNSAFE, 0, "process %d is ending",
			       (int)view->process->pid);
}

static int report_unreadable_state(const struct flmem_view *view, const char *why,
				   struct flmem_error *err)
{
	int rc = report_ending(view, err);

	if (rc)
		return rc;
	return flmem_error_set(err, FLMEM_EUNSUPPORTED, 0,
			       "cannot read the state of the Python in process %d: %s",
			       (int)view->process->pid, why);
}

bool flmem_cpython_is_free_threaded(const struct flmem_view *view,
				    const struct flmem_cpython *python)
{
	unsigned char table[24];
	uint64_t runtime;

	return find_runtime(python->module, &runtime) &&
	       !flmem_process_read_memory(view->process, runtime, table, sizeof(table)) &&
	       flmem_cpython_table_is_free_threaded(table, sizeof(table));
}

/*
 * Finds the layout: up to 3.12 by the version in the file, later by the table in memory, which has
 * to agree.
 */
static bool find_layout(const struct flmem_cpython *python, const unsigned char *table,
			size_t length, struct flmem_cpython_layout *ret_layout,
			const char **ret_why)
{
	if (flmem_cpython_layout_known(python->major, python->minor, ret_layout))
		return true;
	if (!flmem_cpython_layout_parse(table, length, ret_layout, ret_why))
		return false;
	if (flmem_cpython_table_is_of(table, length, python->major, python->minor))
		return true;
	*ret_why = "its offset table and its file have different versions";
	return false;
}

int flmem_cpython_locate(const struct flmem_view *view, const struct flmem_cpython *python,
			 struct flmem_cpython_place *ret_place, struct flmem_error *err)
{
	unsigned char table[FLMEM_CPYTHON_TABLE_MAX];
	struct flmem_cpython_place place = {0};
	const char *why = NULL;

	if (!find_runtime(python->module, &place.runtime))
		return report_unreadable_state(view, "it does not export its state (_PyRuntime)",
					       err);
	if (flmem_process_read_memory(view->process, place.runtime, table, sizeof(table)))
		return report_unreadable_state(view, "its state cannot be read", err);
	if (!find_layout(python, table, sizeof(table), &place.layout, &why))
		return report_unreadable_state(view, why, err);
	if (place.layout.free_threaded)
		return report_unreadable_state(view, "it is built without the lock (free-threaded)",
					       err);
	*ret_place = place;
	return 0;
}

static bool read_wanted(const struct flmem_view *view, const struct flmem_cpython_place *place,
			uint64_t interpreter, const struct flmem_cpython_gil *gil)
{
	const struct flmem_cpython_layout *layout = &place->layout;
	uint64_t at = layout->drop_request_runtime ? place->runtime : interpreter;
	int32_t value = 0;

	if (layout->drop_request != NONE)
		return read_int(view, at + layout->drop_request, &value) && value;
	return gil->holder && read_int(view, gil->holder + layout->eval_breaker, &value) &&
	       (value & 1);
}

static bool read_gil(const struct flmem_view *view, const struct flmem_cpython_place *place,
		     uint64_t interpreter, struct flmem_cpython_gil *ret_gil)
{
	const struct flmem_cpython_layout *layout = &place->layout;
	struct flmem_cpython_gil gil = {.start = place->runtime + layout->runtime_gil};
	unsigned char bytes[FLMEM_CPYTHON_GIL_SWITCHES + 8];
	int32_t locked;

	if (layout->runtime_gil == NONE &&
	    (!read_state_word(view, interpreter + layout->interpreter_gil, &gil.start) ||
	     !is_plausible_address(gil.start)))
		return false;
	if (flmem_process_read_memory(view->process, gil.start, bytes, sizeof(bytes)))
		return false;
	memcpy(&locked, bytes + FLMEM_CPYTHON_GIL_LOCKED, sizeof(locked));
	memcpy(&gil.switches, bytes + FLMEM_CPYTHON_GIL_SWITCHES, sizeof(gil.switches));
	if (locked == 1)
		memcpy(&gil.holder, bytes + FLMEM_CPYTHON_GIL_HOLDER, sizeof(gil.holder));
	/* The value is -1 if the lock was never created. */
	if (locked < 0 || locked > 1 || (gil.holder && !is_plausible_address(gil.holder)))
		return false;
	gil.locked = locked;
	gil.end = gil.start + FLMEM_CPYTHON_GIL_SIZE;
	gil.wanted = read_wanted(view, place, interpreter, &gil);
	*ret_gil = gil;
	return true;
}

int flmem_cpython_gil_read(const struct flmem_view *view, const struct flmem_cpython_place *place,
			   uint64_t main_interpreter, struct flmem_cpython_gil *ret_gil,
			   struct flmem_error *err)
{
	if (!read_gil(view, place, main_interpreter, ret_gil))
		return report_unreadable_state(view, "its lock cannot be read", err);
	return 0;
}

int flmem_cpython_main_gil_read(const struct flmem_view *view,
				const struct flmem_cpython_place *place,
				struct flmem_cpython_gil *ret_gil, struct flmem_error *err)
{
	uint64_t interpreter;

	if (!read_state_word(view, place->runtime + place->layout.interpreters_main,
			     &interpreter) ||
	    !interpreter)
		return report_unreadable_state(view, "it has no main interpreter", err);
	return flmem_cpython_gil_read(view, place, interpreter, ret_gil, err);
}

/*
 * True once the interpreter is initialised: before, one thread fills it, and a second one would
 * find it incomplete.
 */
static bool is_initialised(const struct flmem_view *view, const struct flmem_cpython_place *place)
{
	int32_t initialised = 0;

	return !place->layout.initialized ||
	       (read_int(view, place->runtime + place->layout.initialized, &initialised) &&
		initialised);
}

int flmem_cpython_finalizing_read(const struct flmem_view *view,
				  const struct flmem_cpython_place *place, bool *ret_finalizing,
				  struct flmem_error *err)
{
	uint64_t finalizing;

	if (!read_state_word(view, place->runtime + place->layout.finalizing, &finalizing))
		return report_unreadable_state(view, "its state cannot be read", err);
	*ret_finalizing = finalizing || !is_initialised(view, place);
	return 0;
}

/*
 * Finds the kernel's ID of a thread. glibc keeps it in struct pthread and updates it after a fork,
 * which some versions of Python do not do for theirs; other C libraries have other data there. A
 * number that is not the ID of a thread of the process is ignored.
 */
static pid_t find_tid(const struct state_reading *in, uint64_t state, uint64_t pointer)
{
	int32_t inner = 0;
	uint64_t native = 0;
	pid_t tid = 0;

	if (read_int(in->view, pointer + FLMEM_LIBC_GLIBC_TID, &inner))
		tid = flmem_task_ids_outer(in->tasks, inner);
	if (tid || in->place->layout.thread_native_id == NONE)
		return tid;
	if (read_state_word(in->view, state + in->place->layout.thread_native_id, &native) &&
	    native <= INT32_MAX)
		tid = flmem_task_ids_outer(in->tasks, (pid_t)native);
	return tid;
}

static enum read_fault add_thread_state(const struct state_reading *in, uint64_t address,
					uint64_t interpreter, uint64_t previous)
{
	const struct flmem_cpython_layout *layout = &in->place->layout;
	struct flmem_cpython_state *state = in->state;
	uint64_t owner, before, pointer, exception = 0;

	if (state->thread_count == FLMEM_CPYTHON_THREADS_MAX || !is_plausible_address(address) ||
	    !read_state_word(in->view, address + layout->thread_interpreter, &owner) ||
	    !read_state_word(in->view, address + layout->thread_prev, &before) ||
	    !read_state_word(in->view, address + layout->thread_pointer, &pointer) ||
	    owner != interpreter || before != previous)
		return FAULT_NONSENSE;
	if (layout->thread_exception != NONE &&
	    !read_state_word(in->view, address + layout->thread_exception, &exception))
		return FAULT_NONSENSE;
	state->threads[state->thread_count++] = (struct flmem_cpython_thread){
		.state = address,
		.pointer = pointer,
		.tid = pointer ? find_tid(in, address, pointer) : 0,
		.main_interpreter = interpreter == state->main_interpreter,
		.raising = exception != 0,
	};
	return FAULT_NONE;
}

static enum read_fault read_threads(const struct state_reading *in, uint64_t interpreter)
{
	uint64_t address, previous = 0;

	if (!read_state_word(in->view, interpreter + in->place->layout.threads_head, &address))
		return FAULT_NONSENSE;
	while (address) {
		enum read_fault fault = add_thread_state(in, address, interpreter, previous);

		leave_trail(in, address);
		if (fault)
			return fault;
		previous = address;
		if (!read_state_word(in->view, address + in->place->layout.thread_next, &address))
			return FAULT_NONSENSE;
	}
	return FAULT_NONE;
}

/* The main interpreter has the number 0 and is the last of the list. */
static enum read_fault read_interpreters(const struct state_reading *in, uint64_t address)
{
	const struct flmem_cpython_layout *layout = &in->place->layout;
	struct flmem_cpython_state *state = in->state;
	bool has_main = false;

	while (address) {
		enum read_fault fault;
		uint64_t id;

		leave_trail(in, address);
		if (state->interpreters++ == FLMEM_CPYTHON_INTERPRETERS_MAX ||
		    !is_plausible_address(address) ||
		    !read_state_word(in->view, address + layout->interpreter_id, &id) ||
		    (id == 0) != (address == state->main_interpreter))
			return FAULT_NONSENSE;
		has_main = has_main || id == 0;
		fault = read_threads(in, address);
		if (fault)
			return fault;
		if (!read_state_word(in->view, address + layout->interpreter_next, &address))
			return FAULT_NONSENSE;
	}
	return has_main ? FAULT_NONE : FAULT_NONSENSE;
}

/*
 * True if the holder of the lock is in a list; one that is in none was just created or is about to
 * end.
 */
static bool is_holder_known(const struct flmem_cpython_state *state)
{
	return !state->gil.holder || flmem_cpython_state_find(state, state->gil.holder);
}

static enum read_fault read_state_once(const struct state_reading *in)
{
	const struct flmem_cpython_layout *layout = &in->place->layout;
	struct flmem_cpython_state *state = in->state;
	uint64_t head, finalizing, runtime = in->place->runtime;
	enum read_fault fault;

	state->thread_count = state->interpreters = 0;
	if (!read_state_word(in->view, runtime + layout->finalizing, &finalizing) ||
	    !read_state_word(in->view, runtime + layout->interpreters_head, &head) ||
	    !read_state_word(in->view, runtime + layout->interpreters_main,
			     &state->main_interpreter) ||
	    !read_state_word(in->view, runtime + layout->main_thread, &state->main_pointer))
		return FAULT_NONSENSE;
	if (!head || !state->main_interpreter ||
	    (!finalizing && !is_initialised(in->view, in->place)))
		return FAULT_ABSENT;
	state->finalizing = finalizing != 0;
	fault = read_interpreters(in, head);
	if (fault)
		return fault;
	if (!read_gil(in->view, in->place, state->main_interpreter, &state->gil))
		return FAULT_NONSENSE;
	return is_holder_known(state) ? FAULT_NONE : FAULT_CHANGING;
}

/*
 * Reads the state several times: threads and interpreters that come and go do not make a build
 * unknown.
 */
static enum read_fault read_state_often(const struct state_reading *in)
{
	enum read_fault fault = FAULT_NONE;
	uint64_t first = 0;
	bool changes = false;

	for (int i = 0; i < RETRIES; i++) {
		*in->trail = 0;
		fault = read_state_once(in);
		if (fault != FAULT_NONSENSE && fault != FAULT_CHANGING)
			return fault;
		first = i ? first : *in->trail;
		changes = changes || fault == FAULT_CHANGING || *in->trail != first;
	}
	return changes ? FAULT_CHANGING : fault;
}

static int explain_fault(const struct flmem_view *view, enum read_fault fault,
			 struct flmem_error *err)
{
	switch (fault) {
	case FAULT_NONE:
		break;
	case FAULT_ABSENT:
		return flmem_error_set(err, FLMEM_EUNSAFE, 0,
				       "the Python of process %d is not initialised",
				       (int)view->process->pid);
	case FAULT_MEMORY:
		return flmem_error_nomem(err, "cannot read a Python's state");
	case FAULT_NONSENSE:
		return report_unreadable_state(view, "its state is inconsistent: an unknown build",
					       err);
	case FAULT_CHANGING:
		return flmem_error_set(err, FLMEM_EUNSAFE, 0,
				       "the state of the Python in process %d changes while it is "
				       "read, or its build is unknown; try again or give a longer "
				       "--timeout",
				       (int)view->process->pid);
	}
	return 0;
}

int flmem_cpython_state_read(const struct flmem_view *view, const struct flmem_cpython_place *place,
			     struct flmem_cpython_state *ret_state, struct flmem_error *err)
{
	FLMEM_AUTO_CPYTHON_STATE struct flmem_cpython_state state = {0};
	FLMEM_AUTO_TASK_IDS struct flmem_task_ids tasks = {0};
	uint64_t trail = 0;
	const struct state_reading in = {view, place, &tasks, &state, &trail};
	enum read_fault fault = FAULT_MEMORY;
	int rc = flmem_task_ids_read(view->process, &tasks);

	if (rc)
		return flmem_process_error(view->process, rc, "threads", err);
	state.threads = calloc(FLMEM_CPYTHON_THREADS_MAX, sizeof(*state.threads));
	if (state.threads)
		fault = read_state_often(&in);
	if (fault)
		return explain_fault(view, fault, err);
	*ret_state = state;
	state = (struct flmem_cpython_state){0};
	return 0;
}

void flmem_cpython_state_clear(struct flmem_cpython_state *state)
{
	free(state->threads);
	*state = (struct flmem_cpython_state){0};
}

const struct flmem_cpython_thread *flmem_cpython_state_find(const struct flmem_cpython_state *state,
							    uint64_t thread_state)
{
	for (size_t i = 0; i < state->thread_count; i++)
		if (state->threads[i].state == thread_state)
			return &state->threads[i];
	return NULL;
}

const struct flmem_cpython_thread *flmem_cpython_state_main(const struct flmem_cpython_state *state)
{
	for (size_t i = 0; i < state->thread_count; i++)
		if (state->threads[i].pointer == state->main_pointer)
			return &state->threads[i];
	return NULL;
}

bool flmem_cpython_gil_is_waited_for(const struct flmem_cpython_gil *gil,
				     const struct flmem_task_wait *at)
{
	return at->number == SYS_futex && at->args[0] >= gil->start && at->args[0] < gil->end;
}
