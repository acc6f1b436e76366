/* SPDX-License-Identifier: Apache-2.0 */
#include "exchange/valid_names.h"

#include <string.h>

#include "exchange/wire.h"

bool flmem_exchange_client_name_is_valid(const char *name)
{
	size_t length = strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
				     "0123456789._-");

	return length && length <= FLMEM_EXCHANGE_NAME_MAX && !name[length] &&
	       strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
}

bool flmem_exchange_file_name_is_valid(const char *name)
{
	return *name != '.' && flmem_exchange_client_name_is_valid(name);
}
