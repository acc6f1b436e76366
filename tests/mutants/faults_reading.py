# SPDX-License-Identifier: Apache-2.0
"""Faults in conclusions from memory that changes while it is read or released."""
from faults import Fault

WALK = "libcore/allocators/glibc/glibc_walk.c"
HEAP = "libcore/allocators/glibc/glibc_heap.c"

TRIM = "libcore/ops/trim/trim.c"

IMAGES = ("unit.test_glibc_image",)
RELEASED = ("unit.test_trim_released",)

PEEK = "libcore/proc/peek.c"
WORDS = "libcore/proc/peek_words.c"
PEEKS = ("unit.test_peek",)
QUERY = "libcore/proc/maps_query.c"
QUERIES = ("unit.test_maps_query",)
LINKS = "libcore/allocators/glibc/glibc_links.c"

FAULTS = (
    Fault("query-shared-name", QUERY, "!(query->vma_flags & FLMEM_MAP_SHARED) && ", "",
          "the name of each part of shared memory", QUERIES),
    Fault("failed-fetch-is-read", PEEK, "if (run_transfer(peek, &transfer)) {\n\t\tflmem_peek_words_undo",
          "if (run_transfer(peek, &transfer) && 0) {\n\t\tflmem_peek_words_undo",
          "taking what could not be read for read", PEEKS),
    Fault("failed-fetch-stays", PEEK, "\t\tflmem_peek_words_undo(peek->words);\n", "",
          "dropping words that could not be read", PEEKS),
    Fault("fetch-of-absent", PEEK, "if (!flmem_peek_is_resident(peek, start))\n\t\treturn;\n\tif (flmem_peek_words_of_page",
          "if (flmem_peek_words_of_page", "touching pages of the target that it has not touched", PEEKS),
    Fault("word-across-pages", PEEK, "left < FLMEM_PEEK_WORDS_LENGTH ? left : FLMEM_PEEK_WORDS_LENGTH",
          "FLMEM_PEEK_WORDS_LENGTH", "reading no further than the page that is known to be there", PEEKS),
    Fault("short-word-is-enough", WORDS, " && row->length >= length)", ")",
          "words shorter than what is wanted", PEEKS),
    Fault("fetched-words-stay", WORDS, "row->address = FORGOTTEN;", ";", "reading again what was forgotten", PEEKS),
    Fault("all-fetched-words-stay", WORDS, "\tif (!words->added)\n\t\treturn;\n", "\treturn;\n",
          "reading again what was forgotten", PEEKS),
    Fault("words-past-the-table", WORDS, "if (words->added == FLMEM_PEEK_FETCHES_MAX)", "if (0)",
          "the room for words", PEEKS),
    Fault("name-of-another-part", QUERY, " && query->offset > last->offset", "",
          "the path of a file that begins again", QUERIES),
    Fault("name-of-another-inode", QUERY, "query->inode == last->inode &&", "1 &&",
          "the path of another file", QUERIES),
    Fault("name-across-a-gap", QUERY, "query->start == last->end && ", "",
          "the path of a mapping far away", QUERIES),
    Fault("name-with-a-newline", QUERY, "\tif (strchr(reading->name, '\\n'))\n\t\treturn -EILSEQ;\n", "",
          "the form that the text has for a newline", QUERIES),
    Fault("name-of-before", QUERY, "\tif (!query->name_size)\n\t\treading->name[0] = '\\0';\n", "",
          "mappings without a name", QUERIES),
    Fault("chunks-one-by-one", LINKS, "while (count && fetch.total < FLMEM_PEEK_FETCHES_MAX &&", "while (0 &&",
          "reading the chunks of all bins together", ("unit.test_glibc_links",)),
    Fault("endless-fetch", LINKS, "while (count && fetch.total < FLMEM_PEEK_FETCHES_MAX &&", "while (count &&",
          "leaving lists that form a circle", ("unit.test_glibc_links",), slow=True),
    Fault("late-fetch-goes-on", LINKS, "!(wanted->is_late && wanted->is_late(wanted->context))", "1",
          "ending the fetch when the time of the check is used up", ("unit.test_glibc_links",)),
    Fault("absent-is-swapped", WALK, "return flmem_peek_is_swapped(walker->o.peek, chunk) ||",
          "return chunk ||",
          "calling only what the kernel has swapped out swapped out", IMAGES),
    Fault("absent-is-never-swapped", WALK,
          "return flmem_peek_is_swapped(walker->o.peek, chunk) ||",
          "return 0 && flmem_peek_is_swapped(walker->o.peek, chunk) &&",
          "knowing what is swapped out", IMAGES),
    Fault("pages-once-absent", WALK, "(void)flmem_peek_renew(w->o.peek, start, stop);",
          "(void)stop;", "reading pages that were touched meanwhile", IMAGES),
    Fault("block-once-absent", WALK, "return chunk - w->block_start < w->block_end - w->block_start &&",
          "return chunk - w->block_start < w->block_end - w->block_start ||",
          "reading pages of a block that were touched meanwhile", IMAGES),
    Fault("damage-of-changing", HEAP, "(why == lost && !rested)", "0",
          "calling only what rests damaged", IMAGES),
    Fault("taken-again-is-nothing", TRIM, "return outcome_of_step(result->returned_bytes);",
          "return FLMEM_TRIM_NOTHING;",
          "reporting what the program has taken again as released", RELEASED),
    Fault("growth-is-nothing", TRIM, "if (rss->seen && !fall.unknown &&", "if (0 && !fall.unknown &&",
          "knowing that growth hides what was released", RELEASED),
    Fault("lowest-is-last", TRIM, "now.value < rss->lowest.value", "now.value != rss->lowest.value",
          "seeing what was released before the program took it again", RELEASED),
    Fault("waited-for-is-released", TRIM, "if (has_one_part(job) && job->rss.seen &&", "if (0 &&",
          "counting no change from before the call", RELEASED),
    Fault("released-is-running", "libcore/remote/checks/preflight.c", "flmem_status_read(process, &status, NULL) || !status.rss_bytes.unknown)",
          "flmem_status_read(process, &status, NULL) || 1)",
          "a process that has released its memory and still ends", ("cli.detect_truth/has released its memory",)),
    Fault("lazy-is-live", "libcore/ops/target/madv_free.c", "bytes->unknown != flmem_madv_free_unsought || !is_mostly_outside(report)", "1",
          "memory that the program itself has released with MADV_FREE", ("cli.detect_truth/with MADV_FREE",)),
    Fault("ulimit-unseen", "libcore/ops/detect/detect.c", "if (!flmem_headroom_limit_find(limits, name, &max))", "if (1)",
          "the limits of the process (ulimit)", ("cli.detect_truth/a limit of the process",)),
    Fault("untouched-is-sampled", "libcore/ops/detect/verdict_explain.c", "if (heap->error_bytes.unknown && !heap->resident_bytes.unknown &&", "if (0 &&",
          "why figures of jemalloc exceed RSS", ("unit.test_verdict_causes",)),
    Fault("tunable-without-bound", "libcore/allocators/glibc/glibc_arena_max.c", "!flmem_glibc_tunable_is_boundless(tunables, TUNABLE)", "1",
          "a tunable that sets no limit and hides the variable", ("unit.test_env_values",)),
    Fault("jump-is-gap", "libcore/ops/watch/round_stats.c", "number > s->number && !s->fell", "number > s->number",
          "rounds of two jobs in one log", ("unit.test_round_stats",)),
)
