/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One edit of `recommend --fix` in an arbitrary document. What is read back differs in the edited
 * place alone, and the rest of the text is the same byte for byte.
 */
#include "documents/document.h"
#include "documents/edit.h"
#include "fuzz.h"

#define VALUE "7341"

static const enum flmem_syntax syntaxes[] = {FLMEM_SYNTAX_JSON, FLMEM_SYNTAX_HOCON,
					     FLMEM_SYNTAX_YAML, FLMEM_SYNTAX_TOML};

/* Returns the node of that number, in the order of the text; counts down. */
static const struct flmem_node *find(const struct flmem_node *node, unsigned *left)
{
	if (!(*left)--)
		return node;
	for (const struct flmem_node *n = node->first; n && n->parent == node; n = n->next) {
		const struct flmem_node *found = find(n, left);

		if (found)
			return found;
	}
	return NULL;
}

static bool is_same_key(const struct flmem_node *a, const struct flmem_node *b)
{
	return !a->key == !b->key && (!a->key || strcmp(a->key, b->key) == 0);
}

static void require(bool holds)
{
	if (!holds)
		abort();
}

/*
 * Checks that the trees are equal except for the edited node, which has the new value or one entry
 * more.
 */
static void compare(const struct flmem_node *before, const struct flmem_node *after,
		    const struct flmem_node *edited, bool inserted)
{
	const struct flmem_node *a, *b;

	require(is_same_key(before, after));
	if (before == edited && !inserted) {
		require(!after->first && strcmp(after->text, VALUE) == 0);
		return;
	}
	require(before->kind == after->kind && strcmp(before->text, after->text) == 0);
	a = before->first;
	b = after->first;
	for (; a && b; a = a->next, b = b->next) {
		if (a->parent != before)
			return; /* an alias, which shows its anchor's children */
		compare(a, b, edited, inserted);
	}
	require(!a);
	require(before == edited ? b && !b->next && strcmp(b->key, "added") == 0 : !b);
}

static void check_text(const struct flmem_document *document, const struct flmem_edit *edit,
		       const char *after)
{
	const size_t tail = document->text.length - edit->end, length = strlen(after);

	require(edit->start <= edit->end && edit->end <= document->text.length);
	require(length == edit->start + strlen(edit->text) + tail);
	require(memcmp(after, document->text.data, edit->start) == 0);
	require(memcmp(after + length - tail, document->text.data + edit->end, tail) == 0);
}

static void try_edit(const struct flmem_document *document, const struct flmem_node *node,
		     bool insert)
{
	FLMEM_AUTO_DOCUMENT struct flmem_document again = {0};
	struct flmem_buf buf = FLMEM_BUF_INIT;
	struct flmem_edit edit = {0};
	const struct flmem_edit *const list[] = {&edit};
	char *after;

	if (!(insert ? flmem_edit_insert(document, node, "added", VALUE, &edit)
		     : flmem_edit_replace(document, node, VALUE, &edit)))
		return;
	after = flmem_edits_apply(document->text.data, list, 1);
	require(after);
	check_text(document, &edit, after);
	flmem_buf_puts(&buf, after);
	/* An edit that does not hold is not written. */
	if (flmem_edits_are_safe(document->syntax, document->text.data, after, list, 1)) {
		require(flmem_document_read(document->syntax, &buf, &again, NULL) == 0);
		compare(document->root, again.root, node, insert);
	}
	flmem_buf_clear(&buf);
	free(after);
	free(edit.text);
}

/* The first three bytes choose the syntax, the node and the edit. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	FLMEM_AUTO_DOCUMENT struct flmem_document document = {0};
	struct flmem_buf text = FLMEM_BUF_INIT;
	const struct flmem_node *node;
	unsigned number;

	if (size < 3 || memchr(data + 3, '\0', size - 3))
		return 0;
	flmem_buf_append(&text, data + 3, size - 3);
	if (flmem_document_read(syntaxes[data[0] % 4], &text, &document, NULL) || !document.root)
		return 0;
	number = data[1];
	node = find(document.root, &number);
	if (node)
		try_edit(&document, node, data[2] & 1);
	return 0;
}
