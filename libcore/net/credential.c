/* SPDX-License-Identifier: Apache-2.0 */
#include "net/credential.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

int flmem_credential_check(const char *path, struct flmem_error *err)
{
	struct stat status;
	int why = 0;

	if (path && access(path, R_OK))
		why = errno;
	else if (path && stat(path, &status) == 0 && S_ISDIR(status.st_mode))
		why = EISDIR;
	return why ? flmem_error_set(err, flmem_code_of_open(why), why,
				     "cannot read the certificate or key '%s'", path)
		   : 0;
}
