/* SPDX-License-Identifier: Apache-2.0 */
#include "proc/command.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <flmem/text.h>

int flmem_command_error(const char *program, int error, struct flmem_error *err)
{
	struct stat status;
	char shown[256];

	flmem_text_escape(program, shown, sizeof(shown));
	if ((error == ENOENT || error == ENOTDIR) && !strchr(program, '/'))
		return flmem_error_set(err, FLMEM_ENOCOMMAND, 0,
				       "cannot run '%s': no such command in PATH", shown);
	if (error == ENOENT && access(program, F_OK) == 0)
		return flmem_error_set(
			err, FLMEM_ENOCOMMAND, 0,
			"cannot run '%s': the interpreter or loader that it names is "
			"missing",
			shown);
	if (error == ENOENT || error == ENOTDIR)
		return flmem_error_set(err, FLMEM_ENOCOMMAND, error, "cannot run '%s'", shown);
	if (error == EACCES && stat(program, &status) == 0 && S_ISDIR(status.st_mode))
		error = EISDIR;
	return flmem_error_set(err, FLMEM_ENOEXEC, error, "cannot run '%s'", shown);
}
