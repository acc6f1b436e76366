/* SPDX-License-Identifier: Apache-2.0 */
/* Tests every rule about NVFlare jobs: inputs that must trigger it, and near misses. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <flmem/recommend.h>

#include "base/cleanup.h"
#include "findings.h"
#include "tree.h"

#define FEDAVG	 "nvflare.app_common.workflows.fedavg.FedAvg"
#define LR	 "nvflare.app_common.workflows.lr.fedavg.FedAvgLR"
#define SAG	 "nvflare.app_common.workflows.scatter_and_gather.ScatterAndGather"
#define PT	 "nvflare.app_opt.pt.in_process_client_api_executor.PTInProcessClientAPIExecutor"
#define TF	 "nvflare.app_opt.tf.in_process_client_api_executor.TFInProcessClientAPIExecutor"
#define LAUNCHER "nvflare.app_opt.pt.client_api_launcher_executor.PTClientAPILauncherExecutor"
#define MODERN	 "nvflare.app_common.executors.client_api_executor.ClientAPIExecutor"
#define LEARNER	 "nvflare.app_common.executors.model_learner_executor.ModelLearnerExecutor"
#define TASK	 "nvflare.app_common.workflows.cmd_task_controller.CmdTaskController"
#define EVAL	 "nvflare.app_opt.pt.recipes.fedeval.EvalController"
#define CROSS	 "nvflare.app_common.workflows.cross_site_model_eval.CrossSiteModelEval"
#define CYCLIC	 "nvflare.app_common.workflows.cyclic_ctl.CyclicController"
#define SWARM	 "nvflare.app_common.ccwf.swarm_client_ctl.SwarmClientController"

#define SERVER(path, args)	"{\"workflows\": [{\"path\": \"" path "\", \"args\": {" args "}}]}"
#define EXECUTOR(path, args)	"{\"executor\": {\"path\": \"" path "\", \"args\": {" args "}}}"
#define CLIENT(path, args)	"{\"executors\": [" EXECUTOR(path, args) "]}"
#define SWARM_CLIENT(own, args) "{\"executors\": [" EXECUTOR(SWARM, own) "," EXECUTOR(PT, args) "]}"
#define META(resources) \
	"{\"resource_spec\": {" resources "}, \"deploy_map\": {\"app\": [\"@ALL\"]}}"
#define LAUNCHERS(specs, site)              \
	"{\"launcher_spec\": {" specs "}, " \
	"\"deploy_map\": {\"app\": [\"" site "\"]}}"
#define GPUS "\"site-1\": {\"num_of_gpus\": 1}"

struct row {
	const char *rule, *server, *client, *meta, *version;
	bool hit;
	const char *proposed; /* the proposed correction; NULL: any */
};

#define OFFLOAD "\"enable_tensor_disk_offload\": true"

