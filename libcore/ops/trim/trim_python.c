/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/trim/trim_parts.h"

#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/text/text.h"
#include "ops/target/cuda_code.h"
#include "ops/target/target_hooks.h"
#include "runtimes/cpython_call.h"

/*
 * Calls gc.collect(), which returns the number of unreachable objects that it found. Programs whose
 * threads are greenlets run in one thread: a finaliser that waits for one of their locks in another
 * thread may never end, and then Python no longer collects (gevent 26.9); one that sleeps leaves
 * descriptors of an event loop behind. Tcl ends the process when an interpreter is deleted in
 * another thread than its own.
 *
 * Before 3.12 only sys.setrecursionlimit() limits recursion in C, and a program that raises it has
 * given its main thread a stack for that. The thread of the code has 8 MiB at least, of which 2000
 * levels took up to 4 MiB (sorts in each other's key()).
 */
static const char collect_code[] =
	"import gc,sys,_thread\n"
	"g=[m for m in('gevent','eventlet','_tkinter')if m in sys.modules]\n"
	"if not g and type(_thread.get_ident)is not type(len):g=['replaced threads']\n"
	"w=', whose finalisers must not run in another thread'\n"
	"n=sys.getrecursionlimit()\n"
	"if not g and sys.version_info<(3,12)and n>2000:\n"
	" g=['a recursion limit of %d, and the stack of another thread may be too small for its "
	"finalisers'%n]\n"
	" w=''\n"
	"print('skip: the program uses '+g[0]+w if g else gc.collect())\n";

/*
 * Empties the caches of device and pinned memory. The current device of the thread that runs this
 * code is device 0, whichever device the program uses: a query of a stream there would create a
 * CUDA context of some hundred megabytes. So the code first selects a device on which PyTorch holds
 * memory, and does not switch back: the thread ends anyway, and returning to device 0 would create
 * the context, too.
 *
 * Emptying a cache breaks a CUDA graph capture of any thread. The capturing streams are current in
 * other threads, so they are found through Python objects: those of torch.cuda.graph, and the
 * streams that PyTorch itself created, which are never destroyed (an ExternalStream may be). A
 * stream that refuses the query counts as capturing; then the caches of CuPy and CUDA's own pools
 * are not emptied, either. The instances of a class refer to it. A list of all objects would refer
 * to tuples that the program is about to fill, and CPython cannot resize those then: tuple() raises
 * SystemError.
 */
