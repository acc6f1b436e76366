/* SPDX-License-Identifier: Apache-2.0 */
#include "watch/watch_output.h"

static bool forward_sample(void *context, const struct flmem_watch_sample *sample)
{
	const struct watch_outputs *all = context;
	bool goes_on = true;

	for (size_t i = 0; i < all->count; i++)
		if (all->outputs[i].sample)
			goes_on &= all->outputs[i].sample(all->outputs[i].state, sample);
	return goes_on;
}

static bool forward_round(void *context, const struct flmem_watch_round *round)
{
	const struct watch_outputs *all = context;
	bool goes_on = true;

	for (size_t i = 0; i < all->count; i++)
		if (all->outputs[i].round)
			goes_on &= all->outputs[i].round(all->outputs[i].state, round);
	return goes_on;
}

static bool forward_action(void *context, const struct flmem_watch_action *action)
{
	const struct watch_outputs *all = context;
	bool goes_on = true;

	for (size_t i = 0; i < all->count; i++)
		if (all->outputs[i].action)
			goes_on &= all->outputs[i].action(all->outputs[i].state, action);
	return goes_on;
}

static bool forward_tick(void *context)
{
	const struct watch_outputs *all = context;
	bool goes_on = true;

	for (size_t i = 0; i < all->count; i++)
		if (all->outputs[i].tick)
			goes_on &= all->outputs[i].tick(all->outputs[i].state);
	return goes_on;
}

static void forward_warning(void *context, const char *text)
{
	const struct watch_outputs *all = context;

	for (size_t i = 0; i < all->count; i++)
		if (all->outputs[i].warning)
			all->outputs[i].warning(all->outputs[i].state, text);
}

struct flmem_watch_callbacks watch_outputs_callbacks(struct watch_outputs *outputs)
{
	return (struct flmem_watch_callbacks){
		.context = outputs,
		.sample = forward_sample,
		.round = forward_round,
		.action = forward_action,
		.tick = forward_tick,
		.warning = forward_warning,
	};
}

int watch_outputs_finish(struct watch_outputs *outputs, const struct flmem_watch_summary *summary,
			 const struct flmem_watch_advice *advice, struct flmem_error *err)
{
	int first = 0;

	for (size_t i = 0; i < outputs->count; i++) {
		const struct watch_output *o = &outputs->outputs[i];
		int rc = o->finish ? o->finish(o->state, summary, advice, first ? NULL : err) : 0;

		first = first ? first : rc;
	}
	return first;
}

void watch_outputs_close(struct watch_outputs *outputs)
{
	for (size_t i = outputs->count; i-- > 0;)
		if (outputs->outputs[i].close)
			outputs->outputs[i].close(outputs->outputs[i].state);
	outputs->count = 0;
}
