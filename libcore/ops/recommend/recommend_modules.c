/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/recommend/recommend_modules.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/files/file_place.h"
#include "base/files/io.h"
#include "base/text/text.h"
#include "frameworks/framework.h"

#define NAMES_MAX    256 /* most names that are looked up for one file */
#define FOLDERS_UP   3
#define DEPTH_MAX    2 /* levels of modules that import from others */
#define ADDED_MAX    8 /* most folders that a script adds to sys.path */
#define BYTES_MAX    65536U
#define NOTEBOOK_MAX (4U << 20)
#define TARGET	     "_target_"
#define NAME_LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_."
#define PASSED_ON    8192U /* a larger module without a framework does more than re-export */

/* State of the search for one file. */
struct module_search {
	const struct flmem_found_file *file;
	const char *path; /* path of the file or module whose imports are followed */
	const char *text; /* text of that file or module */
	struct flmem_python_modules *modules;
	struct flmem_error *err;
	struct flmem_module_paths *found; /* paths of all levels */
	size_t *names;			  /* number of names of all levels */
	unsigned depth;
	int code;
};

static int search_imports(struct module_search *search, const char *text);

/* Returns the folder above, by the path alone; NULL if there is none, or if memory is out. */
static char *folder_above(const char *folder)
{
	return strcmp(folder, ".") == 0 || strcmp(folder, "/") == 0 || flmem_text_ends(folder, "..")
		       ? NULL
		       : flmem_file_folder(folder);
}

/* Returns FOLDER/a/b.py or FOLDER/a/b/__init__.py, if it is a regular file; the caller frees it. */
static char *module_file(const char *folder, const char *name)
{
	static const char *const ends[] = {".py", "/__init__.py"};

	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(ends); i++) {
		FLMEM_AUTO_FREE char *path = NULL;
		size_t at = strlen(folder) + 1;
		struct stat status;

		if (asprintf(&path, "%s/%s%s", folder, name, ends[i]) < 0) {
			path = NULL;
			return NULL;
		}
		for (size_t end = at + strlen(name); at < end; at++)
			if (path[at] == '.')
				path[at] = '/';
		if (stat(path, &status) == 0 && S_ISREG(status.st_mode) &&
		    status.st_size <= BYTES_MAX)
			return FLMEM_TAKE(path);
	}
	return NULL;
}

/* Finds the first literal of a line, without its quotes; 0 if there is none. */
static size_t find_literal(const char *line, size_t length, const char **ret_text)
{
	const char *end, *start = memchr(line, '"', length);

	if (!start)
		start = memchr(line, '\'', length);
	end = start ? memchr(start + 1, *start, length - (size_t)(start + 1 - line)) : NULL;
	*ret_text = start ? start + 1 : NULL;
	return end ? (size_t)(end - *ret_text) : 0;
}

/*
 * Returns the folder that sys.path.insert(0, "lib") or ("../lib") adds, relative to the file's
 * folder; the caller frees it.
 */
static char *added_folder(const char *path, const char *line, size_t length)
{
	char *folder = flmem_file_folder(path), *added;
	const char *text;

	length = find_literal(line, length, &text);
	while (folder && length >= 2 && strncmp(text, "..", 2) == 0) {
		size_t step = length > 2 && text[2] == '/' ? 3 : 2;
		char *above = folder_above(folder);

		free(folder);
		folder = above;
		text += step;
		length -= step;
		if (folder && !length)
			return folder;
	}
	if (folder && length && *text != '/' &&
	    asprintf(&added, "%s/%.*s", folder, (int)length, text) >= 0) {
		free(folder);
		return added;
	}
	free(folder);
	return NULL;
}

/* Returns the file of a module in the folders that the script adds to sys.path. */
static char *find_in_added(const char *path, const char *text, const char *name)
{
	for (int i = 0; i < ADDED_MAX && (text = strstr(text, "sys.path.")); i++) {
		size_t length = strcspn(text, "\r\n");
		FLMEM_AUTO_FREE char *folder = added_folder(path, text, length);
		char *found = folder ? module_file(folder, name) : NULL;

		if (found)
			return found;
		text += length;
	}
	return NULL;
}

/*
 * Returns the file of a module: for a relative import from one folder, else from the first folder
 * that has it.
 */
static char *find_module_file(const char *path, const char *name, unsigned ups)
{
	FLMEM_AUTO_FREE char *folder = flmem_file_folder(path);

	for (unsigned i = 0; folder && i <= (ups ? ups - 1 : FOLDERS_UP); i++) {
		char *found = !ups || i == ups - 1 ? module_file(folder, name) : NULL;
		char *above = found ? NULL : folder_above(folder);

		if (found)
			return found;
		free(folder);
		folder = above;
	}
	return NULL;
}

