/* SPDX-License-Identifier: Apache-2.0 */
#include "frameworks/nvflare/troubleshooting/nvflare_troubleshooting.h"

/* NVFlare's guide "Memory Management", section "Troubleshooting", in its order. */
const struct flmem_trouble_row flmem_nvflare_troubles[] = {
	{{FLMEM_TROUBLE_SERVER, "SRV-ARENA", "Check that MALLOC_ARENA_MAX is set"},
	 flmem_trouble_arenas},
	{{FLMEM_TROUBLE_SERVER, "SRV-GC", "Enable server_memory_gc_rounds=5"},
	 flmem_trouble_server_gc},
	{{FLMEM_TROUBLE_SERVER, "SRV-JEMALLOC", "Consider jemalloc (LD_PRELOAD)"},
	 flmem_trouble_jemalloc},
	{{FLMEM_TROUBLE_SERVER, "SRV-MONITOR", "Monitor it"}, flmem_trouble_monitor},
	{{FLMEM_TROUBLE_CLIENT, "CLI-CLEAR-CACHE", "Confirm that flare.send() clears its cache"},
	 flmem_trouble_clear_cache},
	{{FLMEM_TROUBLE_CLIENT, "CLI-ARENA", "Check that MALLOC_ARENA_MAX=2 is set"},
	 flmem_trouble_arenas},
	{{FLMEM_TROUBLE_CLIENT, "CLI-GC", "Start with client_memory_gc_rounds=1"},
	 flmem_trouble_client_gc},
	{{FLMEM_TROUBLE_CLIENT, "CLI-INTERVAL", "Increase it to 2 or 5 only if RSS is stable"},
	 flmem_trouble_interval},
	{{FLMEM_TROUBLE_CLIENT, "CLI-CUDA", "Enable cuda_empty_cache=True for a GPU"},
	 flmem_trouble_cuda},
	{{FLMEM_TROUBLE_CLIENT, "CLI-JEMALLOC", "Consider jemalloc"}, flmem_trouble_jemalloc},
	{{FLMEM_TROUBLE_OOM, "OOM-BATCH", "Reduce the batch size"}, flmem_trouble_batch},
	{{FLMEM_TROUBLE_OOM, "OOM-CLEAR-CACHE", "Confirm that flare.send() clears its cache"},
	 flmem_trouble_clear_cache},
	{{FLMEM_TROUBLE_OOM, "OOM-GC", "Clean up every round (memory_gc_rounds=1)"},
	 flmem_trouble_every_round},
	{{FLMEM_TROUBLE_OOM, "OOM-LEAKS", "Check for leaks in the training code"},
	 flmem_trouble_leaks},
	{{FLMEM_TROUBLE_OOM, "OOM-JEMALLOC", "Use jemalloc with decay settings"},
	 flmem_trouble_decay},
	{{0}, NULL},
};