static const struct row rows[] = {
	{"NVF-SRV-GC-OFF", .server = SERVER(FEDAVG, ""), .hit = true, .proposed = "5"},
	{"NVF-SRV-GC-OFF", .server = SERVER(FEDAVG, "\"memory_gc_rounds\": 0"), .hit = true},
	{"NVF-SRV-GC-OFF", .server = SERVER(FEDAVG, "\"num_rounds\": 3"), .hit = true,
	 .proposed = "1"},
	{"NVF-SRV-GC-OFF", .server = SERVER("my.Own", "\"memory_gc_rounds\": 0"), .hit = true},
	{"NVF-SRV-GC-OFF", .server = "{\"workflows\": [{\"name\": \"FedAvg\"}]}", .hit = true},
	{"NVF-SRV-GC-OFF", .server = "{\"workflows\": [{\"class_path\": \"" FEDAVG "\"}]}",
	 .hit = true},
	{"NVF-SRV-GC-OFF",
	 .server = "{\"workflows\": [{\"class_path\": \"" FEDAVG "\", \"path\": \"" SAG "\"}]}",
	 .hit = false},
	{"NVF-LEGACY-EXECUTOR", .version = "2.9.0",
	 .client = "{\"executors\": [{\"executor\": {\"class_path\": \"" PT "\"}}]}", .hit = true},
	{"NVF-ENVIRON-CANNOT-TELL", .hit = true,
	 .client = CLIENT(MODERN, "\"command\": \"MALLOC_ARENA_MAX=0 python3\"")},
	{"NVF-ENVIRON-CANNOT-TELL", .hit = true,
	 .client = CLIENT(MODERN, "\"command\": [\"env\", \"-u\", \"MALLOC_ARENA_MAX\"]")},
	{"NVF-ENVIRON-CANNOT-TELL", .hit = false,
	 .client = CLIENT(MODERN, "\"command\": \"python3 -u\"")},
	{"NVF-ENVIRON-CANNOT-TELL", .hit = true,
	 .client = "{\"components\": [{\"args\": {\"script\": \"LD_PRELOAD= python3\"}}]}"},
	{"NVF-CLASS-UNKNOWN", .server = SERVER("my.Own", ""), .hit = true},
	{"NVF-CLASS-UNKNOWN", .client = CLIENT("my.Own", "\"x\": 1"), .hit = true},
	{"NVF-CLASS-UNKNOWN", .client = CLIENT("my.Own", "\"memory_gc_rounds\": 1"), .hit = false},
	{"NVF-CLASS-UNKNOWN", .server = SERVER(FEDAVG, ""), .client = CLIENT(PT, ""), .hit = false},
	{"NVF-SRV-GC-OFF", .server = SERVER(FEDAVG, "\"memory_gc_rounds\": \"{n}\""), .hit = false},
	{"NVF-SRV-GC-OFF",
	 .server = "{\"n\": 0, \"workflows\": [{\"path\": \"" FEDAVG
		   "\", \"args\": {\"memory_gc_rounds\": \"{n}\"}}]}",
	 .hit = true},
	{"NVF-SRV-GC-OFF", .server = SERVER(FEDAVG, "\"memory_gc_rounds\": 1"), .hit = false},
	{"NVF-SRV-GC-OFF", .server = SERVER(SAG, ""), .hit = false},
	{"NVF-SRV-GC-OFF", .server = SERVER(SAG, "\"memory_gc_rounds\": 0"), .hit = true},
	{"NVF-SRV-GC-OFF", .server = SERVER(LR, ""), .hit = false},
	{"NVF-SRV-GC-OFF", .server = SERVER("my.Own", ""), .hit = false},
	{"NVF-SRV-GC-OFF", .server = SERVER(FEDAVG, ""), .version = "2.7.1", .hit = false},
	{"NVF-SRV-GC-OFF", .server = SERVER(FEDAVG, ""), .version = "2.9", .hit = true},

	{"NVF-SRV-GC-IGNORED", .server = SERVER(LR, "\"memory_gc_rounds\": 5"), .hit = true},
	{"NVF-SRV-GC-IGNORED",
	 .server = SERVER("nvflare.app_common.workflows.scatter_and_gather_scaffold."
			  "ScatterAndGatherScaffold",
			  "\"memory_gc_rounds\": 5"),
	 .hit = true},
	{"NVF-SRV-GC-IGNORED", .server = SERVER(LR, "\"memory_gc_rounds\": 0"), .hit = true},
	{"NVF-SRV-GC-IGNORED", .server = SERVER(LR, ""), .hit = true},
	{"NVF-SRV-GC-IGNORED",
	 .server = SERVER("nvflare.app_common.workflows.scatter_and_gather_scaffold."
			  "ScatterAndGatherScaffold",
			  ""),
	 .hit = true},
	{"NVF-SRV-GC-IGNORED", .server = SERVER(FEDAVG, "\"memory_gc_rounds\": 5"), .hit = false},

	{"NVF-GC-NEVER-FIRES",
	 .server = SERVER(FEDAVG, "\"memory_gc_rounds\": 5, \"num_rounds\": 4"), .hit = true,
	 .proposed = "1"},
	{"NVF-GC-NEVER-FIRES",
	 .server = SERVER(FEDAVG, "\"memory_gc_rounds\": 50, \"num_rounds\": 20"), .hit = true,
	 .proposed = "5"},
	{"NVF-GC-NEVER-FIRES",
	 .server = SERVER(FEDAVG, "\"memory_gc_rounds\": 5, \"num_rounds\": 3, \"start_round\": 5"),
	 .hit = true},
	{"NVF-GC-NEVER-FIRES",
	 .server = SERVER(FEDAVG, "\"memory_gc_rounds\": 5, \"num_rounds\": 4, \"start_round\": 1"),
	 .hit = false},
	{"NVF-GC-NEVER-FIRES",
	 .server = SERVER(FEDAVG, "\"memory_gc_rounds\": 5, \"num_rounds\": 5"), .hit = false},
	{"NVF-GC-NEVER-FIRES", .server = SERVER(FEDAVG, "\"memory_gc_rounds\": 5"), .hit = false},
	{"NVF-GC-NEVER-FIRES", /* a job without rounds */
	 .server = SERVER(FEDAVG, "\"memory_gc_rounds\": 1, \"num_rounds\": -2"), .hit = true},
	/* an absent num_rounds is the default of the class */
	{"NVF-GC-NEVER-FIRES", .server = SERVER(FEDAVG, "\"memory_gc_rounds\": 50"), .hit = true,
	 .proposed = "5"},
	{"NVF-GC-NEVER-FIRES", .server = SERVER(SAG, "\"memory_gc_rounds\": 6"), .hit = true},
	{"NVF-GC-NEVER-FIRES",
	 .server = SERVER(FEDAVG, "\"memory_gc_rounds\": 7, \"start_round\": 2"), .hit = false},
	{"NVF-GC-NEVER-FIRES", .server = SERVER("my.Own", "\"memory_gc_rounds\": 50"),
	 .hit = false},
	{"NVF-GC-NEVER-FIRES",
	 .server = SERVER(FEDAVG, "\"memory_gc_rounds\": 50, \"num_rounds\": \"{n}\""),
	 .hit = false},
	{"NVF-GC-NEVER-FIRES", .server = SERVER(FEDAVG, ""),
	 .client = CLIENT(PT, "\"memory_gc_rounds\": 6"), .hit = true, .proposed = "1"},
	{"NVF-GC-NEVER-FIRES",
	 .server = "{\"workflows\": [{\"path\": \"nvflare.app_common.ccwf.swarm_server_ctl."
		   "SwarmServerController\", \"args\": {}}]}",
	 .client = CLIENT(PT, "\"memory_gc_rounds\": 6"), .hit = false},
	{"NVF-GC-NEVER-FIRES",
	 .server = SERVER(FEDAVG, "\"memory_gc_rounds\": 5, \"num_rounds\": 9223372036854775807, "
				  "\"start_round\": 1"),
	 .hit = false},
	{"NVF-GC-NEVER-FIRES", .server = SERVER(FEDAVG, "\"num_rounds\": 3"),
	 .client = CLIENT(PT, "\"memory_gc_rounds\": 4"), .hit = true, .proposed = "1"},
	{"NVF-GC-NEVER-FIRES", .server = SERVER(FEDAVG, "\"num_rounds\": 4"),
	 .client = CLIENT(PT, "\"memory_gc_rounds\": 4"), .hit = false},
	{"NVF-GC-NEVER-FIRES", .client = CLIENT(PT, "\"memory_gc_rounds\": 4"), .hit = false},

	{"NVF-GC-INVALID", .server = SERVER(FEDAVG, "\"memory_gc_rounds\": -1"), .hit = true},
	{"NVF-GC-INVALID", .server = SERVER(FEDAVG, "\"memory_gc_rounds\": \"5\""), .hit = true},
	{"NVF-GC-INVALID", .client = CLIENT(PT, "\"memory_gc_rounds\": true"), .hit = true},
	{"NVF-GC-INVALID", .client = CLIENT(PT, "\"memory_gc_rounds\": 1.0"), .hit = true},
	{"NVF-GC-INVALID", .client = CLIENT(PT, "\"memory_gc_rounds\": null"), .hit = true},
	{"NVF-GC-INVALID", .client = CLIENT(PT, "\"memory_gc_rounds\": 0"), .hit = false},
	{"NVF-GC-INVALID", .server = SERVER(FEDAVG, "\"memory_gc_rounds\": \"{n}\""), .hit = false},

	{"NVF-CHUNK-ZERO", .server = "{\"tensor_download_chunk_size\": 0}", .hit = true},
	{"NVF-CHUNK-ZERO", .client = "{\"np_download_chunk_size\": -1}", .hit = true},
	{"NVF-CHUNK-ZERO", .server = "{\"tensor_download_chunk_size\": 1}", .hit = false},
	{"NVF-CHUNK-ZERO", .server = "{\"np_download_chunk_size\": \"0\"}", .hit = true},
	{"NVF-CHUNK-ZERO", .server = "{\"np_download_chunk_size\": null}", .hit = false},
	{"NVF-CHUNK-INVALID", .server = "{\"np_download_chunk_size\": \"2M\"}", .hit = true,
	 .proposed = "2097152"},
	{"NVF-CHUNK-INVALID", .client = "{\"np_download_chunk_size\": {}}", .hit = true},
	{"NVF-CHUNK-INVALID", .server = "{\"np_download_chunk_size\": \"2\"}", .hit = false},
	{"NVF-CHUNK-INVALID", .server = "{\"np_download_chunk_size\": null}", .hit = false},

	{"NVF-CLI-GC-OFF", .client = CLIENT(PT, ""), .hit = true, .proposed = "1"},
	{"NVF-CLI-GC-OFF", .client = CLIENT(MODERN, "\"memory_gc_rounds\": 0"), .hit = true},
	{"NVF-CLI-GC-OFF", .client = CLIENT(LAUNCHER, ""), .hit = true},
	{"NVF-CLI-GC-OFF", .client = CLIENT(SWARM, "\"memory_gc_rounds\": 0"), .hit = true},
	{"NVF-CLI-GC-OFF", .client = CLIENT(SWARM, ""), .hit = false},
	{"NVF-CLI-GC-OFF", .client = CLIENT(PT, "\"memory_gc_rounds\": 1"), .hit = false},
	{"NVF-CLI-GC-OFF", .client = CLIENT("my.Executor", ""), .hit = false},
	{"NVF-CLI-GC-OFF", .client = CLIENT(PT, "\"cuda_empty_cache\": true"), .hit = false},
	{"NVF-CLI-GC-OFF", .client = CLIENT(PT, ""), .version = "2.7.0", .hit = false},

	{"NVF-WORKFLOW-NO-SETTINGS", .server = SERVER("nvflare.app_common.workflows.a.B", ""),
	 .hit = true},
	{"NVF-WORKFLOW-NO-SETTINGS", .server = SERVER("my.Controller", ""), .hit = false},
	{"NVF-WORKFLOW-NO-SETTINGS", .server = SERVER(FEDAVG, ""), .hit = false},
	{"NVF-EXECUTOR-NO-SETTINGS", .client = CLIENT(LEARNER, ""), .hit = true},
	{"NVF-EXECUTOR-NO-SETTINGS", .client = CLIENT("nvflare.app_opt.psi.x.PSIExecutor", ""),
	 .hit = true},
	{"NVF-EXECUTOR-NO-SETTINGS", .client = CLIENT("my.Executor", ""), .hit = false},
	{"NVF-EXECUTOR-NO-SETTINGS", .client = CLIENT(PT, ""), .hit = false},
	{"NVF-EXECUTOR-NO-SETTINGS",
	 .client = "{\"executors\": [" EXECUTOR(LEARNER, "") "," EXECUTOR(PT, "") "]}",
	 .hit = false},

	{"NVF-CUDA-INVALID", .client = CLIENT(PT, "\"cuda_empty_cache\": \"false\""), .hit = true},
	{"NVF-CUDA-INVALID", .client = CLIENT(SWARM, "\"cuda_empty_cache\": 2"), .hit = true},
	{"NVF-CUDA-INVALID", .client = CLIENT(PT, "\"cuda_empty_cache\": null"), .hit = false},
	{"NVF-CUDA-INVALID", .client = CLIENT(PT, "\"cuda_empty_cache\": true"), .hit = false},
	{"NVF-CUDA-INVALID", .client = CLIENT("my.Own", "\"cuda_empty_cache\": \"x\""),
	 .hit = false},

	{"NVF-OFFLOAD-INVALID",
	 .server = SERVER(FEDAVG, "\"enable_tensor_disk_offload\": \"false\""), .hit = true},
	{"NVF-OFFLOAD-INVALID", .client = CLIENT(SWARM, "\"enable_tensor_disk_offload\": 1"),
	 .hit = true},
	{"NVF-OFFLOAD-INVALID", .server = SERVER(FEDAVG, OFFLOAD), .hit = false},
	{"NVF-OFFLOAD-INVALID", .client = CLIENT("my.Own", OFFLOAD), .hit = false},
	{"NVF-OFFLOAD-NUMPY", .server = SERVER(CYCLIC, OFFLOAD), .client = CLIENT(PT, ""),
	 .hit = false},

	{"NVF-CUDA-NOOP", .client = CLIENT(PT, "\"cuda_empty_cache\": true"), .hit = true},
	{"NVF-CUDA-NOOP",
	 .client = CLIENT(PT, "\"cuda_empty_cache\": true, \"memory_gc_rounds\": 0"), .hit = true,
	 .proposed = "1"},
	{"NVF-CUDA-NOOP",
	 .client = CLIENT(PT, "\"cuda_empty_cache\": true, \"memory_gc_rounds\": 1"), .hit = false},
	{"NVF-CUDA-NOOP", .client = CLIENT(PT, "\"cuda_empty_cache\": false"), .hit = false},
	{"NVF-CUDA-NOOP", .client = CLIENT(SWARM, "\"cuda_empty_cache\": true"), .hit = false},

	{"NVF-CUDA-MISSING", .client = CLIENT(PT, ""), .meta = META(GPUS), .hit = true,
	 .proposed = "true"},
	{"NVF-CUDA-MISSING", .client = CLIENT(PT, "\"cuda_empty_cache\": false"),
	 .meta = META(GPUS), .hit = true},
	{"NVF-CUDA-MISSING", .client = CLIENT(MODERN, ""),
	 .meta = META("\"site-1\": {\"docker\": {\"num_of_gpus\": 2}}"), .hit = true},
	{"NVF-CUDA-MISSING", .client = CLIENT(PT, "\"cuda_empty_cache\": true"), .meta = META(GPUS),
	 .hit = false},
	{"NVF-CUDA-MISSING", .client = CLIENT(TF, ""), .meta = META(GPUS), .hit = false},
	{"NVF-CUDA-MISSING", .client = CLIENT(PT, ""),
	 .meta = META("\"site-1\": {\"num_of_gpus\": 0}"), .hit = false},
	{"NVF-CUDA-MISSING", .client = CLIENT(PT, ""),
	 .meta = META("\"server\": {\"num_of_gpus\": 4}"), .hit = false},
	{"NVF-CUDA-MISSING", .client = CLIENT(PT, ""),
	 .meta = "{\"resource_spec\": {" GPUS "}, \"deploy_map\": {\"app\": [\"site-2\"]}}",
	 .hit = false},
	{"NVF-CUDA-MISSING", .client = CLIENT(MODERN, ""),
	 .meta = LAUNCHERS("\"site-1\": {\"k8s\": {\"num_of_gpus\": 2}}", "site-1"), .hit = true},
	{"NVF-CUDA-MISSING", .client = CLIENT(MODERN, ""),
	 .meta = LAUNCHERS("\"default\": {\"slurm\": {\"gpus_per_node\": 1}}", "site-1"),
	 .hit = true},
	{"NVF-CUDA-MISSING", .client = CLIENT(MODERN, ""),
	 .meta = LAUNCHERS("\"site-1\": {\"k8s\": {\"num_of_gpus\": 2}}", "site-2"), .hit = false},
	{"NVF-CUDA-MISSING", .client = CLIENT(PT, ""), .meta = META(""), .hit = false},

	{"NVF-SWARM-SPLIT",
	 .client = SWARM_CLIENT("\"memory_gc_rounds\": 5", "\"memory_gc_rounds\": 1"), .hit = true,
	 .proposed = "1"},
	{"NVF-SWARM-SPLIT", .client = SWARM_CLIENT("", "\"memory_gc_rounds\": 2"), .hit = true},
	{"NVF-SWARM-SPLIT", .client = SWARM_CLIENT("", "\"memory_gc_rounds\": 1"), .hit = false},
	{"NVF-SWARM-SPLIT", .client = CLIENT(SWARM, "\"memory_gc_rounds\": 5"), .hit = false},

	{"NVF-RESENDS-NULL", .client = CLIENT(LAUNCHER, "\"max_resends\": null"), .hit = true,
	 .proposed = "3"},
	{"NVF-RESENDS-NULL", .client = CLIENT(LAUNCHER, "\"max_resends\": 3"), .hit = false},
	{"NVF-RESENDS-NULL", .client = CLIENT(LAUNCHER, ""), .hit = false},
	{"NVF-RESENDS-NULL", .client = CLIENT(MODERN, "\"max_resends\": null"), .version = "2.9.0",
	 .hit = false},
	{"NVF-KEY-UNKNOWN", .client = CLIENT(MODERN, "\"max_resends\": 3"), .version = "2.9.0",
	 .hit = true},
	{"NVF-KEY-UNKNOWN", .client = CLIENT(LAUNCHER, "\"max_resends\": 3"), .hit = false},
	{"NVF-KEY-UNKNOWN", .client = CLIENT(MODERN, "\"server_expected_format\": \"numpy\""),
	 .hit = false},
	{"NVF-KEY-UNKNOWN", .server = SERVER(FEDAVG, "\"np_download_chunk_size\": 1"), .hit = true},

	{"NVF-LEGACY-EXECUTOR", .client = CLIENT(PT, ""), .version = "2.9", .hit = true},
	{"NVF-LEGACY-EXECUTOR", .client = CLIENT(LAUNCHER, ""), .version = "2.9.1", .hit = true},
	{"NVF-LEGACY-EXECUTOR", .client = CLIENT(PT, ""), .version = "2.8.1", .hit = false},
	{"NVF-LEGACY-EXECUTOR", .client = CLIENT(PT, ""), .hit = false},
	{"NVF-LEGACY-EXECUTOR", .client = CLIENT(MODERN, ""), .version = "2.9", .hit = false},

	{"NVF-OFFLOAD-NUMPY", .server = SERVER(FEDAVG, OFFLOAD), .client = CLIENT(PT, ""),
	 .hit = true, .proposed = "\"pytorch\""},
	{"NVF-OFFLOAD-NUMPY", .server = SERVER(FEDAVG, OFFLOAD),
	 .client = CLIENT(PT, "\"server_expected_format\": \"numpy\""), .hit = true},
	{"NVF-OFFLOAD-NUMPY", .server = SERVER(FEDAVG, "\"enable_tensor_disk_offload\": \"true\""),
	 .client = CLIENT(PT, ""), .hit = true},
	{"NVF-OFFLOAD-NUMPY", .server = SERVER(FEDAVG, "\"enable_tensor_disk_offload\": \"\""),
	 .client = CLIENT(PT, ""), .hit = false},
	{"NVF-OFFLOAD-NUMPY", .server = SERVER(FEDAVG, "\"enable_tensor_disk_offload\": \"{x}\""),
	 .client = CLIENT(PT, ""), .hit = false},
	{"NVF-OFFLOAD-NUMPY",
	 .client = SWARM_CLIENT("\"enable_tensor_disk_offload\": \"true\"", ""), .hit = false},
	{"NVF-OFFLOAD-NUMPY", .client = SWARM_CLIENT(OFFLOAD, ""), .hit = true},
	{"NVF-CANNOT-TELL", .server = SERVER(FEDAVG, OFFLOAD),
	 .client = CLIENT(PT, "\"server_expected_format\": \"{format}\""), .hit = true},
	{"NVF-CANNOT-TELL", .client = CLIENT(PT, "\"server_expected_format\": \"{format}\""),
	 .hit = false},
	{"NVF-OFFLOAD-NUMPY", .server = SERVER(FEDAVG, OFFLOAD),
	 .client = CLIENT(PT, "\"server_expected_format\": \"pytorch\""), .hit = false},
	{"NVF-OFFLOAD-NUMPY", .server = SERVER(FEDAVG, "\"enable_tensor_disk_offload\": false"),
	 .client = CLIENT(PT, ""), .hit = false},
	{"NVF-OFFLOAD-NUMPY", .server = SERVER(FEDAVG, OFFLOAD), .client = CLIENT(PT, ""),
	 .version = "2.7.2", .hit = false},

	{"NVF-OFFLOAD-FILTER", .server = SERVER(FEDAVG, OFFLOAD),
	 .client = "{\"task_result_filters\": [{}]}", .hit = true},
	{"NVF-OFFLOAD-FILTER", .server = SERVER(FEDAVG, OFFLOAD),
	 .client = "{\"task_result_filters\": []}", .hit = false},
	{"NVF-OFFLOAD-FILTER", .client = "{\"task_result_filters\": [{}]}", .hit = false},

	{"NVF-KEY-UNKNOWN", .server = SERVER(FEDAVG, "\"memory_gc_round\": 5"), .hit = true},
	{"NVF-KEY-UNKNOWN", .client = CLIENT(PT, "\"client_memory_gc_rounds\": 1"), .hit = true},
	{"NVF-KEY-UNKNOWN", .client = CLIENT(PT, "\"cuda_emtpy_cache\": true"), .hit = true},
	{"NVF-KEY-UNKNOWN", .server = SERVER(FEDAVG, "\"memory_gc_rounds\": 5"), .hit = false},
	{"NVF-KEY-UNKNOWN", .server = SERVER(FEDAVG, "\"memory_rounds\": 5"), .hit = false},
	{"NVF-KEY-UNKNOWN", .server = SERVER("my.Own", "\"memory_gc_round\": 5"), .hit = false},

	{"NVF-KEY-UNKNOWN", .client = CLIENT(PT, "\"client_gc_rounds\": 1"), .hit = true},
	{"NVF-KEY-UNKNOWN", .server = SERVER(FEDAVG, "\"cuda_empty_cache\": true"), .hit = true},
	{"NVF-KEY-UNKNOWN", .server = SERVER(LR, OFFLOAD), .hit = true},

	{"NVF-KEY-TOO-NEW", .server = SERVER(FEDAVG, OFFLOAD), .version = "2.7.3", .hit = true},
	{"NVF-KEY-TOO-NEW", .server = SERVER(FEDAVG, OFFLOAD), .version = "2.8", .hit = false},
	{"NVF-KEY-TOO-NEW", .server = SERVER(SAG, OFFLOAD), .version = "2.8.3", .hit = true},
	{"NVF-KEY-TOO-NEW", .server = SERVER(SAG, OFFLOAD), .version = "2.9.0", .hit = false},

	{"NVF-CANNOT-TELL", .server = SERVER(FEDAVG, "\"memory_gc_rounds\": \"{n}\""), .hit = true},
	{"NVF-CANNOT-TELL",
	 .server = "{\"n\": 1, \"workflows\": [{\"path\": \"" FEDAVG
		   "\", \"args\": {\"memory_gc_rounds\": \"{n}\"}}]}",
	 .hit = false},
	{"NVF-CANNOT-TELL", .client = CLIENT("my.Own", "\"memory_gc_rounds\": \"{n}\""),
	 .hit = false},

	{"NVF-PARTS-MISSING", .server = "{}", .hit = true},
	{"NVF-PARTS-MISSING", .server = "{\"workflows\": []}", .hit = true},
	{"NVF-PARTS-MISSING", .client = "{\"executors\": {}}", .hit = true},
	{"NVF-PARTS-MISSING", .client = CLIENT(PT, ""), .hit = false},

	{"NVF-KEY-IGNORED", .server = "{\"tensor_download_chunksize\": 5}", .hit = true},
	{"NVF-KEY-IGNORED", .client = "{\"np_download_chunk_size\": 5}", .hit = false},
	{"NVF-KEY-IGNORED", .server = "{\"enable_tensor_disk_offload\": true}", .hit = true},
	{"NVF-KEY-IGNORED", .client = "{\"cuda_empty_cache\": true}", .hit = true},
	{"NVF-KEY-IGNORED",
	 .server = "{\"memory_gc_rounds\": 1, \"workflows\": [{\"path\": \"" FEDAVG
		   "\", \"args\": {\"memory_gc_rounds\": \"{memory_gc_rounds}\"}}]}",
	 .hit = false},
	{"NVF-KEY-IGNORED", .client = "{\"np_upload_chunk_size\": 5}", .hit = false},

	{"NVF-GC-TOO-OLD", .server = SERVER(FEDAVG, "\"memory_gc_rounds\": 5"), .version = "2.7.1",
	 .hit = true},
	{"NVF-GC-TOO-OLD", .server = SERVER(FEDAVG, "\"memory_gc_rounds\": 5"), .version = "2.7.2",
	 .hit = false},
	{"NVF-GC-TOO-OLD", .server = SERVER(FEDAVG, "\"memory_gc_rounds\": 5"), .hit = false},
	{"NVF-GC-TOO-OLD", .server = SERVER(FEDAVG, ""), .version = "2.7.1", .hit = false},

	{"NVF-EXECUTOR-TOO-NEW", .client = CLIENT(MODERN, ""), .version = "2.8.1", .hit = true},
	{"NVF-EXECUTOR-TOO-NEW", .client = CLIENT(MODERN, ""), .version = "2.9", .hit = false},
	{"NVF-EXECUTOR-TOO-NEW", .client = CLIENT(MODERN, ""), .hit = false},
	{"NVF-EXECUTOR-TOO-NEW", .client = CLIENT(PT, ""), .version = "2.8.1", .hit = false},

	{"KEY-TWICE", .server = "{\"a\": {\"b\": 1, \"c\": 2, \"b\": 3}}", .hit = true},
	{"KEY-TWICE", .server = "{\"a\": {\"b\": 1}, \"b\": {\"b\": 1}}", .hit = false},

	/* jobs without rounds */
	{"NVF-GC-NEVER-FIRES", .server = SERVER(TASK, ""),
	 .client = CLIENT(MODERN, "\"memory_gc_rounds\": 2"), .hit = true, .proposed = "1"},
	{"NVF-GC-NEVER-FIRES", .server = SERVER(EVAL, ""),
	 .client = CLIENT(MODERN, "\"memory_gc_rounds\": 5"), .hit = true},
	{"NVF-GC-NEVER-FIRES", .server = SERVER(TASK, ""),
	 .client = CLIENT(MODERN, "\"memory_gc_rounds\": 1"), .hit = false},
	{"NVF-GC-NEVER-FIRES",
	 .server = "{\"workflows\": [{\"path\": \"" TASK "\"}, {\"path\": \"my.Workflow\"}]}",
	 .client = CLIENT(MODERN, "\"memory_gc_rounds\": 2"), .hit = false},
	{"NVF-GC-NEVER-FIRES",
	 .server = "{\"workflows\": [{\"path\": \"" TASK "\"}, {\"path\": \"" FEDAVG "\"}]}",
	 .client = CLIENT(MODERN, "\"memory_gc_rounds\": 2"), .hit = false},
	{"NVF-CANNOT-TELL", .server = SERVER(CROSS, ""),
	 .client = CLIENT(MODERN, "\"memory_gc_rounds\": 5"), .hit = true, .proposed = "1"},
	{"NVF-CANNOT-TELL", .server = SERVER(CROSS, ""),
	 .client = CLIENT(MODERN, "\"memory_gc_rounds\": 1"), .hit = false},
	{"NVF-CANNOT-TELL",
	 .server = "{\"workflows\": [{\"path\": \"" CROSS "\"}, {\"path\": \"" FEDAVG "\"}]}",
	 .client = CLIENT(MODERN, "\"memory_gc_rounds\": 5"), .hit = false},
};

