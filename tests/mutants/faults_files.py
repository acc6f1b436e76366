# SPDX-License-Identifier: Apache-2.0
"""Faults in work that may be kept waiting, or is done with somebody else's rights."""
from faults import Fault

ATTEMPT = "libcore/base/attempt.c"
PAGES = "libcore/proc/files/read_hazard.c"
APART = "libcore/base/apart.c"
USER = "libcore/proc/files/fs_user.c"
EDIT = "libcore/documents/edit_check.c"
CONTROL = "libcore/ops/start/control_files.c"
SEARCH = "libcore/elf/search.c"
MAPPED = "libcore/ops/aggregate/input_mapped.c"
BLOCK = "libcore/ops/aggregate/block.c"
CHOICE = "libcore/ops/aggregate/choose.c"
MODULES = "libcore/elf/modules.c"
ARM_CODE = "libcore/allocators/arm_code.c"

ATTEMPTS = ("unit.test_attempt",)
FAULTED = ("unit.test_read_hazard",)
APARTS = ("unit.test_apart",)
USERS = ("unit.test_fs_user",)
EDITS = ("unit.test_edit",)
CHANGED = ("unit.test_input_changed",)
WINDOWS = ("unit.test_input_mapped",)

FAULTS = (
    Fault("hole-splits-module", MODULES, "!map->inode || is_hole(map)",
          "!map->inode || (0 && is_hole(map))",
          "passing over the inaccessible parts between the segments of a library",
          ("unit.test_modules",)),
    Fault("arm-base-kept", ARM_CODE, "\t\tforget_results(registers, code);\n", "\t\t(void)forget_results;\n",
          "forgetting the registers that an unknown instruction writes", ("unit.test_arm_code",)),
    Fault("arm-behind-a-jump", ARM_CODE, "if (is_arm_jump(word))", "if (0 && is_arm_jump(word))",
          "reading no code behind a jump", ("unit.test_arm_code",)),
    Fault("mapped-failure-unseen", MAPPED, "windows->failed = true;", ";",
          "knowing that pages were replaced by zeros", WINDOWS + CHANGED),
    Fault("mapped-block-kept", BLOCK,
          "flmem_mapped_windows_clear(mapped);\n\treturn combine_once(block, err);",
          "flmem_mapped_windows_clear(mapped);\n\treturn rc;",
          "combining a block again of which pages failed", CHANGED),
    Fault("mapped-windows-kept", BLOCK, "\tflmem_mapped_windows_clear(mapped);\n",
          "\tmapped->failed = 0;\n", "reading the second time without mapped pages", CHANGED),
    Fault("mapped-equal-now", BLOCK, "while (same < bytes && first[same]", "while (first[same]",
          "a difference that disappears while it is looked for", CHANGED),
    Fault("mapped-cause", CHOICE, "\t\tname_changed_input(call, err);", "\t\t(void)name_changed_input;",
          "a changed input being named as the cause", CHANGED),
    Fault("mapped-signal-taken", MAPPED, "if (sent && earlier.sa_handler == SIG_IGN)", "if (0)",
          "keeping the handler where SIGBUS is ignored", WINDOWS),
    Fault("mapped-handler-lost", MAPPED, "if (!handled || ", "if (1 || ",
          "keeping the handler where the program has one, too", WINDOWS, slow=True),
    Fault("mapped-holes", MAPPED, "has_holes(&file->status) ? -1 : file->fd", "file->fd",
          "not filling holes of files in memory", WINDOWS),
    Fault("code-of-any-length", SEARCH, "if (extents[i].size > left)", "if (0)",
          "searching only so much of a file for code",
          ("cli.hostile/64 GiB of code",), slow=True),
    Fault("waited-for-ever", ATTEMPT, "same < patience && ", "",
          "giving up a read that is not answered", ATTEMPTS, slow=True),
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
    Fault("abandoned-forgotten", ATTEMPT, "\t\tadd_abandoned(task);\n", "",
          "one attempt at a time waiting for a process", ATTEMPTS),
    Fault("abandoned-kept", ATTEMPT, "\tremove_abandoned(task);\n", "",
          "a process that has answered being tried again", ATTEMPTS),
    Fault("child-signals-kept", ATTEMPT, "SIGTTOU, SIGCHLD}", "SIGTTOU}",
          "the waiting thread not being woken by the stops of a traced thread", ATTEMPTS),
    Fault("descriptors-not-grown", ATTEMPT, "\tgrow_descriptor_table();\n", "",
          "the table of descriptors growing before a thread is held", ATTEMPTS),
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
    Fault("late-work-kept", APART, "apart->undo(apart->context);", ";",
          "undoing what comes too late", USERS, slow=True),
    Fault("signals-in-its-child", APART, "sigfillset(&all);", "sigemptyset(&all);",
          "signals being for the program", USERS),
    Fault("left-child-holds-output", APART, "close_all_but(before, DESCRIPTORS + 1);", "(void)close_all_but;",
          "the output of a flmem that left a child coming to its end", APARTS, slow=True),
    Fault("left-children-pile-up", APART, "return is_free;", "return is_free || 1;",
          "not leaving one child after another", APARTS),
    Fault("killed-child-unseen", APART, "*ret_rc = -EIO; /* it was killed */", ";",
          "noticing that a child was killed", APARTS),
    Fault("child-descriptors-lost", APART, "memcpy(apart->descriptors[i], at, sizeof(int));", ";",
          "taking what a child has opened", APARTS),
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
