# SPDX-License-Identifier: Apache-2.0
"""Faults in the trim itself."""
from faults import Fault

ERRAND = "libcore/ops/target/target_guard.c"
TRIM = "libcore/ops/trim/trim.c"
PART = "libcore/ops/trim/trim_allocator.c"
UNLOCKED = "libcore/remote/checks/libc_threads.c"
TASK = "libcore/proc/task.c"
PYTHON = "libcore/ops/trim/trim_python.c"
ASK = "libcore/ops/target/query.c"
HOOKS = "libcore/ops/target/target_hooks.c"
GLIBC = "libcore/allocators/glibc/glibc.c"
DAMAGE = "libcore/allocators/glibc/glibc_check.c"
MIMALLOC = "libcore/allocators/mimalloc.c"
TCMALLOC = "libcore/allocators/tcmalloc/tcmalloc.c"
JEMALLOC = "libcore/allocators/jemalloc/jemalloc_hooks.c"

FAULTS = (
    Fault("damage-wall-time", DAMAGE, "flmem_clock_cpu_ns() >= check->cpu_deadline_ns", "0",
          "a limit to the processor time of the heap check",
          ("unit.test_glibc_check",)),
    Fault("damage-preempted", DAMAGE, "WALL_LIMIT * budget_ns", "budget_ns",
          "checking for damage on a busy machine, too",
          ("unit.test_glibc_check",)),
    Fault("damage-not-confirmed", DAMAGE, ": !next.late", ": true",
          "refusing damage that no further check reached",
          ("unit.test_glibc_check",)),
    Fault("reused-pid", ERRAND, "if (start_time && start_time != target->process.start_time)",
          "if (0)",
          "refusing another process of the same number",
          ("unit.test_trim",)),
    Fault("identity", ERRAND, "rc = flmem_preflight_identity(&target->process, err);", "rc = 0;",
          "refusing flmem itself, kernel threads and the dead",
          ("unit.test_trim",)),
    Fault("guard-code", ERRAND, "if (map->flags & FLMEM_MAP_EXEC)", "if (0)",
          "knowing where the allocator's code is",
          ("unit.test_target_guard",)),
    Fault("guard-locks", ERRAND, "if (map->flags & FLMEM_MAP_WRITE)", "if (0)",
          "knowing where the allocator's locks are",
          ("unit.test_target_guard",)),
    Fault("guard-joins", ERRAND, "guard->may_join_threads = true;", ";",
          "knowing that an allocator which joins threads is built in",
          ("unit.test_target_guard",)),
    Fault("runtimes", ERRAND, "if (list->rows[i].ops->is_runtime)", "if (0)",
          "refusing Java and Go",
          ("unit.test_target_guard",)),
    Fault("guard-not-filled", TRIM,
          "flmem_target_guard_fill(&job->target->view, &job->target->allocators, &job->guard);\n"
          "\tjob->result->rss_before_bytes",
          "job->result->rss_before_bytes",
          "the allocator's code and locks being known to the borrower",
          ("unit.test_trim",)),
    Fault("damaged-heap", TRIM, "int rc = flmem_trim_check(job, err);", "int rc = 0;",
          "refusing a damaged heap",
          ("cli.trim_python/damaged",)),
    Fault("unlocked-heap", UNLOCKED,
          "(has_several_threads(view->process) || shares_memory(view->process))", "false",
          "refusing a heap that glibc does not lock",
          ("cli.trim_bare",)),
    Fault("unlocked-by-a-process", UNLOCKED, " || shares_memory(view->process)", "",
          "refusing a heap that another process uses",
          ("cli.trim_bare",)),
    Fault("unlocked-not-asked-for", "libcore/remote/checks/preflight.c",
          "return flmem_libc_threads_check(view, err);", "return 0;",
          "asking for threads that the C library does not know", ("cli.trim_bare",)),
    Fault("unlocked-not-read", UNLOCKED, "!value)", "value)",
          "trimming a program whose threads glibc knows",
          ("cli.trim",)),
    Fault("kernels-threads", TASK, "flags & KERNELS_FLAGS", "flags & 0",
          "knowing threads of the kernel from those of the program",
          ("cli.trim_bare",)),
    Fault("dry-run-touches", PART, "rc = job->options->dry_run\n", "rc = 0\n",
          "a dry run that touches nothing",
          ("unit.test_trim", "cli.trim")),
    Fault("hooks-before-trim", PART, "rc = check_allocator_hooks(part);", "rc = 0;",
          "running no function of the program in a trim",
          ("cli.trim_hooks/jemalloc",)),
    Fault("hooks-before-thread", PYTHON,
          "rc = check_python_hooks(part->job, &call, &stopped_us, err);",
          "rc = 0;",
          "running no function of the program when a thread is started",
          ("cli.trim_hooks/Python",)),
    Fault("hooks-before-query", ASK,
          "rc = flmem_target_hooks_check(view, &list->rows[i], &options,\n"
          "\t\t\t\t\t\t      &asked.stopped_us, &err);", "rc = 0;",
          "running no function of the program in a query",
          ("cli.trim_hooks/jemalloc",)),
    Fault("hooks-first-arenas", HOOKS, "if (rc || !next)", "if (1)",
          "reading the hooks of all arenas",
          ("cli.trim_hooks/extent",)),
    Fault("hooks-of-glibc", GLIBC,
          "function && flmem_modules_find(view->modules, function) != found->module", "0",
          "refusing where malloc_trim() of an old glibc calls the program",
          ("unit.test_hooks",)),
    Fault("hooks-any-glibc", GLIBC, "minor <= LAST_HOOKS_MINOR", "minor",
          "knowing which glibc calls hooks",
          ("unit.test_hooks",)),
    Fault("hooks-of-mimalloc", MIMALLOC,
          'return flmem_call_plan_refuse_hook(view, found, "a function (mi_register_deferred_free)",\n'
          "\t\t\t\t\t   err);",
          "return 0;",
          "refusing where mi_collect() calls the program",
          ("unit.test_hooks",)),
    Fault("hooks-of-tcmalloc", TCMALLOC,
          "flmem_modules_find(view->modules, functions) == found->module", "1",
          "refusing where tcmalloc gets its memory from the program",
          ("unit.test_hooks",)),
    Fault("hooks-of-built-in", JEMALLOC, "return OWNER_UNKNOWN;", "return OWNER_JEMALLOC;",
          "refusing where hooks and jemalloc's own functions cannot be distinguished",
          ("cli.trim_hooks/built",)),
    Fault("collects-beside-greenlets", PYTHON,
          "g=[m for m in('gevent','eventlet')if m in sys.modules]", "g=[]",
          "finalisers that use an event loop of one thread",
          ("cli.trim_threads/greenlets",)),
    Fault("collects-beside-replaced-threads", PYTHON, "if not g and type(", "if 0 and type(",
          "finalisers of programs that replace threads",
          ("cli.trim_threads/greenlets",)),
)
