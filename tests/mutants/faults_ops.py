# SPDX-License-Identifier: Apache-2.0
"""Faults in the trim itself."""
from faults import Fault

ERRAND = "libcore/ops/target/target_guard.c"
TRIM = "libcore/ops/trim/trim.c"
PART = "libcore/ops/trim/trim_allocator.c"

FAULTS = (
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
    Fault("dry-run-touches", PART, "rc = job->options->dry_run\n", "rc = 0\n",
          "a dry run that touches nothing",
          ("unit.test_trim", "cli.trim")),
)
