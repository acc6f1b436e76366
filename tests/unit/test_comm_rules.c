/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes of comm_config.json and of the variables that stand for them. */
#include "launch_rows.h"

#include "base/cleanup.h"

#define START "nvflare simulator job\n"
#define CONF  "startup/comm_config.json"
#define LOCAL "local/comm_config.json"
#define KIT   "local/resources.json"
#define OPTION(words)                                                                            \
	"python3 -m nvflare.private.fed.app.client.client_train -s fed_client.json --set " words \
	"\n"
#define POD_SET(words)                                                              \
	"kind: Pod\nspec:\n  containers:\n  - name: a\n    args:\n    - -m\n    - " \
	"nvflare.private.fed.app.client.client_train\n    - --set\n    - " words "\n"
#define CLIENT_RUN "python3 -m nvflare.private.fed.app.client.client_train -m ws"
#define LIST(words)                                            \
	"import subprocess\nsubprocess.run(['python3', '-m', " \
	"'nvflare.private.fed.app.client.client_train', " words "])\n"
#define CELL_SET(words)                                                                      \
	"{\"cells\": [{\"cell_type\": \"code\", \"source\": [\"!" CLIENT_RUN " --set " words \
	"\"]}], \"metadata\": {}, \"nbformat\": 4, \"nbformat_minor\": 5}\n"
#define STUDY	    "local/study_runtime.yaml"
#define STUDIES(of) "format_version: 2\nstudies:\n  " of "\n"
#define ENV_ZERO    "NVF-ENV-CHUNK-ZERO"
#define ENV_INVALID "NVF-ENV-CHUNK-INVALID"
#define SET_ZERO    "NVF-SET-CHUNK-ZERO"
#define SET_INVALID "NVF-SET-CHUNK-INVALID"
#define SET_OPEN    "NVF-SET-CANNOT-TELL"

#define LOST "NVF-LAUNCHER-ENV-LOST"
#define LAUNCHER(name, args)                                                \
	"{\"components\": [{\"path\": \"nvflare.app_opt.job_launcher." name \
	"JobLauncher\", \"args\": {" args "}}]}"
#define DOCKER(env)  LAUNCHER("docker_launcher.ServerDocker", "\"default_job_env\": {" env "}")
#define SLURM(setup) LAUNCHER("slurm.ClientSlurm", "\"setup\": \"" setup "\"")

