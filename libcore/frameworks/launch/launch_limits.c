/* SPDX-License-Identifier: Apache-2.0 */
/* Checks the memory limits of what scripts, units, Compose and Kubernetes files start. */
#include "frameworks/limits.h"

#include <stdio.h>
#include <string.h>

#include "base/text/text.h"
#include "frameworks/launch/launch_limit_ranges.h"
#include "frameworks/launch/launch_search.h"

/* Levels of a document that are searched for containers. */
#define DEPTH_MAX 32

struct limit_search {
	struct flmem_check *check;
	const struct flmem_launches *launches;
	enum flmem_limit_outcome outcome;
};

static bool is_planned(const struct limit_search *search, size_t launch)
{
	return search->launches->launches[launch].framework ==
	       search->check->bundle->peaks->framework;
}

/* Returns true if the node, or a part of it, starts at this place of the text. */
static bool holds_launch(const struct flmem_node *node, size_t start)
{
	if (node->place.start == start)
		return true;
	for (const struct flmem_node *n = node->first; n && n->parent == node; n = n->next)
		if (holds_launch(n, start))
			return true;
	return false;
}

/*
 * Returns true if the node has Flower's option --isolation process: other processes then run the
 * apps, and this one only passes messages.
 */
static bool runs_apps_elsewhere(const struct flmem_node *node)
{
	const char *text = flmem_node_string(node);

	if (text && (strcmp(text, "process") == 0 || strstr(text, "isolation process") ||
		     strstr(text, "isolation=process")))
		return true;
	for (const struct flmem_node *n = node->first; n && n->parent == node; n = n->next)
		if (runs_apps_elsewhere(n))
			return true;
	return false;
}

/*
 * Adds the need of one more process below the same limit; `count` is the number of processes added
 * before.
 */
static void add_need(struct flmem_limit_need *need, const struct flmem_limit_need *more,
		     size_t count)
{
	if (!count) {
		*need = *more;
		return;
	}
	if (more->least > need->least)
		*need = *more;
	need->most = UINT64_MAX;
	need->doubt = "several processes share it";
}

/*
 * Adds up what the container's processes need. Returns false if it starts no process of the planned
 * framework.
 */
static bool find_container_need(const struct limit_search *search, const struct flmem_node *map,
				struct flmem_limit_need *ret_need)
{
	const struct flmem_launches *launches = search->launches;
	size_t count = 0;

	for (size_t i = 0; i < launches->launch_count; i++) {
		const struct flmem_launch *launch = &launches->launches[i];
		struct flmem_limit_need own;

		if (!is_planned(search, i) || !holds_launch(map, launch->place.start))
			continue;
		own = flmem_limit_need_of(search->check->bundle->peaks, launch->role);
		add_need(ret_need, &own, count++);
	}
	if (count && runs_apps_elsewhere(map)) {
		ret_need->least = 0;
		ret_need->most = UINT64_MAX;
		ret_need->doubt = "processes started apart from it run the apps";
	}
	return count;
}

static void hold_container(const struct limit_search *search, const struct flmem_node *map,
			   const struct flmem_node *value, enum flmem_limit_style style)
{
	struct flmem_limit limit = {.node = value, .style = style};

	if (!value || (value->kind != FLMEM_NODE_STRING && value->kind != FLMEM_NODE_INTEGER &&
		       value->kind != FLMEM_NODE_REAL))
		return;
	limit.text = value->text;
	if (find_container_need(search, map, &limit.need))
		flmem_limit_compare(search->check, search->outcome, &limit);
}

/*
 * Compares the default limit of a LimitRange with the need of a container that has no limit itself.
 */
static void hold_fallback(const struct limit_search *search, const struct flmem_node *map)
{
	struct flmem_limit limit = {.node = map, .style = FLMEM_LIMIT_KUBERNETES, .text = ""};
	struct flmem_limit_range range;
	char path[256];

	if (!flmem_limit_ranges_is_container(map) || !find_container_need(search, map, &limit.need))
		return;
	range = flmem_limit_ranges_find(search->check->bundle, map);
	if (!range.fallback && !range.doubt)
		return;
	snprintf(path, sizeof(path), "default %.60s of the LimitRange in %.100s",
		 range.fallback ? range.fallback->text : "memory",
		 range.fallback_file ? flmem_text_basename(range.fallback_file) : "its folder");
	limit.text = range.fallback ? range.fallback->text : "";
	limit.path = path;
	limit.missing = "memory";
	limit.doubt = range.doubt;
	flmem_limit_compare(search->check, search->outcome, &limit);
}

