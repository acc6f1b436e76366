/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/detect/detect_argv_env.h"

#include <errno.h>
#include <string.h>

#include "base/text/buf.h"
#include "base/text/redact.h"
#include "frameworks/framework.h"
#include "proc/argv_env.h"
#include "proc/files/path_memory.h"
#include "proc/process.h"
#include "settings/observed.h"

#define COMMAND_MAX \
	((size_t)16 \
	 << 10) /* longest command-line prefix before an argument that is still reported */

static int read_command(const struct flmem_argv_env *command, struct flmem_process_report *report)
{
	FLMEM_AUTO_BUF struct flmem_buf text = FLMEM_BUF_INIT;
	size_t count = command->count;

	/*
	 * Leave out long arguments: class paths can have a megabyte and add nothing, and a report
	 * may hold thousands of processes.
	 */
	while (count && (size_t)(command->values[count - 1] - command->text) > COMMAND_MAX)
		count--;
	flmem_redact_command(command->values, count, &text);
	if (count < command->count)
		flmem_buf_puts(&text, " ...");
	report->command = flmem_buf_take(&text);
	return report->command ? 0 : -ENOMEM;
}

static int read_identity(struct flmem_relatives *relatives, const struct flmem_process *process,
			 const struct flmem_argv_env *command,
			 const struct flmem_argv_env *environment,
			 struct flmem_process_report *report)
{
	struct flmem_subject subject = {
		.process = process,
		.command = command,
		.environment = environment,
		.relatives = relatives,
	};
	struct flmem_identity identity;

	flmem_identify(&subject, &identity);
	report->framework = identity.framework;
	report->role = identity.role;
	report->part = identity.part;
	if (!identity.site[0])
		return 0;
	report->site = strdup(identity.site);
	return report->site ? 0 : -ENOMEM;
}

/*
 * Finds out whether the directory into which servers of some frameworks offload tensors is in
 * memory.
 */
static void read_temporary(const struct flmem_process *process,
			   const struct flmem_argv_env *environment,
			   struct flmem_process_report *report)
{
	const char *path = environment ? flmem_argv_env_getenv(environment, "TMPDIR") : NULL;
	const char *unread = flmem_offload_unread(report->framework, report->role);

	if (unread)
		report->temporary_in_memory = FLMEM_UNKNOWN(unread);
	else if (!environment)
		report->temporary_in_memory = FLMEM_UNKNOWN("access to its environment is denied");
	else
		report->temporary_in_memory =
			flmem_path_in_memory(process, path && *path ? path : "/tmp");
}

int flmem_detect_argv_env(const struct flmem_process *process, struct flmem_relatives *relatives,
			  struct flmem_process_report *report, bool *ret_denied,
			  struct flmem_error *err)
{
	FLMEM_AUTO_ARGV_ENV struct flmem_argv_env command = {0}, words = {0};
	const struct flmem_argv_env *environment;
	int environment_rc, rc = flmem_argv_env_read_argv(process, &command, err);

	if (rc)
		return rc;
	environment_rc = flmem_argv_env_read_env(process, &words, NULL);
	environment = environment_rc ? NULL : &words;
	if (environment)
		rc = flmem_settings_observe(environment, &report->settings, &report->setting_count,
					    err);
	else
		report->settings_unknown = "its environment could not be read";
	if (rc)
		return rc;
	if (read_command(&command, report) ||
	    read_identity(relatives, process, &command, environment, report))
		return flmem_error_nomem(err, "cannot store the report");
	read_temporary(process, environment, report);
	*ret_denied = environment_rc == FLMEM_EPERM;
	return 0;
}