static const char cuda_code[] =
	"import gc\n"
	"t=sys.modules.get('torch')\n"
	"c=getattr(t,'cuda',None)\n"
	"def capturing():\n"
	" g=getattr(getattr(c,'graphs',None),'graph',None)\n"
	" k=getattr(c,'Stream',None)\n"
	" s=[getattr(g,'default_capture_stream',None)]\n"
	" for o in gc.get_referrers(*[x for x in(g,k)if x]):\n"
	"  if g and type(o) is g:s.append(o.capture_stream)\n"
	"  elif k and type(o) is k:s.append(o)\n"
	" try:\n"
	"  if c.is_current_stream_capturing():return 1\n"
	"  for x in s:\n"
	"   if x is not None:\n"
	"    with c.stream(x):\n"
	"     if c.is_current_stream_capturing():return 1\n"
	" except RuntimeError:return 1\n"
	"def reserved():\n"
	" return [c.memory_reserved(i) for i in range(c.device_count())]\n"
	"def run():\n"
	" if t is None:return 'skip: PyTorch is not imported'\n"
	" if c is None or not c.is_initialized():return 'skip: PyTorch has not initialised CUDA'\n"
	" n=reserved()\n"
	" d=[i for i,m in enumerate(n) if m]\n"
	" if not d:return 'skip: PyTorch holds no device memory'\n"
	" c.set_device(d[0])\n"
	" if capturing():return 'skip: a CUDA graph is being captured'\n"
	" c.empty_cache()\n"
	" h=getattr(t._C,'_host_emptyCache',None) or "
	"getattr(getattr(t,'accelerator',None),'empty_host_cache',None)\n"
	" if h:h()\n"
	" return '%d bytes of device memory'%max(0,sum(n)-sum(reserved()))+('' if h else "
	"', the pinned host cache of this PyTorch cannot be emptied')\n"
	"def cupy(d,s):\n"
	" p=sys.modules['cupy']\n"
	" m=p.get_default_memory_pool()\n"
	" h=p.get_default_pinned_memory_pool()\n"
	" n=0\n"
	" for i in s:\n"
	"  p.cuda.Device(i).use()\n"
	"  b=m.total_bytes()\n"
	"  if b>m.used_bytes():\n"
	"   m.free_all_blocks()\n"
	"   n+=max(0,b-m.total_bytes())\n"
	" if h.n_free_blocks():h.free_all_blocks()\n"
	" return n\n"
	"def pools(d,s):return sum(max(0,pool(d,i,0)[0]-pool(d,i,1)[0])for i in s)\n"
	"r=run()\n"
	"def later(name,f):\n"
	" if 'captured' in r:return print(name,r)\n"
	" try:\n"
	"  d,s=driver()\n"
	"  print(name,'%d bytes of device memory'%f(d,s)if s else 'skip: no CUDA device is in "
	"use')\n"
	" except Exception as e:print(name,'failed: %s: %s'%(type(e).__name__,str(e)[:150]))\n"
	"print(r)\n"
	"if 'cupy' in sys.modules:later('cupy.free_all_blocks',cupy)\n"
	"if has_driver:later('cudaMemPoolTrimTo',pools)\n"
	"del capturing,reserved,run,cupy,pools,later,driver,pool\n";

/*
 * Calls malloc_trim() by ctypes. Functions of ctypes.pythonapi are called with the interpreter's
 * lock, for which the holder of a lock of the heap may wait; functions of another object for the
 * same handle are called without it. Access by subscript leaves no attribute on the library object.
 */
static const char inside_code[] =
	"import sys\n"
	"c=sys.modules.get('ctypes')\n"
	"print(c.CDLL(None,handle=c.pythonapi._handle)['malloc_trim'](0) if c else 'skip')\n";

struct python_part {
	struct flmem_trim_job *job;
	struct flmem_trim_step *step;
	struct flmem_cpython_result run;
};

static bool python_is_absent(const struct flmem_trim_job *job)
{
	struct flmem_cpython python;

	return job->options->lenient && !flmem_cpython_find(&job->target->view, &python);
}

static void set_step_detail(struct flmem_trim_step *step, const char *text)
{
	snprintf(step->detail, sizeof(step->detail), "%.*s", (int)strcspn(text, "\n"), text);
}

/* Reads "N bytes of device memory", which RSS does not show. */
static void take_device_bytes(struct flmem_trim_step *step, const char *text)
{
	set_step_detail(step, text);
	if (flmem_text_read_digits(&text, &step->device_bytes) && step->device_bytes)
		step->outcome = FLMEM_TRIM_RELEASED;
}

static void fill_python_step(struct python_part *part)
{
	const struct flmem_cpython_result *run = &part->run;
	struct flmem_trim_step *step = part->step;

	step->entry = run->entry ? flmem_cpython_entry_name(run->entry) : NULL;
	step->thread = run->tid;
	snprintf(step->thread_state, sizeof(step->thread_state), "%s",
		 run->waited_in ? run->waited_in : "");
	flmem_trim_job_thread(part->job, run->tid, run->waited_in);
	if (run->complete || run->stopped_us) {
		/* The code runs in a new thread: none of its time is inside the stop. */
		step->stopped_us = FLMEM_KNOWN(run->stopped_us);
		flmem_trim_job_stopped(part->job, run->stopped_us, 0);
		flmem_trim_job_note_late(part->job, run->late_us);
	}
	if (run->complete)
		step->took_us = FLMEM_KNOWN(run->took_us);
}