static void report_range(struct flmem_check *check, const struct flmem_node *node,
			 const struct flmem_limit_range *range, const char *detail)
{
	char path[256];

	snprintf(path, sizeof(path), "LimitRange in %.100s",
		 flmem_text_basename(range->bound_file));
	flmem_check_report(check,
			   &(struct flmem_remark){.node = node, .path = path, .detail = detail});
}

/*
 * Compares the limit of a container, and the memory that it needs, with the bounds of a LimitRange.
 */
static void hold_range(const struct limit_search *search, const struct flmem_node *map)
{
	const struct flmem_node *value = FLMEM_NODE_AT(map, "resources", "limits", "memory");
	struct flmem_limit_range range = flmem_limit_ranges_find(search->check->bundle, map);
	struct flmem_limit_need need;
	char needed[FLMEM_TEXT_BYTES_MAX], detail[256];
	uint64_t own = 0, most = UINT64_MAX, least = 0;

	if (range.doubt || !find_container_need(search, map, &need))
		return;
	if (range.most)
		flmem_limit_parse(FLMEM_LIMIT_KUBERNETES, range.most->text, &most);
	if (range.least)
		flmem_limit_parse(FLMEM_LIMIT_KUBERNETES, range.least->text, &least);
	if (value && flmem_limit_parse(FLMEM_LIMIT_KUBERNETES, value->text, &own) &&
	    (own > most || own < least)) {
		snprintf(detail, sizeof(detail), "it admits %s %.60s",
			 own > most ? "at most" : "at least",
			 own > most ? range.most->text : range.least->text);
		report_range(search->check, value, &range, detail);
	} else if (need.least > most) {
		snprintf(detail, sizeof(detail),
			 "it admits at most %.60s, and %s needs %s with the strategy '%s'",
			 range.most->text, need.whose,
			 flmem_text_bytes(need.least, needed, sizeof(needed)),
			 search->check->bundle->peaks->strategy);
		report_range(search->check, value ? value : map, &range, detail);
	}
}

static void hold_ranges(const struct limit_search *search, const struct flmem_node *node,
			unsigned depth)
{
	if (node->kind == FLMEM_NODE_MAP && node->parent)
		hold_range(search, node);
	for (const struct flmem_node *n = node->first; n && n->parent == node && depth < DEPTH_MAX;
	     n = n->next)
		hold_ranges(search, n, depth + 1);
}

/*
 * Checks the limits of each Compose service and each container of a pod at or below a node. The
 * outermost map is skipped: in a Helm chart it describes a parent process, whose jobs run in
 * separate pods.
 */
static void hold_containers(const struct limit_search *search, const struct flmem_node *node,
			    unsigned depth)
{
	if (node->kind == FLMEM_NODE_MAP && node->parent) {
		hold_container(search, node, flmem_node_get(node, "mem_limit"), FLMEM_LIMIT_DOCKER);
		hold_container(search, node,
			       FLMEM_NODE_AT(node, "deploy", "resources", "limits", "memory"),
			       FLMEM_LIMIT_DOCKER);
		hold_container(search, node, FLMEM_NODE_AT(node, "resources", "limits", "memory"),
			       FLMEM_LIMIT_KUBERNETES);
		hold_fallback(search, node);
	}
	for (const struct flmem_node *n = node->first; n && n->parent == node && depth < DEPTH_MAX;
	     n = n->next)
		hold_containers(search, n, depth + 1);
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\\';
}

/*
 * Returns the command around a place of the text; a line that ends in a backslash continues in the
 * next one.
 */
static struct flmem_place command_around(const char *text, size_t at)
{
	struct flmem_place command = {.start = at, .end = at};

	while (command.start && (text[command.start - 1] != '\n' ||
				 (command.start > 1 && text[command.start - 2] == '\\')))
		command.start--;
	while (text[command.end] &&
	       (text[command.end] != '\n' || (command.end && text[command.end - 1] == '\\')))
		command.end++;
	return command;
}

