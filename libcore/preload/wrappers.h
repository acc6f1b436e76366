/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_PRELOAD_WRAPPERS_H
#define FLMEM_PRELOAD_WRAPPERS_H

/*
 * Lists programs that only change a property of their process and then exec the command they were
 * given; that command is the job. Most scripts start through the first one. This header includes
 * nothing, since the preloaded library uses it, too.
 */

/* X(name): the name of such a program. */
#define FLMEM_WRAPPERS(X) \
	X("env")          \
	X("nice")         \
	X("nohup")        \
	X("ionice")       \
	X("chrt")         \
	X("taskset")      \
	X("numactl")      \
	X("prlimit")      \
	X("setpriv")      \
	X("stdbuf")

#endif
