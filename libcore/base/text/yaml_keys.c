/* SPDX-License-Identifier: Apache-2.0 */
#include "base/text/yaml_keys.h"

#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#define DEPTH_MAX 256

struct yaml_walk {
	flmem_yaml_visit *visit;
	void *context;
	char *key; /* a key whose value has not been read yet */
	int depth; /* number of open collections; 1: in the outermost mapping */
	bool mapping, failed, done;
};

static void take_scalar(struct yaml_walk *walk, const char *text)
{
	if (!walk->depth)
		walk->failed = true;
	if (walk->depth != 1)
		return;
	if (walk->key) {
		walk->visit(walk->context, walk->key, text);
		free(walk->key);
		walk->key = NULL;
	} else {
		walk->key = strdup(text);
		walk->failed |= !walk->key;
	}
}

/* Handles a collection or an alias in place of the value or, in unusual documents, of the key. */
static void take_collection(struct yaml_walk *walk)
{
	if (walk->depth != 1 || !walk->key)
		return;
	walk->visit(walk->context, walk->key, NULL);
	free(walk->key);
	walk->key = NULL;
}

static void enter_collection(struct yaml_walk *walk, bool mapping)
{
	take_collection(walk);
	if (!walk->depth)
		walk->mapping = mapping;
	if (++walk->depth > DEPTH_MAX || !walk->mapping)
		walk->failed = true;
}

static void handle_yaml_event(struct yaml_walk *walk, const yaml_event_t *event)
{
	switch (event->type) {
	case YAML_SCALAR_EVENT:
		take_scalar(walk, (const char *)event->data.scalar.value);
		break;
	case YAML_ALIAS_EVENT:
		take_collection(walk);
		break;
	case YAML_MAPPING_START_EVENT:
	case YAML_SEQUENCE_START_EVENT:
		enter_collection(walk, event->type == YAML_MAPPING_START_EVENT);
		break;
	case YAML_MAPPING_END_EVENT:
	case YAML_SEQUENCE_END_EVENT:
		walk->depth--;
		break;
	case YAML_DOCUMENT_END_EVENT:
	case YAML_STREAM_END_EVENT:
		walk->done = true;
		break;
	case YAML_NO_EVENT:
	case YAML_STREAM_START_EVENT:
	case YAML_DOCUMENT_START_EVENT:
		break;
	}
}

bool flmem_yaml_top_keys(const char *text, size_t length, flmem_yaml_visit *visit, void *context)
{
	struct yaml_walk walk = {.visit = visit, .context = context};
	yaml_parser_t parser;

	if (!yaml_parser_initialize(&parser))
		return false;
	yaml_parser_set_input_string(&parser, (const unsigned char *)text, length);
	while (!walk.failed && !walk.done) {
		yaml_event_t event;

		if (!yaml_parser_parse(&parser, &event))
			break;
		handle_yaml_event(&walk, &event);
		yaml_event_delete(&event);
	}
	yaml_parser_delete(&parser);
	free(walk.key);
	return walk.done && walk.mapping && !walk.failed;
}
