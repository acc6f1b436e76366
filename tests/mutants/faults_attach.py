# SPDX-License-Identifier: Apache-2.0
"""Faults in attaching the sampler to a running process, and detaching it."""
from faults import Fault

GOT = "libcore/preload/sampler/got.c"
FORKS = "libcore/preload/sampler/forks.c"
OBJECTS = "libcore/preload/sampler/objects.c"
ATTACH = "libcore/preload/sampler/orders.c"
TRAMPOLINES = "libcore/preload/sampler/trampolines.c"
LIFETIME = "libcore/preload/sampler/lifetime.c"
FILE = "libcore/ops/profile/attached_file.c"
ORDER = "libcore/ops/profile/attach.c"
PROTECTION = "libcore/preload/sampler/protection.c"
PREPARE = "libcore/ops/profile/prepare.c"
THREADS = "libcore/ops/profile/attached_threads.c"

EVERY = ("cli.profile_attach/every entry",)
TWICE = ("cli.profile_attach/two at once",)
FORKED = ("cli.profile_attach/forked while",)
OTHERS = ("cli.profile_attach/an allocator that one library",)
SEVERAL = ("cli.profile_attach/of several at the same moment",)
KEPT = ("cli.profile_attach/keeps the old file",)
LATER = ("cli.profile_attach/libraries that are loaded",)

