/* SPDX-License-Identifier: Apache-2.0 */
/* Finds files inside of YAML and JSON: entries of a ConfigMap, files that cloud-init writes. */
#include <ctype.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/text/buf.h"
#include "base/text/text.h"
#include "frameworks/framework.h"
#include "frameworks/launch/launch_scan.h"

static const char *const embedded_suffixes[] = {".py",	 ".ipynb", ".json", ".conf",
						".yaml", ".yml",   ".toml", NULL};

/* Whether a name is that of a file that is checked if it is a file of its own, not of a script. */
static bool is_checked_name(const char *name)
{
	for (size_t i = 0; name && embedded_suffixes[i]; i++)
		if (flmem_text_ends(name, embedded_suffixes[i]))
			return true;
	return false;
}

/* Whether a value is the text of a file: "job.py: |", or "content: |" beside "path: job.py". */
static bool is_embedded(const struct flmem_node *node)
{
	static const char *const texts[] = {"content", "contents", "text", NULL};
	static const char *const names[] = {"path", "dest", "target", "name", "filename"};

	if (!node->key || !flmem_node_string(node) || !strpbrk(node->text, "\n{"))
		return false;
	if (is_checked_name(node->key))
		return true;
	if (!flmem_text_is_one_of(node->key, texts))
		return false;
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(names); i++)
		if (is_checked_name(flmem_node_string(flmem_node_get(node->parent, names[i]))))
			return true;
	return node->parent && is_checked_name(node->parent->key);
}

/* Whether a text has the full name of a class of a package: PACKAGE.part.Class. */
static bool names_class(const char *text, const char *package)
{
	size_t length = strlen(package);

	while ((text = strstr(text, package))) {
		size_t last = 0;

		text += length;
		for (size_t i = 0; text[i] == '.';
		     i = last + strspn(text + last, FLMEM_TEXT_NAME_LETTERS))
			last = i + 1;
		if (last && isupper((unsigned char)text[last]))
			return true;
	}
	return false;
}

static bool is_for_framework(const char *text)
{
	FLMEM_AUTO_BUF struct flmem_buf copy = FLMEM_BUF_INIT;

	for (const struct flmem_framework_ops *const *f = flmem_frameworks; *f; f++)
		if (names_class(text, (*f)->package))
			return true;
	flmem_buf_puts(&copy, text);
	return flmem_launch_is_for_package(&copy);
}

/* Words that show such a file in a text that is not parsed yet. */
bool flmem_launch_may_embed(const struct flmem_buf *text)
{
	return flmem_launch_owner(text) != FLMEM_FRAMEWORK_NONE &&
	       flmem_file_has_any_word(text, embedded_suffixes);
}

void flmem_launch_read_embedded(const struct flmem_node *root, struct flmem_launches *launches)
{
	for (const struct flmem_node *n = root ? root->first : NULL; n && n->parent == root;
	     n = n->next) {
		if (is_embedded(n) && is_for_framework(n->text))
			flmem_launch_add_doubt(launches, &n->place,
					       "it holds the text of another file, which is "
					       "checked only as a file of its own");
		flmem_launch_read_embedded(n, launches);
	}
}
