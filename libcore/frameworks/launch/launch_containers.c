/* SPDX-License-Identifier: Apache-2.0 */
/* Reads what the containers of Compose and Kubernetes files start. */
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/text/text.h"
#include "frameworks/launch/launch_scan.h"

/*
 * Appends the words of a list, or one text. With `quotes`, words with blanks are quoted; else they
 * are left out.
 */
static void join_command(struct flmem_buf *line, const struct flmem_node *words, bool quotes)
{
	const struct flmem_node *n =
		flmem_node_is_kind(words, FLMEM_NODE_LIST) ? words->first : words;

	for (; n; n = n == words ? NULL : n->next) {
		const char *text = flmem_node_string(n);
		bool plain = n == words || (text && !strpbrk(text, " \t\n\"'"));

		if (text && plain)
			flmem_buf_printf(line, "%s ", text);
		else if (text && quotes && !strchr(text, '\''))
			flmem_buf_printf(line, "'%s' ", text);
	}
}

static bool is_env(const struct flmem_node *words)
{
	const char *text = flmem_node_string(words);

	return text && strcmp(flmem_text_basename(text), "env") == 0;
}

static bool is_env_command(const struct flmem_node *words)
{
	return is_env(words) || is_env(flmem_node_first(words));
}

static bool is_command(const struct flmem_node *words)
{
	return words;
}

/*
 * Reads entrypoint, command and args as one command, from the first list that `begins` it on, if at
 * least `least` lists take part. Returns the index of the launch, or -1.
 */
static int read_container_lists(const struct flmem_node *map,
				bool (*begins)(const struct flmem_node *words), size_t least,
				struct flmem_launches *launches)
{
	static const char *const lists[] = {"entrypoint", "command", "args"};
	FLMEM_AUTO_BUF struct flmem_buf line = FLMEM_BUF_INIT;
	const struct flmem_node *place = NULL;
	size_t count = 0;
	int launch = -1;

	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(lists); i++) {
		const struct flmem_node *words = flmem_node_get(map, lists[i]);

		if (!place && begins(words))
			place = words;
		if (!place || !words)
			continue;
		count++;
		join_command(&line, words, true);
	}
	if (count >= least && line.length)
		flmem_launch_read_inner(launches, line.data, &place->place, &launch);
	return launch;
}

/* Reads [env, -i] with the list after it: together they are one command. */
static int read_behind_env(const struct flmem_node *map, struct flmem_launches *launches)
{
	return read_container_lists(map, is_env_command, 1, launches);
}

/* Reads an entry point with its arguments: {entrypoint: nvflare, command: simulator job}. */
static int read_split_words(const struct flmem_node *map, struct flmem_launches *launches)
{
	return read_container_lists(map, is_command, 2, launches);
}

/* Reads words that are a command only together, or in their folder: [nvflare, simulator, job]. */
static int read_joined_words(const struct flmem_node *map, const struct flmem_node *words,
			     struct flmem_launches *launches)
{
	FLMEM_AUTO_BUF struct flmem_buf line = FLMEM_BUF_INIT;
	const char *folder = flmem_node_string(flmem_node_get(map, "working_dir"));
	int launch = -1;

	if (!folder)
		folder = flmem_node_string(flmem_node_get(map, "workingDir"));
	if (folder && !strpbrk(folder, " \t\n\"'"))
		flmem_buf_printf(&line, "cd %s\n", folder);
	join_command(&line, words, false);
	if (words && line.length)
		flmem_launch_read_inner(launches, line.data, &words->place, &launch);
	return launch;
}

/* Whether the word after `n` is Python code: [python3, -c, CODE]. */
static bool is_before_code(const struct flmem_node *words, const struct flmem_node *n)
{
	const char *first = flmem_node_string(words->first);

	return n != words && first && strstr(first, "python") && flmem_text_ends(n->text, "c") &&
	       *n->text == '-';
}

/*
 * Reads a command in YAML, a list of words or one text. Returns the index of the launch; that is
 * `launch` if the command starts none.
 */