static const struct {
	const char *file, *rule, *text;
	size_t hits;
	const char *version, *says, *proposed;
} rows[] = {
	{LOCAL, "NVF-COMM-INVALID", "{\"streaming_chunk_size\": \"1M\"}", 1, .proposed = "1048576"},
	{CONF, "NVF-COMM-INVALID", "{\"streaming_window_size\": {}}", 1, .proposed = "16777216"},
	{CONF, "NVF-COMM-INVALID", "{\"streaming_max_blob_size\": \"4GB\"}", 1,
	 .proposed = "4294967296"},
	{CONF, "NVF-COMM-INVALID", "{\"max_message_size\": []}", 1, .version = NULL},
	{CONF, "NVF-COMM-INVALID", "{\"streaming_ack_interval\": \"\"}", 1, .version = NULL},
	{CONF, "NVF-COMM-INVALID", "{\"streaming_retry_max_pending_bytes\": \"x\"}", 1,
	 .version = NULL},
	{CONF, "NVF-COMM-INVALID", "{\"streaming_chunk_size\": \" 1_000 \"}", 0, .version = NULL},
	{CONF, "NVF-COMM-INVALID", "{\"streaming_chunk_size\": null}", 0, .version = NULL},
	{CONF, "NVF-COMM-INVALID", "{\"streaming_chunk_size\": 1.5e6}", 0, .version = NULL},
	{CONF, "NVF-COMM-INVALID", "{\"streaming_chunk_size\": true}", 0, .version = NULL},
	{"comm_config.yml", "NVF-COMM-INVALID", "streaming_chunk_size: 1M\n", 1, .version = NULL},
	{"comm_config.conf", "NVF-COMM-INVALID", "streaming_chunk_size = \"1M\"\n", 1,
	 .version = NULL},
	{"comm_config.json.default", "NVF-COMM-INVALID", "{\"streaming_chunk_size\": \"1M\"}", 1,
	 .version = NULL},
	{"other_config.json", "NVF-COMM-INVALID", "{\"streaming_chunk_size\": \"1M\"}", 0,
	 .version = NULL},
	{"run.sh", "NVF-COMM-INVALID", "export NVFLARE_STREAMING_CHUNK_SIZE=1M\n" START, 1,
	 .version = NULL},
	{"run.sh", "NVF-COMM-INVALID", "export NVFLARE_MAX_MESSAGE_SIZE=\n" START, 1,
	 .version = NULL},
	{"run.sh", "NVF-COMM-INVALID", "export NVFLARE_STREAMING_CHUNK_SIZE=$N\n" START, 0,
	 .version = NULL},
	{"run.sh", "NVF-LAUNCH-CANNOT-TELL", "export NVFLARE_STREAMING_WINDOW_SIZE=$N\n" START, 1,
	 .version = NULL},
	{".env", "NVF-COMM-INVALID", "NVFLARE_STREAMING_MAX_BLOB_SIZE=4G\n", 1, .version = NULL},

	{"run.sh", SET_ZERO, OPTION("uid=a tensor_download_chunk_size=0 org=b"), 1,
	 .version = NULL},
	{"run.sh", SET_ZERO, OPTION("uid=a \\\n  np_download_chunk_size=-1 org=b"), 1,
	 .version = NULL},
	{"run.sh", SET_ZERO, OPTION("\"np_download_chunk_size=false\""), 1, .version = NULL},
	{"run.sh", SET_ZERO, OPTION("uid=a\nnp_download_chunk_size=0"), 0, .version = NULL},
	{"run.sh", SET_ZERO, OPTION("np_download_chunk_size=1.5e6"), 0, .version = NULL},
	{"run.sh", SET_ZERO, OPTION("np_download_chunk_size=0 np_download_chunk_size=9"), 0,
	 .version = NULL},
	{"run.sh", SET_ZERO, OPTION("np_download_chunk_size=0 --set uid=a"), 0, .version = NULL},
	{"run.sh", SET_ZERO, OPTION("uid=a --set np_download_chunk_size=0"), 1, .version = NULL},
	{"run.sh", SET_ZERO, OPTION("uid=a") "helm up --set np_download_chunk_size=0\n", 0,
	 .version = NULL},
	{"run.sh", SET_ZERO, "#" OPTION("np_download_chunk_size=0") START, 0, .version = NULL},
	{"run.sh", SET_ZERO, "A=\"--set np_download_chunk_size=0\"\n" OPTION("uid=a") "$A", 1,
	 .version = NULL},
	{"pod.yaml", SET_ZERO, POD_SET("np_download_chunk_size=0"), 1, .version = NULL},
	{"pod.yaml", SET_ZERO, POD_SET("uid=a\n    - np_download_chunk_size=0"), 1,
	 .version = NULL},
	{"pod.yaml", SET_ZERO, POD_SET("uid=a\n    env: [np_download_chunk_size=0]"), 0,
	 .version = NULL},
	{"run.sh", SET_INVALID, OPTION("tensor_download_chunk_size=2M"), 1, .version = NULL},
	{"run.sh", SET_INVALID, OPTION("tensor_download_chunk_size= uid=a"), 1, .version = NULL},
	{"run.sh", SET_INVALID, OPTION("tensor_download_chunk_size=1.5"), 0, .version = NULL},
	{"run.sh", SET_INVALID, OPTION("tensor_download_chunk_size=inf"), 1, .version = NULL},
	{"run.sh", SET_INVALID, OPTION("tensor_download_chunk_size=$N"), 0, .version = NULL},
	{"run.py", SET_ZERO, LIST("'--set', 'uid=a', 'np_download_chunk_size=0'"), 1,
	 .version = NULL},
	{"run.py", SET_ZERO, LIST("'--set', \"uid=a\",\n 'np_download_chunk_size=0', '-m', 'x'"), 1,
	 .version = NULL},
	{"run.py", SET_ZERO,
	 "import os\nos.system('" CLIENT_RUN " --set np_download_chunk_size=0')\n", 1,
	 .version = NULL},
	{"run.ipynb", SET_ZERO, CELL_SET("np_download_chunk_size=0"), 1, .version = NULL},
	{"run.ipynb", SET_ZERO, CELL_SET("np_download_chunk_size=9"), 0, .version = NULL},
	{"run.py", SET_INVALID, LIST("'--set', 'np_download_chunk_size=2M'"), 1, .version = NULL},
	{"run.py", SET_INVALID, LIST("'--set', 'np_download_chunk_size=' + n"), 0, .version = NULL},
	{"run.py", SET_OPEN, LIST("'--set', 'np_download_chunk_size=' + n"), 1, .version = NULL},
	{"run.py", SET_OPEN, LIST("'--set', 'np_download_chunk_size=' '2'"), 1, .version = NULL},
	{"run.py", SET_OPEN, LIST("'--set', f'np_download_chunk_size={n}'"), 1, .version = NULL},
	{"run.py", SET_OPEN, LIST("'--set', 'np_download_chunk_size=%d' % n"), 1, .version = NULL},
	{"run.py", SET_ZERO, "# " CLIENT_RUN " --set np_download_chunk_size=0\n" LIST("'x'"), 0,
	 .version = NULL},
	{"run.py", "NVF-COMM-ZERO", LIST("'--set', 'max_message_size=0'"), 1, .version = NULL},
	{"run.sh", "NVF-SET-IGNORED", OPTION("memory_gc_rounds=1 cuda_empty_cache=true"), 2,
	 .version = NULL},
	{"run.sh", "NVF-SET-IGNORED", OPTION("secure_train=true org=b config_folder=config"), 0,
	 .version = NULL},
	{"run.sh", "NVF-SET-CANNOT-TELL", OPTION("uid=a tensor_download_chunk_size=$N"), 1,
	 .version = NULL},
	{"run.sh", "NVF-SET-CANNOT-TELL", OPTION("uid=a streaming_chunk_size=${N:-0}"), 1,
	 .version = NULL},
	{"run.sh", "NVF-SET-CANNOT-TELL", OPTION("uid=a $MORE"), 1, .version = NULL},
	{"run.sh", "NVF-SET-CANNOT-TELL", OPTION("uid=$NAME org=$ORG"), 0, .version = NULL},
	{"run.sh", "NVF-COMM-INVALID", OPTION("streaming_chunk_size=1M"), 1, .version = NULL},
	{"run.sh", "NVF-COMM-ZERO", OPTION("uid=a max_message_size=0"), 1, .version = NULL},
	{"run.sh", "NVF-COMM-CHUNK-LARGE", OPTION("max_message_size=9 streaming_chunk_size=10"), 1,
	 .version = NULL},

	{KIT, ENV_ZERO, DOCKER("\"NVFLARE_NP_DOWNLOAD_CHUNK_SIZE\": 0"), 1, .version = NULL},
	{KIT, ENV_ZERO, DOCKER("\"NVFLARE_NP_DOWNLOAD_CHUNK_SIZE\": \"-1\""), 1, .version = NULL},
	{KIT, ENV_ZERO, DOCKER("\"NVFLARE_NP_DOWNLOAD_CHUNK_SIZE\": 9"), 0, .version = NULL},
	{KIT, ENV_ZERO, DOCKER("\"NVFLARE_NP_DOWNLOAD_CHUNK_SIZE\": \"\""), 0, .version = NULL},
	{KIT, ENV_INVALID, DOCKER("\"NVFLARE_NP_DOWNLOAD_CHUNK_SIZE\": \"\""), 1, .version = NULL},
	{KIT, ENV_INVALID, DOCKER("\"NVFLARE_NP_DOWNLOAD_CHUNK_SIZE\": \"2M\""), 1,
	 .version = NULL},
	{KIT, ENV_INVALID, DOCKER("\"NVFLARE_NP_DOWNLOAD_CHUNK_SIZE\": null"), 0, .version = NULL},
	{KIT, "NVF-COMM-ZERO", DOCKER("\"NVFLARE_MAX_MESSAGE_SIZE\": 0"), 1, .version = NULL},
	{KIT, "NVF-COMM-INVALID", DOCKER("\"NVFLARE_MAX_MESSAGE_SIZE\": \"2G\""), 1,
	 .version = NULL},
	{KIT, "NVF-ENV-DEAD-29", DOCKER("\"NVFLARE_CLIENT_MEMORY_GC_ROUNDS\": 1"), 1,
	 .version = NULL},
	{KIT, "NVF-ENV-GC-INVALID", DOCKER("\"NVFLARE_CLIENT_MEMORY_GC_ROUNDS\": \"x\""), 1,
	 .version = "2.8.1"},
	{KIT, "NVF-ENV-CUDA-LITERAL", DOCKER("\"NVFLARE_CUDA_EMPTY_CACHE\": \"1\""), 1,
	 .version = "2.8.1"},
	{KIT, "NVF-ENV-UNKNOWN", DOCKER("\"NVFLARE_TENSOR_DOWNLOAD_CHUNKSIZE\": 9"), 1,
	 .version = NULL},
	{KIT, ENV_ZERO, SLURM("export NVFLARE_NP_DOWNLOAD_CHUNK_SIZE=0"), 1, .version = NULL},
	{KIT, ENV_ZERO, SLURM("A=1; NVFLARE_NP_DOWNLOAD_CHUNK_SIZE=0"), 0, .version = NULL},
	{KIT, ENV_ZERO, SLURM("module load a; export NVFLARE_NP_DOWNLOAD_CHUNK_SIZE=9"), 0,
	 .version = NULL},
	{STUDY, ENV_ZERO, STUDIES("a: {env: {NVFLARE_NP_DOWNLOAD_CHUNK_SIZE: 0}}"), 1,
	 .version = NULL},
	{STUDY, ENV_ZERO,
	 STUDIES("a: {env: {NVFLARE_NP_DOWNLOAD_CHUNK_SIZE: 9}}\n  "
		 "b: {env: {NVFLARE_NP_DOWNLOAD_CHUNK_SIZE: -9}}"),
	 1, .version = NULL},
	{STUDY, ENV_ZERO,
	 STUDIES("a: {pod_template: {env: [{name: NVFLARE_NP_DOWNLOAD_CHUNK_SIZE, value: '0'}]}}"),
	 1, .version = NULL},
	{STUDY, ENV_INVALID, STUDIES("a: {env: {NVFLARE_TENSOR_DOWNLOAD_CHUNK_SIZE: 2MB}}"), 1,
	 .version = NULL},
	{STUDY, "NVF-COMM-INVALID", STUDIES("a: {env: {NVFLARE_STREAMING_CHUNK_SIZE: ''}}"), 1,
	 .version = NULL},

	{CONF, "NVF-COMM-ZERO", "{\"streaming_chunk_size\": 0}", 1, .proposed = "1048576"},
	{CONF, "NVF-COMM-ZERO", "{\"streaming_chunk_size\": false}", 1, .version = NULL},
	{CONF, "NVF-COMM-ZERO", "{\"streaming_chunk_size\": 1}", 0, .version = NULL},
	{CONF, "NVF-COMM-ZERO", "{\"streaming_window_size\": -1}", 1, .version = NULL},
	{CONF, "NVF-COMM-ZERO", "{\"streaming_window_size\": 0}", 0, .version = NULL},
	{CONF, "NVF-COMM-ZERO", "{\"max_message_size\": 0}", 1, .version = NULL},
	{CONF, "NVF-COMM-ZERO", "{\"streaming_max_blob_size\": 0}", 0, .version = NULL},
	{"run.sh", "NVF-COMM-ZERO", "NVFLARE_STREAMING_CHUNK_SIZE=0 " START, 1, .version = NULL},

	{CONF, "NVF-COMM-STALLS", "{\"streaming_window_size\": 0}", 1, .says = "sends 1048576"},
	{CONF, "NVF-COMM-STALLS", "{\"streaming_window_size\": 3145728}", 1, .version = NULL},
	{CONF, "NVF-COMM-STALLS",
	 "{\"streaming_window_size\": 65536, \"streaming_ack_interval\": null}", 1,
	 .version = NULL},
	{CONF, "NVF-COMM-STALLS", "{\"streaming_window_size\": 4194304}", 0, .version = NULL},
	{CONF, "NVF-COMM-STALLS",
	 "{\"streaming_window_size\": 65536, \"streaming_ack_interval\": 65536}", 0,
	 .version = NULL},
	{CONF, "NVF-COMM-STALLS",
	 "{\"streaming_window_size\": 65536, \"streaming_chunk_size\": 8388608}", 0,
	 .version = NULL},
	{CONF, "NVF-COMM-STALLS", "{\"streaming_ack_interval\": 33554432}", 1, .version = NULL},
	{CONF, "NVF-COMM-STALLS",
	 "{\"streaming_window_size\": 65536, \"streaming_ack_interval\": \"x\"}", 0,
	 .version = NULL},
	{CONF, "NVF-COMM-STALLS", "{\"streaming_window_size\": 65536}", 1, .version = "2.8.1"},
	{CONF, "NVF-COMM-STALLS", "{\"streaming_window_size\": 65536}", 0, .version = "2.9.0"},
	{"run.sh", "NVF-COMM-STALLS", "export NVFLARE_STREAMING_WINDOW_SIZE=65536\n" START, 1,
	 .version = NULL},
	{"run.sh", "NVF-COMM-STALLS",
	 "export NVFLARE_STREAMING_WINDOW_SIZE=65536\n"
	 "export NVFLARE_STREAMING_ACK_INTERVAL=$N\n" START,
	 0, .version = NULL},
	{"run.sh", "NVF-COMM-STALLS",
	 "export NVFLARE_STREAMING_WINDOW_SIZE=65536\n"
	 "export NVFLARE_STREAMING_ACK_INTERVAL=65536\n" START,
	 0, .version = NULL},

	{CONF, "NVF-COMM-CHUNK-LARGE",
	 "{\"streaming_chunk_size\": 2000001, \"max_message_size\": 2000000}", 1,
	 .says = "the limit is 2000000"},
	{CONF, "NVF-COMM-CHUNK-LARGE",
	 "{\"streaming_chunk_size\": 2000000, \"max_message_size\": 2000000}", 0, .version = NULL},
	{CONF, "NVF-COMM-CHUNK-LARGE", "{\"max_message_size\": 1000000}", 1, .version = NULL},
	{CONF, "NVF-COMM-CHUNK-LARGE", "{\"streaming_chunk_size\": 2147483648}", 1,
	 .version = NULL},
	{CONF, "NVF-COMM-CHUNK-LARGE", "{\"streaming_chunk_size\": 2144337904}", 0,
	 .version = NULL},

	{CONF, "NVF-COMM-ABOVE-BLOB", "{\"streaming_window_size\": 4294967297}", 1,
	 .version = NULL},
	{CONF, "NVF-COMM-ABOVE-BLOB", "{\"streaming_window_size\": 4294967296}", 0,
	 .version = NULL},
	{CONF, "NVF-COMM-ABOVE-BLOB",
	 "{\"streaming_chunk_size\": 8388608, \"streaming_max_blob_size\": 4194304}", 1,
	 .version = NULL},
	{CONF, "NVF-COMM-ABOVE-BLOB",
	 "{\"streaming_chunk_size\": 8388608, \"streaming_max_blob_size\": 0}", 0, .version = NULL},
	{CONF, "NVF-COMM-ABOVE-BLOB", "{\"streaming_window_size\": 4294967297}", 0,
	 .version = "2.8.1"},

	{CONF, "NVF-COMM-BLOB-SMALL", "{\"streaming_max_blob_size\": 2097151}", 1, .version = NULL},
	{CONF, "NVF-COMM-BLOB-SMALL", "{\"streaming_max_blob_size\": 2097152}", 0, .version = NULL},
	{CONF, "NVF-COMM-BLOB-SMALL", "{\"streaming_max_blob_size\": 0}", 0, .version = NULL},
	{CONF, "NVF-COMM-BLOB-NO-LIMIT", "{\"streaming_max_blob_size\": 0}", 1, .version = NULL},
	{CONF, "NVF-COMM-BLOB-NO-LIMIT", "{\"streaming_max_blob_size\": 1}", 0, .version = NULL},
	{"run.sh", "NVF-COMM-BLOB-NO-LIMIT", "NVFLARE_STREAMING_MAX_BLOB_SIZE=-1 " START, 1,
	 .version = NULL},

	{CONF, "NVF-COMM-RETRY-SMALL", "{\"streaming_retry_max_pending_bytes\": 67108864}", 1,
	 .version = NULL},
	{CONF, "NVF-COMM-RETRY-SMALL", "{\"streaming_retry_max_pending_bytes\": 68157440}", 0,
	 .version = NULL},
	{CONF, "NVF-COMM-RETRY-SMALL", "{\"streaming_retry_max_pending_bytes\": 0}", 0,
	 .version = NULL},
	{CONF, "NVF-COMM-RETRY-SMALL",
	 "{\"streaming_retry_max_pending_bytes\": 9000000, \"streaming_window_size\": 4194304}", 0,
	 .version = NULL},

	{CONF, "NVF-COMM-KEY-IGNORED", "{\"streaming_chunksize\": 1}", 1,
	 .says = "did you mean streaming_chunk_size"},
	{CONF, "NVF-COMM-KEY-IGNORED", "{\"max_msg_size\": 1}", 1,
	 .says = "did you mean max_message_size"},
	{CONF, "NVF-COMM-KEY-IGNORED", "{\"streamingWindowBytes\": 1}", 1,
	 .says = "did you mean streaming_window_size"},
	{CONF, "NVF-COMM-KEY-IGNORED", "{\"NVFLARE_STREAMING_MAX_BLOB_SIZE\": 1}", 1,
	 .says = "did you mean streaming_max_blob_size"},
	{CONF, "NVF-COMM-KEY-IGNORED", "{\"streaming_max_out_seq_chunks\": 1}", 0, .version = NULL},
	{CONF, "NVF-COMM-KEY-IGNORED", "{\"streaming_retry_wait\": 1}", 0, .version = NULL},
	{CONF, "NVF-COMM-KEY-IGNORED", "{\"backbone\": {\"streaming_chunk_size\": 1}}", 1,
	 .says = "move it there"},
	{CONF, "NVF-COMM-KEY-IGNORED", "{\"backbone\": {\"scheme\": \"tcp\"}}", 0, .version = NULL},
	{"app/config/config_fed_server.json", "NVF-COMM-KEY-IGNORED",
	 "{\"streaming_chunk_size\": 1}", 1, .says = "comm_config.json of the site"},

	{KIT, "NVF-COMM-KEY-IGNORED", "{\"streaming_chunk_size\": 0, \"components\": []}", 1,
	 .says = "comm_config.json of the site"},
	{KIT ".default", "NVF-COMM-KEY-IGNORED", "{\"max_message_size\": 1}", 1, .version = NULL},
	{"local/resources.conf", "NVF-COMM-KEY-IGNORED", "streaming_chunk_size = 0\n", 1,
	 .version = NULL},
	{"local/a__resources.json", "NVF-COMM-KEY-IGNORED", "{\"streaming_window_size\": 0}", 1,
	 .version = NULL},
	{"local/a__p_resources.json", "NVF-COMM-KEY-IGNORED", "{\"streaming_window_size\": 0}", 1,
	 .version = NULL},
	{"local/job_resources.json", "NVF-COMM-KEY-IGNORED", "{\"streaming_window_size\": 0}", 1,
	 .version = NULL},
	{"local/my_resources.json", "NVF-COMM-KEY-IGNORED", "{\"streaming_window_size\": 0}", 0,
	 .version = NULL},
	{KIT, "NVF-KEY-IGNORED", "{\"tensor_download_chunk_size\": 0}", 1, .says = "of the job"},
	{"startup/a__j_resources.json", "NVF-KEY-IGNORED", "{\"np_download_chunk_size\": 0}", 1,
	 .version = NULL},
	{KIT, "NVF-KEY-IGNORED", "{\"memory_gc_rounds\": 5}", 1, .says = "argument of a class"},
	{KIT, "NVF-KEY-IGNORED", "{\"snapshot_persistor\": {}, \"components\": []}", 0,
	 .version = NULL},
	{KIT, LOST, DOCKER("\"MALLOC_ARENA_MAX\": \"0\""), 1, .version = NULL},
	{"local/docker__p_resources.json", LOST, DOCKER(""), 1, .version = NULL},
	{"local/resources.conf", LOST, DOCKER(""), 1, .version = NULL},
	{KIT, LOST, DOCKER("\"MALLOC_ARENA_MAX\": null"), 1, .version = NULL},
	{KIT, LOST, DOCKER("\"LD_PRELOAD\": \"\""), 1, .version = NULL},
	{KIT, LOST, DOCKER("\"GLIBC_TUNABLES\": \"glibc.malloc.hugetlb=1\""), 1, .version = NULL},
	{KIT, LOST, DOCKER("\"GLIBC_TUNABLES\": \"glibc.malloc.arena_max=4\""), 0, .version = NULL},
	{KIT, LOST, DOCKER("\"MALLOC_ARENA_MAX\": 4"), 0, .version = NULL},
	{KIT, LOST, SLURM("export MALLOC_ARENA_MAX=0"), 1, .version = NULL},
	{KIT, LOST, SLURM("export MALLOC_ARENA_MAX='4'"), 0, .version = NULL},
	{KIT, LOST, SLURM("export MALLOC_ARENA_MAX=$N"), 0, .version = NULL},
	{CONF, "KEY-TWICE", "{\"streaming_chunk_size\": 0, \"streaming_chunk_size\": 1048576}", 1,
	 .version = NULL},
	{CONF, "NVF-COMM-ZERO", "{\"streaming_chunk_size\": 1, \"streaming_chunk_size\": 0}", 1,
	 .version = NULL},

	{CONF, "NVF-COMM-KEY-TOO-NEW", "{\"streaming_max_blob_size\": 4294967296}", 1,
	 .version = "2.8.1"},
	{CONF, "NVF-COMM-KEY-TOO-NEW", "{\"streaming_max_blob_size\": 4294967296}", 0,
	 .version = "2.9.0"},
	{CONF, "NVF-COMM-KEY-TOO-NEW", "{\"streaming_chunk_size\": 1048576}", 0,
	 .version = "2.8.1"},

	{"run.sh", "NVF-ENV-UNKNOWN", "export NVFLARE_STREAMING_MAX_BLOB=1\n" START, 1,
	 .version = NULL},
	{"run.sh", "NVF-ENV-UNKNOWN", "export NVFLARE_MAX_MSG_SIZE=1\n" START, 1, .version = NULL},
	{"run.sh", "NVF-ENV-UNKNOWN", "export NVFLARE_STREAMING_ACK_WAIT=1\n" START, 0,
	 .version = NULL},
};