static void check_tree(const struct tree *tree, const char *version,
		       struct flmem_recommendations *ret_found)
{
	const char *path = tree->path;
	struct flmem_recommend_options options = {.framework_version = version};

	assert_int_equal(flmem_recommend(&path, 1, &options, ret_found, NULL), 0);
}

static void write_job(const struct tree *tree, const struct row *row)
{
	tree_puts(tree, "job/meta.json", row->meta ? row->meta : "{}");
	if (row->server)
		tree_puts(tree, "job/app/config/config_fed_server.json", row->server);
	if (row->client)
		tree_puts(tree, "job/app/config/config_fed_client.json", row->client);
}

static void rules_fire_where_they_should_and_nowhere_else(void **state)
{
	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(rows); i++) {
		const struct row *row = &rows[i];
		struct flmem_recommendations found = {0};
		const struct flmem_finding *last = NULL;
		struct tree tree;

		tree_init(&tree);
		write_job(&tree, row);
		check_tree(&tree, row->version, &found);
		if (findings_of(&found, row->rule, &last) != (row->hit ? 1U : 0U))
			fail_msg("row %zu: %s fired %zu times", i, row->rule,
				 findings_of(&found, row->rule, &last));
		if (row->proposed)
			assert_string_equal(last->proposed, row->proposed);
		flmem_recommendations_clear(&found);
		tree_clear(&tree);
	}
}

