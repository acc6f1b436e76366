/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_AGGREGATE_H
#define FLMEM_AGGREGATE_H

/*
 * Combines several models on disk into one, for example the weighted mean of the clients' models.
 * Memory use does not depend on the size of the models. Sums are kept in double, in the order of
 * the inputs, and rounded once: the result has the same bits whatever the chunk size, the number of
 * threads and the processor.
 *
 * The output appears complete or not at all: it is written as <output>.part, with the journal
 * <output>.part.journal in the same directory, and renamed at the end. Until then an existing
 * output is unchanged.
 *
 * flmem_aggregate() starts threads and joins them before it returns. Calls with different outputs
 * may run at the same time.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <flmem/algorithm.h>
#include <flmem/error.h>
#include <flmem/http.h>
#include <flmem/value.h>
#include <flmem/visibility.h>

/* Policies for a NaN or an infinity in an input. X(NAME, name, meaning) */
#define FLMEM_NAN_POLICIES(X)                                        \
	X(REJECT, "reject", "fails and names the tensor")            \
	X(SKIP_CLIENT, "skip-client", "averages without that input") \
	X(PROPAGATE, "propagate", "computes with it, as IEEE 754 defines")

enum flmem_nan_policy {
#define FLMEM_NAN_POLICY_ENUM(name, text, meaning) FLMEM_NAN_##name,
	FLMEM_NAN_POLICIES(FLMEM_NAN_POLICY_ENUM)
#undef FLMEM_NAN_POLICY_ENUM
};

/* Policies for tensors that are not floating point. X(NAME, name, meaning) */
#define FLMEM_NON_FLOAT_POLICIES(X)                              \
	X(EQUAL, "equal", "they must be equal in all inputs")    \
	X(FIRST, "first", "those of the first input are copied") \
	X(ROUND, "round", "integers are averaged and rounded, others must be equal")

enum flmem_non_float_policy {
#define FLMEM_NON_FLOAT_POLICY_ENUM(name, text, meaning) FLMEM_NON_FLOAT_##name,
	FLMEM_NON_FLOAT_POLICIES(FLMEM_NON_FLOAT_POLICY_ENUM)
#undef FLMEM_NON_FLOAT_POLICY_ENUM
};

/*
 * Progress of a call of flmem_aggregate(), flmem_inspect(), flmem_compare() or flmem_convert(), or
 * of a transfer of flmem/exchange_client.h.
 */
struct flmem_aggregate_progress {
	uint64_t done_bytes, total_bytes; /* bytes of all inputs that the call reads */
	uint64_t elapsed_us;
};

#define FLMEM_AGGREGATE_CHUNK_BYTES (UINT64_C(4) << 20)

/*
 * Prefix of an input that is generated while it is read: the tensors of a model of FLMEM_SHAPES
 * with values that depend on the seed and the client only. "generate:resnet18", with optional
 * parameters in any order: "generate:llama-3.1-8b?seed=7&client=2&dtype=fp32". Client 0, the
 * default, is the base model; other clients have variations of it. For a file of that name, write
 * "./generate:resnet18".
 */
#define FLMEM_AGGREGATE_GENERATE "generate:"

/*
 * The output name for a test that writes no file. Each element is compared with the exact mean of
 * the inputs, which must be generated, with integer weights whose sum is at most 2^20.
 */
#define FLMEM_AGGREGATE_VERIFY "verify:"

/*
 * Parameters of flmem_aggregate(). Zero-initialise the struct and set what is not the default. The
 * caller owns everything that it refers to.
 */
