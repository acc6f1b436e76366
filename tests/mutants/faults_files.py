# SPDX-License-Identifier: Apache-2.0
"""Faults in work that may be kept waiting, or is done with somebody else's rights."""
from faults import Fault

ATTEMPT = "libcore/base/attempt.c"
PAGES = "libcore/proc/files/read_hazard.c"
USER = "libcore/proc/files/fs_user.c"
EDIT = "libcore/documents/edit_check.c"
CONTROL = "libcore/ops/start/control_files.c"

ATTEMPTS = ("unit.test_attempt",)
FAULTED = ("unit.test_read_hazard",)
USERS = ("unit.test_fs_user",)
EDITS = ("unit.test_edit",)

FAULTS = (
    Fault("waited-for-ever", ATTEMPT, "same < patience && ", "",
          "giving up a read that is not answered", ATTEMPTS),
    Fault("late-for-ever", ATTEMPT, " && blocked < patience * FLMEM_ATTEMPT_TOTAL_FACTOR", "",
          "giving up reads without end that are answered late", ATTEMPTS),
    Fault("any-call-is-a-read", ATTEMPT, "*end == ' ' && can_block_forever(number);",
          "*end == ' ';",
          "not giving up work that only sleeps", ATTEMPTS),
    Fault("answers-not-seen", ATTEMPT, "same = strcmp(before, now) == 0 ? same + 1 : 1;",
          "same++;",
          "distinguishing one read from the next", ATTEMPTS),
    Fault("loss-not-reported", ATTEMPT, "atomic_store(&task->lost, true);", ";",
          "work that was given up touching nothing any more", ATTEMPTS),
    Fault("lost-context-kept", ATTEMPT, "task->how.release(task->context);", ";",
          "the context of work that was given up being released", ATTEMPTS, slow=True),
    Fault("stops-not-handed-over", ATTEMPT,
          "pthread_sigmask(SIG_UNBLOCK, &task->stops, NULL);", ";",
          "the thread that works taking the stops of terminals", ATTEMPTS),
    Fault("stops-against-the-caller", ATTEMPT,
          "if (sigismember(ret_before, stops[i]) == 1)", "if (0)",
          "leaving what the caller has blocked to it", ATTEMPTS),
    Fault("stops-kept", ATTEMPT, "pthread_sigmask(SIG_SETMASK, &before, NULL);", ";",
          "the caller having its signals back", ATTEMPTS),
    Fault("nested-attempt", ATTEMPT, "if (current)\n\t\treturn", "if (0)\n\t\treturn",
          "work within work that was given up knowing so", ATTEMPTS),
    Fault("pages-not-asked", PAGES, "if (!(entries[i] & (PRESENT | SWAPPED)))", "if (0)",
          "knowing which pages are not there", FAULTED),
    Fault("pages-first-part", PAGES, "count -= step;", "count = 0;",
          "checking all pages of a long range", FAULTED),
    Fault("pages-last-byte", PAGES,
          "(address + (length - 1)) / page - address / page + 1", "length / page + 1 - 1 / page",
          "counting the page of the last byte", FAULTED),
    Fault("pages-unknown-mount", PAGES,
          "return flmem_text_starts(mounts->rows[i].type, \"fuse\");\n\treturn true;",
          "return flmem_text_starts(mounts->rows[i].type, \"fuse\");\n\treturn false;",
          "not reading files of a mount that is not known", FAULTED),
    Fault("pages-all-served", PAGES,
          "return flmem_text_starts(mounts->rows[i].type, \"fuse\");", "return true;",
          "reading what the kernel itself serves", FAULTED),
    Fault("rights-kept", USER, "data[i].effective = 0;", ";",
          "a file being written without capabilities", USERS),
    Fault("groups-kept", USER, "syscall(SYS_setgroups, 0UL, NULL) && !is_same", "0",
          "a file being written without other groups", USERS),
    Fault("ids-not-checked", USER,
          "if (read_fs_uid() != user->uid || read_fs_gid() != user->gid)", "if (0)",
          "writing nothing under an id that could not be taken", USERS),
    Fault("late-work-kept", USER, "run->work.abandon(run->work.context);", ";",
          "undoing what comes too late", USERS, slow=True),
    Fault("undumpable", USER, "prctl(PR_SET_DUMPABLE, 1UL);", ";",
          "the caller staying as readable as it was", USERS),
    Fault("dumpable-again", USER, "if (dumpable == 1 && ", "if (",
          "the caller staying as closed as it was", USERS),
    Fault("signals-in-its-thread", USER, "sigfillset(&all);", "sigemptyset(&all);",
          "signals being for the threads of the program", USERS),
    Fault("edit-any-value", EDIT,
          "return node->place.start == start && node->place.end == start + "
          "strlen((*edit)->text);", "return true;",
          "the new value being what was written", EDITS),
    Fault("edit-any-key", EDIT, "if (!is_same_key(before, after))", "if (0)",
          "keys staying what they are", EDITS),
    Fault("edit-any-kind", EDIT,
          "if (before->kind != after->kind || strcmp(before->text, after->text) != 0)", "if (0)",
          "other values staying what they are", EDITS),
    Fault("edit-more-keys", EDIT, " && !b->next) {", ") {",
          "one key being added and no more", EDITS),
    Fault("edit-any-list", EDIT, "!a && b && before->kind == FLMEM_NODE_MAP && ", "!a && b && ",
          "lists staying as long as they are", EDITS),
    Fault("edit-not-found", EDIT, " && comparison.found == count;", ";",
          "every edit showing in the document", EDITS),
    Fault("restarts-for-what-stays", CONTROL, "!control->restart_stays && is_requested",
          "is_requested",
          "a command that is restarted by a request which cannot be removed",
          ("cli.supervise_foreign/cannot be removed",)),
    Fault("directory-is-a-request", CONTROL, "!S_ISDIR(status.st_mode);", "true;",
          "a command that is ended by a directory",
          ("cli.supervise_foreign/directory is no request",)),
)