static int check_python_hooks(const struct flmem_trim_job *job,
			      const struct flmem_cpython_call *call, uint64_t *stopped_us,
			      struct flmem_error *err)
{
	const struct flmem_target_inspection *target = job->target;

	return flmem_target_hooks_check_start(&target->view, &target->allocators, call, stopped_us,
					      err);
}

/* Runs the code; fills `part->run` in any case, and the caller clears it. */
static int run_python_code(struct python_part *part, const struct flmem_cpython_code *code,
			   struct flmem_error *err)
{
	struct flmem_target_start start = {&part->job->target->view, &part->job->target->allocators,
					   &part->job->guard};
	const struct flmem_cpython_call call = {
		.code = *code,
		.recheck = flmem_target_hooks_recheck_start,
		.rechecker = &start,
		.checked_us = &part->job->checked_us,
		.guard = &part->job->guard,
		.timeout_us = part->job->timeout_us,
		.assume_seccomp = part->job->options->assume_seccomp,
		.dry_run = part->job->options->dry_run,
	};
	/* The new thread allocates, possibly in an arena that no other thread uses. */
	uint64_t stopped_us = 0;
	int rc = flmem_trim_check(part->job, err);

	if (!rc)
		rc = check_python_hooks(part->job, &call, &stopped_us, err);
	if (stopped_us)
		flmem_trim_job_stopped(part->job, stopped_us, 0);
	part->job->unfinished |= rc == FLMEM_EFAILED;
	if (!rc)
		rc = flmem_cpython_call(&part->job->target->view, &call, &part->run, err);
	part->job->unfinished |= part->run.unfinished;
	fill_python_step(part);
	if (rc) {
		part->step->outcome = rc == FLMEM_EFAILED ? FLMEM_TRIM_FAILED : FLMEM_TRIM_REFUSED;
		set_step_detail(part->step, err->message);
		return rc;
	}
	if (!part->run.answer.exception)
		return 0;
	part->step->outcome = FLMEM_TRIM_FAILED;
	set_step_detail(part->step, part->run.answer.exception);
	return flmem_error_set(err, FLMEM_EFAILED, 0, "'%s' in process %d raised %s", code->name,
			       (int)part->job->target->process.pid, part->run.answer.exception);
}

/* Begins a step. Returns false if it is skipped. */
static bool begin_python_step(struct python_part *part, const char *name)
{
	part->step = flmem_trim_job_step(part->job, name);
	if (!python_is_absent(part->job))
		return true;
	part->step->outcome = FLMEM_TRIM_SKIPPED;
	set_step_detail(part->step, "the process has no CPython");
	return false;
}

/* Returns true if a line of output reports that nothing was done, and takes the reason. */
static bool take_step_skip(struct python_part *part, const char *line)
{
	static const char skip[] = "skip: ";

	if (!flmem_text_starts(line, skip))
		return false;
	part->step->outcome = FLMEM_TRIM_SKIPPED;
	set_step_detail(part->step, line + sizeof(skip) - 1);
	return true;
}

static bool take_skip(struct python_part *part)
{
	const struct flmem_cpython_answer *answer = &part->run.answer;

	return answer->output && !answer->exception && take_step_skip(part, answer->output);
}

int flmem_trim_python(struct flmem_trim_job *job, struct flmem_error *err)
{
	const struct flmem_trim_code *given = job->options->python;
	const struct flmem_cpython_code code = {given->name, given->text, given->length};
	struct python_part part = {.job = job};
	int rc = 0;

	if (begin_python_step(&part, "python")) {
		rc = run_python_code(&part, &code, err);
		snprintf(job->result->output, sizeof(job->result->output), "%s",
			 part.run.answer.output ? part.run.answer.output : "");
		job->result->output_cut = part.run.answer.cut;
	}
	flmem_cpython_result_clear(&part.run);
	return rc;
}

