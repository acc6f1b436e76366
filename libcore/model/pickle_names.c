/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handles the names that a PyTorch checkpoint may use, and what their calls describe. The arguments
 * are those of torch/_utils.py and of persistent_id() in torch/serialization.py.
 */
#include <string.h>

#include "base/text/text.h"
#include "model/pickle.h"

enum callable_kind {
	CALL_NOTHING, /* not a function */
	CALL_DICT,
	CALL_TENSOR,	   /* storage, first element, shape, strides, gradient, hooks */
	CALL_TYPED_TENSOR, /* as CALL_TENSOR, with a type as the seventh argument */
	CALL_PARAMETER,	   /* a tensor, whether it has a gradient, hooks */
	CALL_OTHER,	   /* a function that describes no tensor */
};

static const struct {
	const char *module, *name;
	enum callable_kind call;
	const char *stored; /* type of a storage; "": bytes */
} pickle_names[] = {
	{"collections", "OrderedDict", CALL_DICT, NULL},
	{"torch._utils", "_rebuild_tensor_v2", CALL_TENSOR, NULL},
	{"torch._utils", "_rebuild_tensor_v3", CALL_TYPED_TENSOR, NULL},
	{"torch._utils", "_rebuild_parameter", CALL_PARAMETER, NULL},
	{"torch", "Size", CALL_OTHER, NULL},
	{"torch", "device", CALL_OTHER, NULL},
	{"torch", "FloatStorage", CALL_NOTHING, "F32"},
	{"torch", "HalfStorage", CALL_NOTHING, "F16"},
	{"torch", "BFloat16Storage", CALL_NOTHING, "BF16"},
	{"torch", "DoubleStorage", CALL_NOTHING, "F64"},
	{"torch", "LongStorage", CALL_NOTHING, "I64"},
	{"torch", "IntStorage", CALL_NOTHING, "I32"},
	{"torch", "ShortStorage", CALL_NOTHING, "I16"},
	{"torch", "CharStorage", CALL_NOTHING, "I8"},
	{"torch", "ByteStorage", CALL_NOTHING, "U8"},
	{"torch", "BoolStorage", CALL_NOTHING, "BOOL"},
	{"torch", "ComplexFloatStorage", CALL_NOTHING, "C64"},
	{"torch.storage", "UntypedStorage", CALL_NOTHING, ""},
	{"torch", "UntypedStorage", CALL_NOTHING, ""},
};

static int unknown_name(struct flmem_pickle *pickle, const struct flmem_pickle_value *module,
			const struct flmem_pickle_value *name)
{
	char joined[128], shown[256];

	snprintf(joined, sizeof(joined), "%.*s.%.*s", (int)(module->length & 0xff),
		 pickle->text + module->number, (int)(name->length & 0xff),
		 pickle->text + name->number);
	return flmem_error_set(
		pickle->err, FLMEM_EUSAGE, 0,
		"'%s' cannot be read: its pickle uses '%s', which a state "
		"dict does not need and which is never called; save only the state dict",
		pickle->path, flmem_text_escape(joined, shown, sizeof(shown)));
}

static const struct flmem_dtype *dtype_of(const struct flmem_pickle *pickle,
					  const struct flmem_pickle_value *module,
					  const struct flmem_pickle_value *name)
{
	char text[32];

	if (!flmem_pickle_is_text(pickle, module, "torch") || name->length >= sizeof(text))
		return NULL;
	memcpy(text, pickle->text + name->number, name->length);
	text[name->length] = '\0';
	return flmem_dtype_by_option(text);
}