static bool is_about_jobs(const char *id)
{
	static const char *const others[] = {
		"NVF-CLEAR-CACHE-FALSE",   "NVF-LIGHTNING-KEEPS-PARAMS",
		"NVF-SWARM-TRAIN-ARGS",	   "NVF-JEMALLOC-DECAY",
		"NVF-CLI-GC-TUNE",	   "NVF-SRV-GC-EVERY-ROUND",
		"NVF-MUSL-NO-TRIM",	   "NVF-OFFLOAD-TMPFS",
		"NVF-CLEAR-CACHE-UNKNOWN", "NVF-SEND-PASSED-ON",
		"NVF-CLASS-PASSED-ON",	   "NVF-RECIPE-NO-SETTINGS",
		"NVF-PER-SITE-IGNORED",	   "NVF-GC-WRONG-ALLOCATOR",
		"NVF-SETTING-ASSIGNED",	   "NVF-IMPORTED-BY-NAME",
		"NVF-PARTS-ELSEWHERE",	   "NVF-OFFLOAD-SITE",
		"NVF-COLLECTOR-OFF",	   "NVF-ALLOCATOR-CANNOT-TELL",
	};
	static const char *const prefixes[] = {
		"NVF-ARENA-", "NVF-ENV",   "NVF-LAUNCH",  "NVF-RESENDS-INV", "LIVE-",
		"NVF-LIMIT-", "NVF-HEAP-", "NVF-CONFIG-", "NVF-CLEANUP-",    "NVF-SPEC-",
		"HOST-",      "TREND-",	   "OOM-",	  "NVF-COMM-",	     "NVF-SET-"};

	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(others); i++)
		if (strcmp(id, others[i]) == 0)
			return false;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(prefixes); i++)
		if (strncmp(id, prefixes[i], strlen(prefixes[i])) == 0)
			return false;
	return true;
}

