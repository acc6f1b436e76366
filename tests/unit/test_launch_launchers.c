/* SPDX-License-Identifier: Apache-2.0 */
/* Tests which variables launchers of parallel programs and of containers pass on. */
#include "launch_rows.h"

#include "base/cleanup.h"

#define REMOTE "Open MPI passes on"

#define WRONG "NVF-GC-WRONG-ALLOCATOR"

static const struct row scripts[] = {
	/* allocators that NVFlare's cleanup does not reach */
	{WRONG, "export LD_PRELOAD=/l/libtcmalloc.so.4\n" SERVER, 1, "does not use"},
	{WRONG, "LD_PRELOAD=/l/libmimalloc.so " CLIENT, 1, "(mimalloc)"},
	{WRONG, "export LD_PRELOAD=/l/libjemalloc.so.2\n" SERVER, 0, NULL},
	{WRONG, "LD_PRELOAD=/l/libiomp5.so " CLIENT "LD_PRELOAD=$LIB " CLIENT, 0, NULL},
	{WRONG, "LD_PRELOAD=/l/libtcmalloc.so.4 ls\n" SERVER, 0, NULL},

	/* mpirun of Open MPI */
	{UNCLEAR, SET "mpirun -host a,b " CLIENT, 1, REMOTE},
	{UNCLEAR, SET "mpirun --host=a " CLIENT, 1, REMOTE},
	{UNCLEAR, SET "mpirun --hostfile h -x PATH " CLIENT, 1, REMOTE},
	{UNCLEAR, "MALLOC_ARENA_MAX=2 orterun -H a " CLIENT, 1, REMOTE},
	{UNCLEAR, SET "mpirun -host a -x MALLOC_ARENA_MAX " CLIENT, 0, NULL},
	{UNCLEAR, "mpirun -host a -x MALLOC_ARENA_MAX=2 " CLIENT, 0, NULL},
	{UNCLEAR, SET "mpirun -host localhost,127.0.0.1:2 " CLIENT, 0, NULL},
	{UNCLEAR, SET "mpirun --host=localhost -n 2 " CLIENT, 0, NULL},
	{UNCLEAR, SET "mpirun -n 2 " CLIENT "mpirun -host a true\n", 0, NULL},
	{UNCLEAR, "mpirun -host a " CLIENT SET, 0, NULL},
	{UNSET, SET "mpirun -host a " CLIENT, 0, NULL},
	{UNSET, "mpirun -host a " CLIENT, 1, NULL},
	{IGNORED, "export MALLOC_ARENA_MAX=0\nmpirun -host a -x MALLOC_ARENA_MAX " CLIENT, 1, NULL},

	/* mpiexec of MPICH and Intel MPI passes all variables on */
	{UNCLEAR, SET "mpiexec -genvall -hosts a " CLIENT, 0, NULL},
	{UNSET, SET "mpiexec -genvnone " CLIENT, 1, "mpiexec -genvnone drops it"},
	{UNSET, SET "mpiexec.hydra -n 2 -envnone " CLIENT, 1, NULL},
	{UNSET, SET "mpiexec -genvlist PATH,HOME " CLIENT, 1, "mpiexec -genvlist drops it"},
	{UNSET, SET "mpiexec -genvlist PATH,MALLOC_ARENA_MAX " CLIENT, 0, NULL},
	{UNSET, "mpiexec -genv MALLOC_ARENA_MAX 2 -n 1 " CLIENT, 0, NULL},
	{UNSET, SET "mpiexec -genvnone -env MALLOC_ARENA_MAX 2 " CLIENT, 0, NULL},
	{UNSET, "mpiexec -genv PATH 2 " CLIENT, 1, NULL},
	{IGNORED, "mpiexec -genv MALLOC_ARENA_MAX 0 -n 1 " CLIENT, 1, NULL},
	{UNSET, "bsub -env MALLOC_ARENA_MAX " CLIENT, 0, NULL},

	/* flux */
	{UNSET, SET "flux run -N 2 " CLIENT, 0, NULL},
	{UNSET, SET "flux run --env=-* " CLIENT, 1, "flux --env drops it"},
	{UNSET, SET "flux submit --env '-*' --env=MALLOC_ARENA_MAX=2 " CLIENT, 0, NULL},
	{UNSET, SET "flux run --env=-* --env=MALLOC_ARENA_MAX " CLIENT, 0, NULL},
	{UNSET, SET "flux run --env=-MALLOC_* " CLIENT, 1, NULL},
	{UNSET, SET "flux run --env-remove=MALLOC_ARENA_MAX " CLIENT, 1, NULL},
	{UNSET, SET "flux run --env-remove MALLOC_ARENA " CLIENT, 0, NULL},
	{UNCLEAR, SET "flux run --env=-/^M.*/ " CLIENT, 1, "a pattern chooses"},
	{UNCLEAR, SET "flux run --env=-LD_* " CLIENT, 0, NULL},

	/* jsrun, ch-run, enroot */
	{UNCLEAR, SET "jsrun -n 1 " CLIENT, 0, NULL},
	{UNCLEAR, SET "jsrun -n 1 -D MALLOC_ARENA_MAX " CLIENT, 1, "depends on its options"},
	{UNCLEAR, "jsrun -D PATH -E MALLOC_ARENA_MAX=2 " CLIENT, 0, NULL},
	{UNSET, SET "ch-run img -- " CLIENT, 0, NULL},
	{UNSET, SET "ch-run --unset-env='*' img -- " CLIENT, 1, "ch-run --unset-env drops it"},
	{UNSET, SET "ch-run --unset-env='*' --set-env=MALLOC_ARENA_MAX=2 img -- " CLIENT, 0, NULL},
	{IGNORED, "ch-run --set-env=MALLOC_ARENA_MAX=0 img -- " CLIENT, 1, NULL},
	{UNCLEAR, "ch-run --set-env=f img -- " CLIENT, 1, "in another file"},
	{UNCLEAR, "ch-run --set-env img -- " CLIENT, 1, "in another file"},
	{UNCLEAR, SET "enroot start img " CLIENT, 1, "depends on its configuration"},
	{UNCLEAR, SET "enroot start -e MALLOC_ARENA_MAX img " CLIENT, 0, NULL},
	{UNCLEAR, "enroot start --env MALLOC_ARENA_MAX=2 img " CLIENT, 0, NULL},
	{UNSET, "enroot start img " CLIENT, 1, NULL},

	/* parallel, podman */
	{UNSET, SET "parallel " CLIENT, 0, NULL},
	{UNSET, SET "parallel -S h " CLIENT, 1, "parallel --sshlogin drops it"},
	{UNSET, SET "parallel --sshlogin=h '" CLIENT "' ::: 1\n", 1, NULL},
	{UNSET, SET "parallel --slf f --env MALLOC_ARENA_MAX " CLIENT, 0, NULL},
	{UNSET, SET "parallel --env MALLOC_ARENA_MAX --sshlogin h " CLIENT, 0, NULL},
	{UNSET, SET "parallel --env PATH -S h " CLIENT, 1, NULL},
	{UNSET, SET "parallel -S : " CLIENT, 0, NULL},
	{UNSET, SET "sort -S h x; " CLIENT, 0, NULL},
	{UNSET, SET "podman run --env-host image " CLIENT, 0, NULL},
	{UNSET, SET "podman run image " CLIENT, 1, NULL},
	{IGNORED, SET "podman run --env-host -e MALLOC_ARENA_MAX=0 image " CLIENT, 1, NULL},
};

static void what_launchers_pass_on_is_followed(void **state)
{
	(void)state;
	assert_true(scripts_are_right(scripts, FLMEM_ARRAY_SIZE(scripts)));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_launchers_pass_on_is_followed),
	};

	return cmocka_run_group_tests_name("launch_launchers", tests, NULL, NULL);
}