struct flmem_aggregate_request {
	/*
	 * The file to write; its suffix selects the format. With .pt, .pth, .bin or .ckpt the
	 * output is a copy of the first input, which must be a checkpoint, with the resulting
	 * tensors; with .npz it is a NumPy archive; with any other suffix it is a safetensors file.
	 * FLMEM_AGGREGATE_VERIFY: no file is written.
	 */
	const char *output;
	/*
	 * Each input is a safetensors file, a folder of shards with an index, a PyTorch checkpoint,
	 * an .npz archive, a FLMEM_AGGREGATE_GENERATE name, or an http:// or https:// address of
	 * such a file or of an index of shards.
	 */
	const char *const *inputs;
	size_t input_count;
	/* One per input; NULL: all equal. An input with weight 0 is not read. */
	const double *weights;
	const char *algorithm; /* NULL: "fedavg"; a name of FLMEM_ALGORITHMS */
	double trim;	       /* for trimmed-mean: the share to drop at each end; 0: 0.2 */
	/*
	 * The model that the clients started from: a file or a folder with the same tensors.
	 * norm-clipped-mean needs it to compute updates; NULL: the inputs are updates. Algorithms
	 * with a state need it until the state file exists, and do not use it afterwards.
	 */
	const char *base;
	double clip_norm; /* for norm-clipped-mean: the largest norm; 0: the median of all norms */
	/* For krum, multi-krum, bulyan: assumed number of hostile inputs; 0: the maximum. */
	size_t hostile;
	size_t keep; /* for multi-krum: inputs to average; 0: inputs - hostile - 2 */
	/*
	 * For fedavgm, fedadam, fedyogi and fedadagrad: the safetensors file that holds their state
	 * between rounds. The first round creates it; later rounds replace it after the output is
	 * complete.
	 */
	const char *state;
	/* Learning rate of the algorithms with a state; 0: 1 for fedavgm, 0.1 for the others. */
	double server_rate;
	/* Decay of momentum and of variance; NULL: 0.9 (fedadagrad: 0) and 0.99. */
	const double *beta1, *beta2;
	double tau; /* constant in the divisor of fedadam, fedyogi and fedadagrad; 0: 1e-3 */
	enum flmem_nan_policy nan;
	enum flmem_non_float_policy non_float;
	uint64_t chunk_bytes; /* 0: FLMEM_AGGREGATE_CHUNK_BYTES; rounded up to 64 KiB */
	unsigned threads;     /* 0: two per processor that the calling thread may use, at most 8 */
	bool resume; /* continue the unfinished output of an earlier call with the same request */
	/*
	 * The calling thread calls it about five times a second. If it returns false, the call
	 * stops with FLMEM_EFAILED. May be NULL.
	 */
	bool (*progress)(void *context, const struct flmem_aggregate_progress *progress);
	void *context;
	/* Key of the dict that holds a checkpoint's tensors; NULL: the top level. */
	const char *key;
	/* For inputs that are addresses; NULL: the defaults. */
	const struct flmem_http_options *http;
	/*
	 * 0: the output is one file. Otherwise `output` is a folder, which must not exist or be
	 * empty. It receives safetensors files with at most this many bytes of tensors each (a
	 * larger tensor has a file to itself), and their index.
	 */
	uint64_t shard_bytes;
	/*
	 * Shares the work with the other processes of the same MPI job, which must make the same
	 * call. Each process writes a range of the output (or whole shards if their sizes are about
	 * equal) on a file system that all of them share. All return the same result or failure. It
	 * excludes `resume`, `state` and FLMEM_NAN_SKIP_CLIENT. FLMEM_EUNSUPPORTED without Open
	 * MPI.
	 */
	bool mpi;
};

struct flmem_aggregate_input {
	char *path;    /* an address is stored without its query, which may contain a signature */
	double weight; /* normalised: the weights of all inputs add up to 1 */
	const char *skipped; /* static: why the input is not part of the result, or NULL */
	const char *same_as; /* path of an earlier input that is the same file, or NULL */
};

/* Result of flmem_aggregate(); owns its strings. Release with flmem_aggregate_result_clear(). */
struct flmem_aggregate_result {
	char *output;
	const char *algorithm;
	struct flmem_aggregate_input *inputs;
	size_t input_count;
	uint64_t tensors, output_bytes;
	uint64_t read_bytes; /* bytes read from all inputs, by all processes together */
	/* Bytes of the output that an earlier call had written and that are intact. */
	uint64_t resumed_bytes;
	/* `resume` was set, but the unfinished output belonged to another request. */
	bool restarted;
	/* Elements compared with the exact mean; 0: the output was written. */
	uint64_t verified_elements;
	uint64_t took_us;
	/* Largest anonymous memory of this process during the call. */
	struct flmem_u64 peak_anon_bytes;
	uint64_t chunk_bytes;
	unsigned threads;
	unsigned processes;  /* number of processes that shared the work */
	const char *kernels; /* instruction set of the arithmetic: "avx2", ...; static */
	uint32_t crc32c;     /* CRC-32C of the whole output file, also if it is only verified */
};

/*
 * Combines the inputs and writes request->output. FLMEM_EUSAGE for invalid, different or unsuitable
 * inputs and invalid requests, FLMEM_EPERM for unreadable inputs, FLMEM_EFAILED for failed reads
 * and writes, a full disk and a stopped call. After FLMEM_EFAILED the unfinished output is kept for
 * `resume`, except where it could not be created.
 */
FLMEM_API FLMEM_MUST_CHECK int flmem_aggregate(const struct flmem_aggregate_request *request,
					       struct flmem_aggregate_result *ret_result,
					       struct flmem_error *err);

/*
 * Reads a weight for each input from a JSON object of whole numbers, for example counts of samples.
 * An input is matched by its path, by its file name, or by its file name without ".safetensors";
 * other names are ignored. FLMEM_EUSAGE if an input has no number, or shares one with another
 * input.
 */
FLMEM_API FLMEM_MUST_CHECK int flmem_aggregate_weights_read(const char *path,
							    const char *const *inputs, size_t count,
							    double *ret_weights,
							    struct flmem_error *err);

/*
 * Installs a handler of SIGBUS for the rest of the process; for main programs, not for libraries.
 * From then on flmem_aggregate() maps files that are in the page cache instead of copying them,
 * which takes less processor time. If a file is truncated meanwhile, the call fails as without the
 * handler. A SIGBUS with another cause has the same effect as without the handler.
 */
FLMEM_API void flmem_aggregate_map_inputs(void);

/* Returns the rank of this process in its MPI job after a call with `mpi`, else 0. */
FLMEM_API unsigned flmem_aggregate_process(void);

/* Frees what the result owns and zeroes the struct. */
FLMEM_API void flmem_aggregate_result_clear(struct flmem_aggregate_result *result);

#endif
