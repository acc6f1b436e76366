/* SPDX-License-Identifier: Apache-2.0 */
#include "print/print_troubleshoot.h"

#include <string.h>

#include <flmem/text.h>

#include "print/layout.h"

#define TEXT_MAX 1024
#define INDENT	 8

static char state_mark(enum flmem_step_state state)
{
	switch (state) {
	case FLMEM_STEP_DONE:
		return 'x';
	case FLMEM_STEP_NOT_DONE:
		return ' ';
	case FLMEM_STEP_NOT_NEEDED:
		return '-';
	case FLMEM_STEP_CANNOT_TELL:
		break;
	}
	return '?';
}

/* Prints a wrapped line below the text of the step. */
static void put_troubleshooting_line(const char *label, const char *text, FILE *out)
{
	char line[TEXT_MAX], shown[TEXT_MAX];

	snprintf(line, sizeof(line), "%s%s", label,
		 flmem_text_escape(text, shown, sizeof(shown) - INDENT));
	fprintf(out, "%*s", INDENT, "");
	layout_fold(line, INDENT, INDENT, out);
}

static void print_troubleshooting_step(size_t number, const struct flmem_step_answer *answer,
				       FILE *out)
{
	char label[32];

	snprintf(label, sizeof(label), "%s: ", flmem_step_state_name(answer->state));
	for (char *hyphen = label; (hyphen = strchr(hyphen, '-'));)
		*hyphen = ' ';
	fprintf(out, "%2zu. [%c] %s\n", number, state_mark(answer->state), answer->step->text);
	put_troubleshooting_line(label, answer->evidence, out);
	if (answer->next)
		put_troubleshooting_line("-> ", answer->next, out);
}

void print_troubleshooting(const struct flmem_troubleshoot_report *troubles, FILE *out)
{
	for (size_t i = 0; i < troubles->count; i++) {
		const struct flmem_troubleshoot_evaluation *evaluation = &troubles->evaluations[i];
		char subject[TEXT_MAX], because[TEXT_MAX];

		fprintf(out, "%s%s\n%s, as %s\n", i ? "\n" : "",
			flmem_text_escape(evaluation->subject, subject, sizeof(subject)),
			flmem_troubleshoot_list_title(evaluation->list),
			flmem_text_escape(evaluation->reason, because, sizeof(because)));
		for (size_t s = 0; s < evaluation->step_count; s++)
			print_troubleshooting_step(s + 1, &evaluation->steps[s], out);
	}
}
