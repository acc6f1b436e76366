# SPDX-License-Identifier: Apache-2.0
"""Faults in the sampler of `flmem profile run`: what it counts, and what it must not do."""
from faults import Fault

HOOKS = "libcore/preload/sampler/hooks.c"
LIFETIME = "libcore/preload/sampler/lifetime.c"
RECORD = "libcore/preload/sampler/record.c"
TOTALS = "libcore/preload/sampler/totals.c"
ARITHMETIC = "libcore/preload/sampler/arithmetic.c"
MAPPINGS = "libcore/preload/sampler/mappings.c"
MAPPED = "libcore/preload/sampler/mapped_file.c"
TABLES = "libcore/preload/sampler/tables.c"
LIVE = "libcore/preload/sampler/live.c"
MEMORY = "libcore/preload/sampler/safe_reads.c"
PYTHON = "libcore/preload/sampler/python_frames.c"
LAYOUT = "libcore/preload/sampler/python_layout.c"
STACK = "libcore/preload/sampler/stack.c"

CHANGES = ("cli.profile_run/blocks that change",)
SCRAMBLED = ("cli.profile_pestered/tables are overwritten",)
PLACES = ("cli.profile_python/function, file and line",)
STACKS = ("cli.profile_python/whole stacks",)
ANYWHERE = ("cli.profile_pestered/structures lead anywhere",)