/* Finds the next word from `*at` on, before `end`; false after the last. */
static bool next_command_word(const char *text, size_t end, size_t *at,
			      struct flmem_place *ret_word)
{
	while (*at < end && is_blank(text[*at]))
		++*at;
	ret_word->start = *at;
	while (*at < end && !is_blank(text[*at]))
		++*at;
	ret_word->end = *at;
	return ret_word->end > ret_word->start;
}

static bool is_command_word(const char *text, const struct flmem_place *word, const char *name)
{
	return word->end - word->start == strlen(name) &&
	       strncmp(text + word->start, name, strlen(name)) == 0;
}

static bool starts_word(const char *text, const struct flmem_place *word, const char *start)
{
	return word->end - word->start >= strlen(start) &&
	       strncmp(text + word->start, start, strlen(start)) == 0;
}

/* Recognises "--mem=8G" and "--mem 8G", and makes `word` the place of the value. */
static bool find_limit_option(const char *text, size_t end, size_t at, const char *option,
			      struct flmem_place *word)
{
	if (is_command_word(text, word, option))
		return next_command_word(text, end, &at, word);
	if (!starts_word(text, word, option) || text[word->start + strlen(option)] != '=')
		return false;
	word->start += strlen(option) + 1;
	return true;
}

/*
 * Finds the value of docker's --memory or -m. Python has an option -m, too, but its value is the
 * name of a module, which does not start with a digit, a variable or a quote.
 */
static bool find_docker_value(const char *text, size_t end, size_t at, struct flmem_place *word)
{
	if (find_limit_option(text, end, at, "--memory", word))
		return true;
	return find_limit_option(text, end, at, "-m", word) &&
	       strchr("0123456789$\"", text[word->start]);
}

/* Finds the memory option of docker run, podman run or srun in a command; false without one. */
static bool find_command_limit(const char *text, const struct flmem_place *command,
			       struct flmem_place *ret_value, enum flmem_limit_style *ret_style)
{
	bool docker = false, run = false, slurm = false;
	struct flmem_place word;

	for (size_t at = command->start; next_command_word(text, command->end, &at, &word);) {
		*ret_value = word;
		if (docker && run && find_docker_value(text, command->end, at, ret_value)) {
			*ret_style = FLMEM_LIMIT_DOCKER;
			return true;
		}
		if (slurm && find_limit_option(text, command->end, at, "--mem", ret_value)) {
			*ret_style = FLMEM_LIMIT_SLURM;
			return true;
		}
		docker |= is_command_word(text, &word, "docker") ||
			  is_command_word(text, &word, "podman");
		run |= docker && is_command_word(text, &word, "run");
		slurm |= is_command_word(text, &word, "srun");
	}
	return false;
}

static unsigned line_of(const char *text, size_t at)
{
	unsigned line = 1;

	for (size_t i = 0; i < at; i++)
		line += text[i] == '\n';
	return line;
}

static void hold_text(const struct limit_search *search, const char *path, struct flmem_place value,
		      enum flmem_limit_style style, const struct flmem_limit_need *need)
{
	const char *text = search->check->input->document.text.data;
	struct flmem_node node = {.kind = FLMEM_NODE_STRING, .text = ""};
	char copy[64];

	if (strchr("\"'", text[value.start]) && value.end - value.start > 2) {
		value.start++;
		value.end--;
	}
	value.line = line_of(text, value.start);
	node.place = value;
	snprintf(copy, sizeof(copy), "%.*s", (int)(value.end - value.start), text + value.start);
	flmem_limit_compare(
		search->check, search->outcome,
		&(struct flmem_limit){
			.node = &node, .path = path, .text = copy, .style = style, .need = *need});
}

/*
 * Finds the limit in the #SBATCH directives of a batch script or in MemoryMax= of a unit; the last
 * one counts.
 */
static bool find_file_limit(const char *text, struct flmem_place *ret_value,
			    enum flmem_limit_style *ret_style)
{
	static const char *const options[] = {"--mem", "--mem-per-cpu", "--mem-per-gpu"};
	static const char unit[] = "MemoryMax=";
	bool found = false;

