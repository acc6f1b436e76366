/* SPDX-License-Identifier: Apache-2.0 */
#include "plan_options.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <flmem/report.h>
#include <flmem/text.h>

#include "options/role_options.h"
#include "print/layout.h"
#include "print/print_format.h"

#define STEP_COLUMN 38
#define NAME_COLUMN 24

#define NAME_OF(name, text) text,
const char *const plan_optimizer_choices[] = {FLMEM_OPTIMIZERS(NAME_OF) NULL};
#undef NAME_OF

bool plan_is_wanted(const struct plan_options *options)
{
	return options->model || options->parameters;
}

const char *plan_stray_option(const struct plan_options *options)
{
	if (plan_is_wanted(options))
		return NULL;
	return options->clients	     ? "--clients"
	       : options->dtype	     ? "--dtype"
	       : options->filter     ? "--filter"
	       : options->node_bytes ? "--node-memory"
	       : options->optimizer  ? "--optimizer"
	       : options->actors     ? "--simulator"
				     : NULL;
}

static void print_model(const struct flmem_plan_request *request, FILE *out)
{
	const struct flmem_model *model = request->model;
	char name[256], bytes[FORMAT_MAX], largest[FORMAT_MAX], count[FLMEM_TEXT_COUNTED_MAX];

	fprintf(out, "model      %s: %s", flmem_text_escape(model->name, name, sizeof(name)),
		format_bytes(model->bytes, bytes));
	if (model->dtype)
		fprintf(out, " of %s", model->dtype);
	if (!model->tensors.unknown)
		fprintf(out, ", %s",
			flmem_text_counted(model->tensors.value, "tensor", count, sizeof(count)));
	if (model->largest_bytes.unknown)
		fputs(", largest tensor assumed to be 1/16 of it\n", out);
	else
		fprintf(out, ", largest tensor %s\n",
			format_bytes(model->largest_bytes.value, largest));
	fprintf(out, "federation %s, %s per round\n", flmem_framework_name(request->framework),
		flmem_text_counted(request->clients, "client", count, sizeof(count)));
}

static void print_plan_steps(const struct flmem_plan_strategy *strategy, enum flmem_role role,
			     FILE *out)
{
	char bytes[FORMAT_MAX];

	for (size_t i = 0; i < strategy->step_count; i++) {
		const struct flmem_plan_step *step = &strategy->steps[i];

		if (step->role != role)
			continue;
		fprintf(out, "  %-7s %-*s %10s  ", flmem_role_name(role), NAME_COLUMN - 2,
			step->name, format_bytes(step->bytes, bytes));
		layout_fold(step->contents, STEP_COLUMN + 7, STEP_COLUMN + 7, out);
	}
}

static void print_strategy(const struct flmem_plan_strategy *strategy,
			   const struct flmem_plan_request *request, bool chosen, FILE *out)
{
	char server[FORMAT_MAX], client[FORMAT_MAX], disk[FORMAT_MAX], node[FORMAT_MAX];
	char count[FLMEM_TEXT_COUNTED_MAX];

	fprintf(out, "\n%s%s:", strategy->name, chosen ? " (chosen)" : "");
	layout_fold(strategy->summary, 2, (int)strlen(strategy->name) + (chosen ? 10 : 1), out);
	print_plan_steps(strategy, FLMEM_ROLE_SERVER, out);
	print_plan_steps(strategy, FLMEM_ROLE_CLIENT, out);
	fprintf(out, "  peak: server %s, each client %s",
		format_bytes(strategy->server_peak_bytes, server),
		format_bytes(strategy->client_peak_bytes, client));
	if (strategy->server_disk_bytes)
		fprintf(out, "; %s on the server's disk",
			format_bytes(strategy->server_disk_bytes, disk));
	if (request->actors)
		fprintf(out, "; simulator, %s at once, at most %s",
			flmem_text_counted(request->actors, "client", count, sizeof(count)),
			format_bytes(strategy->simulator_bytes.value, disk));
	if (request->node_bytes)
		fprintf(out, "; %s a node of %s", strategy->fits ? "fits" : "does not fit",
			format_bytes(request->node_bytes, node));
	fputc('\n', out);
}

static void print_plan(const struct flmem_plan_request *request, const struct flmem_plan *plan,
		       FILE *out)
{
	char runtime[FORMAT_MAX];

	print_model(request, out);
	for (size_t i = 0; i < plan->strategy_count; i++)
		print_strategy(&plan->strategies[i], request, i == plan->chosen, out);
	fputs("\nEach figure includes ", out);
	fputs(format_bytes(plan->runtime_bytes, runtime), out);
	layout_fold(request->optimizer ? "for Python and its libraries."
				       : "for Python and its libraries; training in host memory is "
					 "counted only with --optimizer.",
		    0, 21 + (int)strlen(runtime), out);
	if (plan->caveat)
		layout_fold(plan->caveat, 0, 0, out);
	if (plan->beside)
		layout_fold(plan->beside, 0, 0, out);
	for (size_t i = 0; i < plan->text_count; i++)
		fprintf(out, "\n# %s\n%s", plan->texts[i].where, plan->texts[i].text);
}

static int read_model(const struct plan_options *options, struct flmem_model *ret_model,
		      struct flmem_error *err)
{
	if (options->model && options->parameters)
		return flmem_error_set(err, FLMEM_EUSAGE, 0,
				       "--model and --params exclude each other; use one");
	if (options->model)
		return flmem_model_read(options->model, options->dtype, ret_model, err);
	return flmem_model_make(options->parameters, options->dtype, ret_model, err);
}

static int report_plan(const struct cmd *cmd, const struct flmem_plan_request *request,
		       const struct flmem_plan *plan, bool json)
{
	struct flmem_error err = {0};
	char *text;

	if (!json) {
		print_plan(request, plan, stdout);
		return 0;
	}
	text = flmem_report_plan_json(request, plan);
	if (!text) {
		flmem_error_nomem(&err, "cannot print the plan");
		return cmd_fail(cmd, false, &err);
	}
	fputs(text, stdout);
	free(text);
	return 0;
}

int plan_make(const struct plan_options *options, const char *framework, struct plan_made *ret_made,
	      struct flmem_error *err)
{
	struct plan_made *made = ret_made;
	int rc = 0;

	made->request = (struct flmem_plan_request){
		.model = &made->model,
		.framework = FLMEM_FRAMEWORK_NVFLARE +
			     opt_choice_index(role_framework_choices, framework, 0),
		.clients = options->clients,
		.node_bytes = options->node_bytes,
		.actors = options->actors,
		.filter = options->filter,
		.optimizer = opt_choice_index(plan_optimizer_choices, options->optimizer, 0),
	};
	if (!options->clients)
		rc = flmem_error_set(err, FLMEM_EUSAGE, 0, "a plan needs --clients");
	if (!rc)
		rc = read_model(options, &made->model, err);
	return rc ? rc : flmem_plan_make(&made->request, &made->plan, err);
}

void plan_made_clear(struct plan_made *made)
{
	flmem_plan_clear(&made->plan);
	flmem_model_clear(&made->model);
}

int plan_run(const struct cmd *cmd, const struct plan_options *options, const char *framework,
	     bool json)
{
	struct plan_made made = {0};
	struct flmem_error err = {0};
	int rc = plan_make(options, framework, &made, &err), status;

	status = rc ? cmd_fail(cmd, json, &err) : report_plan(cmd, &made.request, &made.plan, json);
	if (!rc && !status && !made.plan.strategies[made.plan.chosen].fits)
		status = flmem_code_exit_status(FLMEM_EFINDINGS);
	plan_made_clear(&made);
	return status;
}
