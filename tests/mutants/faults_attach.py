# SPDX-License-Identifier: Apache-2.0
"""Faults in attaching the sampler to a running process, and detaching it."""
from faults import Fault

GOT = "libcore/preload/sampler/got.c"
FORKS = "libcore/preload/sampler/forks.c"
MODULE = "libcore/preload/sampler/module.c"
OBJECTS = "libcore/preload/sampler/objects.c"
ATTACH = "libcore/preload/sampler/attach.c"
TRAMPOLINES = "libcore/preload/sampler/trampolines.c"
LIFETIME = "libcore/preload/sampler/lifetime.c"
FILE = "libcore/ops/profile/attached_file.c"
ORDER = "libcore/ops/profile/attach.c"

EVERY = ("cli.profile_attach/every entry",)
TWICE = ("cli.profile_attach/two at once",)
FORKED = ("cli.profile_attach/forked while",)
LATER = ("cli.profile_attach/libraries that are loaded",)

FAULTS = (
    Fault("attach-protection", GOT, "if (pass->page && !(pass->access & PROT_WRITE))", "if (0)",
          "setting the protection of a page back", EVERY),
    Fault("attach-restore", GOT, "original = entry ? entry->original : hook->real;",
          "original = hook->own;", "putting entries back", EVERY),
    Fault("attach-unbound", GOT,
          "if (original != hook->real && !is_unbound(pass, object, original, kind))",
          "if (original != hook->real)", "putting back entries that were not bound", EVERY),
    Fault("attach-leave-redirected", ATTACH, "left = sampler_got_restore();", "left = 0;",
          "putting entries back when it ends", EVERY),
    Fault("attach-fork-in-walk", FORKS, "i < WAITS_MAX && read_count(&walking)", "0",
          "holding forks back while the linker's list is locked", FORKED),
    Fault("attach-walk-in-fork", MODULE, "sampler_walk_prepare();", ";",
          "knowing of forks before the first walk", FORKED),
    Fault("attach-late-objects", GOT, "if (!sampler_thread.opened || !sampler_is_active())",
          "if (1)", "redirecting objects that are loaded later", LATER),
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
          "dormant = 0; inherited.flags |= FLMEM_PROFILE_FOLLOW;", "leaving children alone",
          ("cli.profile_attach/a child of fork",)),
)