	for (size_t start = 0, end; text[start]; start = end + (text[end] == '\n')) {
		size_t at = start;
		struct flmem_place word;

		end = start + strcspn(text + start, "\n");
		if (strncmp(text + start, unit, strlen(unit)) == 0) {
			*ret_value =
				(struct flmem_place){.start = start + strlen(unit), .end = end};
			*ret_style = FLMEM_LIMIT_SYSTEMD;
			found = true;
		}
		if (strncmp(text + start, "#SBATCH", 7) != 0)
			continue;
		while (next_command_word(text, end, &at, &word))
			for (size_t i = 0; i < FLMEM_ARRAY_SIZE(options); i++)
				if (find_limit_option(text, end, at, options[i], &word)) {
					/*
					 * limit per processor or GPU: the total is unknown, so the
					 * whole line is the value.
					 */
					word.start = i ? start : word.start;
					*ret_value = word;
					*ret_style = FLMEM_LIMIT_SLURM;
					found = true;
				}
	}
	return found;
}

/* Returns true if a word of a command names the checked file, by the last part of its path. */
static bool names_checked_script(const struct limit_search *search, const char *text,
				 const struct flmem_place *word)
{
	const char *name = flmem_text_basename(search->check->input->file);
	size_t length = strlen(name), start = word->end - length;

	return word->end - word->start >= length && strncmp(text + start, name, length) == 0 &&
	       (start == word->start || text[start - 1] == '/');
}

/*
 * Finds the option of "sbatch --mem=8G job.sh", where the command starts at sbatch; false without
 * one.
 */
static bool find_submitted_limit(const struct limit_search *search, const char *text,
				 const struct flmem_place *command, struct flmem_place *ret_value)
{
	bool submits = false, limited = false;
	struct flmem_place word;

	for (size_t at = command->start; next_command_word(text, command->end, &at, &word);) {
		struct flmem_place option = word;

		if (!submits && !is_command_word(text, &word, "sbatch"))
			return false;
		submits = true;
		if (find_limit_option(text, command->end, at, "--mem", &option)) {
			*ret_value = option;
			limited = true;
		} else if (names_checked_script(search, text, &word)) {
			return limited;
		}
	}
	return false;
}

/*
 * Checks options of sbatch in another file of the folder that submits the checked one: they
 * override its directive.
 */
static void hold_submissions(const struct limit_search *search, const struct flmem_rule_input *from,
			     struct flmem_place place, const struct flmem_limit_need *need)
{
	struct flmem_node node = {.kind = FLMEM_NODE_STRING, .text = "", .place = place};
	const char *text = from->document.text.data;
	char path[256], copy[64];

	snprintf(path, sizeof(path), "sbatch --mem in %.200s", flmem_text_basename(from->file));
	for (const char *at = text; at && (at = strstr(at, "sbatch")); at += strlen("sbatch")) {
		struct flmem_place command = command_around(text, (size_t)(at - text));
		struct flmem_place value = {0};
		const char *line = text + command.start;

		command.start = (size_t)(at - text);
		if (line[strspn(line, " \t")] == '#' ||
		    (at != line && !strchr(" \t;&|(", at[-1])) ||
		    !find_submitted_limit(search, text, &command, &value))
			continue;
		snprintf(copy, sizeof(copy), "%.*s", (int)(value.end - value.start),
			 text + value.start);
		flmem_limit_compare(search->check, search->outcome,
				    &(struct flmem_limit){.node = &node,
							  .path = path,
							  .text = copy,
							  .style = FLMEM_LIMIT_SLURM,
							  .need = *need});
	}
}

static void hold_all_submissions(const struct limit_search *search, struct flmem_place place,
				 const struct flmem_limit_need *need)
{
	const struct flmem_bundle *bundle = search->check->bundle;

	for (size_t i = 0; i < bundle->count; i++)
		if (bundle->inputs[i].document.syntax == FLMEM_SYNTAX_PLAIN)
			hold_submissions(search, &bundle->inputs[i], place, need);
	for (size_t i = 0; i < bundle->other_count; i++)
		hold_submissions(search, &bundle->others[i], place, need);
}

/*
 * Compares the limit of each command that has one with the need of its process, and the limit of
 * the file with the need of all other commands.
 */
