# SPDX-License-Identifier: Apache-2.0
"""Faults in what is concluded from heaps that change while they are read."""
from faults import Fault

WALK = "libcore/allocators/glibc/glibc_walk.c"
HEAP = "libcore/allocators/glibc/glibc_heap.c"

IMAGES = ("unit.test_glibc_image",)

FAULTS = (
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
)