FAULTS = (
    Fault("sampled-pre-release", "libcore/preload/sampler/python_layout.c",
          "(version >> 4 & 0xf) == 0xf", "version != 0",
          "reading no frames of a pre-release of 3.15", ("unit.test_sampler_parts",)),
    Fault("sample-weight", ARITHMETIC, "(double)size / chance + 0.5", "(double)size + 0.5",
          "weights that make the sums unbiased",
          ("cli.profile_run/estimates have no bias",)),
    Fault("sample-gap", ARITHMETIC, "(53 * LN2 - log_of_whole(number)) * (double)interval",
          "(double)interval", "gaps that are exponentially distributed",
          ("cli.profile_run/estimates have no bias",)),
    Fault("sample-arithmetic-unmasked", ARITHMETIC,
          "__asm__ volatile(\"ldmxcsr %0\" : : \"m\"(own) : \"memory\");", "",
          "computing without the exceptions and the rounding of the program",
          ("cli.profile_run/gets no SIGFPE",)),
    Fault("sample-arithmetic-flags", ARITHMETIC,
          "__asm__ volatile(\"ldmxcsr %0\" : : \"m\"(there) : \"memory\");", "",
          "flags of the program's own operations", ("cli.profile_run/gets no SIGFPE",)),
    Fault("sample-absent-forgotten", MAPPED, "remember_range(&walk, FLMEM_PROFILE_NONE, stale);", "",
          "remembering that code is in no file",
          ("cli.profile_run/has generated itself",)),
    Fault("sample-mremap-passed-by", HOOKS,
          "sampler_next.mremap(at, old_length, length, flags, target);",
          "(void *)syscall(SYS_mremap, at, old_length, length, flags, target);",
          "calling mremap() of another library", ("cli.profile_run/another library defines",)),
    Fault("sample-mmap64-passed-by", HOOKS,
          "sampler_next.mmap64(at, length, access, flags, fd, offset)",
          "sampler_next.mmap(at, length, access, flags, fd, offset)",
          "calling mmap64() of another library", ("cli.profile_run/another library defines",)),
    Fault("sample-realloc-fails", HOOKS, "if (sampled && size && !new)", "if (0)",
          "keeping the sample of a block whose realloc() failed", CHANGES),
    Fault("sample-own-mappings", HOOKS, "return (uintptr_t)caller >= sampler_next.owner_start &&",
          "return 0 && (uintptr_t)caller >= sampler_next.owner_start &&",
          "leaving out the memory that the allocator itself maps",
          ("cli.profile_run/passed on to a preloaded",)),
    Fault("sample-address-space", HOOKS, "return (flags & MAP_ANONYMOUS) && (access & PROT_WRITE);",
          "return (flags & MAP_ANONYMOUS);", "counting memory and not address space", CHANGES),
    Fault("sample-partial-unmap", MAPPINGS, "front + back);", "0);",
          "keeping the rest of a mapping that shrinks", CHANGES),
    Fault("sample-fixed-mapping", HOOKS, "if ((flags & MAP_FIXED) && sampler_is_active()", "if (0",
          "counting once what a mapping replaces", CHANGES),
    Fault("sample-nested", RECORD, "if (!sampler_enter()) {", "if (0) {",
          "not recording inside of the sampler",
          ("cli.profile_run/a signal handler that allocates",)),
    Fault("sample-in-child", LIFETIME, "inherited.flags & FLMEM_PROFILE_FOLLOW)\n\t\tbegin_child();\n\telse\n\t\tdormant",
          "1)\n\t\tbegin_child();\n\telse\n\t\tdormant", "leaving children alone",
          ("cli.profile_run/a child samples nothing",)),
    Fault("sample-wiped-child", LIFETIME, "return madvise(memory, size, MADV_WIPEONFORK) == 0;",
          "return memory && size;", "a child that does not write into its parent's profile",
          ("cli.profile_run/a child samples nothing",)),
    Fault("sample-exec", LIFETIME, "header.phase != FLMEM_PROFILE_PREPARED)\n\t\tclear_profile();",
          "0)\n\t\tclear_profile();", "beginning again where another program is executed",
          ("cli.profile_run/a process that executes another",)),
    Fault("sample-peak-kept", TOTALS, "if (get_total(&site->peak_epoch) == epoch)", "if (1)",
          "keeping what sites had at the peak",
          ("cli.profile_run/live bytes at the peak",)),
    Fault("sample-cells", TOTALS, "add_to(&cell->freed_bytes, bytes);", "",
          "totals of rounds", ("cli.profile_run/rounds: what each",)),
    Fault("sample-stale-modules", HOOKS,
          "__atomic_fetch_add(&sampler_control.stale_modules, 1, __ATOMIC_RELAXED);", "",
          "naming the library that is loaded now",
          ("cli.profile_run/thousands of dlopen",)),
    Fault("sample-python-internal", PYTHON, "(int8_t)frame[python.frame_owner] >= OWNED_BY_STACK;", "0;",
          "leaving out frames of the interpreter itself", PLACES),
    Fault("sample-python-init", PYTHON, "code->name == code->file;", "0;",
          "leaving out what the interpreter does before __init__()", STACKS),
    Fault("sample-python-position", LAYOUT, ".frame = 39,", ".frame = 31,",
          "reading the frames of a new release where it says they are", PLACES),
    Fault("sample-other-type", PYTHON, "get_pointer(object, SAMPLER_TYPE_OFFSET) != python.code_type", "0",
          "taking nothing else for code", ANYWHERE),
    Fault("sample-code-replaced", PYTHON, "a->content == b->content", "true",
          "noticing that other code is at the same address", ANYWHERE),
    Fault("sample-version-of-another", PYTHON, "sampler_data_has(interpreter);", "interpreter;",
          "versions of code in the interpreter that counts them", ANYWHERE),
    Fault("sample-no-version", PYTHON, "return version ? version", "return scratch->has_versions ? version + 1",
          "taking code without a version for what it has", ANYWHERE),
    Fault("sample-chunk-believed", PYTHON, "if (is_chunk_proven)\n\t\tset_stack_chunk", "if (1)\n\t\tset_stack_chunk",
          "believing where a data stack is once that was seen to be right", ANYWHERE),
    Fault("sample-certain-end", MEMORY, "address < end && length <= end - address", "address < end && length",
          "asking for what reaches beyond memory that is there", ANYWHERE),
    Fault("sample-page-unasked", MEMORY, "if (!ask_kernel(page))\n\t\treturn false;", "",
          "asking whether a page is there", ANYWHERE),
    Fault("sample-page-remembered", RECORD, "sampler_memory_refresh();", "",
          "asking again in the next sample", ANYWHERE),
    Fault("sample-stack-step", MEMORY, "thread->stack_low - address <= STEP_MAX", "1",
          "not taking a coroutine's stack far below for the thread's own", ("unit.test_sampler_parts/noted",)),
    Fault("sample-path-known", STACK,
          "scratch->known_frames[depth] == scratch->frames[scratch->count - 1 - depth]", "true",
          "following the path of the last sample as far as it is the same", PLACES),
    Fault("sample-capacity", TABLES, "capacity = sampler_tables.capacity[section];",
          "capacity = sampler_tables.header->section[section].capacity;",
          "sizes of tables that nobody else can change", SCRAMBLED),
    Fault("sample-site-number", LIVE,
          "return ret_live->site < sampler_tables.capacity[FLMEM_PROFILE_SECTION_SITES];",
          "return true;", "checking the number of a site that was in the file", SCRAMBLED),
    Fault("sample-replaced", MEMORY,
          "sampler_tables.header->start_realtime_ms == sampler_tables.start_realtime_ms", "true",
          "leaving a file alone that has another content now",
          ("cli.profile_pestered/written over",)),
    Fault("sample-cut", MEMORY, "return ask_kernel(sampler_tables.last_page) &&", "return",
          "noticing that the file was cut", ("cli.profile_pestered/that is cut while",)),
    Fault("sample-file-limit", LIFETIME, "most.rlim_cur < header.file_size", "0",
          "not making files that are larger than the process may write",
          ("cli.profile_pestered/may not write large",)),
    Fault("sample-refused-size", HOOKS,
          "\tif (!address)\n\t\tsampler_thread.remaining += size;",
          "\tif (!address)\n\t\tsampler_thread.remaining += 0;",
          "not counting what was not allocated", ("cli.profile_pestered/sizes that are refused",)),
)