static int read_command_words(const struct flmem_node *words, struct flmem_launches *launches,
			      int launch)
{
	const struct flmem_node *n =
		flmem_node_is_kind(words, FLMEM_NODE_LIST) ? words->first : words;
	bool code = false;

	if (n && n != words && flmem_node_string(n) && flmem_launch_is_naming(n->text))
		return launch; /* a probe: [pgrep, -f, PROGRAM] */
	for (; n && launch < 0; n = n == words ? NULL : n->next) {
		if (!flmem_node_string(n))
			continue;
		if (code)
			flmem_launch_note_code(launches, n->text,
					       &(struct flmem_launch){.place = n->place}, &launch);
		else
			flmem_launch_read_inner(launches, n->text, &n->place, &launch);
		code = is_before_code(words, n);
	}
	return launch;
}

/* Whether an entry is [NAME, VALUE] of MLproject. NAME alone has the value of the host there. */
static bool is_pair(const struct flmem_node *entry)
{
	bool list = !entry->key && flmem_node_is_kind(entry, FLMEM_NODE_LIST);
	const struct flmem_node *first = list ? entry->first : NULL;

	return first && flmem_node_string(first) && first->next && first->next == entry->last &&
	       first->next->kind != FLMEM_NODE_LIST && first->next->kind != FLMEM_NODE_MAP;
}

/* Whether a value is a boolean for YAML 1.1 but a text for Compose: "yes", "off". */
static bool is_read_differently(const struct flmem_launches *launches,
				const struct flmem_node *value)
{
	const char *text = launches->text ? launches->text + value->place.start : "";

	return value->kind == FLMEM_NODE_BOOL && strchr("yYnNoO", *text);
}

static void read_yaml_variable(const struct flmem_node *entry, struct flmem_launches *launches,
			       int launch)
{
	const char *name = flmem_node_string(flmem_node_get(entry, "name"));
	const struct flmem_node *value = flmem_node_get(entry, "value");
	const char *text = flmem_node_string(entry), *equals = text ? strchr(text, '=') : NULL;
	size_t count = launches->variable_count;
	const char *known;

	if (is_pair(entry)) {
		known = flmem_launch_variable_name(entry->first->text, strlen(entry->first->text));
		value = entry->first->next;
		text = value->text;
	} else if (equals) { /* - NAME=VALUE */
		known = flmem_launch_variable_name(text, (size_t)(equals - text));
		value = entry;
		text = equals + 1;
	} else if (text && !entry->key) { /* - NAME, with the value of the host */
		known = flmem_launch_variable_name(text, strlen(text));
		text = NULL;
	} else if (entry->key) { /* NAME: VALUE */
		known = flmem_launch_variable_name(entry->key, strlen(entry->key));
		value = entry;
		text = entry->kind == FLMEM_NODE_NULL || is_read_differently(launches, entry)
			       ? NULL
			       : entry->text;
	} else {
		known = name ? flmem_launch_variable_name(name, strlen(name)) : NULL;
		text = value ? value->text : NULL;
	}
	if (known)
		flmem_launch_add_variable(launches, known, text, launch,
					  value ? &value->place : &entry->place);
	if (launches->variable_count > count)
		launches->variables[count].of_container = true;
}

/*
 * Reads the variables of a list or map. In a map they are looked up by name, as its key "<<" may
 * bring them in from other maps.
 */
static void read_yaml_variables(const struct flmem_node *list, struct flmem_launches *launches,
				int launch)
{
	bool map = flmem_node_is_kind(list, FLMEM_NODE_MAP);
	const char *name;

	for (const struct flmem_node *n = map ? NULL : flmem_node_first(list); n; n = n->next)
		read_yaml_variable(n, launches, launch);
	for (size_t i = 0; map && (name = flmem_launch_name_at(i)); i++) {
		const struct flmem_node *entry = flmem_node_get(list, name);

		if (entry)
			read_yaml_variable(entry, launches, launch);
	}
}

/* Reads mounts in memory of a Compose service: tmpfs, and volumes of type tmpfs. */
static void read_tmpfs(const struct flmem_node *map, struct flmem_launches *launches, int launch)
{
	const struct flmem_node *tmpfs = flmem_node_get(map, "tmpfs"), *n;

	if (flmem_node_string(tmpfs))
		flmem_launch_add_mount(launches, tmpfs->text, launch, &tmpfs->place);
	for (n = flmem_node_first(tmpfs); n; n = n->next)
		if (flmem_node_string(n))
			flmem_launch_add_mount(launches, n->text, launch, &n->place);
	for (n = flmem_node_first(flmem_node_get(map, "volumes")); n; n = n->next) {
		const char *type = flmem_node_string(flmem_node_get(n, "type"));
		const struct flmem_node *target = flmem_node_get(n, "target");

		if (type && strcmp(type, "tmpfs") == 0 && flmem_node_string(target))
			flmem_launch_add_mount(launches, target->text, launch, &target->place);
	}
}