/* Returns true for the package of a framework itself. */
static bool is_framework(const char *name)
{
	char first[64];

	snprintf(first, sizeof(first), "%.*s", (int)strcspn(name, "."), name);
	for (const struct flmem_framework_ops *const *f = flmem_frameworks; *f; f++)
		if (strcmp(first, flmem_framework_name((*f)->framework)) == 0 ||
		    flmem_text_is_one_of(first, (*f)->script_words))
			return true;
	return false;
}

static bool is_known(const struct module_search *search, const char *file)
{
	for (size_t i = 0; i < search->modules->count; i++)
		if (strcmp(search->modules->rows[i].file, file) == 0)
			return true;
	return false;
}

void flmem_module_paths_clear(struct flmem_module_paths *paths)
{
	for (size_t i = 0; i < paths->count; i++)
		free(paths->rows[i]);
	*paths = (struct flmem_module_paths){0};
}

bool flmem_recommend_module_text(const char *file, struct flmem_buf *text)
{
	FLMEM_AUTO_FILE_PLACE struct flmem_file_place place = FLMEM_FILE_PLACE_INIT;
	FLMEM_AUTO_CLOSE int fd = -1;
	struct stat status;

	if (flmem_file_place_open(file, &place))
		return false;
	fd = flmem_file_place_open_regular(place.directory, place.name, O_RDONLY, &status);
	return fd >= 0 && !flmem_io_read_all(fd, BYTES_MAX, text);
}

static struct flmem_python_module *add_imported_module(struct module_search *search)
{
	struct flmem_python_modules *modules = search->modules;
	struct flmem_python_module *grown =
		reallocarray(modules->rows, modules->count + 1, sizeof(*grown));

	if (!grown)
		return NULL;
	modules->rows = grown;
	grown[modules->count] = (struct flmem_python_module){0};
	flmem_buf_init(&grown[modules->count].document.text);
	return &grown[modules->count++];
}

static int modules_nomem(struct module_search *search)
{
	return search->code = flmem_error_nomem(search->err, "cannot store the modules");
}

/*
 * Searches the imports of a module. One that mentions no framework is followed only if it may pass
 * names on.
 */
static int search_module(struct module_search *search, struct flmem_python_module *module,
			 bool about)
{
	struct flmem_python_modules *below = calloc(1, sizeof(*below));
	struct module_search deeper = *search;

	if (!below)
		return modules_nomem(search);
	module->modules = below;
	deeper.path = module->file;
	deeper.modules = below;
	deeper.depth++;
	if (deeper.depth <= DEPTH_MAX && (about || module->document.text.length <= PASSED_ON))
		search->code = search_imports(&deeper, module->document.text.data);
	return search->code;
}

static void drop_module(struct flmem_python_modules *modules)
{
	flmem_python_module_clear(&modules->rows[--modules->count]);
}

/* Adds a module, and takes ownership of the path of its file. */
static int note_imported_module(struct module_search *search, const char *name, unsigned ups,
				char *file)
{
	FLMEM_AUTO_BUF struct flmem_buf text = FLMEM_BUF_INIT;
	struct flmem_python_module *module = add_imported_module(search);
	struct flmem_error refused = {0};
	bool about;

	if (!module) {
		free(file);
		return modules_nomem(search);
	}
	module->file = file;
	if (asprintf(&module->name, "%s%s", ups ? "." : "", name) < 0) {
		module->name = NULL;
		return modules_nomem(search);
	}
	if (!flmem_recommend_module_text(file, &text)) {
		drop_module(search->modules);
		return 0;
	}
	about = flmem_file_is_likely(search->file, &text);
	search->found->rows[search->found->count] = strdup(file);
	if (!search->found->rows[search->found->count])
		return modules_nomem(search);
	search->found->count++;
	if (flmem_python_module_read(module, &text, &refused)) {
		drop_module(search->modules);
		return 0;
	}
	if (search_module(search, module, about))
		return search->code;
	if (!about && !module->modules->count)
		drop_module(search->modules);
	return 0;
}

static bool visit_module(void *context, const char *name, unsigned ups)
{
	struct module_search *search = context;
	char *file;

	if (search->found->count >= FLMEM_RECOMMEND_MODULES_MAX || ++*search->names > NAMES_MAX)
		return false;
	if (!ups && is_framework(name))
		return true;
	file = find_module_file(search->path, name, ups);
	if (!file && !ups)
		file = find_in_added(search->path, search->text, name);
	if (!file || is_known(search, file) || strcmp(file, search->path) == 0)
		free(file);
	else
		search->code = note_imported_module(search, name, ups, file);
	return !search->code;
}

static int search_imports(struct module_search *search, const char *text)
{
	search->text = text;
	flmem_python_modules_visit(text, visit_module, search);
	return search->code;
}

/*
 * Searches the code of a notebook. A damaged one has no code here, nor has code that is only shown.
 */
