/* SPDX-License-Identifier: Apache-2.0 */
#include <flmem/settings.h>

#include <stdio.h>
#include <string.h>

#include <flmem/parse.h>

#include "base/cleanup.h"
#include "base/text/buf.h"
#include "settings/quote.h"

/* One line per variable: before, NAME, between, quoted value, after. */
struct format {
	const char *name;
	const char *head; /* once, before all lines */
	const char *before, *between, *after;
	flmem_quote_fn *quote;
	bool quotes_pair; /* the quotes go around NAME=value */
	bool elsewhere;
	const char *comment_before, *comment_after;
	const char *tail; /* after all lines, then each name with name_before; NULL: none */
	const char *name_before;
	flmem_quote_fn *comment_quote; /* NULL: the text of a comment is not quoted */
};

static const struct format formats[] = {
	[FLMEM_SETTINGS_FORMAT_SH] = {.name = "sh",
				      .head = "",
				      .before = "export ",
				      .between = "=",
				      .after = "\n",
				      .quote = flmem_quote_sh,
				      .comment_before = "# ",
				      .comment_after = "\n"},
	[FLMEM_SETTINGS_FORMAT_FISH] = {.name = "fish",
					.head = "",
					.before = "set -gx ",
					.between = " ",
					.after = "\n",
					.quote = flmem_quote_fish,
					.comment_before = "# ",
					.comment_after = "\n"},
	/*
	 * csh joins the lines for `eval` with spaces, so the output must not depend on line ends.
	 */
	[FLMEM_SETTINGS_FORMAT_CSH] = {.name = "csh",
				       .head = "",
				       .before = "setenv ",
				       .between = " ",
				       .after = ";\n",
				       .quote = flmem_quote_csh,
				       .comment_before = ": ",
				       .comment_after = ";\n",
				       .comment_quote = flmem_quote_csh},
	[FLMEM_SETTINGS_FORMAT_DOTENV] = {.name = "dotenv",
					  .head = "",
					  .before = "",
					  .between = "=",
					  .after = "\n",
					  .quote = flmem_quote_dotenv,
					  .comment_before = "# ",
					  .comment_after = "\n"},
	[FLMEM_SETTINGS_FORMAT_SYSTEMD] = {.name = "systemd",
					   .head = "",
					   .before = "Environment=",
					   .between = "=",
					   .after = "\n",
					   .quote = flmem_quote_systemd,
					   .quotes_pair = true,
					   .comment_before = "# ",
					   .comment_after = "\n"},
	[FLMEM_SETTINGS_FORMAT_DOCKER] = {.name = "docker",
					  .head = "",
					  .before = "",
					  .between = "=",
					  .after = "\n",
					  .quote = flmem_quote_docker,
					  .elsewhere = true,
					  .comment_before = "# ",
					  .comment_after = "\n"},
	[FLMEM_SETTINGS_FORMAT_K8S] = {.name = "k8s",
				       .head = "env:\n",
				       .before = "  - name: ",
				       .between = "\n    value: ",
				       .after = "\n",
				       .quote = flmem_quote_k8s,
				       .elsewhere = true,
				       .comment_before = "  # ",
				       .comment_after = "\n"},
	[FLMEM_SETTINGS_FORMAT_NVFLARE_DOCKER] = {.name = "nvflare-docker",
						  .head = "default_job_env:\n",
						  .before = "  ",
						  .between = ": ",
						  .after = "\n",
						  .quote = flmem_quote_yaml,
						  .elsewhere = true,
						  .comment_before = "  # ",
						  .comment_after = "\n"},
	/* A block of YAML, in which nothing is escaped, with lines for bash. */
	[FLMEM_SETTINGS_FORMAT_NVFLARE_SLURM] = {.name = "nvflare-slurm",
						 .head = "setup: |\n",
						 .before = "  export ",
						 .between = "=",
						 .after = "\n",
						 .quote = flmem_quote_sh_in_yaml,
						 .elsewhere = true,
						 .comment_before = "  # ",
						 .comment_after = "\n",
						 .tail = "forward_env:\n",
						 .name_before = "  - "},
};

int flmem_settings_format_find(const char *name, enum flmem_settings_format *ret_format,
			       struct flmem_error *err)
{
	FLMEM_AUTO_BUF struct flmem_buf list = FLMEM_BUF_INIT;

	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(formats); i++) {
		if (strcmp(formats[i].name, name) == 0) {
			*ret_format = (enum flmem_settings_format)i;
			return 0;
		}
		flmem_buf_printf(&list, "%s%s", i ? ", " : "", formats[i].name);
	}
	return flmem_parse_invalid_choice(name, NULL, list.data, err);
}

