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
/* Number of values kept of a list in JSON, if only numbers and lists of numbers follow. */
#define FLMEM_DOCUMENT_NUMBERS_KEPT 16U

enum flmem_syntax {
	FLMEM_SYNTAX_JSON,
	FLMEM_SYNTAX_HOCON,
	FLMEM_SYNTAX_YAML,
	FLMEM_SYNTAX_TOML,
	FLMEM_SYNTAX_PLAIN,    /* no tree: only checked to be text */
	FLMEM_SYNTAX_PYTHON,   /* the calls of imported names: python_calls.h */
	FLMEM_SYNTAX_NOTEBOOK, /* the same of a Jupyter notebook; its text becomes that code */
	FLMEM_SYNTAX_MARKDOWN, /* of blocks of code; the document is read as a NOTEBOOK then */
};

/* Whether what is read of such a file is Python. */
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
	FLMEM_NODE_EXPRESSION, /* of Python: any value that is not a literal */
};

/* Bytes [start, end) of the text; lines and columns (in bytes) count from 1. */
struct flmem_place {
	size_t start, end;
	unsigned line, column;
};

struct flmem_node {
	enum flmem_node_kind kind;
	unsigned char declared; /* of TOML, for its reader */
	const char *key;	/* in a map, else NULL */
	const char *text;	/* of a scalar, with escapes resolved; "" for lists and maps */
	const char *tag;	/* of YAML, of the value or its key; NULL: none, or "!" */
	struct flmem_place key_place; /* of a key, with its quotes */
	struct flmem_place place;     /* of the value, with quotes or brackets */
	/* The node of a YAML alias shows the children of its anchor, whose parent is the anchor. */
	struct flmem_node *parent, *first, *last, *next;
	size_t index; /* in its parent */
};

struct flmem_document {
	enum flmem_syntax syntax;
	struct flmem_buf text;
	struct flmem_node *root; /* NULL: an empty document */
	size_t node_count;
	unsigned bad_line; /* where reading failed; 0: no certain line */
	bool shown; /* of Markdown: code that readers see, and that nothing runs from there */
	struct flmem_document_block *blocks;
	unsigned *lines; /* of a notebook or Markdown: in the file, by line of the text; or NULL */
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

/* The line in the file of one of the text, which is a part of the file where that is a notebook. */
unsigned flmem_document_line(const struct flmem_document *document, unsigned line);

#define FLMEM_AUTO_DOCUMENT FLMEM_AUTO(flmem_document_clear)

/* All of these accept NULL for an absent node. */

/* The value of a key of a map: the last one where there are several; NULL when there is none. */
const struct flmem_node *flmem_node_get(const struct flmem_node *map, const char *key);

/* The same along several keys; the list ends in NULL. */
const struct flmem_node *flmem_node_at(const struct flmem_node *map, const char *const *keys);
#define FLMEM_NODE_AT(map, ...) flmem_node_at((map), (const char *const[]){__VA_ARGS__, NULL})

/* First entry of a list or map, for a loop over `next`. */
const struct flmem_node *flmem_node_first(const struct flmem_node *node);

/* The text of a string, else NULL. */
const char *flmem_node_string(const struct flmem_node *node);

/* False for anything that is not a whole number of 64 bits. */
bool flmem_node_integer(const struct flmem_node *node, int64_t *ret_value);

/* True for the literal true (in any of the spellings of its syntax). */
bool flmem_node_is_true(const struct flmem_node *node);

bool flmem_node_is_kind(const struct flmem_node *node, enum flmem_node_kind kind);

/* Appends the path from the root: workflows[0].args.memory_gc_rounds */
void flmem_node_path(const struct flmem_node *node, struct flmem_buf *buf);

#endif
