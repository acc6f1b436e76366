/* SPDX-License-Identifier: Apache-2.0 */
#include "base/files/file_attributes.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/text/buf.h"

/* Limits of the kernel (include/uapi/linux/limits.h). */
#define NAMES_BYTES 65536
#define VALUE_BYTES 65536

#define ACL_ATTRIBUTE "system.posix_acl_access"

/*
 * Attributes that are not copied: privileges of a program, and checksums over content and
 * attributes that the kernel updates itself.
 */
static const char *const left_out[] = {"security.capability", "security.ima", "security.evm"};

static bool is_left_out(const char *name)
{
	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(left_out); i++)
		if (strcmp(name, left_out[i]) == 0)
			return true;
	return false;
}

/*
 * Copies an attribute. Negative errno. A label that the new file already has is not set, as that
 * may be denied.
 */
static int copy_attribute(int from, int to, const char *name)
{
	FLMEM_AUTO_FREE char *value = malloc(VALUE_BYTES), *there = malloc(VALUE_BYTES);
	ssize_t length = value && there ? fgetxattr(from, name, value, VALUE_BYTES) : -1;
	ssize_t got;

	if (!value || !there)
		return -ENOMEM;
	if (length < 0)
		return -errno;
	got = fgetxattr(to, name, there, VALUE_BYTES);
	if (got == length && memcmp(value, there, (size_t)length) == 0)
		return 0;
	return fsetxattr(to, name, value, (size_t)length, 0) < 0 ? -errno : 0;
}

static int copy_attributes(int from, int to, const char *path, struct flmem_error *err)
{
	FLMEM_AUTO_FREE char *names = malloc(NAMES_BYTES);
	ssize_t length = names ? flistxattr(from, names, NAMES_BYTES) : -1;

	if (!names || (length < 0 && errno != ENOTSUP))
		return flmem_error_set(err, FLMEM_EFAILED, names ? errno : ENOMEM,
				       "cannot read the attributes of '%s'", path);
	/*
	 * The new file got its ACL from the directory's default ACL; fchmod() below would widen its
	 * mask: acl(5).
	 */
	if (fremovexattr(to, ACL_ATTRIBUTE) < 0 && errno != ENODATA && errno != ENOTSUP)
		return flmem_error_set(err, FLMEM_EPERM, errno,
				       "cannot remove the default ACL from a new '%s'", path);
	for (const char *name = names; length > 0 && name < names + length;
	     name += strlen(name) + 1) {
		int rc = is_left_out(name) ? 0 : copy_attribute(from, to, name);

		if (rc)
			return flmem_error_set(err, FLMEM_EPERM, -rc,
					       "cannot copy the attribute %s of '%s'", name, path);
	}
	return 0;
}

int flmem_file_attributes_copy(int from, const struct stat *status, int to, const char *path,
			       struct flmem_error *err)
{
	struct stat made;
	int rc;

	if (fstat(to, &made) < 0)
		return flmem_error_set(err, FLMEM_EFAILED, errno, "cannot write '%s'", path);
	if ((made.st_uid != status->st_uid || made.st_gid != status->st_gid) &&
	    fchown(to, status->st_uid, status->st_gid) < 0)
		return flmem_error_set(
			err, FLMEM_EPERM, errno,
			"cannot set the owner of a new '%s' to %u:%u; run as that user", path,
			status->st_uid, status->st_gid);
	rc = copy_attributes(from, to, path, err);
	if (rc)
		return rc;
	if (fchmod(to, status->st_mode & 0777) < 0)
		return flmem_error_set(err, FLMEM_EPERM, errno,
				       "cannot set the permissions of a new '%s'", path);
	return 0;
}
