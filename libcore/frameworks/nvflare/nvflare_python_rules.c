/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rules for the Python of a job: what a training script sends, and the arguments of a recipe. Only
 * names imported from NVFlare count: send() of any other object is ignored.
 */

#include <string.h>

#include "base/text.h"
#include "documents/python.h"
#include "frameworks/nvflare/nvflare_rules.h"

#define NAMES_MAX 16
#define NAME_MAX_ 64

/* The names under which a script imports NVFlare's client API. */
struct names {
	char modules[NAMES_MAX][NAME_MAX_];   /* "flare" of `import nvflare.client as flare` */
	char functions[NAMES_MAX][NAME_MAX_]; /* "send" of `from nvflare.client import send` */
	size_t module_count, function_count;
	struct flmem_place lightning; /* of the import; end 0: none */
};

/* Iterates over the words with one word of lookahead. */
struct reader {
	struct flmem_python python;
	struct flmem_python_word word, before;
};

static void advance_word(struct reader *reader)
{
	reader->before = reader->word;
	reader->word = flmem_python_next(&reader->python);
}

static bool accept_mark(struct reader *reader, const char *text)
{
	if (!flmem_python_is(&reader->word, text))
		return false;
	advance_word(reader);
	return true;
}

static void start_reader(struct reader *reader, const struct flmem_input *input)
{
	*reader = (struct reader){0};
	flmem_python_init(&reader->python, input->document.text.data);
	advance_word(reader);
}

static void copy_word(const struct flmem_python_word *word, char out[NAME_MAX_])
{
	size_t length = word->place.end - word->place.start;

	if (word->kind != FLMEM_PYTHON_NAME || length >= NAME_MAX_)
		length = 0;
	memcpy(out, word->text, length);
	out[length] = '\0';
}

/* "a.b.c"; the reader is then after it; truncated names match nothing. */
static void read_dotted(struct reader *reader, char *out, size_t size)
{
	size_t used = 0;

	out[0] = '\0';
	do {
		char part[NAME_MAX_];
		size_t length;

		copy_word(&reader->word, part);
		length = strlen(part);
		advance_word(reader);
		if (used + length + 2 > size)
			continue;
		if (used)
			out[used++] = '.';
		memcpy(out + used, part, length + 1);
		used += length;
	} while (accept_mark(reader, "."));
}

static void add_name(char list[NAMES_MAX][NAME_MAX_], size_t *count, const char *name)
{
	size_t length = strlen(name);

	if (*count < NAMES_MAX && length && length < NAME_MAX_)
		memcpy(list[(*count)++], name, length + 1);
}

static bool is_lightning(const char *module)
{
	return strcmp(module, "nvflare.client.lightning") == 0 ||
	       strncmp(module, "nvflare.app_opt.lightning", strlen("nvflare.app_opt.lightning")) ==
		       0;
}

static void note_module(struct names *names, const char *module, const char *alias,
			const struct flmem_place *place)
{
	if (is_lightning(module) && !names->lightning.end)
		names->lightning = *place;
	if (strcmp(module, "nvflare.client") == 0 ||
	    strcmp(module, "nvflare.client.lightning") == 0)
		add_name(names->modules, &names->module_count, alias);
}

/* import a.b as c, d */
static void read_import(struct reader *reader, struct names *names)
{
	struct flmem_place place = reader->before.place;

	do {
		char module[128], alias[128];

		read_dotted(reader, module, sizeof(module));
		memcpy(alias, module, sizeof(alias));
		if (accept_mark(reader, "as"))
			read_dotted(reader, alias, sizeof(alias));
		note_module(names, module, alias, &place);
	} while (accept_mark(reader, ","));
}

/* One name of `from MODULE import NAME as ALIAS`. */
static void note_import(struct names *names, const char *module, const char *name,
			const char *alias, const struct flmem_place *place)
{
	char full[256];

	if (strlen(module) + strlen(name) + 2 > sizeof(full))
		return;
	memcpy(full, module, strlen(module));
	full[strlen(module)] = '.';
	memcpy(full + strlen(module) + 1, name, strlen(name) + 1);
	if (is_lightning(module))
		note_module(names, module, "", place);
	note_module(names, full, alias, place);
	if (strcmp(full, "nvflare.client.send") == 0)
		add_name(names->functions, &names->function_count, alias);
}

