/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads commands in JSON and TOML: devcontainer.json, tasks.json and launch.json of VS Code,
 * scripts of package.json, tasks of poe, PDM, Hatch, taskipy and pixi. Their variables are not
 * followed.
 */
#include <string.h>

#include "base/cleanup.h"
#include "base/text/text.h"
#include "frameworks/launch/launch_scan.h"

static bool holds_commands(const char *key)
{
	static const char *const keys[] = {"tasks",
					   "scripts",
					   "script",
					   "cmd",
					   "command",
					   "shell",
					   "postCreateCommand",
					   "postStartCommand",
					   "postAttachCommand",
					   "updateContentCommand",
					   "onCreateCommand",
					   "initializeCommand",
					   "processes",
					   "entryPoint",
					   "entrypoint",
					   "release_command",
					   NULL};

	return flmem_text_is_one_of(key, keys);
}

/* Appends the text of a command, which is one string or a list of words. */
static void join_task(struct flmem_buf *line, const struct flmem_node *node)
{
	const struct flmem_node *n = flmem_node_is_kind(node, FLMEM_NODE_LIST) ? node->first : node;

	for (; n; n = n == node ? NULL : n->next)
		if (flmem_node_string(n))
			flmem_buf_printf(line, "%s ", n->text);
}

/* Not inlined: its caller recurses, and each level would hold `inner` on the stack. */
__attribute__((noinline)) static void
read_task_text(const char *text, const struct flmem_place *place, struct flmem_launches *launches)
{
	struct flmem_launches inner = FLMEM_LAUNCHES_WITHIN(launches, 0);

	flmem_launch_read_script(text, true, &inner);
	if (inner.launch_count || inner.doubt_count)
		flmem_launch_add_doubt(launches, place, flmem_launch_by_others);
}

static void read_task_value(const struct flmem_node *node, struct flmem_launches *launches)
{
	FLMEM_AUTO_BUF struct flmem_buf line = FLMEM_BUF_INIT;

	if (node->key && strcmp(node->key, "module") == 0)
		flmem_buf_puts(&line, "python3 -m ");
	else if (node->key && strcmp(node->key, "program") == 0)
		flmem_buf_puts(&line, "python3 ");
	join_task(&line, node);
	if (node->key && (strcmp(node->key, "command") == 0 || strcmp(node->key, "module") == 0))
		join_task(&line, flmem_node_get(node->parent, "args"));
	if (line.length)
		read_task_text(line.data, &node->place, launches);
}

/* Whether a node is "program" or "module" in a configuration of launch.json. */
static bool is_debugged(const struct flmem_node *node)
{
	return node->key &&
	       (strcmp(node->key, "program") == 0 || strcmp(node->key, "module") == 0) &&
	       flmem_node_get(node->parent, "request");
}

static void read_task_values(const struct flmem_node *node, bool within,
			     struct flmem_launches *launches)
{
	bool words = within && node->kind == FLMEM_NODE_LIST;

	for (const struct flmem_node *n = node->first; n && !launches->cut; n = n->next) {
		bool commands = within || (n->key && holds_commands(n->key));

		if (is_debugged(n) || (commands && !words && n->kind != FLMEM_NODE_MAP))
			read_task_value(n, launches);
		/* The words of a list are read together; its maps are other commands. */
		if (n->kind == FLMEM_NODE_MAP || n->kind == FLMEM_NODE_LIST)
			read_task_values(n, commands, launches);
	}
}

void flmem_launch_read_tasks(const struct flmem_node *root, struct flmem_launches *launches)
{
	read_task_values(root, false, launches);
	if (!launches->doubt_count)
		flmem_launch_read_bare(root, launches);
}