static void every_rule_is_tried_both_ways(void **state)
{
	const struct flmem_rule *rule;

	(void)state;
	for (size_t r = 0; (rule = flmem_recommend_rule(r)); r++) {
		size_t tried[2] = {0};

		/* Python, launches, processes, profiles, recordings and logs have own tests. */
		if (rule->framework != FLMEM_FRAMEWORK_NVFLARE || !is_about_jobs(rule->id))
			continue;
		for (size_t i = 0; i < FLMEM_ARRAY_SIZE(rows); i++)
			if (strcmp(rows[i].rule, rule->id) == 0)
				tried[rows[i].hit]++;
		if (!tried[true] || !tried[false])
			fail_msg("%s lacks a trigger or a near miss", rule->id);
	}
}

static void severity_follows_the_version(void **state)
{
	static const struct row row = {.client = CLIENT(LAUNCHER, "\"max_resends\": null")};
	static const struct {
		const char *version;
		enum flmem_severity severity;
	} cases[] = {
		{NULL, FLMEM_SEVERITY_WARNING},	   {"2.7.2", FLMEM_SEVERITY_WARNING},
		{"2.7.9", FLMEM_SEVERITY_WARNING}, {"2.8.0", FLMEM_SEVERITY_ERROR},
		{"2.8.1", FLMEM_SEVERITY_ERROR},
	};
	struct tree tree;

	(void)state;
	tree_init(&tree);
	write_job(&tree, &row);
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(cases); i++) {
		struct flmem_recommendations found = {0};
		const struct flmem_finding *last = NULL;

		check_tree(&tree, cases[i].version, &found);
		assert_int_equal(findings_of(&found, "NVF-RESENDS-NULL", &last), 1);
		assert_true(last && last->severity == cases[i].severity);
		flmem_recommendations_clear(&found);
	}
	tree_clear(&tree);
}