static void read_from(struct reader *reader, struct names *names)
{
	struct flmem_place place = reader->before.place;
	char module[128];

	read_dotted(reader, module, sizeof(module));
	if (!accept_mark(reader, "import"))
		return;
	if (accept_mark(reader, "*")) {
		if (strcmp(module, "nvflare.client") == 0)
			add_name(names->functions, &names->function_count, "send");
		return;
	}
	accept_mark(reader, "(");
	do {
		char name[NAME_MAX_], alias[NAME_MAX_];

		copy_word(&reader->word, name);
		copy_word(&reader->word, alias);
		advance_word(reader);
		if (accept_mark(reader, "as")) {
			copy_word(&reader->word, alias);
			advance_word(reader);
		}
		note_import(names, module, name, alias, &place);
	} while (accept_mark(reader, ","));
}

static void read_names(const struct flmem_input *input, struct names *names)
{
	struct reader reader;

	*names = (struct names){0};
	start_reader(&reader, input);
	while (reader.word.kind != FLMEM_PYTHON_END) {
		if (accept_mark(&reader, "import"))
			read_import(&reader, names);
		else if (accept_mark(&reader, "from"))
			read_from(&reader, names);
		else
			advance_word(&reader);
	}
}

static bool is_listed(char list[NAMES_MAX][NAME_MAX_], size_t count, const char *name)
{
	for (size_t i = 0; i < count; i++)
		if (strcmp(list[i], name) == 0)
			return true;
	return false;
}

/* Whether a dotted name that is called is the client API's send. */
static bool is_send(struct names *names, char *called)
{
	char *dot = strrchr(called, '.');
	bool listed;

	if (!dot)
		return is_listed(names->functions, names->function_count, called);
	if (strcmp(dot, ".send") != 0)
		return false;
	*dot = '\0';
	listed = is_listed(names->modules, names->module_count, called);
	*dot = '.';
	return listed;
}

static void report_word(struct flmem_check *check, const struct flmem_python_word *word,
			const char *path, const char *proposed)
{
	struct flmem_node node = {.kind = FLMEM_NODE_STRING, .text = "", .place = word->place};

	flmem_check_report(
		check, &(struct flmem_remark){.node = &node, .path = path, .proposed = proposed});
}

/* By how many the open brackets change at the word. */
static int bracket_change(const struct flmem_python_word *word)
{
	if (word->kind != FLMEM_PYTHON_MARK)
		return 0;
	if (strchr("([{", *word->text))
		return 1;
	return strchr(")]}", *word->text) ? -1 : 0;
}

/* False if at least one call does not clear. */
static void note_send(struct flmem_check *check, bool clears)
{
	if (check->found->clear_cache.unknown || !clears)
		check->found->clear_cache = FLMEM_KNOWN(clears);
}

/* The arguments of a call: clear_cache=False, or False as the second one by position. */
static void check_send(struct flmem_check *check, struct reader *reader)
{
	struct flmem_python_word before = {0}, last = {0};
	unsigned position = 0;
	int depth = 1;

	note_send(check, true);
	while (depth && reader->word.kind != FLMEM_PYTHON_END) {
		struct flmem_python_word word = reader->word;
		bool by_name =
			flmem_python_is(&before, "clear_cache") && flmem_python_is(&last, "=");

		advance_word(reader);
		depth += bracket_change(&word);
		if (depth == 1 && flmem_python_is(&word, "False") &&
		    (by_name || (position == 1 && flmem_python_is(&last, ","))) &&
		    (flmem_python_is(&reader->word, ",") || flmem_python_is(&reader->word, ")"))) {
			note_send(check, false);
			report_word(check, &word, "clear_cache", "True");
		}
		position += depth == 1 && flmem_python_is(&word, ",");
		before = last;
		last = word;
	}
}

/* Advances to the next name that is called; `called` holds its dotted text. False at the end. */
static bool next_call(struct reader *reader, char *called, size_t size)
{
	while (reader->word.kind != FLMEM_PYTHON_END) {
		bool whole = !flmem_python_is(&reader->before, ".") &&
			     !flmem_python_is(&reader->before, "def");

		if (reader->word.kind != FLMEM_PYTHON_NAME || !whole) {
			advance_word(reader);
			continue;
		}
		read_dotted(reader, called, size);
		if (accept_mark(reader, "("))
			return true;
	}
	return false;
}