int flmem_pickle_name(struct flmem_pickle *pickle, const struct flmem_pickle_value *module,
		      const struct flmem_pickle_value *name)
{
	const struct flmem_dtype *dtype;

	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(pickle_names); i++)
		if (flmem_pickle_is_text(pickle, module, pickle_names[i].module) &&
		    flmem_pickle_is_text(pickle, name, pickle_names[i].name))
			return flmem_pickle_push(pickle, FLMEM_PICKLE_NAME, (int64_t)i);
	dtype = dtype_of(pickle, module, name);
	if (dtype)
		return flmem_pickle_push(pickle, FLMEM_PICKLE_DTYPE,
					 (int64_t)flmem_dtype_index(dtype));
	return unknown_name(pickle, module, name);
}

static const struct flmem_pickle_value *pickle_argument(const struct flmem_pickle *pickle,
							const struct flmem_pickle_value *arguments,
							size_t index, enum flmem_pickle_kind kind)
{
	const struct flmem_pickle_value *value = flmem_pickle_element(pickle, arguments, index);

	return value && value->kind == kind ? value : NULL;
}

/* PyTorch refuses gradients for other types. */
static bool can_have_gradient(const struct flmem_dtype *dtype)
{
	return dtype->stored[0] == 'F' || dtype->stored[0] == 'C' ||
	       flmem_text_starts(dtype->stored, "BF");
}

/* True if the arguments from `index` on are those about gradients: a boolean, and hooks. */
static bool has_gradient_arguments(const struct flmem_pickle *pickle,
				   const struct flmem_pickle_value *arguments, size_t index,
				   const struct flmem_dtype *dtype)
{
	const struct flmem_pickle_value *required =
		pickle_argument(pickle, arguments, index, FLMEM_PICKLE_BOOL);

	return required && (!required->number || can_have_gradient(dtype)) &&
	       flmem_pickle_element(pickle, arguments, index + 1);
}

static int make_tensor(struct flmem_pickle *pickle, const struct flmem_pickle_value *arguments,
		       bool typed)
{
	const struct flmem_pickle_value *storage, *first, *shape, *strides, *dtype = NULL;
	struct flmem_pickle_tensor *tensor;

	storage = pickle_argument(pickle, arguments, 0, FLMEM_PICKLE_STORAGE);
	first = pickle_argument(pickle, arguments, 1, FLMEM_PICKLE_INTEGER);
	shape = pickle_argument(pickle, arguments, 2, FLMEM_PICKLE_TUPLE);
	strides = pickle_argument(pickle, arguments, 3, FLMEM_PICKLE_TUPLE);
	if (typed)
		dtype = pickle_argument(pickle, arguments, 6, FLMEM_PICKLE_DTYPE);
	if (!storage || !first || !shape || !strides || first->number < 0 || (typed && !dtype))
		return flmem_pickle_fail(pickle, "describes a tensor in an unknown way");
	/* PyTorch 2 adds an argument if the elements are to be negated or conjugated. */
	if (flmem_pickle_element(pickle, arguments, typed ? 7 : 6))
		return flmem_pickle_fail(pickle, "has a tensor with metadata, which changes its "
						 "elements");
	if (!typed && !pickle->storages[storage->number].dtype)
		return flmem_pickle_fail(pickle, "has a tensor without a type");
	if (!flmem_pickle_room((void **)&pickle->tensors, pickle->tensor_count,
			       &pickle->tensor_room, sizeof(*pickle->tensors)))
		return flmem_pickle_nomem(pickle);
	tensor = &pickle->tensors[pickle->tensor_count];
	*tensor = (struct flmem_pickle_tensor){
		.storage = (size_t)storage->number,
		.dtype = typed ? flmem_dtype_at((size_t)dtype->number)
			       : pickle->storages[storage->number].dtype,
		.first = (uint64_t)first->number,
		.shape = pickle->boxes[shape->number],
		.strides = pickle->boxes[strides->number],
	};
	if (!has_gradient_arguments(pickle, arguments, 4, tensor->dtype))
		return flmem_pickle_fail(pickle, "describes a tensor in an unknown way");
	return flmem_pickle_push(pickle, FLMEM_PICKLE_TENSOR, (int64_t)pickle->tensor_count++);
}

