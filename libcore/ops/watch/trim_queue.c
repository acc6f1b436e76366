/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/watch/trim_queue.h"

#include <stdlib.h>

#include "base/thread.h"
#include "ops/trim/condition_check.h"

struct request_list {
	struct flmem_trim_request *first, **end;
};

struct flmem_trim_queue {
	pthread_mutex_t lock;  /* protects the fields below */
	pthread_cond_t wakeup; /* a request was added, or the queue ends */
	struct request_list todo, done;
	bool ending;
	bool running; /* the thread has been started */
	pthread_t thread;
};

static void append_request(struct request_list *list, struct flmem_trim_request *request)
{
	request->next = NULL;
	*list->end = request;
	list->end = &request->next;
}

static struct flmem_trim_request *take_first_request(struct request_list *list)
{
	struct flmem_trim_request *first = list->first;

	if (!first)
		return NULL;
	list->first = first->next;
	if (!list->first)
		list->end = &list->first;
	return first;
}

static void clear_requests(struct request_list *list)
{
	struct flmem_trim_request *request;

	while ((request = take_first_request(list)))
		free(request);
}

struct flmem_trim_queue *flmem_trim_queue_new(void)
{
	struct flmem_trim_queue *queue = calloc(1, sizeof(*queue));

	if (!queue)
		return NULL;
	pthread_mutex_init(&queue->lock, NULL);
	pthread_cond_init(&queue->wakeup, NULL);
	queue->todo.end = &queue->todo.first;
	queue->done.end = &queue->done.first;
	return queue;
}

static void run_request(struct flmem_trim_request *request)
{
	struct flmem_trim_options options = request->options;

	options.start_time = request->start_time;
	request->truth = request->when
				 ? flmem_condition_holds(request->when, request->pid,
							 options.assume_seccomp, &request->why)
				 : FLMEM_TRUE;
	if (request->truth == FLMEM_TRUE)
		request->result.code =
			flmem_trim_process(request->pid, &options, &request->result, NULL);
}

static void *run_queue(void *context)
{
	struct flmem_trim_queue *queue = context;

	pthread_mutex_lock(&queue->lock);
	while (!queue->ending) {
		struct flmem_trim_request *request = take_first_request(&queue->todo);

		if (!request) {
			pthread_cond_wait(&queue->wakeup, &queue->lock);
			continue;
		}
		pthread_mutex_unlock(&queue->lock);
		run_request(request);
		pthread_mutex_lock(&queue->lock);
		append_request(&queue->done, request);
	}
	pthread_mutex_unlock(&queue->lock);
	return NULL;
}

bool flmem_trim_queue_add(struct flmem_trim_queue *queue, struct flmem_trim_request *request)
{
	if (!queue->running) {
		queue->ending = false;
		queue->running = flmem_thread_start(&queue->thread, run_queue, queue) == 0;
		if (!queue->running) {
			free(request);
			return false;
		}
	}
	pthread_mutex_lock(&queue->lock);
	append_request(&queue->todo, request);
	pthread_cond_signal(&queue->wakeup);
	pthread_mutex_unlock(&queue->lock);
	return true;
}

struct flmem_trim_request *flmem_trim_queue_take(struct flmem_trim_queue *queue)
{
	struct flmem_trim_request *request;

	pthread_mutex_lock(&queue->lock);
	request = take_first_request(&queue->done);
	pthread_mutex_unlock(&queue->lock);
	return request;
}

void flmem_trim_queue_finish(struct flmem_trim_queue *queue)
{
	if (!queue->running)
		return;
	pthread_mutex_lock(&queue->lock);
	queue->ending = true;
	pthread_cond_signal(&queue->wakeup);
	pthread_mutex_unlock(&queue->lock);
	pthread_join(queue->thread, NULL);
	queue->running = false;
	clear_requests(&queue->todo);
}

void flmem_trim_queue_free(struct flmem_trim_queue *queue)
{
	if (!queue)
		return;
	flmem_trim_queue_finish(queue);
	clear_requests(&queue->done);
	pthread_cond_destroy(&queue->wakeup);
	pthread_mutex_destroy(&queue->lock);
	free(queue);
}