/* Whether the volume of the pod with this name is an emptyDir of medium Memory. */
static bool is_memory_volume(const struct flmem_node *pod, const char *name)
{
	const struct flmem_node *n = flmem_node_first(flmem_node_get(pod, "volumes"));

	for (; n; n = n->next) {
		const char *own = flmem_node_string(flmem_node_get(n, "name"));
		const char *medium =
			flmem_node_string(flmem_node_get(flmem_node_get(n, "emptyDir"), "medium"));

		if (own && medium && strcmp(own, name) == 0 && strcmp(medium, "Memory") == 0)
			return true;
	}
	return false;
}

/* Reads mounts in memory of a container; the volumes of the pod are two levels up. */
static void read_volume_mounts(const struct flmem_node *map, struct flmem_launches *launches,
			       int launch)
{
	const struct flmem_node *n = flmem_node_first(flmem_node_get(map, "volumeMounts"));
	const struct flmem_node *pod = map->parent ? map->parent->parent : NULL;

	for (; n && pod; n = n->next) {
		const char *name = flmem_node_string(flmem_node_get(n, "name"));
		const struct flmem_node *path = flmem_node_get(n, "mountPath");

		if (name && flmem_node_string(path) && is_memory_volume(pod, name))
			flmem_launch_add_mount(launches, path->text, launch, &path->place);
	}
}

/* The key of a map or of the list around it; "" if there is none. */
static const char *key_around(const struct flmem_node *map)
{
	bool entry = map->parent && map->parent->kind == FLMEM_NODE_LIST;
	const char *key = entry ? map->parent->key : map->key;

	return key ? key : "";
}

/*
 * Whether `command` belongs to a step of a workflow, not to a container: "run" of CircleCI, "steps"
 * of Buildkite.
 */
static bool is_workflow_step(const struct flmem_node *map)
{
	const char *key = key_around(map);

	return strcmp(key, "run") == 0 ||
	       (strcmp(key, "steps") == 0 && !flmem_node_get(map, "image"));
}

/*
 * Adds doubts about commands of a workflow (GitHub, GitLab, CircleCI, Travis, Drone, Azure): other
 * parts of the file set variables for them, too.
 */
static void read_workflow_words(const struct flmem_node *map, struct flmem_launches *launches)
{
	static const char *const keys[] = {"run",	   "before_script", "script",
					   "after_script", "commands",	    "before_install",
					   "install",	   "bash",	    "command"};
	size_t count = FLMEM_ARRAY_SIZE(keys) - !is_workflow_step(map);

	for (size_t i = 0; i < count; i++) {
		struct flmem_launches inner = FLMEM_LAUNCHES_WITHIN(launches, 0);
		const struct flmem_node *words = flmem_node_get(map, keys[i]);

		read_command_words(words, &inner, -1);
		if (inner.launch_count || inner.doubt_count)
			flmem_launch_add_doubt(launches, &words->place,
					       "a workflow runs it, whose variables are not "
					       "followed: check what runs");
	}
}

static bool names_program(const struct flmem_node *words)
{
	const struct flmem_node *first =
		flmem_node_is_kind(words, FLMEM_NODE_LIST) ? words->first : words;
	const char *text = flmem_node_string(first);
	char program[FLMEM_LAUNCH_PROGRAM_MAX];

	if (!text)
		return false;
	snprintf(program, sizeof(program), "%.*s", (int)strcspn(text, " \t\n"), text);
	return flmem_launch_is_naming(program);
}

/* Whether a container only names programs: {command: [kill, '1'], args: [PROGRAM]}. */
static bool only_names_programs(const struct flmem_node *map)
{
	const struct flmem_node *entry = flmem_node_get(map, "entrypoint");

	return entry ? names_program(entry)
		     : flmem_node_get(map, "args") && names_program(flmem_node_get(map, "command"));
}

