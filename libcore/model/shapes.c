/* SPDX-License-Identifier: Apache-2.0 */
#include "model/shapes.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <flmem/model.h>

#include "model/known_models.h"

#define NAME_ROOM 72U /* enough for the longest name below with three digits */
#define RANK_MAX  4U

/*
 * A decoder's tensors as in model.safetensors.index.json of meta-llama/Llama-3.1-8B and the
 * same architecture in transformers (models/llama/modeling_llama.py). Weights of linear layers are
 * [outputs, inputs]; their sizes are in known_models.c.
 */
enum tensor_extent {
	NONE,
	VOCABULARY,
	HIDDEN,
	INNER,
	KEYS
};

static const struct decoder_tensor {
	const char *name;
	enum tensor_extent extents[2];
} layer_tensors[] = {
	{"input_layernorm.weight", {HIDDEN, NONE}},
	{"mlp.down_proj.weight", {HIDDEN, INNER}},
	{"mlp.gate_proj.weight", {INNER, HIDDEN}},
	{"mlp.up_proj.weight", {INNER, HIDDEN}},
	{"post_attention_layernorm.weight", {HIDDEN, NONE}},
	{"self_attn.k_proj.weight", {KEYS, HIDDEN}},
	{"self_attn.o_proj.weight", {HIDDEN, HIDDEN}},
	{"self_attn.q_proj.weight", {HIDDEN, HIDDEN}},
	{"self_attn.v_proj.weight", {KEYS, HIDDEN}},
};

/*
 * The four stages of ResNet-18, two blocks each (He et al., 2015), with the names of torchvision's
 * resnet18 (torchvision/models/resnet.py).
 */
static const uint64_t resnet_widths[] = {64, 128, 256, 512};

#define RESNET_CLASSES 1000
#define RESNET_BLOCKS  2U

struct shape_builder {
	struct flmem_tensor_list *list;
	const struct flmem_dtype *real, *count;
	bool failed;
};

static bool grow_shape_array(struct flmem_tensor_list *list)
{
	size_t room = list->room ? 2 * list->room : 128;
	struct flmem_tensor *tensors;
	uint64_t *extents;
	char **texts;

	if (list->count < list->room)
		return true;
	tensors = reallocarray(list->tensors, room, sizeof(*tensors));
	list->tensors = tensors ?: list->tensors;
	extents = reallocarray(list->extents, room * RANK_MAX, sizeof(*extents));
	list->extents = extents ?: list->extents;
	texts = reallocarray(list->texts, room, sizeof(*texts));
	list->texts = texts ?: list->texts;
	if (!tensors || !extents || !texts)
		return false;
	list->room = room;
	return true;
}

/* Adds a tensor; its extents end at the first 0. */
static void add_shape_tensor(struct shape_builder *builder, const struct flmem_dtype *dtype,
			     const uint64_t extents[RANK_MAX], const char *prefix, const char *name)
{
	struct flmem_tensor_list *list = builder->list;
	struct flmem_tensor *tensor;
	uint64_t elements = 1;
	char *copy;

	if (!grow_shape_array(list) || asprintf(&copy, "%s%s", prefix, name) < 0) {
		builder->failed = true;
		return;
	}
	list->texts[list->text_count++] = copy;
	tensor = &list->tensors[list->count++];
	*tensor = (struct flmem_tensor){
		.name = copy,
		.dtype = dtype,
		.shape = list->extent_count,
	};
	for (; tensor->rank < RANK_MAX && extents[tensor->rank]; tensor->rank++) {
		list->extents[list->extent_count++] = extents[tensor->rank];
		elements *= extents[tensor->rank];
	}
	tensor->bytes = elements * dtype->bits / 8;
	list->data_bytes += tensor->bytes;
}

static void add_real(struct shape_builder *builder, const uint64_t extents[RANK_MAX],
		     const char *prefix, const char *name)
{
	add_shape_tensor(builder, builder->real, extents, prefix, name);
}

static uint64_t extent_of(const struct flmem_known_model *model, enum tensor_extent extent)
{
	switch (extent) {
	case NONE:
		break;
	case VOCABULARY:
		return model->vocabulary;
	case HIDDEN:
		return model->hidden;
	case INNER:
		return model->inner;
	case KEYS:
		return model->keys;
	}
	return 0;
}

static void add_decoder(struct shape_builder *builder, const struct flmem_known_model *model)
{
	const uint64_t embedding[RANK_MAX] = {model->vocabulary, model->hidden};
	const uint64_t norm[RANK_MAX] = {model->hidden};
	char prefix[NAME_ROOM];

	add_real(builder, embedding, "model.", "embed_tokens.weight");
	for (unsigned layer = 0; layer < model->layers; layer++) {
		snprintf(prefix, sizeof(prefix), "model.layers.%u.", layer);
		for (size_t i = 0; i < FLMEM_ARRAY_SIZE(layer_tensors); i++) {
			const struct decoder_tensor *row = &layer_tensors[i];
			const uint64_t extents[RANK_MAX] = {extent_of(model, row->extents[0]),
							    extent_of(model, row->extents[1])};

			add_real(builder, extents, prefix, row->name);
		}
	}
	add_real(builder, norm, "model.", "norm.weight");
	if (!model->tied)
		add_real(builder, embedding, "", "lm_head.weight");
}