static void hold_script(const struct limit_search *search)
{
	const char *text = search->check->input->document.text.data;
	const struct flmem_plan_peaks *peaks = search->check->bundle->peaks;
	struct flmem_limit_need all = {0};
	enum flmem_limit_style style;
	struct flmem_place value, first = {0};
	size_t others = 0;

	for (size_t i = 0; i < search->launches->launch_count; i++) {
		const struct flmem_launch *launch = &search->launches->launches[i];
		struct flmem_limit_need own;
		struct flmem_place command;

		if (!is_planned(search, i))
			continue;
		own = flmem_limit_need_of(peaks, launch->role);
		command = command_around(text, launch->place.start);
		if (find_command_limit(text, &command, &value, &style))
			hold_text(search,
				  style == FLMEM_LIMIT_SLURM ? "srun --mem" : "run --memory", value,
				  style, &own);
		else
			add_need(&all, &own, others++);
		first = others == 1 ? launch->place : first;
	}
	if (others)
		hold_all_submissions(search, first, &all);
	if (others && find_file_limit(text, &value, &style))
		hold_text(search, style == FLMEM_LIMIT_SLURM ? "#SBATCH --mem" : "MemoryMax", value,
			  style, &all);
}

static void hold_limits(struct flmem_check *check, enum flmem_limit_outcome outcome)
{
	struct flmem_launches launches;
	const struct limit_search search = {check, &launches, outcome};

	if (!check->bundle->peaks)
		return;
	flmem_launches_read(check->input, &launches);
	if (check->input->document.syntax == FLMEM_SYNTAX_PLAIN)
		hold_script(&search);
	else if (check->subject)
		hold_containers(&search, check->subject, 0);
}

static void limit_low(struct flmem_check *check)
{
	hold_limits(check, FLMEM_LIMIT_LOW);
}

static void limit_unclear(struct flmem_check *check)
{
	hold_limits(check, FLMEM_LIMIT_UNCLEAR);
}

static void limit_range(struct flmem_check *check)
{
	struct flmem_launches launches;
	const struct limit_search search = {.check = check, .launches = &launches};

	if (!check->bundle->peaks || !check->subject)
		return;
	flmem_launches_read(check->input, &launches);
	hold_ranges(&search, check->subject, 0);
}

static const struct flmem_rule_row launch_limits_rows[] = {
	{
		.rule = {.id = "PLAN-LIMIT-LOW",
			 .severity = FLMEM_SEVERITY_ERROR,
			 .condition = "with --model or --params: a memory limit of a service of "
				      "Compose, a container of Kubernetes, docker run, a batch job "
				      "of Slurm, srun, sbatch or a unit of systemd, or that a "
				      "LimitRange gives to a container without one, below the peak "
				      "that the plan predicts for what runs in it; a warning if "
				      "less than a tenth of the limit is left",
			 .message = FLMEM_LIMIT_LOW_MESSAGE,
			 .source = "docs/guides/planning.md; control groups v2, memory.max"},
		.inputs = {&flmem_launch_file},
		.check = limit_low,
	},
	{
		.rule = {.id = "PLAN-LIMIT-UNCLEAR",
			 .severity = FLMEM_SEVERITY_INFO,
			 .condition =
				 "with --model or --params: such a limit whose value is a "
				 "variable or per processor, that several processes share, "
				 "that is for a process whose role is not known, or that a "
				 "LimitRange gives of which it is not known whether it applies",
			 .message = FLMEM_LIMIT_UNCLEAR_MESSAGE,
			 .source = "docs/guides/planning.md"},
		.inputs = {&flmem_launch_file},
		.check = limit_unclear,
	},
	{
		.rule = {.id = "PLAN-LIMIT-RANGE",
			 .severity = FLMEM_SEVERITY_ERROR,
			 .condition =
				 "with --model or --params: a LimitRange of Kubernetes in the "
				 "same file or folder that does not admit the memory limit of a "
				 "container, or none that suffices for the peak of the plan",
			 .message = "the LimitRange of Kubernetes does not admit the memory limit "
				    "that the container has or needs, so that the pod is not "
				    "created; change one of them",
			 .source = "Kubernetes 1.34, plugin/pkg/admission/limitranger"},
		.inputs = {&flmem_launch_file},
		.check = limit_range,
	},
};

const struct flmem_rule_table flmem_limit_rules = {launch_limits_rows,
						   FLMEM_ARRAY_SIZE(launch_limits_rows)};
