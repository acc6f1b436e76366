/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_DOCUMENTS_DOCUMENT_H
#define FLMEM_DOCUMENTS_DOCUMENT_H

/*
 * A configuration file as a tree of values, each with its place in the text, so that a finding can
 * name a line and a correction can change a value without changing the text around it.
 *
 * The document owns the text, the nodes and their strings; flmem_document_clear() frees them all.
 * Files are untrusted: size, nesting and the number of values are limited, and reading takes time
 * in proportion to the length of the text.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <flmem/error.h>

#include "base/cleanup.h"
#include "base/text/buf.h"

/* NVFlare writes the weights of a NumPy model into the configuration. */
#define FLMEM_DOCUMENT_BYTES_MAX (64U << 20)
#define FLMEM_DOCUMENT_NODES_MAX 100000U
#define FLMEM_DOCUMENT_DEPTH_MAX 100U
/* Values that are kept of a JSON list, if only numbers and lists of numbers follow them. */
#define FLMEM_DOCUMENT_NUMBERS_KEPT 16U

enum flmem_syntax {
	FLMEM_SYNTAX_JSON,
	FLMEM_SYNTAX_HOCON,
	FLMEM_SYNTAX_YAML,
	FLMEM_SYNTAX_TOML,
	FLMEM_SYNTAX_PLAIN,    /* no tree: only checked to be text */
	FLMEM_SYNTAX_PYTHON,   /* the calls of imported names: python_calls.h */
	FLMEM_SYNTAX_NOTEBOOK, /* as PYTHON; the text becomes the code of the cells */
	FLMEM_SYNTAX_MARKDOWN, /* blocks of code; once read, the document is a NOTEBOOK */
};

/* Whether documents of this syntax are trees of Python (documents/python/python_calls.h). */
static inline bool flmem_syntax_is_python(enum flmem_syntax syntax)
{
	return syntax == FLMEM_SYNTAX_PYTHON || syntax == FLMEM_SYNTAX_NOTEBOOK ||
	       syntax == FLMEM_SYNTAX_MARKDOWN;
}

enum flmem_node_kind {
	FLMEM_NODE_NULL,
	FLMEM_NODE_BOOL,
	FLMEM_NODE_INTEGER,
	FLMEM_NODE_REAL,
	FLMEM_NODE_STRING,
	FLMEM_NODE_LIST,
	FLMEM_NODE_MAP,
	FLMEM_NODE_EXPRESSION, /* in Python: any value that is not a literal */
};

/* Bytes [start, end) of the text; lines and columns (in bytes) count from 1. */
struct flmem_place {
	size_t start, end;
	unsigned line, column;
};

/* One value of a document. Its strings belong to the document. */
struct flmem_node {
	enum flmem_node_kind kind;
	unsigned char declared; /* used by the reader of TOML only */
	const char *key;	/* key of the value in a map; else NULL */
	const char *text;	/* of a scalar, with escapes resolved; "" for lists and maps */
	const char *tag;	/* YAML: tag of the value or of its key; NULL: none, or "!" */
	struct flmem_place key_place; /* place of the key, with its quotes */
	struct flmem_place place;     /* place of the value, with quotes or brackets */
	/* The node of a YAML alias shows the children of its anchor, whose parent is the anchor. */
	struct flmem_node *parent, *first, *last, *next;
	size_t index; /* position among the children of its parent, from 0 */
};

/* A file that was read. All zero is a valid empty document. */
struct flmem_document {
	enum flmem_syntax syntax;
	struct flmem_buf text;
	struct flmem_node *root; /* NULL: an empty document */
	size_t node_count;
	unsigned bad_line; /* line where reading failed; 0: not certain */
	bool shown;	   /* Markdown: the code is only shown to readers, nothing runs it */
	struct flmem_document_block *blocks;
	unsigned *lines; /* notebook, Markdown: line of the file for each line of `text`; or NULL */
	size_t line_count;
};

/*
 * Reads `text` and takes ownership of it, also on failure. Duplicate keys are all kept, and the
 * last one counts, as it does for the frameworks. FLMEM_EUSAGE for a text that violates the syntax
 * or exceeds a limit; the message names the column, and `bad_line` holds the line. Clear the
 * document in either case.
 */
int flmem_document_read(enum flmem_syntax syntax, struct flmem_buf *text,
			struct flmem_document *ret_document, struct flmem_error *err);

void flmem_document_clear(struct flmem_document *document);

/*
 * The line of the file for a line of the document's text; these differ in a notebook or Markdown.
 */
unsigned flmem_document_line(const struct flmem_document *document, unsigned line);

#define FLMEM_AUTO_DOCUMENT FLMEM_AUTO(flmem_document_clear)

/* The following functions accept NULL for an absent node. */

/* The value of a key of a map: the last one if there are several; NULL if there is none. */
const struct flmem_node *flmem_node_get(const struct flmem_node *map, const char *key);

/* The value along several keys, each in the map of the one before; `keys` ends in NULL. */
const struct flmem_node *flmem_node_at(const struct flmem_node *map, const char *const *keys);
#define FLMEM_NODE_AT(map, ...) flmem_node_at((map), (const char *const[]){__VA_ARGS__, NULL})

/* First entry of a list or map, for a loop over `next`. */
const struct flmem_node *flmem_node_first(const struct flmem_node *node);

/* The text of a node that is a string; else NULL. */
const char *flmem_node_string(const struct flmem_node *node);

/* Reads a whole number of 64 bits. Returns false for any other node. */
bool flmem_node_integer(const struct flmem_node *node, int64_t *ret_value);

/* Whether the node is the literal true, in any spelling of its syntax. */
bool flmem_node_is_true(const struct flmem_node *node);

bool flmem_node_is_kind(const struct flmem_node *node, enum flmem_node_kind kind);

/* Appends the path of the node from the root: workflows[0].args.memory_gc_rounds */
void flmem_node_path(const struct flmem_node *node, struct flmem_buf *buf);

#endif