static int search_notebook(struct module_search *search, const struct flmem_buf *text)
{
	FLMEM_AUTO_DOCUMENT struct flmem_document document = {0};
	FLMEM_AUTO_BUF struct flmem_buf copy = FLMEM_BUF_INIT;

	flmem_buf_init(&document.text);
	if (text->length > NOTEBOOK_MAX)
		return 0;
	flmem_buf_append(&copy, text->data, text->length);
	if (copy.failed)
		return modules_nomem(search);
	if (flmem_document_read(search->file->syntax, &copy, &document, NULL) ||
	    (document.shown && !search->file->named))
		return 0;
	return search_imports(search, document.text.data);
}

/*
 * Returns true if a module, or one that it imports from, mentions a framework with rules for
 * modules.
 */
static bool mentions_framework(const struct flmem_python_module *module)
{
	for (const struct flmem_framework_ops *const *f = flmem_frameworks; *f; f++)
		if ((*f)->module_kinds && (*f)->module_kinds->script->is_likely(
						  FLMEM_SYNTAX_PYTHON, &module->document.text))
			return true;
	for (size_t i = 0; module->modules && i < module->modules->count; i++)
		if (mentions_framework(&module->modules->rows[i]))
			return true;
	return false;
}

/*
 * Searches the module of a name such as "a.b.make" or "a.b.Class.method"; the longest candidate
 * comes first.
 */
static void visit_target(struct module_search *search, char *name)
{
	const size_t before = search->modules->count;
	char *dot;

	while (search->modules->count == before && !search->code && (dot = strrchr(name, '.'))) {
		*dot = '\0';
		if (!visit_module(search, name, 0))
			return;
	}
}

/* Searches the modules of the functions and classes that Hydra calls for maps of YAML. */
static int search_targets(struct module_search *search, const char *text)
{
	char name[FLMEM_PYTHON_DOTTED_MAX];

	search->text = "";

	while (!search->code && (text = strstr(text, TARGET))) {
		size_t length;

		text += sizeof(TARGET) - 1;
		text += strspn(text, "\"': \t");
		length = strspn(text, NAME_LETTERS);
		if (!length || length >= sizeof(name))
			continue;
		snprintf(name, sizeof(name), "%.*s", (int)length, text);
		visit_target(search, name);
	}
	return search->code;
}

static void mark_targets(struct flmem_node *node, const struct flmem_python_modules *modules)
{
	for (size_t i = 0; i < modules->count && node->key && strcmp(node->key, TARGET) == 0; i++) {
		size_t length = strlen(modules->rows[i].name);

		if (node->kind == FLMEM_NODE_STRING && node->text[length] == '.' &&
		    strncmp(node->text, modules->rows[i].name, length) == 0 &&
		    mentions_framework(&modules->rows[i]))
			node->kind = FLMEM_NODE_EXPRESSION;
	}
	for (struct flmem_node *n = node->first; n && n->parent == node; n = n->next)
		mark_targets(n, modules);
}

void flmem_recommend_targets_mark(struct flmem_document *document,
				  const struct flmem_python_modules *modules)
{
	if (document->root && modules->count)
		mark_targets(document->root, modules);
}

/* Searches the targets in a YAML file; their modules are judged as Python files. */
static void search_yaml(struct module_search *search, const struct flmem_buf *text)
{
	const struct flmem_found_file *file = search->file;
	struct flmem_found_file python = {.path = file->path, .as = "module.py"};

	if (!flmem_file_name_find(python.as, &python))
		return;
	search->file = &python;
	search_targets(search, text->data);
	search->file = file;
}

int flmem_recommend_modules_find(const struct flmem_found_file *file, const struct flmem_buf *text,
				 struct flmem_python_modules *ret_modules,
				 struct flmem_module_paths *ret_paths, struct flmem_error *err)
{
	FLMEM_AUTO_PYTHON_MODULES struct flmem_python_modules modules = {0};
	FLMEM_AUTO_MODULE_PATHS struct flmem_module_paths found = {0};
	size_t names = 0;
	struct module_search search = {.file = file,
				       .path = file->path,
				       .modules = &modules,
				       .err = err,
				       .found = &found,
				       .names = &names};
	int rc = 0;

	if (file->kind)
		return 0;
	if (file->syntax == FLMEM_SYNTAX_PYTHON)
		rc = search_imports(&search, text->data);
	else if (file->syntax == FLMEM_SYNTAX_NOTEBOOK || file->syntax == FLMEM_SYNTAX_MARKDOWN)
		rc = search_notebook(&search, text);
	else if (file->syntax == FLMEM_SYNTAX_YAML && text->data) {
		search_yaml(&search, text);
		rc = search.code;
	}
	if (rc)
		return rc;
	*ret_modules = modules;
	modules = (struct flmem_python_modules){0};
	*ret_paths = found;
	found = (struct flmem_module_paths){0};
	return 0;
}