static void check_one(const char *path, const char *version, struct flmem_recommendations *found)
{
	struct flmem_recommend_options options = {.framework_version = version};

	assert_int_equal(flmem_recommend(&path, 1, &options, found, NULL), 0);
}

static void sizes_of_connections_are_checked(void **state)
{
	size_t wrong = 0;

	(void)state;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(rows); i++) {
		struct flmem_recommendations found = {0};
		const struct flmem_finding *last = NULL;
		struct tree tree;
		bool right;

		tree_init(&tree);
		tree_puts(&tree, rows[i].file, rows[i].text);
		check_one(tree.path, rows[i].version, &found);
		right = findings_of(&found, rows[i].rule, &last) == rows[i].hits &&
			!(rows[i].says && !strstr(last->message, rows[i].says)) &&
			!(rows[i].proposed && strcmp(last->proposed, rows[i].proposed) != 0);
		if (!right)
			print_error("row %zu: not %zu %s (last '%s') on %s\n", i, rows[i].hits,
				    rows[i].rule, last ? last->message : "none", rows[i].text);
		wrong += !right;
		flmem_recommendations_clear(&found);
		tree_clear(&tree);
	}
	assert_int_equal(wrong, 0);
}

/* A file of a kit counts as checked also without findings, and is not a job that lacks its meta. */
static void a_kit_is_checked(void **state)
{
	struct flmem_recommendations found = {0};
	struct tree tree;

	(void)state;
	tree_init(&tree);
	tree_puts(&tree, LOCAL, "{\"internal\": {\"scheme\": \"tcp\"}}");
	check_one(tree.path, NULL, &found);
	assert_int_equal(found.file_count, 1);
	assert_int_equal(found.finding_count, 0);
	assert_int_equal(found.problem_count, 0);
	flmem_recommendations_clear(&found);
	/* The one with the earlier suffix is read, the other one is not. */
	tree_puts(&tree, "local/comm_config.yml", "streaming_chunk_size: 0\n");
	check_one(tree.path, NULL, &found);
	assert_int_equal(found.finding_count, 1);
	assert_string_equal(found.findings[0].rule->id, "NVF-CONFIG-IGNORED");
	flmem_recommendations_clear(&found);
	tree_clear(&tree);
}

