/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/target/query_cuda.h"

#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/text/text.h"
#include "ops/target/cuda_code.h"
#include "ops/target/query.h"
#include "ops/target/target_guard.h"
#include "ops/target/target_hooks.h"
#include "runtimes/cpython_call.h"

/*
 * The script of the query. Names are those that torch.cuda.memory_stats and
 * torch.cuda.host_memory_stats document. The total of page-locked memory is `reserved`, in later
 * releases `allocated` (HostStats in ATen's CachingHostAllocator.h). The part in use does not fall
 * when memory is freed before 2.13 (PyTorch #171662, #183067; seen in 2.11). If CUDA was not
 * initialised through torch, the query would initialise it.
 *
 * The pools of CuPy are per device, and the thread stays on the last one: returning to device 0
 * would create a context there. RMM's resources are chains; those named PoolMemoryResource have a
 * pool_size() (RMM's documentation), and one that several devices share is counted once.
 */
static const char query_code[] =
	"def torch():\n"
	" t=sys.modules.get('torch')\n"
	" c=getattr(t,'cuda',None)\n"
	" if c is None or not c.is_initialized():return[0]*5\n"
	" s=[c.memory_stats(i) for i in range(c.device_count())]\n"
	" n=[sum(d.get(k+'.all.current',0) for d in s) for k in "
	"('reserved_bytes','allocated_bytes','inactive_split_bytes')]\n"
	" h=getattr(c,'host_memory_stats',dict)()\n"
	" p=h.get('reserved_bytes.current',h.get('allocated_bytes.current','-'))\n"
	" v=str(getattr(t,'__version__','')).split('.')[:2]\n"
	" v=[int(x)for x in v if x.isdigit()]\n"
	" return n+[p,h.get('active_bytes.current','-')if v>=[2,13]else'-']\n"
	"def cupy():\n"
	" p=sys.modules.get('cupy')\n"
	" n=[0,0]\n"
	" if p is None:return n\n"
	" m=p.get_default_memory_pool()\n"
	" for i in driver()[1]:\n"
	"  p.cuda.Device(i).use()\n"
	"  n=[n[0]+m.total_bytes(),n[1]+m.used_bytes()]\n"
	" return n\n"
	"def rmm():\n"
	" m=getattr(sys.modules.get('rmm'),'mr',None)\n"
	" if m is None:return[0]\n"
	" n={}\n"
	" for i in driver()[1]:\n"
	"  r=m.get_per_device_resource(i)\n"
	"  while r is not None:\n"
	"   if type(r).__name__=='PoolMemoryResource':n[id(r)]=r.pool_size()\n"
	"   r=getattr(r,'upstream_mr',None)\n"
	" return[sum(n.values())]\n"
	"def pools():\n"
	" d,s=driver()\n"
	" s=[pool(d,i,False) for i in s]\n"
	" return[sum(x[0] for x in s),sum(x[1] for x in s)]\n"
	"def query(f,n):\n"
	" try:return f()\n"
	" except Exception:return['?']*n\n"
	"n=[]\n"
	"for f,i in(torch,5),(cupy,2),(rmm,1),(pools,2):n+=query(f,i)\n"
	"print(*n)\n"
	"del driver,pool,torch,cupy,rmm,pools,query,f\n";

static const char query_cuda_no_answer[] = "the process did not report it";
static const char not_told[] = "this release of PyTorch does not report it, or not correctly";
static const char raised[] = "the query for it raised an exception in the process";
static const char query_cuda_refused[] = "its Python interpreter could not be queried";

static void set_all(struct flmem_cuda_report *cuda, const char *reason)
{
#define CUDA_UNKNOWN(field) cuda->field = FLMEM_UNKNOWN(reason);
	FLMEM_CUDA_QUERIED(CUDA_UNKNOWN)
#undef CUDA_UNKNOWN
}

void flmem_query_cuda_parse(const char *answer, struct flmem_cuda_report *cuda)
{
	struct flmem_u64 *const fields[] = {
#define CUDA_FIELD(field) &cuda->field,
		FLMEM_CUDA_QUERIED(CUDA_FIELD)
#undef CUDA_FIELD
	};

	set_all(cuda, query_cuda_no_answer);
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(fields); i++) {
		uint64_t value;

		if (*answer == '-' || *answer == '?') {
			*fields[i] = FLMEM_UNKNOWN(*answer == '-' ? not_told : raised);
			answer++;
		} else if (flmem_text_read_digits(&answer, &value)) {
			*fields[i] = FLMEM_KNOWN(value);
		} else {
			return;
		}
		answer += *answer == ' ';
	}
}

void flmem_query_cuda(const struct flmem_view *view, const struct flmem_allocator_list *list,
		      const struct flmem_borrow_options *how, struct flmem_cuda_report *cuda,
		      struct flmem_query_report *asked)
{
	FLMEM_AUTO_CPYTHON_RESULT struct flmem_cpython_result result = {0};
	FLMEM_AUTO_BUF struct flmem_buf code = FLMEM_BUF_INIT;
	struct flmem_error err = {0};
	FLMEM_AUTO_FREE struct flmem_guard *guard = flmem_target_guard_new(view, list);
	struct flmem_target_start start = {view, list, guard};
	uint64_t checked_us = flmem_clock_us();
	struct flmem_cpython_call call = {
		.guard = guard,
		.recheck = flmem_target_hooks_recheck_start,
		.rechecker = &start,
		.checked_us = &checked_us,
		.timeout_us = how->timeout_us,
		.assume_seccomp = how->assume_seccomp,
	};
	int rc;

	flmem_cuda_code(view->modules, query_code, &code);
	call.code = (struct flmem_cpython_code){"flmem detect", code.data, code.length};
	asked->tried = true;
	rc = code.failed || !guard ? flmem_error_nomem(&err, "cannot query CUDA")
				   : flmem_target_guard_check(view, list, true, &err);
	if (!rc)
		rc = flmem_target_hooks_check_start(view, list, &call, &asked->stopped_us, &err);
	if (!rc)
		rc = flmem_cpython_call(view, &call, &result, &err);
	asked->thread = result.tid ? result.tid : asked->thread;
	asked->stopped_us += result.stopped_us;
	set_all(cuda, rc ? query_cuda_refused : query_cuda_no_answer);
	if (rc) {
		flmem_query_set_failure(asked, rc, &err);
	} else if (result.answer.output && !result.answer.exception) {
		flmem_query_cuda_parse(result.answer.output, cuda);
	}
}
