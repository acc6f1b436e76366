/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_ELF_VIEW_H
#define FLMEM_ELF_VIEW_H

/* One process with its mappings and modules, as other directories use it; owned by the caller. */

struct flmem_maps;
struct flmem_modules;
struct flmem_process;

struct flmem_view {
	const struct flmem_process *process;
	const struct flmem_maps *maps;
	const struct flmem_modules *modules;
};

#endif