static size_t both_read(const char *one, const char *other, const char *rule)
{
	struct flmem_recommendations found = {0};
	const struct flmem_finding *last = NULL;
	struct tree tree;
	size_t hits;

	tree_init(&tree);
	tree_puts(&tree, one, "{\"streaming_chunk_size\": 0}");
	tree_puts(&tree, other, "{\"streaming_window_size\": -1}");
	check_one(tree.path, NULL, &found);
	hits = findings_of(&found, rule, &last);
	flmem_recommendations_clear(&found);
	tree_clear(&tree);
	return hits;
}

/* The order in which the file system lists both folders decides which one is read. */
static void two_files_of_a_kit_are_reported(void **state)
{
	(void)state;
	assert_int_equal(both_read(LOCAL, CONF, "NVF-COMM-TWICE"), 2);
	assert_int_equal(both_read(LOCAL, CONF, "NVF-COMM-ZERO"), 2);
	/* The outermost folder comes first, an earlier suffix before that. */
	assert_int_equal(both_read("comm_config.json", CONF, "NVF-COMM-TWICE"), 1);
	assert_int_equal(both_read("comm_config.json", CONF, "NVF-COMM-ZERO"), 1);
	assert_int_equal(both_read("comm_config.json.default", LOCAL, "NVF-COMM-TWICE"), 1);
	assert_int_equal(both_read("startup/comm_config.json.default", LOCAL, "NVF-COMM-TWICE"), 1);
	/* The two files belong to two kits. */
	assert_int_equal(both_read("a/" LOCAL, "b/" CONF, "NVF-COMM-TWICE"), 0);
	assert_int_equal(both_read("a/comm_config.json", "b/" CONF, "NVF-COMM-TWICE"), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sizes_of_connections_are_checked),
		cmocka_unit_test(a_kit_is_checked),
		cmocka_unit_test(two_files_of_a_kit_are_reported),
	};

	return cmocka_run_group_tests_name("comm_rules", tests, NULL, NULL);
}