FAULTS = (
    Fault("attach-room", ORDER, "return rc ? rc : check_attach_room(attempt, target, err);", "return rc;",
          "a profile that takes the last of the address space",
          ("cli.profile_attach/nearly",)),
    Fault("attach-protection", GOT, "if (pass->page && !(pass->access & PROT_WRITE))", "if (0)",
          "setting the protection of a page back", EVERY),
    Fault("attach-restore", GOT, "original = change ? change->original : hook->real;",
          "original = hook->own;", "putting entries back", EVERY),
    Fault("attach-unbound", GOT,
          "if (hook->real && original != hook->real && !is_unbound(pass, object, original, entry))",
          "if (original != hook->real)", "putting back entries that were not bound", EVERY),
    Fault("attach-leave-redirected", ATTACH, "left = sampler_got_restore();", "left = 0;",
          "putting entries back when it ends", EVERY),
    Fault("attach-fork-in-walk", FORKS, "i < WAITS_MAX && read_count(&walking)", "0",
          "holding forks back while the linker's list is locked", FORKED),
    Fault("attach-walk-in-fork", ATTACH, "sampler_walk_prepare();", ";",
          "knowing of forks before the first walk", FORKED),
    Fault("attach-late-objects", GOT, "if (!sampler_thread.opened || !sampler_is_active())",
          "if (1)", "redirecting objects without start files that are loaded later",
          ("cli.profile_late/without the start files",)),
    Fault("attach-beginning-objects", GOT, "if (sampler_walk_try())", "if (0)",
          "redirecting objects before their constructors", ("cli.profile_late/only opened",)),
    Fault("attach-not-global", ORDER, "RTLD_NOW | RTLD_GLOBAL", "RTLD_NOW",
          "a sampler that later objects find", ("cli.profile_late/only opened",)),
    Fault("attach-waits-in-linker", FORKS, "if (read_count(&forking) <= sampler_thread.forking)", "if (1)",
          "not walking over the linker's list while another thread forks",
          ("cli.profile_late/while another thread forks",)),
    Fault("attach-fork-in-fork", FORKS, "\tsampler_thread.forking++;", "\tsampler_thread.forking = 1;",
          "counting the forks of a thread", ("cli.profile_late/interrupts a fork",)),
    Fault("attach-own-search-path", TRAMPOLINES, '"jmp *sampler_next_" #name "(%rip)\\n"',
          '"subq $8, %rsp\\ncall *sampler_next_" #name "(%rip)\\naddq $8, %rsp\\nret\\n"',
          "opening libraries as their caller would", LATER),
    Fault("attach-canonical-entry", OBJECTS,
          "return symbol->st_shndx != SHN_UNDEF && symbol->st_value &&",
          "return symbol->st_value &&", "keeping the program's entry apart", EVERY),
    Fault("attach-sampled", ORDER, "if (attached->state.phase != FLMEM_SAMPLER_IDLE)", "if (0)",
          "refusing what is sampled already", TWICE),
    Fault("attach-other-place", FILE, "if (!is_seen_by(process, file.seen_path, &work->created))",
          "if (0)", "refusing a file that the process does not see",
          ("cli.profile_attach/in another mount",)),
    Fault("attach-children", LIFETIME, "dormant = 1; /* children sample nothing */",
          "dormant = 0; sampler_life.inherited.flags |= FLMEM_PROFILE_FOLLOW;", "leaving children alone",
          ("cli.profile_attach/a child of fork",)),
    Fault("attach-own-functions", GOT, "return code[0] == PUSH && index == entry->index;",
          "return index || !index;", "telling a library's own function from the code of its PLT",
          OTHERS),
    Fault("attach-old-tables", OBJECTS,
          "return object->old_hash ? search_old_hash(object, name, ret_symbol) : 0;", "return 0;",
          "finding definitions in tables of symbols of the old kind", OTHERS),
    Fault("attach-any-definition", OBJECTS,
          "*found = &object->symbols[index];\n\treturn 1;",
          "*found = &object->symbols[index];\n\treturn is_definition(object, index);",
          "counting definitions that are not plain functions", OTHERS),
    Fault("attach-passed-on", GOT, "if (!sampler_hooks_pass_on(hooked[i].name, hooked[i].real))",
          "if (0)", "redirecting only what the sampler passes on to the same function", OTHERS),
    Fault("attach-seen-objects", GOT, "if (is_seen_object(info))", "if (0)",
          "looking at new objects alone", ("cli.profile_attach/looked at alone",)),
    Fault("attach-closed-seen", GOT, "|| info->dlpi_subs != seen_subs)", ")",
          "an object that takes the place of a closed one",
          ("cli.profile_attach/place of one that was closed",)),
    Fault("attach-late-walk", GOT, "if ((pass->is_late || pass->is_repeated) && !sampler_is_active())",
          "if (pass->is_repeated && !sampler_is_active())", "redirecting nothing once the profile has ended",
          ("cli.profile_attach/searches functions while detach",)),
    Fault("attach-phase-early", LIFETIME, "\tbegin_header(sampler_tables.header);\n",
          "\tbegin_header(sampler_tables.header);\n\tsampler_show_sampling();\n",
          "a profile that can be ended before it has begun", ("cli.profile_bound/a detach while attach waits",)),
    Fault("attach-repeated-walk", GOT, "if ((pass->is_late || pass->is_repeated) && !sampler_is_active())",
          "if (pass->is_late && !sampler_is_active())", "redirecting nothing again once it is detached",
          ("cli.profile_bound/a detach while attach waits",)),
    Fault("attach-stack", PROTECTION, "char *buffer = (char *)areas->rows + AREAS_SIZE;",
          "char room[LINE_MAX_SIZE], *buffer = room;", "taking little of the caller's stack",
          ("cli.profile_attach/on a stack that is just",)),
    Fault("attach-own-calls", ORDER, ".syscalls = &flmem_attached_syscalls,", "",
          "refusing a process whose filters kill for what the sampler calls",
          ("cli.profile_bound/kills for a call of the sampler",)),
    Fault("attach-thread-filters", THREADS, "if (!has_same_filters(&first, &status))", "if (0)",
          "refusing a process with a thread that has filters of its own",
          ("cli.profile_attach/seccomp filters of its own",)),
    Fault("attach-out-of-root", FILE, ".resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS,",
          ".resolve = RESOLVE_NO_MAGICLINKS,", "staying in the root of the process",
          ("cli.profile_attach/that only the process has",)),
    Fault("attach-file-left", FILE, "unlinkat(file->directory, strrchr(file->path, '/') + 1, 0);",
          ";", "removing the file of a profile that did not begin", SEVERAL),
    Fault("attach-old-profile", FILE, "if (file->replaced[0])\n\t\trenameat(", "if (0)\n\t\trenameat(",
          "giving a replaced file its name back", KEPT),
    Fault("attach-old-left", FILE, "unlinkat(file->directory, file->replaced, 0);", "(void)0;",
          "removing the file that was replaced", KEPT),
    Fault("attach-late", "libcore/profiler/read.c", "if (h->flags & FLMEM_PROFILE_LATE)", "if (0)",
          "knowing that the process ran before", ("unit.test_heap_leaks",)),
    Fault("attach-dry-place", FILE,
          "return rc ? rc : run_profile_work(&status, check_attached_place, &work, err);",
          "(void)check_attached_place;\n\treturn rc;",
          "checking in a dry run where the process may write", ("cli.profile_attach/a dry run finds",)),
    Fault("attach-both", ATTACH, "if (!begin_change(FLMEM_SAMPLER_IDLE, FLMEM_SAMPLER_ATTACHING))",
          "if (begin_change(FLMEM_SAMPLER_IDLE, FLMEM_SAMPLER_ATTACHING), 0)",
          "one profile at a time", SEVERAL),
    Fault("attach-bound-meanwhile", GOT, "if (!has_changed_unbound)", "if (1)",
          "redirecting an entry again that the linker has just bound",
          ("cli.profile_bound/just when it is redirected",)),
    Fault("attach-long-line", PROTECTION, "kept = is_cut || take_area(areas, buffer) ? 0 : -1;",
          "kept = -1;", "attaching to a process with a long line of maps",
          ("cli.profile_bound/with a path of 20 KiB",)),
    Fault("attach-stays-mapped", LIFETIME, "\tunmap_profile();\n\treturn true;", "\treturn true;",
          "giving the memory of a profile back", EVERY),
    Fault("attach-on-server", PREPARE, "if (!risk || (", "if (1 || (",
          "refusing a file for whose pages malloc() could wait",
          ("cli.profile_attach/on a file system of a server",)),
    Fault("profile-on-btrfs", PREPARE, "{BTRFS_SUPER_MAGIC, COPIES},", "",
          "refusing a file whose pages need new blocks", ("cli.profile_run/new blocks",)),
)
