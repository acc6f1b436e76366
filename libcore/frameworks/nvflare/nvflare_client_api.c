/* SPDX-License-Identifier: Apache-2.0 */
#include "frameworks/nvflare/nvflare_client_api.h"

#include <ctype.h>
#include <string.h>

#include "base/text/text.h"
#include "documents/python/python.h"
#include "frameworks/nvflare/nvflare_classes.h"

#define SEARCHES_MAX 256
#define PLACES_MAX   64 /* places of one name that are searched */

static const char *const class_names[] = {"InProcessClientAPI", "ExProcessClientAPI",
					  "CellClientAPI", "APISpec", NULL};

bool flmem_nvflare_is_client_api(const char *path)
{
	return flmem_text_starts(path, "nvflare.client.") &&
	       flmem_text_is_one_of(flmem_nvflare_short_name(path), class_names);
}

static bool is_name_character(char c)
{
	return isalnum((unsigned char)c) || c == '_' || c == '.';
}

/* Whether the text up to `end` ends with the name "api". */
static bool ends_with_api(const char *text, size_t end)
{
	size_t length = strlen("api");

	return end >= length && memcmp(text + end - length, "api", length) == 0 &&
	       (end == length || text[end - length - 1] == '.' ||
		!is_name_character(text[end - length - 1]));
}

/* Whether a class of the client API is named, or called by another name, between two offsets. */
static bool has_class(const struct flmem_check *check, size_t start, size_t end)
{
	const char *text = check->input->document.text.data;
	const struct flmem_node *n = flmem_nvflare_first(check, "calls");

	for (const char *const *name = class_names; *name; name++)
		if (memmem(text + start, end - start, *name, strlen(*name)))
			return true;
	for (; n; n = n->next)
		if (n->place.start >= start && n->place.start < end &&
		    flmem_nvflare_is_client_api(flmem_nvflare_path_text(n)))
			return true;
	return false;
}

/*
 * Whether a class of the client API is assigned to a name, or is its type: "= Class(...)", ":
 * Class".
 */
static bool gets_class(const struct flmem_check *check, size_t at)
{
	const char *text = check->input->document.text.data;
	size_t mark = at + strspn(text + at, " \t");
	bool annotated = text[mark] == ':';

	if (!annotated && (text[mark] != '=' || text[mark + 1] == '='))
		return false;
	return has_class(check, mark, mark + strcspn(text + mark, annotated ? ",)\n#" : "\n#"));
}

/* Whether the script makes or annotates an object of this name as one of these classes. */
static bool is_object_of_class(const struct flmem_check *check, const char *name, size_t length)
{
	const struct flmem_buf *all = &check->input->document.text;
	const char *end = all->data + all->length, *at = all->data;
	size_t places = PLACES_MAX;

	for (; length && places-- && (at = memmem(at, (size_t)(end - at), name, length)); at++)
		if ((at == all->data || !is_name_character(at[-1])) &&
		    !is_name_character(at[length]) &&
		    gets_class(check, (size_t)(at - all->data) + length))
			return true;
	return false;
}

/* Whether the object of a method is the result of a call: Class(...).send(). */
static bool is_result_of_class(const struct flmem_check *check, size_t end)
{
	const struct flmem_node *n = flmem_nvflare_first(check, "calls");

	while (n &&
	       !(n->place.end == end && flmem_nvflare_is_client_api(flmem_nvflare_path_text(n))))
		n = n->next;
	return n;
}

/* Whether an import binds one of these classes, or its module. */
static bool is_import_of_class(const char *path)
{
	return flmem_nvflare_is_client_api(path) ||
	       (flmem_text_starts(path, "nvflare.client.") &&
		(flmem_text_ends(path, ".api") || flmem_text_ends(path, ".api_spec") ||
		 flmem_text_ends(path, ".*")));
}

void flmem_nvflare_senders_init(const struct flmem_check *check,
				struct flmem_nvflare_senders *ret_senders)
{
	const struct flmem_node *n = flmem_nvflare_first(check, "imports");

	while (n && !is_import_of_class(n->text))
		n = n->next;
	*ret_senders = (struct flmem_nvflare_senders){.imported = n, .searches = SEARCHES_MAX};
}

/*
 * Offset where the expression of the object of a method begins; `end` is that of a name, or of the
 * bracket of a call.
 */
static size_t object_start(const char *text, size_t end)
{
	size_t start = end;

	while (start && is_name_character(text[start - 1]))
		start--;
	return start;
}

/*
 * Whether a call with False as second argument is one of the client API: only if the object is
 * imported or called api, as other objects have a method send, too.
 */
static bool sends_by_false(const struct flmem_check *check, bool imported,
			   const struct flmem_node *call, size_t object_end)
{
	const struct flmem_node *second = FLMEM_NODE_AT(call, "args", "1");

	return flmem_node_is_kind(second, FLMEM_NODE_BOOL) && flmem_python_is_false(second) &&
	       (imported || ends_with_api(check->input->document.text.data, object_end));
}

/* Whether the text shows that the object that ends at `end` is one of these classes. */
static bool is_known_object(const struct flmem_check *check, struct flmem_nvflare_senders *senders,
			    size_t end)
{
	const char *text = check->input->document.text.data;
	size_t start = object_start(text, end);

	if (end >= start + 4 && ends_with_api(text, end) && text[end - 4] == '.')
		return true;
	if (!senders->imported || !senders->searches)
		return false;
	senders->searches--;
	return is_object_of_class(check, text + start, end - start) ||
	       is_result_of_class(check, end);
}

bool flmem_nvflare_is_send_of_object(const struct flmem_check *check,
				     struct flmem_nvflare_senders *senders,
				     const struct flmem_node *call)
{
	static const char method[] = "send";
	const struct flmem_node *path = flmem_node_get(call, "path");
	size_t end = path->place.end - sizeof(method);

	if (strcmp(path->text, method) != 0 || path->place.end <= sizeof(method) ||
	    check->input->document.text.data[end] != '.')
		return false;
	return FLMEM_NODE_AT(call, "args", "clear_cache") || is_known_object(check, senders, end) ||
	       sends_by_false(check, senders->imported, call, end);
}