int flmem_trim_collect(struct flmem_trim_job *job, struct flmem_error *err)
{
	const struct flmem_cpython_code code = {"gc.collect", collect_code,
						sizeof(collect_code) - 1};
	struct python_part part = {.job = job};
	int rc = 0;

	if (begin_python_step(&part, "gc.collect"))
		rc = run_python_code(&part, &code, err);
	if (!take_skip(&part) && part.run.answer.output && !part.run.answer.exception)
		snprintf(part.step->detail, sizeof(part.step->detail), "%.*s objects",
			 (int)strspn(part.run.answer.output, "0123456789"), part.run.answer.output);
	flmem_cpython_result_clear(&part.run);
	return rc;
}

int flmem_trim_inside(struct flmem_trim_job *job, struct flmem_error *err)
{
	const struct flmem_cpython_code code = {"malloc_trim", inside_code,
						sizeof(inside_code) - 1};
	struct python_part part = {.job = job};
	int rc = 0;

	part.step = flmem_trim_job_step(job, "malloc_trim");
	rc = run_python_code(&part, &code, err);
	if (!rc && (!part.run.answer.output || part.run.answer.output[0] == 's'))
		rc = flmem_error_set(err, FLMEM_EUNSAFE, 0,
				     "process %d has no blocked thread to borrow, and its program "
				     "has not imported ctypes",
				     (int)job->target->process.pid);
	if (rc)
		job->result->step_count--;
	flmem_cpython_result_clear(&part.run);
	return rc;
}

/*
 * Steps after that of PyTorch, made by the same code: it prints one line for each, with its name
 * and the result.
 */
static const char *const later_cuda_steps[] = {"cupy.free_all_blocks", "cudaMemPoolTrimTo"};

static void add_later_step(struct flmem_trim_job *job, const char *line)
{
	struct python_part part = {.job = job};
	const char *name = NULL;

	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(later_cuda_steps) && !name; i++)
		if (flmem_text_starts(line, later_cuda_steps[i]))
			name = later_cuda_steps[i];
	if (!name || line[strlen(name)] != ' ')
		return;
	line += strlen(name) + 1;
	part.step = flmem_trim_job_step(job, name);
	part.step->took_us = part.step->stopped_us = part.step->released_bytes =
		FLMEM_UNKNOWN("it ran in the code of torch.cuda.empty_cache");
	if (take_step_skip(&part, line))
		return;
	if (!flmem_text_starts(line, "failed: ")) {
		take_device_bytes(part.step, line);
		return;
	}
	part.step->outcome = FLMEM_TRIM_FAILED;
	set_step_detail(part.step, line + strlen("failed: "));
}

static int run_cuda_code(struct python_part *part, struct flmem_error *err)
{
	FLMEM_AUTO_BUF struct flmem_buf text = FLMEM_BUF_INIT;
	struct flmem_cpython_code code = {.name = "cuda"};

	flmem_cuda_code(&part->job->target->modules, cuda_code, &text);
	if (text.failed)
		return flmem_error_nomem(err, "cannot release CUDA memory");
	code.text = text.data;
	code.length = text.length;
	return run_python_code(part, &code, err);
}

int flmem_trim_cuda(struct flmem_trim_job *job, struct flmem_error *err)
{
	struct python_part part = {.job = job};
	const char *said;
	int rc = 0;

	if (begin_python_step(&part, "torch.cuda.empty_cache"))
		rc = run_cuda_code(&part, err);
	said = part.run.answer.output;
	if (said && !part.run.answer.exception) {
		if (!take_step_skip(&part, said))
			take_device_bytes(part.step, said);
		while ((said = strchr(said, '\n')))
			add_later_step(job, ++said);
	}
	flmem_cpython_result_clear(&part.run);
	return rc;
}