static void findings_name_the_place(void **state)
{
	static const struct row row = {.server = "{\n\"workflows\": [\n{\n\"path\": \"" FEDAVG
						 "\",\n\"args\": {\n"
						 "\"memory_gc_rounds\": 0\n}}]}",
				       .client = CLIENT(PT, "\"memory_gc_rounds\": 1")};
	struct flmem_recommendations found = {0};
	const struct flmem_finding *finding;
	struct tree tree;

	(void)state;
	tree_init(&tree);
	write_job(&tree, &row);
	check_tree(&tree, NULL, &found);
	assert_int_equal(found.finding_count, 1);
	assert_int_equal(found.file_count, 3);
	finding = &found.findings[0];
	assert_int_equal(finding->line, 6);
	assert_string_equal(finding->path, "workflows[0].args.memory_gc_rounds");
	assert_string_equal(finding->current, "0");
	assert_true(finding->fixable);
	assert_int_equal(flmem_recommendations_count(&found, FLMEM_SEVERITY_ERROR), 0);
	assert_int_equal(flmem_recommendations_count(&found, FLMEM_SEVERITY_WARNING), 1);
	flmem_recommendations_clear(&found);
	tree_clear(&tree);
}

/* Intervals that are absent, unresolved or different are not facts; one interval of all jobs is. */
static void intervals_of_jobs_are_facts(void **state)
{
	static const char unresolved[] = "known only when it runs",
			  differ[] = "differ in this value";
	static const struct {
		const char *server, *client, *server_unknown, *client_unknown;
		uint64_t server_rounds, client_rounds;
	} cases[] = {
		{SERVER(FEDAVG, "\"memory_gc_rounds\": 3"), CLIENT(PT, "\"memory_gc_rounds\": 2"),
		 .server_rounds = 3, .client_rounds = 2},
		{SERVER(FEDAVG, "\"memory_gc_rounds\": \"{n}\""), CLIENT(PT, ""),
		 .server_unknown = unresolved, .client_rounds = 0},
		{SERVER(SAG, ""), CLIENT(PT, "\"memory_gc_rounds\": \"{n}\""),
		 .client_unknown = unresolved, .server_rounds = 1},
		{SERVER(LR, "\"memory_gc_rounds\": 3"), CLIENT(PT, "\"memory_gc_rounds\": -1"),
		 .server_unknown = "", .client_unknown = ""},
		{"{\"workflows\": [{\"path\": \"" FEDAVG "\"}, {\"path\": \"" SAG "\"}]}",
		 CLIENT(SWARM, ""), .server_unknown = differ, .client_rounds = 1},
	};

	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(cases); i++) {
		const struct row row = {.server = cases[i].server, .client = cases[i].client};
		struct flmem_recommendations found = {0};
		struct tree tree;

		tree_init(&tree);
		write_job(&tree, &row);
		check_tree(&tree, NULL, &found);
		if (cases[i].server_unknown)
			assert_non_null(
				strstr(found.server_gc_rounds.unknown, cases[i].server_unknown));
		else
			assert_true(!found.server_gc_rounds.unknown &&
				    found.server_gc_rounds.value == cases[i].server_rounds);
		if (cases[i].client_unknown)
			assert_non_null(
				strstr(found.client_gc_rounds.unknown, cases[i].client_unknown));
		else
			assert_true(!found.client_gc_rounds.unknown &&
				    found.client_gc_rounds.value == cases[i].client_rounds);
		flmem_recommendations_clear(&found);
		tree_clear(&tree);
	}
}

