/* SPDX-License-Identifier: Apache-2.0 */
/* Rules about scripts that offload tensors, configure sites or set variables: more rows. */
#include "script_rows.h"

#include "base/cleanup.h"

static const struct row rows[] = {
	{"NVF-OFFLOAD-NUMPY", JOB "FedAvg(enable_tensor_disk_offload=1)\nRunner('t.py')\n",
	 .hits = 1, .line = 4},
	{"NVF-CANNOT-TELL",
	 JOB "FedAvg(memory_gc_rounds=1, enable_tensor_disk_offload=True)\n"
	     "Runner('t.py', memory_gc_rounds=1,\n server_expected_format=f)\n",
	 .hits = 1, .line = 5, .says = "only tensors of PyTorch", .severity = INFO},
	{"NVF-CANNOT-TELL",
	 JOB "FedAvg(memory_gc_rounds=1)\n"
	     "Runner('t.py', memory_gc_rounds=1, server_expected_format=f)\n",
	 .hits = 0},
	{"NVF-OFFLOAD-SITE",
	 PT "R(enable_tensor_disk_offload=True, server_expected_format='pytorch',\n"
	    " per_site_config={'a': {'server_expected_format': 'numpy'}, 'b': {}})\n",
	 .hits = 1, .line = 3, .says = "no effect", .severity = WARNING, .proposed = "\"pytorch\""},
	{"NVF-OFFLOAD-SITE",
	 PT "from nvflare.recipe import set_per_site_config as s\n"
	    "r = R(enable_tensor_disk_offload=True, server_expected_format='pytorch')\n"
	    "s(r, {'a': {'server_expected_format': 'pytorch'},\n"
	    "  'b': {'server_expected_format': 'raw'}})\n",
	 .hits = 1, .line = 5},
	{"NVF-OFFLOAD-SITE",
	 PT FORMATS "r = R(enable_tensor_disk_offload=True, server_expected_format='pytorch')\n"
		    "r.set_per_site_config({'a': {'server_expected_format': E.PYTORCH},\n"
		    "  'b': {'server_expected_format': E.NUMPY}})\n",
	 .hits = 1, .line = 5},
	{"NVF-OFFLOAD-SITE",
	 PT "R(enable_tensor_disk_offload=True, server_expected_format='pytorch',\n"
	    " per_site_config={'a': {'server_expected_format': f}})\n",
	 .hits = 1, .line = 3, .says = "cannot tell", .severity = INFO},
	{"NVF-OFFLOAD-SITE",
	 PT "R(enable_tensor_disk_offload=True, server_expected_format='pytorch',\n"
	    " per_site_config={'a': a,\n 'b': {**b}, 'c': {'server_expected_format': None}})\n",
	 .hits = 2, .line = 4, .says = "cannot tell", .severity = INFO},
	{"NVF-OFFLOAD-SITE",
	 PT "R(enable_tensor_disk_offload=True, server_expected_format='pytorch',\n"
	    " per_site_config=sites)\n",
	 .hits = 1, .line = 3, .says = "cannot tell", .severity = INFO},
	{"NVF-OFFLOAD-SITE",
	 PT "R(per_site_config={'a': {'server_expected_format': 'numpy'}})\n"
	    "R(enable_tensor_disk_offload=False, per_site_config=sites)\n",
	 .hits = 0},
	{"NVF-PER-SITE-IGNORED", PT "R(per_site_config={'a': site,\n 'b': {**more}})\n", .hits = 2,
	 .line = 3, .says = "cannot tell whether", .severity = INFO},
	{"NVF-SWARM-TRAIN-ARGS",
	 SWARM "R('n', m, 3, 't.py', 2, train_args={'server_expected_format': f,\n"
	       " 'aggregation_format': f})\n",
	 .hits = 2, .line = 3, .says = "rejects", .severity = ERROR},
};

static void rules_fire_where_they_should_and_nowhere_else(void **state)
{
	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(rows); i++)
		check_row(&rows[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rules_fire_where_they_should_and_nowhere_else),
	};

	return cmocka_run_group_tests_name("script_rules", tests, NULL, NULL);
}