static int make_dict(struct flmem_pickle *pickle, const struct flmem_pickle_value *arguments)
{
	if (flmem_pickle_element(pickle, arguments, 0))
		return flmem_pickle_fail(pickle, "makes a dict in an unknown way");
	return flmem_pickle_push_box(pickle, FLMEM_PICKLE_DICT);
}

static int take_parameter(struct flmem_pickle *pickle, const struct flmem_pickle_value *arguments)
{
	const struct flmem_pickle_value *tensor =
		pickle_argument(pickle, arguments, 0, FLMEM_PICKLE_TENSOR);

	if (!tensor ||
	    !has_gradient_arguments(pickle, arguments, 1, pickle->tensors[tensor->number].dtype) ||
	    flmem_pickle_element(pickle, arguments, 3))
		return flmem_pickle_fail(pickle, "describes a tensor in an unknown way");
	return flmem_pickle_push(pickle, FLMEM_PICKLE_TENSOR, tensor->number);
}

int flmem_pickle_reduce(struct flmem_pickle *pickle)
{
	struct flmem_pickle_value function, arguments;

	if (!flmem_pickle_pop(pickle, &arguments) || !flmem_pickle_pop(pickle, &function) ||
	    function.kind != FLMEM_PICKLE_NAME || arguments.kind != FLMEM_PICKLE_TUPLE)
		return flmem_pickle_fail(pickle, "calls an object that is not a function");
	switch (pickle_names[function.number].call) {
	case CALL_NOTHING:
		break;
	case CALL_DICT:
		return make_dict(pickle, &arguments);
	case CALL_TENSOR:
		return make_tensor(pickle, &arguments, false);
	case CALL_TYPED_TENSOR:
		return make_tensor(pickle, &arguments, true);
	case CALL_PARAMETER:
		return take_parameter(pickle, &arguments);
	case CALL_OTHER:
		return flmem_pickle_push(pickle, FLMEM_PICKLE_OTHER, 0);
	}
	return flmem_pickle_fail(pickle, "calls an object that is not a function");
}

int flmem_pickle_persistent(struct flmem_pickle *pickle)
{
	const struct flmem_pickle_value *kind, *type, *key, *count;
	struct flmem_pickle_value tuple;

	if (!flmem_pickle_pop(pickle, &tuple) || tuple.kind != FLMEM_PICKLE_TUPLE)
		return flmem_pickle_fail(pickle, "refers to an unknown kind of data");
	kind = pickle_argument(pickle, &tuple, 0, FLMEM_PICKLE_STRING);
	type = pickle_argument(pickle, &tuple, 1, FLMEM_PICKLE_NAME);
	key = pickle_argument(pickle, &tuple, 2, FLMEM_PICKLE_STRING);
	count = pickle_argument(pickle, &tuple, 4, FLMEM_PICKLE_INTEGER);
	if (!kind || !flmem_pickle_is_text(pickle, kind, "storage") || !type || !key || !count ||
	    !pickle_argument(pickle, &tuple, 3, FLMEM_PICKLE_STRING) /* a device */ ||
	    !pickle_names[type->number].stored || count->number < 0 ||
	    flmem_pickle_element(pickle, &tuple, 5))
		return flmem_pickle_fail(pickle, "refers to an unknown kind of data");
	if (!flmem_pickle_room((void **)&pickle->storages, pickle->storage_count,
			       &pickle->storage_room, sizeof(*pickle->storages)))
		return flmem_pickle_nomem(pickle);
	pickle->storages[pickle->storage_count] = (struct flmem_pickle_storage){
		.key = *key,
		.dtype = flmem_dtype_find(pickle_names[type->number].stored),
		.elements = (uint64_t)count->number,
	};
	return flmem_pickle_push(pickle, FLMEM_PICKLE_STORAGE, (int64_t)pickle->storage_count++);
}