static void bad_inputs_do_not_hide_the_others(void **state)
{
	struct flmem_recommendations found = {0};
	struct tree tree;

	(void)state;
	tree_init(&tree);
	tree_puts(&tree, "a/meta.json", META(""));
	tree_puts(&tree, "a/app/config/config_fed_server.json", "{\n\"workflows\": [}");
	tree_puts(&tree, "a/app/config/config_fed_client.json", CLIENT(PT, ""));
	tree_puts(&tree, "b/meta.json", META(""));
	tree_puts(&tree, "b/app/config/config_fed_server.json", SERVER(SAG, ""));
	tree_puts(&tree, "c/app/config/config_fed_server.json", SERVER(FEDAVG, ""));
	tree_puts(&tree, "d/meta.json", "no job's, and no JSON");
	check_tree(&tree, NULL, &found);
	assert_int_equal(found.problem_count, 3);
	assert_non_null(strstr(found.problems[0].file, "a/app/config/config_fed_server.json"));
	assert_int_equal(found.problems[0].line, 2);
	assert_non_null(strstr(found.problems[1].message, "config_fed_client"));
	assert_int_equal(found.problems[1].line, 1);
	assert_non_null(strstr(found.problems[2].message, "has no meta file"));
	assert_int_equal(found.finding_count, 2);
	flmem_recommendations_clear(&found);
	tree_clear(&tree);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rules_fire_where_they_should_and_nowhere_else),
		cmocka_unit_test(every_rule_is_tried_both_ways),
		cmocka_unit_test(severity_follows_the_version),
		cmocka_unit_test(intervals_of_jobs_are_facts),
		cmocka_unit_test(findings_name_the_place),
		cmocka_unit_test(bad_inputs_do_not_hide_the_others),
	};

	return cmocka_run_group_tests_name("nvflare_rules", tests, NULL, NULL);
}
