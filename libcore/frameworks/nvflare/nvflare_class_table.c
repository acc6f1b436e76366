/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Constructors in the packages nvflare 2.7.2, 2.7.3, 2.8.0 to 2.8.3 and 2.9.0. The releases of a
 * minor version do not differ in these arguments.
 */
#include "frameworks/nvflare/nvflare_class_table.h"

#include "base/cleanup.h"

#define WORKFLOWS    "nvflare.app_common.workflows."
#define EXECUTORS    "nvflare.app_common.executors."
#define CCWF_PACKAGE "nvflare.app_common.ccwf"
#define CCWF	     CCWF_PACKAGE "."
#define PT	     "nvflare.app_opt.pt."
#define TF	     "nvflare.app_opt.tf."
#define SKLEARN	     "nvflare.app_opt.sklearn.recipes"
#define XGBOOST	     "nvflare.app_opt.xgboost.recipes"
#define PSI	     "nvflare.app_common.psi.recipes"
#define NUMPY	     "nvflare.app_common.np.recipes"
#define RECIPES	     "nvflare.recipe"

#define INTERVAL(side, name, n) \
	.intervals[FLMEM_NVFLARE_##side] = {.exists = true, .arg = (name), .fallback = (n)}
#define ON_SERVER(n)  INTERVAL(SERVER, "memory_gc_rounds", n)
#define ON_CLIENT(n)  INTERVAL(CLIENT, "memory_gc_rounds", n)
#define SERVER_ARG(n) INTERVAL(SERVER, "server_memory_gc_rounds", n)
#define CLIENT_ARG    INTERVAL(CLIENT, "client_memory_gc_rounds", 0)
#define NO_ARG(side)  INTERVAL(side, NULL, 0)
#define FORMAT	      .format = "server_expected_format"

#define ON_EXECUTOR	  .part = FLMEM_NVFLARE_EXECUTOR, ON_CLIENT(0), .cuda = true, FORMAT
#define CONTROLLER(p, n)  .path = (p), ON_SERVER(n), .rounds = 5
#define EXECUTOR(p)	  .path = (p), ON_EXECUTOR
#define OLD_EXECUTOR(p)	  EXECUTOR(p), .before = "2.9"
#define RECIPE(p, folder) .path = (p), .package = (folder), .part = FLMEM_NVFLARE_RECIPE
/* Recipes whose arguments a pydantic model converts. */
#define ROUNDS(n) .rounds = (n), .converts = true, FORMAT
#define SWARM_ARGS                                                                             \
	ON_CLIENT(1), .rounds = FLMEM_NVFLARE_ROUNDS_REQUIRED, .rounds_at = "2", .cuda = true, \
		      .offload = "2.9", .format = "aggregation_format"

const struct flmem_nvflare_class flmem_nvflare_classes[] = {
	/* Controllers. */
	{CONTROLLER(WORKFLOWS "fedavg.FedAvg", 0), .offload = "2.8"},
	{CONTROLLER(WORKFLOWS "base_fedavg.BaseFedAvg", 0)},
	{CONTROLLER(PT "fedavg.PTFedAvg", 0), .offload = "2.8"},
	{CONTROLLER(PT "fedopt_ctl.FedOpt", 0), .offload = "2.8"},
	{CONTROLLER(TF "fedopt_ctl.FedOpt", 0), .offload = "2.8"},
	{CONTROLLER(WORKFLOWS "scaffold.Scaffold", 0), .offload = "2.9"},
	{CONTROLLER(WORKFLOWS "cyclic.Cyclic", 0)},
	{CONTROLLER(WORKFLOWS "lr.fedavg.FedAvgLR", 0), .gc_ignored = true},
	{CONTROLLER(WORKFLOWS "scatter_and_gather.ScatterAndGather", 1), .rounds_at = "1",
	 .offload = "2.9"},
	{CONTROLLER(WORKFLOWS "scatter_and_gather_scaffold.ScatterAndGatherScaffold", 1),
	 .rounds_at = "1", .gc_ignored = true},
	{CONTROLLER(WORKFLOWS "cyclic_ctl.CyclicController", 1), .rounds_at = "0"},
	{.path = CCWF "swarm_server_ctl.SwarmServerController",
	 .package = CCWF_PACKAGE,
	 .rounds = FLMEM_NVFLARE_ROUNDS_REQUIRED,
	 .rounds_at = "0"},
	{.path = CCWF "ccwf_job.SwarmServerConfig",
	 .rounds = FLMEM_NVFLARE_ROUNDS_REQUIRED,
	 .rounds_at = "0"},
	{.path = CCWF "cyclic_server_ctl.CyclicServerController",
	 .package = CCWF_PACKAGE,
	 .rounds = FLMEM_NVFLARE_ROUNDS_REQUIRED,
	 .rounds_at = "0"},
	/* Executors, and jobs and runners that create them. */
	{OLD_EXECUTOR(EXECUTORS "in_process_client_api_executor.InProcessClientAPIExecutor")},
	{OLD_EXECUTOR(PT "in_process_client_api_executor.PTInProcessClientAPIExecutor")},
	{OLD_EXECUTOR(TF "in_process_client_api_executor.TFInProcessClientAPIExecutor")},
	{OLD_EXECUTOR(EXECUTORS "client_api_launcher_executor.ClientAPILauncherExecutor")},
	{OLD_EXECUTOR(PT "client_api_launcher_executor.PTClientAPILauncherExecutor")},
	{OLD_EXECUTOR(TF "client_api_launcher_executor.TFClientAPILauncherExecutor")},
	{EXECUTOR(EXECUTORS "client_api_executor.ClientAPIExecutor"), .since = "2.9"},
	{EXECUTOR("nvflare.job_config.script_runner.ScriptRunner")},
	{OLD_EXECUTOR("nvflare.job_config.script_runner.BaseScriptRunner")},
	{.path = CCWF "swarm_client_ctl.SwarmClientController",
	 .package = CCWF_PACKAGE,
	 .part = FLMEM_NVFLARE_SWARM_EXECUTOR,
	 ON_CLIENT(1),
	 .cuda = true,
	 .offload = "2.9"},
	{.path = CCWF "ccwf_job.SwarmClientConfig",
	 .part = FLMEM_NVFLARE_SWARM_EXECUTOR,
	 ON_CLIENT(1),
	 .cuda = true,
	 .offload = "2.9"},
	/* Gets the two configurations above. */
	{.path = PT "recipes.swarm.BaseSwarmLearningRecipe"},
	{.path = CCWF "recipes.swarm.BaseSwarmLearningRecipe"},
	/* Recipes. */
	{RECIPE(RECIPES ".fedavg.FedAvgRecipe", RECIPES), ROUNDS(2), SERVER_ARG(0), CLIENT_ARG,
	 .cuda = true, .offload = "2.8"},
	{RECIPE(RECIPES ".cyclic.CyclicRecipe", NULL), ROUNDS(2), SERVER_ARG(1), CLIENT_ARG,
	 .cuda = true},
	{RECIPE(RECIPES ".fed_task.FedTaskRecipe", RECIPES), CLIENT_ARG, .cuda = true, .sends = 1,
	 .converts = true, .since = "2.9"},
	{RECIPE(PT "recipes.fedavg.FedAvgRecipe", PT "recipes"), ROUNDS(2), SERVER_ARG(0),
	 CLIENT_ARG, .cuda = true, .offload = "2.8"},
	{RECIPE(PT "recipes.fedprox.FedProxRecipe", PT "recipes"), ROUNDS(2), SERVER_ARG(0),
	 CLIENT_ARG, .cuda = true, .offload = "2.9", .since = "2.9"},
	{RECIPE(PT "recipes.fedce.FedCERecipe", PT "recipes"), ROUNDS(2), SERVER_ARG(0), CLIENT_ARG,
	 .cuda = true, .offload = "2.9", .since = "2.9", .pytorch = true},
	{RECIPE(PT "recipes.fedopt.FedOptRecipe", PT "recipes"), ROUNDS(2), SERVER_ARG(1),
	 CLIENT_ARG, .cuda = true, .offload = "2.9"},
	{RECIPE(PT "recipes.scaffold.ScaffoldRecipe", PT "recipes"), ROUNDS(2), SERVER_ARG(0),
	 CLIENT_ARG, .cuda = true, .offload = "2.9"},
	{RECIPE(PT "recipes.fedavg_he.FedAvgRecipeWithHE", PT "recipes"), ROUNDS(2), SERVER_ARG(1),
	 CLIENT_ARG, .cuda = true},
	{RECIPE(PT "recipes.cyclic.CyclicRecipe", PT "recipes"), ROUNDS(2), SERVER_ARG(1),
	 CLIENT_ARG, .cuda = true},
	{RECIPE(PT "recipes.fedeval.FedEvalRecipe", PT "recipes"), CLIENT_ARG, .cuda = true,
	 .sends = 1},
	{RECIPE(PT "recipes.swarm.SwarmLearningRecipe", PT "recipes"), SWARM_ARGS},
	/* The same class as above. */
	{RECIPE(CCWF "recipes.swarm.SwarmLearningRecipe", NULL), SWARM_ARGS},
	{RECIPE(TF "recipes.fedavg.FedAvgRecipe", TF "recipes"), ROUNDS(2), SERVER_ARG(0),
	 CLIENT_ARG},
	{RECIPE(TF "recipes.fedopt.FedOptRecipe", TF "recipes"), ROUNDS(2), SERVER_ARG(0),
	 CLIENT_ARG},
	{RECIPE(TF "recipes.scaffold.ScaffoldRecipe", TF "recipes"), ROUNDS(2), SERVER_ARG(0),
	 CLIENT_ARG},
	{RECIPE(TF "recipes.cyclic.CyclicRecipe", TF "recipes"), ROUNDS(2), SERVER_ARG(1),
	 CLIENT_ARG},
	{RECIPE(NUMPY ".fedavg.NumpyFedAvgRecipe", NUMPY), ROUNDS(2), NO_ARG(SERVER), CLIENT_ARG,
	 .cuda = true},
	{RECIPE(NUMPY ".cross_site_eval.NumpyCrossSiteEvalRecipe", NUMPY), CLIENT_ARG, .cuda = true,
	 .converts = true, .sends_vary = true},
	{RECIPE(NUMPY ".lr.fedavg.FedAvgLrRecipe", NULL), ROUNDS(2), CLIENT_ARG, .cuda = true,
	 .gc_ignored = true},
	/* Recipes without an argument for either side. */
	{RECIPE(SKLEARN ".fedavg.SklearnFedAvgRecipe", SKLEARN), .rounds = 2, NO_ARG(SERVER),
	 NO_ARG(CLIENT)},
	{RECIPE(SKLEARN ".kmeans.KMeansFedAvgRecipe", SKLEARN), .rounds = 5, NO_ARG(SERVER),
	 NO_ARG(CLIENT)},
	{RECIPE(SKLEARN ".svm.SVMFedAvgRecipe", SKLEARN), NO_ARG(SERVER), NO_ARG(CLIENT)},
	{RECIPE(PT "job_config.fed_avg.FedAvgJob", NULL), .rounds = FLMEM_NVFLARE_ROUNDS_REQUIRED,
	 .rounds_at = "2", NO_ARG(SERVER)},
	{RECIPE(TF "job_config.fed_avg.FedAvgJob", NULL), .rounds = FLMEM_NVFLARE_ROUNDS_REQUIRED,
	 .rounds_at = "2", NO_ARG(SERVER)},
	{RECIPE(PT "job_config.fed_sag_mlflow.SAGMLFlowJob", NULL),
	 .rounds = FLMEM_NVFLARE_ROUNDS_REQUIRED, .rounds_at = "2", INTERVAL(SERVER, NULL, 1)},
	/* Jobs without any such setting. */
	{RECIPE("nvflare.job_config.stats_job.StatsJob", NULL)},
	{RECIPE("nvflare.app_opt.flower.flower_job.FlowerJob", NULL)},
	{RECIPE("nvflare.edge.tools.edge_job.EdgeJob", NULL)},
	{RECIPE("nvflare.edge.tools.et_job.ETJob", NULL)},
	{RECIPE(RECIPES ".fedstats.FedStatsRecipe", NULL)},
	{RECIPE(PSI ".dh_psi.DhPSIRecipe", PSI)},
	{RECIPE("nvflare.app_opt.flower.recipe.FlowerRecipe", NULL)},
	{RECIPE(XGBOOST ".bagging.XGBBaggingRecipe", XGBOOST), .server_cleans = true},
	{RECIPE(XGBOOST ".histogram.XGBHorizontalRecipe", XGBOOST)},
	{RECIPE(XGBOOST ".vertical.XGBVerticalRecipe", XGBOOST)},
	{RECIPE("nvflare.edge.tools.edge_fed_buff_recipe.EdgeFedBuffRecipe", NULL)},
	{RECIPE("nvflare.edge.tools.et_fed_buff_recipe.ETFedBuffRecipe", NULL)},
	{RECIPE("nvflare.app_opt.feature_election.feature_election.FeatureElection",
		"nvflare.app_opt.feature_election")},
	{RECIPE("nvflare.collab.recipe.CollabRecipe", "nvflare.collab"), .since = "2.9"},
};

const size_t flmem_nvflare_class_count = FLMEM_ARRAY_SIZE(flmem_nvflare_classes);
