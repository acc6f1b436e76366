/* SPDX-License-Identifier: Apache-2.0 */
#include "print/print_json.h"

#include <stdio.h>
#include <stdlib.h>

int print_json(char *text, struct flmem_error *err)
{
	if (!text)
		return flmem_error_nomem(err, "cannot print the report");
	fputs(text, stdout);
	free(text);
	return 0;
}
