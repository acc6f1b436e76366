/* SPDX-License-Identifier: Apache-2.0 */
#include "net/credential.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

int flmem_credential_check(const char *path, struct flmem_error *err)
{
	struct stat status;

	if (!path)
		return 0;
	if (access(path, R_OK))
		return flmem_error_set(err, errno == EACCES ? FLMEM_EPERM : FLMEM_EUSAGE, errno,
				       "cannot read the certificate or key '%s'", path);
	if (stat(path, &status) == 0 && S_ISDIR(status.st_mode))
		return flmem_error_set(err, FLMEM_EUSAGE, EISDIR,
				       "cannot read the certificate or key '%s'", path);
	return 0;
}
