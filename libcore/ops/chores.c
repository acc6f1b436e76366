/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/chores.h"

#include <stdlib.h>

#include "base/thread.h"
#include "ops/decide.h"

struct list {
	struct flmem_chore *first, **end;
};

struct flmem_chores {
	pthread_mutex_t lock; /* of all that follows */
	pthread_cond_t come;  /* there is a chore to do, or an end to all */
	struct list todo, done;
	bool ending;
	bool running; /* there is a thread */
	pthread_t thread;
};

static void append(struct list *list, struct flmem_chore *chore)
{
	chore->next = NULL;
	*list->end = chore;
	list->end = &chore->next;
}

static struct flmem_chore *take_first(struct list *list)
{
	struct flmem_chore *first = list->first;

	if (!first)
		return NULL;
	list->first = first->next;
	if (!list->first)
		list->end = &list->first;
	return first;
}

static void clear(struct list *list)
{
	struct flmem_chore *chore;

	while ((chore = take_first(list)))
		free(chore);
}

struct flmem_chores *flmem_chores_new(void)
{
	struct flmem_chores *chores = calloc(1, sizeof(*chores));

	if (!chores)
		return NULL;
	pthread_mutex_init(&chores->lock, NULL);
	pthread_cond_init(&chores->come, NULL);
	chores->todo.end = &chores->todo.first;
	chores->done.end = &chores->done.first;
	return chores;
}

static void perform(struct flmem_chore *chore)
{
	struct flmem_trim_options options = chore->options;

	options.start_time = chore->start_time;
	chore->truth = chore->when ? flmem_decide(chore->when, chore->pid, options.assume_seccomp,
						  &chore->why)
				   : FLMEM_TRUE;
	if (chore->truth == FLMEM_TRUE)
		flmem_trim_process(chore->pid, &options, &chore->result, NULL);
}

static void *work(void *context)
{
	struct flmem_chores *chores = context;

	pthread_mutex_lock(&chores->lock);
	while (!chores->ending) {
		struct flmem_chore *chore = take_first(&chores->todo);

		if (!chore) {
			pthread_cond_wait(&chores->come, &chores->lock);
			continue;
		}
		pthread_mutex_unlock(&chores->lock);
		perform(chore);
		pthread_mutex_lock(&chores->lock);
		append(&chores->done, chore);
	}
	pthread_mutex_unlock(&chores->lock);
	return NULL;
}

bool flmem_chores_add(struct flmem_chores *chores, struct flmem_chore *chore)
{
	if (!chores->running) {
		chores->ending = false;
		chores->running = flmem_thread_start(&chores->thread, work, chores) == 0;
		if (!chores->running) {
			free(chore);
			return false;
		}
	}
	pthread_mutex_lock(&chores->lock);
	append(&chores->todo, chore);
	pthread_cond_signal(&chores->come);
	pthread_mutex_unlock(&chores->lock);
	return true;
}

struct flmem_chore *flmem_chores_take(struct flmem_chores *chores)
{
	struct flmem_chore *chore;

	pthread_mutex_lock(&chores->lock);
	chore = take_first(&chores->done);
	pthread_mutex_unlock(&chores->lock);
	return chore;
}

void flmem_chores_finish(struct flmem_chores *chores)
{
	if (!chores->running)
		return;
	pthread_mutex_lock(&chores->lock);
	chores->ending = true;
	pthread_cond_signal(&chores->come);
	pthread_mutex_unlock(&chores->lock);
	pthread_join(chores->thread, NULL);
	chores->running = false;
	clear(&chores->todo);
}

void flmem_chores_free(struct flmem_chores *chores)
{
	if (!chores)
		return;
	flmem_chores_finish(chores);
	clear(&chores->done);
	pthread_cond_destroy(&chores->come);
	pthread_mutex_destroy(&chores->lock);
	free(chores);
}