/* Reads what a container starts: by its command, else by its image. Returns the launch, or -1. */
static int read_container_start(const struct flmem_node *map, struct flmem_launches *launches)
{
	static const char *const commands[] = {"command", "args", "entrypoint"};
	const struct flmem_node *image = flmem_node_get(map, "image");
	size_t doubts = launches->doubt_count;
	int launch;
	bool read;

	if (only_names_programs(map))
		return -1;
	launch = read_behind_env(map, launches);
	read = launch >= 0 || launches->doubt_count > doubts;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(commands) && !read; i++)
		launch = read_command_words(flmem_node_get(map, commands[i]), launches, launch);
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(commands); i++)
		if (launch < 0 && launches->doubt_count == doubts)
			launch = read_joined_words(map, flmem_node_get(map, commands[i]), launches);
	if (launch < 0 && launches->doubt_count == doubts)
		launch = read_split_words(map, launches);
	if (flmem_node_string(image) && launch < 0 && launches->doubt_count == doubts)
		flmem_launch_read_inner(launches, image->text, &image->place, &launch);
	return launch;
}

/* Reads other texts beside a command, as runtimeEnvYAML of Ray: they may set a variable for it. */
static void read_text_variables(const struct flmem_node *map, struct flmem_launches *launches,
				int launch)
{
	static const char *const others[] = {"command", "args", "entrypoint", "image", NULL};
	const char *name;

	for (const struct flmem_node *n = map->first; n && n->parent == map; n = n->next) {
		const char *text = flmem_node_string(n);

		if (!text || !n->key || flmem_text_is_one_of(n->key, others))
			continue;
		for (size_t i = 0; (name = flmem_launch_name_at(i)); i++)
			if (strstr(text, name) && !flmem_launch_find(launches, launch, name))
				flmem_launch_add_variable(launches, name, NULL, launch, &n->place);
	}
}

static void read_container(const struct flmem_node *map, struct flmem_launches *launches)
{
	static const char *const lists[] = {"env", "environment"};
	static const char *const files[] = {"env_file", "envFrom", "extends"};
	const char *image = flmem_node_string(flmem_node_get(map, "image"));
	size_t doubts = launches->doubt_count;
	bool musl = launches->musl;
	int launch;

	launches->musl = image && strstr(image, "alpine");
	launch = is_workflow_step(map) ? -1 : read_container_start(map, launches);
	read_workflow_words(map, launches);
	launches->musl |= musl;
	if (launch < 0 && launches->doubt_count == doubts)
		return;
	read_tmpfs(map, launches, launch);
	read_volume_mounts(map, launches, launch);
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(files); i++) {
		const struct flmem_node *file = flmem_node_get(map, files[i]);

		if (!file)
			continue;
		launches->open = true;
		flmem_launch_add_doubt(launches, &file->place,
				       strcmp(files[i], "extends") == 0
					       ? "variables are set in another service"
					       : "variables are set in another file");
	}
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(lists); i++)
		read_yaml_variables(flmem_node_get(map, lists[i]), launches, launch);
	read_text_variables(map, launches, launch);
}

/*
 * Reads every map, since each may be a container. An alias shares the children of its anchor, so
 * they are skipped.
 */
static void read_all_containers(const struct flmem_node *node, struct flmem_launches *launches)
{
	if (launches->cut) /* a table is full: nothing more is kept */
		return;
	if (node->kind == FLMEM_NODE_MAP)
		read_container(node, launches);
	for (const struct flmem_node *n = node->first; n && n->parent == node; n = n->next)
		read_all_containers(n, launches);
}

const char flmem_launch_by_others[] =
	"another program runs it, whose variables are not followed: check what runs";

/*
 * Adds a doubt about a command under a key of another program: a task of Ansible, a step of Argo.
 * Not inlined: its caller recurses, and each level would hold `inner` on the stack.
 */
__attribute__((noinline)) static void read_other_command(const struct flmem_node *node,
							 struct flmem_launches *launches)
{
	struct flmem_launches inner = FLMEM_LAUNCHES_WITHIN(launches, 0);

	read_command_words(node, &inner, -1);
	if (inner.launch_count)
		flmem_launch_add_doubt(launches, &node->place, flmem_launch_by_others);
	for (size_t i = 0; i < inner.doubt_count && !inner.launch_count; i++) {
		size_t count = launches->doubt_count;

		if (!*inner.doubts[i].script)
			continue;
		flmem_launch_add_script(launches, &node->place, inner.doubts[i].script);
		if (launches->doubt_count == count)
			return;
		launches->doubts[count].why = flmem_launch_by_others;
		launches->doubts[count].unfollowed = true;
	}
}

