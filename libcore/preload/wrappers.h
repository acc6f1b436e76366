/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_PRELOAD_WRAPPERS_H
#define FLMEM_PRELOAD_WRAPPERS_H

/*
 * Programs that do nothing but set something about their own process and then become the command
 * they were given; the job is what they become. Most scripts start through the first one. The
 * header is free of everything, for the preloaded library uses it too.
 */

/* X(name) */
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
