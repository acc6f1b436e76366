/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/exchange/server/special_updates.h"

#include <stdlib.h>
#include <string.h>

#include <flmem/text.h>

#include "base/cleanup.h"
#include "ops/aggregate/find_special.h"

/* Returns true if the update has the order that flmem_finite_stream_add() assumed. */
static bool has_order_of_stream(const struct flmem_input *update, const struct flmem_layout *layout)
{
	return update->file_count == 1 && update->kind.format == FLMEM_FORMAT_SAFETENSORS &&
	       !update->offsets &&
	       (uint64_t)update->files[0].status.st_size ==
		       update->data_offset + flmem_layout_bytes(layout);
}

static int read_values(const struct flmem_exchange *x, const char *path, bool finite,
		       struct flmem_error *err)
{
	struct flmem_input update = {.key = x->options->aggregate.key};
	const struct flmem_tensor *tensor = NULL;
	char shown[100];
	int rc = flmem_input_open(path, NULL, &x->layout, &update, err);

	if (!rc && !(finite && has_order_of_stream(&update, &x->layout)))
		rc = flmem_input_find_special(&update, &x->layout, &tensor, err);
	flmem_inputs_clear(&update, 1);
	if (rc || !tensor)
		return rc;
	return flmem_error_set(err, FLMEM_EUSAGE, 0,
			       "tensor '%s' has a NaN or an infinity, and without this update too "
			       "few would be left for the algorithm",
			       flmem_text_escape(tensor->name, shown, sizeof(shown)));
}

static size_t count_finite(const struct flmem_exchange *x)
{
	size_t count = 0;

	for (size_t i = 0; i < x->update_count; i++)
		count += x->updates[i].values == FLMEM_VALUES_FINITE;
	return count;
}

/*
 * Returns true if one more update may be left out, even if those that were not read are left out,
 * too.
 */
static bool can_spare_one(const struct flmem_exchange *x)
{
	size_t finite = count_finite(x);

	return finite >= x->needed || x->update_count - finite < x->quorum - x->needed;
}

static struct flmem_update *find_unread(const struct flmem_exchange *x, const char *client)
{
	for (size_t i = 0; i < x->update_count; i++)
		if (x->updates[i].values == FLMEM_VALUES_UNREAD &&
		    (!client || strcmp(x->updates[i].client, client) == 0))
			return &x->updates[i];
	return NULL;
}

/* Reads one of the updates that count. If it cannot be read, it is not known to be finite. */
static bool read_another(struct flmem_exchange *x)
{
	struct flmem_update *update = find_unread(x, NULL);
	FLMEM_AUTO_FREE char *path = update ? strdup(update->path) : NULL;
	char client[FLMEM_EXCHANGE_NAME_MAX + 1];
	int rc;

	if (!path)
		return false;
	memcpy(client, update->client, sizeof(client));
	pthread_mutex_unlock(&x->lock);
	rc = read_values(x, path, false, NULL);
	pthread_mutex_lock(&x->lock);
	/* Find it again: another thread may have ended the round meanwhile. */
	update = find_unread(x, client);
	if (update)
		update->values = rc ? FLMEM_VALUES_SPECIAL : FLMEM_VALUES_FINITE;
	return true;
}

int flmem_special_judge(struct flmem_exchange *x, const char *path, bool finite,
			enum flmem_update_values *ret_values, struct flmem_error *err)
{
	struct flmem_error why = {0};
	int rc;

	*ret_values = FLMEM_VALUES_UNREAD;
	if (x->options->aggregate.nan != FLMEM_NAN_SKIP_CLIENT || can_spare_one(x))
		return 0;
	pthread_mutex_unlock(&x->lock);
	rc = read_values(x, path, finite, &why);
	pthread_mutex_lock(&x->lock);
	*ret_values = rc ? FLMEM_VALUES_SPECIAL : FLMEM_VALUES_FINITE;
	if (rc == FLMEM_EUSAGE)
		while (!can_spare_one(x) && read_another(x))
			;
	if (!rc || (rc == FLMEM_EUSAGE && can_spare_one(x)))
		return 0;
	if (err)
		*err = why;
	return rc;
}