/* Adds the tensors of a batch normalisation, and the counter of its training steps. */
static void add_norm(struct shape_builder *builder, const char *prefix, uint64_t width)
{
	static const char *const names[] = {"weight", "bias", "running_mean", "running_var"};
	const uint64_t extents[RANK_MAX] = {width}, scalar[RANK_MAX] = {0};

	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(names); i++)
		add_real(builder, extents, prefix, names[i]);
	add_shape_tensor(builder, builder->count, scalar, prefix, "num_batches_tracked");
}

static void add_residual_block(struct shape_builder *builder, const char *prefix, uint64_t inputs,
			       uint64_t width, bool first)
{
	const uint64_t conv1[RANK_MAX] = {width, inputs, 3, 3};
	const uint64_t conv2[RANK_MAX] = {width, width, 3, 3};
	const uint64_t shortcut[RANK_MAX] = {width, inputs, 1, 1};
	char part[NAME_ROOM];

	add_real(builder, conv1, prefix, "conv1.weight");
	snprintf(part, sizeof(part), "%.40sbn1.", prefix);
	add_norm(builder, part, width);
	add_real(builder, conv2, prefix, "conv2.weight");
	snprintf(part, sizeof(part), "%.40sbn2.", prefix);
	add_norm(builder, part, width);
	if (!first || inputs == width)
		return;
	add_real(builder, shortcut, prefix, "downsample.0.weight");
	snprintf(part, sizeof(part), "%.40sdownsample.1.", prefix);
	add_norm(builder, part, width);
}

static void add_resnet18(struct shape_builder *builder)
{
	const uint64_t stem[RANK_MAX] = {resnet_widths[0], 3, 7, 7};
	const uint64_t classes[RANK_MAX] = {RESNET_CLASSES};
	uint64_t inputs = resnet_widths[0];
	char prefix[NAME_ROOM];

	add_real(builder, stem, "", "conv1.weight");
	add_norm(builder, "bn1.", resnet_widths[0]);
	for (unsigned stage = 0; stage < FLMEM_ARRAY_SIZE(resnet_widths); stage++)
		for (unsigned block = 0; block < RESNET_BLOCKS; block++) {
			snprintf(prefix, sizeof(prefix), "layer%u.%u.", stage + 1, block);
			add_residual_block(builder, prefix, inputs, resnet_widths[stage],
					   block == 0);
			inputs = resnet_widths[stage];
		}
	add_real(builder, (const uint64_t[RANK_MAX]){RESNET_CLASSES, inputs}, "fc.", "weight");
	add_real(builder, classes, "fc.", "bias");
}

#define SHAPE_TEXT(name) name,
static const char *const shapes[] = {FLMEM_SHAPES(SHAPE_TEXT)};
#undef SHAPE_TEXT

static int report_unknown(const char *shape, struct flmem_error *err)
{
	FLMEM_AUTO_BUF struct flmem_buf names = FLMEM_BUF_INIT;

	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(shapes); i++)
		flmem_buf_printf(&names, "%s%s", i ? ", " : "", shapes[i]);
	return flmem_error_set(err, FLMEM_EUSAGE, 0, "unknown shape '%.60s'; choose from %s", shape,
			       names.failed ? "those in the manual" : names.data);
}

static bool is_shape(const char *name)
{
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(shapes); i++)
		if (strcmp(shapes[i], name) == 0)
			return true;
	return false;
}

int flmem_shape_list(const char *shape, const struct flmem_dtype *dtype,
		     struct flmem_tensor_list *ret_list, struct flmem_error *err)
{
	const struct flmem_known_model *decoder = flmem_known_model_find(shape);
	FLMEM_AUTO_TENSOR_LIST struct flmem_tensor_list list = {0};
	struct shape_builder builder = {
		.list = &list,
		.real = dtype ?: flmem_dtype_find(decoder ? decoder->dtype : "fp32"),
		.count = flmem_dtype_find("int64"),
	};

	if (!is_shape(shape))
		return report_unknown(shape, err);
	if (decoder)
		add_decoder(&builder, decoder);
	else
		add_resnet18(&builder);
	if (builder.failed)
		return flmem_error_nomem(err, "cannot list the tensors of '%s'", shape);
	flmem_tensor_list_sort(&list);
	*ret_list = list;
	list = (struct flmem_tensor_list){0};
	return 0;
}
