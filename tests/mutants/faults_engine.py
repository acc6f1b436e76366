# SPDX-License-Identifier: Apache-2.0
"""Faults in switching a process's own jemalloc, and in reading its dumps."""
from faults import Fault

ENGINE = "libcore/ops/profile/jemalloc_engine.c"
STATE = "libcore/allocators/jemalloc/jemalloc_profiling.c"
DUMP = "libcore/profiler/jemalloc_dump.c"
READ = "libcore/profiler/read_jemalloc.c"

REFUSED = ("cli.profile_jemalloc/was not started for it",)
LIMITED = ("cli.profile_jemalloc/a limit for the size",)
READER = ("unit.test_heap_dump",)

FAULTS = (
    Fault("dump-addresses", READ, "if (kept > FLMEM_JEMALLOC_ADDRESSES_MAX)", "if (0)",
          "bounding the addresses of a dump", READER),
    Fault("engine-other-allocator", ENGINE,
          "if (e->found && e->found->ops->kind == FLMEM_ALLOCATOR_JEMALLOC)", "if (e->found)",
          "refusing another allocator", REFUSED),
    Fault("engine-not-prepared", STATE, "if (!state.prepared)", "if (0)",
          "refusing a process that was not started for it", REFUSED),
    Fault("engine-active", ENGINE, "if (e->state.active)", "if (0)",
          "refusing what is sampled already", ("cli.profile_jemalloc/which another flmem began",)),
    Fault("engine-whole-dump", ENGINE, "return is_whole_dump(e, text) ?",
          "return 1 || is_whole_dump(e, text) ?",
          "noticing a dump that was not written to its end", LIMITED),
    Fault("engine-dry-run", ENGINE, "if (options->dry_run)\n\t\treturn dry_run_engine",
          "if (0)\n\t\treturn dry_run_engine", "making no call in a dry run",
          ("cli.profile_jemalloc/a dry run",)),
    Fault("engine-path-of-flmem", ENGINE, "make_dump_call(e, &thread, file->seen_path, err)",
          "make_dump_call(e, &thread, file->path, err)",
          "writing the dump where the process sees it", ("cli.profile_jemalloc/in a container",)),
    Fault("dump-bias", DUMP, "factor = -1 / expm1(-mean / (double)interval_bytes);",
          "factor = mean > 0 && interval_bytes;",
          "removing the bias of the samples", READER),
    Fault("dump-sampler", READ, "flmem_map_is_sampler(map);", "0;",
          "leaving out frames of flmem's own sampler", READER),
    Fault("pprof-system-name", "libcore/report/pprof.c", "put_pprof_number(&e->part, FUNCTION_ID, id);",
          "put_pprof_number(&e->part, FUNCTION_ID, id);\n"
          "\tput_pprof_number(&e->part, FUNCTION_NAME + 1, put_string(e, name));",
          "letting pprof show what is called <module>", ("cli.profile_read/pprof is what Go reads",)),
    Fault("dump-inode", READ, "if (status.st_ino != map->inode)", "if (0)",
          "taking no names from another file", READER),
    Fault("dump-changed", READ, "if (status.st_mtime > r->written_s)",
          "if (status.st_mtime < 0 && !r->written_s)",
          "taking no names from a file that has changed", READER),
    Fault("dump-cut", DUMP, "text->dump->cut = !text->at_end;", ";",
          "noticing that a dump is cut", READER),
    Fault("dump-deep", DUMP, "stack->cut = true;", ";",
          "limiting the depth of stacks", READER),
)
