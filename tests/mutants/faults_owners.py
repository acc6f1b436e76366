# SPDX-License-Identifier: Apache-2.0
"""Faults in the protection of a flmem of root against processes and files of other users."""
from faults import Fault

ADOPT = "libcore/ops/start/adopt.c"
ATTRIBUTES = "libcore/base/files/file_attributes.c"
PLACE = "libcore/base/files/file_place.c"
PROCESS = "libcore/proc/process.c"
SECCOMP = "libcore/remote/seccomp/seccomp.c"
WRITE = "libcore/ops/recommend/recommend_write.c"

ADOPTED = ("cli.supervise_foreign",)
CORRECTED = ("unit.test_correct", "cli.fix_foreign")
# Tests that need other users, attributes or ACLs.
FOREIGN = ("cli.fix_foreign",)

FAULTS = (
    Fault("log-written-anew", "libcore/ops/watch/log_tail.c", "|| is_written_anew(log)))", "|| (is_written_anew(log) && 0)))",
          "a log that was emptied and has grown again", ("unit.test_log_tail",)),
    Fault("log-copied", "libcore/ops/watch/log_tail.c", "\tpass_copied_lines(log);", "\t(void)pass_copied_lines;",
          "the lines of a copy that takes the place of a log", ("unit.test_log_tail",)),
    Fault("log-copied-in-a-line", "libcore/ops/watch/log_tail.c", "left->offset - (off_t)log->left_length", "left->offset",
          "a line that had begun when a log was replaced", ("unit.test_log_tail",)),
    Fault("log-copy-unread", "libcore/ops/watch/log_tail.c", "memcmp(now, left->seen, left->seen_length) == 0", "1",
          "another log of the same length", ("unit.test_log_tail",)),
    Fault("log-hole", "libcore/ops/watch/log_tail.c", " &&\n\t       !is_log_hole(now, log->next.seen_length)", "; (void)is_log_hole",
          "a hole where a log was cut", ("unit.test_log_tail",)),
    Fault("recording-damage-unsaid", "libcore/ops/recommend/recommend_recording.c",
          "\tif (!summary->record_skipped_bytes)\n", "\tif (1)\n", "what of a recording is not checked",
          ("cli.recommend/a recording is checked like a file",)),
    Fault("adopted-set-id", ADOPT,
          "status.uid.effective == own && status.uid.saved == own &&", "1 &&",
          "leaving alone what can become another user again", ADOPTED),
    Fault("adopted-elsewhere", ADOPT,
          "flmem_file_is_same(&own, &its);", "1;",
          "leaving alone what is in another pid namespace", ADOPTED),
    Fault("adopted-any-command", ADOPT, "if (strcmp(words.values[before + i], argv[i]) != 0)",
          "if (0)", "leaving alone what runs another command", ADOPTED),
    Fault("adopted-of-a-copy", ADOPT, "if (!is_in_same_directory(process))", "if (0)",
          "leaving the job of a copied workspace alone", ("cli.supervise_foreign/copied",)),
    Fault("adopted-never-moved", ADOPT, "return there && strcmp(there, here) == 0;", "return false;",
          "taking over a command that has changed its directory", ("cli.supervise_foreign/copied",)),
    Fault("adopted-ancestor", ADOPT, "if (at == process->pid)\n\t\t\treturn true;", "",
          "leaving alone what flmem descends from", ADOPTED),
    Fault("fix-keeps-set-id", ATTRIBUTES, "status->st_mode & 0777", "status->st_mode & 07777",
          "making no program that runs as another user", CORRECTED),
    Fault("fix-keeps-capabilities", ATTRIBUTES,
          "int rc = is_left_out(name) ? 0 : copy_attribute", "int rc = copy_attribute",
          "making no program with capabilities", FOREIGN),
    Fault("fix-keeps-default-acl", ATTRIBUTES,
          "if (fremovexattr(to, ACL_ATTRIBUTE) < 0 && ", "if (0 && ",
          "leaving out the default ACL of the directory", FOREIGN),
    Fault("fix-takes-ownership", ATTRIBUTES, "fchown(to, status->st_uid, status->st_gid) < 0",
          "0", "keeping the owner", FOREIGN),
    Fault("fix-follows-links", PLACE, "\tif (S_ISLNK(status.st_mode))\n\t\treturn -ELOOP;\n", "",
          "not following symbolic links", CORRECTED),
    Fault("fix-breaks-hard-links", WRITE, "if (w->status.st_nlink != 1)", "if (0)",
          "leaving a file with two names", CORRECTED),
    Fault("fix-in-another-folder", WRITE, " || !is_identified_file(&c->folder, &folder)", "",
          "writing into the folder that was checked", CORRECTED),
    Fault("reads-devices", PROCESS, "S_ISREG(status.st_mode) && ", "",
          "reading regular files only", ("unit.test_process",)),
    Fault("follows-magic-links", PROCESS, "RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS",
          "RESOLVE_IN_ROOT", "not following links of /proc", ("unit.test_process",)),
    Fault("writes-after-it-was-given-up", PROCESS,
          "\tif (flmem_attempt_is_lost())\n\t\treturn -ETIMEDOUT;\n", "",
          "writing nothing for a caller that has given up", ("unit.test_attempt",)),
    Fault("seccomp-of-other-threads", SECCOMP,
          "if (flmem_task_has_ended(rc) ||\n\t\t    (!rc && other", "if (1 ||\n\t\t    (!rc && other",
          "code of the program under the filters that it always met",
          ("unit.test_seccomp_thread",)),
    Fault("seccomp-filters-not-counted", SECCOMP,
          " || (count != UINT64_MAX && index != count)", "",
          "reading all filters", ("unit.test_seccomp_thread",)),
    Fault("seccomp-strict-at-the-stop", SECCOMP,
          "\tif (state.mode != SECCOMP_MODE_FILTER)\n\t\treturn refuse_mode(&in);\n"
          "\treturn check_filters",
          "\treturn check_filters", "refusing strict mode", ("unit.test_seccomp_thread",)),
)
