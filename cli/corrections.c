/* SPDX-License-Identifier: Apache-2.0 */
#include "corrections.h"

#include <stdio.h>
#include <stdlib.h>

#include <flmem/text.h>

int corrections_write(const struct cmd *cmd, const struct flmem_corrections *corrections)
{
	struct cmd_codes codes = {0};

	for (size_t i = 0; i < corrections->count; i++) {
		const struct flmem_correction *correction = &corrections->rows[i];
		struct flmem_error err = {0};
		char *backup = NULL, file[4096], old[4096], count[FLMEM_TEXT_COUNTED_MAX];
		int rc = flmem_correction_write(correction, &backup, &err);

		cmd_codes_add(&codes, rc);
		if (rc) {
			cmd_fail(cmd, false, &err);
			continue;
		}
		fprintf(stderr, "flmem recommend: %s written to %s, old file kept as %s\n",
			flmem_text_counted(correction->changes, "value", count, sizeof(count)),
			flmem_text_escape(correction->file, file, sizeof(file)),
			flmem_text_escape(backup, old, sizeof(old)));
		free(backup);
	}
	return flmem_code_exit_status(cmd_codes_combine(&codes));
}
