/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_CAPABILITIES_H
#define TESTS_CAPABILITIES_H

#include <linux/capability.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Takes a capability from the effective set of the calling thread; true also if it has none. */
static inline bool capability_drop(unsigned capability)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];

	if (syscall(SYS_capget, &head, data))
		return false;
	data[CAP_TO_INDEX(capability)].effective &= ~CAP_TO_MASK(capability);
	return syscall(SYS_capset, &head, data) == 0;
}

#endif