static void clear_cache_false(struct flmem_check *check)
{
	struct reader reader;
	struct names names;
	char called[128];

	read_names(check->input, &names);
	start_reader(&reader, check->input);
	while (next_call(&reader, called, sizeof(called)))
		if (is_send(&names, called))
			check_send(check, &reader);
}

static void lightning(struct flmem_check *check)
{
	struct flmem_python_word word = {.kind = FLMEM_PYTHON_NAME};
	struct names names;

	read_names(check->input, &names);
	if (!names.lightning.end)
		return;
	note_send(check, false);
	word.place = names.lightning;
	word.place.end = word.place.start +
			 strcspn(check->input->document.text.data + word.place.start, "\r\n#");
	report_word(check, &word, "import", NULL);
}

/* A key of {"name": ...}, or of dict(name=...). */
static bool is_key(const struct reader *reader, const struct flmem_python_word *word,
		   const char *name)
{
	return (flmem_python_is_string(word, name) && flmem_python_is(&reader->word, ":")) ||
	       (flmem_python_is(word, name) && flmem_python_is(&reader->word, "="));
}

/* train_args of a swarm recipe, at any position among the arguments of the call. */
static void check_train_args(struct flmem_check *check, struct reader *reader)
{
	bool inside = false;
	int depth = 1;

	while (depth && reader->word.kind != FLMEM_PYTHON_END) {
		struct flmem_python_word word = reader->word;

		advance_word(reader);
		depth += bracket_change(&word);
		if (depth == 1)
			inside = flmem_python_is(&word, "train_args") ||
				 (inside && !flmem_python_is(&word, ","));
		if (inside && depth == 2 && is_key(reader, &word, "memory_gc_rounds"))
			report_word(check, &word, "train_args.memory_gc_rounds", NULL);
		if (inside && depth == 2 && is_key(reader, &word, "cuda_empty_cache"))
			report_word(check, &word, "train_args.cuda_empty_cache", NULL);
	}
}

static void swarm_train_args(struct flmem_check *check)
{
	struct reader reader;
	char called[128];

	start_reader(&reader, check->input);
	while (next_call(&reader, called, sizeof(called)))
		if (flmem_text_ends(called, "SwarmLearningRecipe"))
			check_train_args(check, &reader);
}

#define NVFLARE .framework = FLMEM_FRAMEWORK_NVFLARE
#define SCRIPT	.inputs = {&flmem_nvflare_python_file}

static const struct flmem_rule_row rows[] = {
	{
		.rule = {.id = "NVF-CLEAR-CACHE-FALSE",
			 .severity = FLMEM_SEVERITY_ERROR,
			 NVFLARE,
			 .since = "2.7.2",
			 .condition =
				 "a call of the client API's send with clear_cache False, by name "
				 "or as the second argument",
			 .message =
				 "the sent and received parameters stay in memory until the next "
				 "round; leave clear_cache at True, the most effective setting of "
				 "a client, unless the script reads them after sending",
			 .source = FLMEM_SOURCE_NVFLARE_GUIDE},
		SCRIPT,
		.check = clear_cache_false,
	},
	{
		.rule = {.id = "NVF-LIGHTNING-KEEPS-PARAMS",
			 .severity = FLMEM_SEVERITY_INFO,
			 NVFLARE,
			 .since = "2.7.2",
			 .condition = "an import of nvflare.client.lightning or "
				      "nvflare.app_opt.lightning",
			 .message = "a patched Lightning trainer sends with clear_cache False, so "
				    "its parameters stay in memory between rounds",
			 .source = "NVFlare code, 2.7.2 to 2.9"},
		SCRIPT,
		.check = lightning,
	},
	{
		.rule = {.id = "NVF-SWARM-TRAIN-ARGS",
			 .severity = FLMEM_SEVERITY_ERROR,
			 NVFLARE,
			 .since = "2.7.2",
			 .condition =
				 "memory_gc_rounds or cuda_empty_cache in train_args of a swarm "
				 "recipe",
			 .message = "the recipe rejects this with a ValueError: pass both as "
				    "arguments of the recipe itself",
			 .source = FLMEM_SOURCE_NVFLARE_GUIDE},
		SCRIPT,
		.check = swarm_train_args,
	},
};

const struct flmem_rule_table flmem_nvflare_python_rules = {rows, FLMEM_ARRAY_SIZE(rows)};
