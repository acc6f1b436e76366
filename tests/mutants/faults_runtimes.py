# SPDX-License-Identifier: Apache-2.0
"""Faults in how code gets into a Python."""
from faults import Fault

STATE = "libcore/runtimes/cpython_state.c"
PENDING = "libcore/runtimes/cpython_pending.c"
TESTS = ("unit.test_cpython_image",)

FAULTS = (
    Fault("free-threaded", STATE, "if (place.layout.free_threaded)", "if (0)",
          "refusing an interpreter without the lock",
          TESTS),
    Fault("finalizing-not-read", STATE, "state->finalizing = finalizing != 0;",
          "state->finalizing = false;",
          "knowing that an interpreter is ending",
          TESTS),
    Fault("finalizing-not-read-again", STATE, "*ret_finalizing = finalizing != 0;",
          "*ret_finalizing = false;",
          "knowing that an interpreter is ending now",
          TESTS),
    Fault("gil-nonsense", STATE, "if (locked < 0 || locked > 1 ||", "if (",
          "refusing a lock that was never made",
          TESTS),
    Fault("sub-interpreters-mixed", STATE,
          ".main_interpreter = interpreter == state->main_interpreter,",
          ".main_interpreter = true,",
          "telling threads of sub-interpreters apart",
          TESTS),
    Fault("list-not-checked", STATE, "owner != interpreter || before != previous)", "0)",
          "a list of threads that contradicts itself",
          TESTS),
    Fault("gil-waiters", STATE,
          "return at->number == SYS_futex && at->args[0] >= gil->start && at->args[0] < gil->end;",
          "return false;",
          "recognising a thread that waits for the interpreter's lock",
          TESTS),
    Fault("main-thread", STATE, "if (state->threads[i].pointer == state->main_pointer)", "if (1)",
          "finding the main thread by its own pointer",
          TESTS),
    Fault("pending-list-held", PENDING, "else if (!is_free(in))", "else if (0)",
          "refusing a main thread that holds the lock of the list of pending calls",
          ("cli.pending_lock",)),
)