bool flmem_settings_format_elsewhere(enum flmem_settings_format format)
{
	return formats[format].elsewhere;
}

static void put_comment(struct flmem_buf *out, const struct format *format, const char *text)
{
	flmem_buf_puts(out, format->comment_before);
	if (format->comment_quote)
		format->comment_quote(out, text);
	else
		flmem_buf_puts(out, text);
	flmem_buf_puts(out, format->comment_after);
}

static void put_reason(struct flmem_buf *out, const struct format *format,
		       const struct flmem_setting *s)
{
	FLMEM_AUTO_BUF struct flmem_buf text = FLMEM_BUF_INIT;

	if (s->origin == FLMEM_SETTING_OMITTED)
		flmem_buf_printf(&text, "%s is left out: %s", s->name, s->reason);
	else if (s->where)
		flmem_buf_printf(
			&text,
			"not an environment variable, set it in the job: %s=%s (%s): %s [%s]",
			s->name, s->value, s->where, s->reason, s->source);
	else if (s->origin == FLMEM_SETTING_USER)
		flmem_buf_puts(&text, "your value is kept");
	else
		flmem_buf_printf(&text, "%s%s [%s]",
				 s->origin == FLMEM_SETTING_JOINED ? "appended to your list: " : "",
				 s->reason, s->source);
	if (s->note && s->origin == FLMEM_SETTING_ROLE)
		flmem_buf_printf(&text, "; your value is replaced: %s", s->note);
	else if (s->note)
		flmem_buf_printf(&text, "; but %s", s->note);
	out->failed |= text.failed;
	put_comment(out, format, text.data);
}

static const char *put_assignment(struct flmem_buf *out, const struct format *format,
				  const struct flmem_setting *s)
{
	FLMEM_AUTO_BUF struct flmem_buf pair = FLMEM_BUF_INIT;
	const char *problem;

	flmem_buf_puts(out, format->before);
	if (format->quotes_pair) {
		flmem_buf_printf(&pair, "%s=%s", s->name, s->value);
		out->failed |= pair.failed;
		problem = format->quote(out, pair.data);
	} else {
		flmem_buf_puts(out, s->name);
		flmem_buf_puts(out, format->between);
		problem = format->quote(out, s->value);
	}
	flmem_buf_puts(out, format->after);
	return problem;
}

static int put_setting(struct flmem_buf *out, const struct format *format,
		       const struct flmem_setting *s, bool with_reason, struct flmem_error *err)
{
	const char *problem;

	if (with_reason)
		put_reason(out, format, s);
	if (s->where || s->origin == FLMEM_SETTING_OMITTED)
		return 0;
	problem = put_assignment(out, format, s);
	if (!problem)
		return 0;
	return flmem_error_set(err, FLMEM_EUNSUPPORTED, 0,
			       "the value of %s cannot be written as %s, which cannot hold %s; "
			       "unset it, or use another format",
			       s->name, format->name, problem);
}

static bool has_variables(const struct flmem_settings *settings)
{
	for (size_t i = 0; i < settings->count; i++)
		if (!settings->rows[i].where && settings->rows[i].value)
			return true;
	return false;
}

static void put_names(struct flmem_buf *out, const struct format *format,
		      const struct flmem_settings *settings)
{
	flmem_buf_puts(out, format->tail);
	for (size_t i = 0; i < settings->count; i++)
		if (!settings->rows[i].where && settings->rows[i].value)
			flmem_buf_printf(out, "%s%s\n", format->name_before,
					 settings->rows[i].name);
}

int flmem_settings_print(const struct flmem_settings *settings, enum flmem_settings_format which,
			 bool with_reasons, char **ret_text, struct flmem_error *err)
{
	FLMEM_AUTO_BUF struct flmem_buf out = FLMEM_BUF_INIT;
	const struct format *format = &formats[which];
	char *text;
	int rc = 0;

	if (has_variables(settings))
		flmem_buf_puts(&out, format->head);
	for (size_t i = 0; i < settings->count && !rc; i++)
		rc = put_setting(&out, format, &settings->rows[i], with_reasons, err);
	if (rc)
		return rc;
	if (format->tail && has_variables(settings))
		put_names(&out, format, settings);
	text = flmem_buf_take(&out);
	if (!text)
		return flmem_error_nomem(err, "cannot print the settings");
	*ret_text = text;
	return 0;
}