/*
 * Whether a key holds a command or a list of commands, also with a prefix: ansible.builtin.shell.
 */
static bool is_command_key(const struct flmem_node *node)
{
	static const char *const keys[] = {"shell", "cmd", "cmds", "command", "commands", NULL};
	const struct flmem_node *named = node->key ? node : node->parent;
	const char *dot = named && named->key ? strrchr(named->key, '.') : NULL;

	return named && named->key && flmem_text_is_one_of(dot ? dot + 1 : named->key, keys);
}

/* Whether a text is one word at a key that names something, as a service: it is not a command. */
static bool is_only_name(const struct flmem_node *node, const char *text)
{
	static const char *const keys[] = {
		"name",		  "app",     "job_name",  "depends_on",	    "hostname",
		"container_name", "service", "component", "serviceAccount", "serviceName",
		"instance",	  "role",    NULL};
	const struct flmem_node *named = node->key ? node : node->parent;
	const char *slash = named && named->key ? strrchr(named->key, '/') : NULL;

	return !strchr(text, ' ') && named && named->key &&
	       flmem_text_is_one_of(slash ? slash + 1 : named->key, keys);
}

/* Whether a list belongs to a container that only names programs. */
static bool is_of_naming(const struct flmem_node *node)
{
	static const char *const lists[] = {"command", "args", "entrypoint", NULL};

	return node->key && flmem_text_is_one_of(node->key, lists) &&
	       flmem_node_is_kind(node->parent, FLMEM_NODE_MAP) &&
	       only_names_programs(node->parent);
}

static void read_other_commands(const struct flmem_node *node, struct flmem_launches *launches)
{
	for (const struct flmem_node *n = node->first; n && n->parent == node; n = n->next) {
		const char *text = flmem_node_string(n);

		if (is_of_naming(n))
			continue;
		if (text && !is_only_name(n, text) &&
		    (flmem_launch_is_likely_for(launches, text) ||
		     (strstr(text, ".py") && is_command_key(n))))
			read_other_command(n, launches);
		read_other_commands(n, launches);
	}
}

/*
 * Reads commands of a shell that run before a job of a batch system, which gets what they export.
 * Not inlined: `inner` takes 50 KiB.
 */
__attribute__((noinline)) static void read_setup(const struct flmem_node *node,
						 struct flmem_launches *launches)
{
	struct flmem_launches inner = {.depth = launches->depth + 1};

	if (inner.depth > FLMEM_LAUNCH_DEPTH_MAX)
		return;
	flmem_launch_read_script(node->text, true, &inner);
	for (size_t i = 0; i < inner.variable_count; i++) {
		const struct flmem_launch_variable *row = &inner.variables[i];

		if (!row->local && !row->unset)
			flmem_launch_add_variable(launches, row->name,
						  row->known ? row->value : NULL, -1, &node->place);
	}
}

static bool is_setup(const struct flmem_node *node)
{
	return node->key && strcmp(node->key, "setup") == 0 && flmem_node_string(node) &&
	       flmem_launch_mentions_variable(node->text);
}

/* Adds variables at any key: of an image with its own command, a ConfigMap, values for a chart. */
static void read_bare_variables(const struct flmem_node *node, struct flmem_launches *launches)
{
	for (const struct flmem_node *n = node->first; n && n->parent == node; n = n->next) {
		read_yaml_variable(n, launches, -1);
		if (is_setup(n))
			read_setup(n, launches);
		if (!is_pair(n))
			read_bare_variables(n, launches);
	}
}

void flmem_launch_read_bare(const struct flmem_node *root, struct flmem_launches *launches)
{
	read_bare_variables(root, launches);
	if (launches->variable_count)
		flmem_launch_add_doubt(launches, &launches->variables[0].place,
				       "the file does not show which program gets the variable");
}

void flmem_launch_read_yaml(const struct flmem_node *root, struct flmem_launches *launches)
{
	read_all_containers(root, launches);
	if (launches->launch_count || launches->doubt_count) {
		/* "docker_env" of MLproject is the container of all its commands. */
		if (!launches->variable_count)
			read_yaml_variables(FLMEM_NODE_AT(root, "docker_env", "environment"),
					    launches, -1);
		return;
	}
	read_other_commands(root, launches);
	flmem_launch_read_bare(root, launches);
}
