/* SPDX-License-Identifier: Apache-2.0 */
#include <flmem/settings.h>

#include <stdio.h>
#include <string.h>

#include <flmem/parse.h>

#include "base/cleanup.h"
#include "base/text/buf.h"
#include "base/text/quote.h"
#include "frameworks/framework.h"
#include "frameworks/setting_rows.h"

/*
 * Syntaxes for all programs; those that only a framework's programs read are in the framework's
 * folder.
 */
static const struct flmem_settings_syntax syntaxes[] = {
	[FLMEM_SETTINGS_FORMAT_SH] = {.format = FLMEM_SETTINGS_FORMAT_SH,
				      .head = "",
				      .before = "export ",
				      .between = "=",
				      .after = "\n",
				      .quote = flmem_quote_sh,
				      .comment_before = "# ",
				      .comment_after = "\n"},
	[FLMEM_SETTINGS_FORMAT_FISH] = {.format = FLMEM_SETTINGS_FORMAT_FISH,
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
	[FLMEM_SETTINGS_FORMAT_CSH] = {.format = FLMEM_SETTINGS_FORMAT_CSH,
				       .head = "",
				       .before = "setenv ",
				       .between = " ",
				       .after = ";\n",
				       .quote = flmem_quote_csh,
				       .comment_before = ": ",
				       .comment_after = ";\n",
				       .comment_quote = flmem_quote_csh},
	[FLMEM_SETTINGS_FORMAT_DOTENV] = {.format = FLMEM_SETTINGS_FORMAT_DOTENV,
					  .head = "",
					  .before = "",
					  .between = "=",
					  .after = "\n",
					  .quote = flmem_quote_dotenv,
					  .comment_before = "# ",
					  .comment_after = "\n"},
	[FLMEM_SETTINGS_FORMAT_SYSTEMD] = {.format = FLMEM_SETTINGS_FORMAT_SYSTEMD,
					   .head = "",
					   .before = "Environment=",
					   .between = "=",
					   .after = "\n",
					   .quote = flmem_quote_systemd,
					   .quotes_pair = true,
					   .comment_before = "# ",
					   .comment_after = "\n"},
	[FLMEM_SETTINGS_FORMAT_DOCKER] = {.format = FLMEM_SETTINGS_FORMAT_DOCKER,
					  .head = "",
					  .before = "",
					  .between = "=",
					  .after = "\n",
					  .quote = flmem_quote_docker,
					  .elsewhere = true,
					  .comment_before = "# ",
					  .comment_after = "\n"},
	[FLMEM_SETTINGS_FORMAT_K8S] = {.format = FLMEM_SETTINGS_FORMAT_K8S,
				       .head = "env:\n",
				       .before = "  - name: ",
				       .between = "\n    value: ",
				       .after = "\n",
				       .quote = flmem_quote_k8s,
				       .elsewhere = true,
				       .comment_before = "  # ",
				       .comment_after = "\n"},
};

static const char *const print_names[] = {
#define NAME_OF(name, text, meaning) [FLMEM_SETTINGS_FORMAT_##name] = (text),
	FLMEM_SETTINGS_FORMATS(NAME_OF)
#undef NAME_OF
};

static const struct flmem_settings_syntax *syntax_of(enum flmem_settings_format format)
{
	for (const struct flmem_framework_ops *const *f = flmem_frameworks; *f; f++)
		for (const struct flmem_settings_syntax *own = (*f)->setting_syntaxes;
		     own && own->before; own++)
			if (own->format == format)
				return own;
	return &syntaxes[format];
}

int flmem_settings_format_find(const char *name, enum flmem_settings_format *ret_format,
			       struct flmem_error *err)
{
	FLMEM_AUTO_BUF struct flmem_buf list = FLMEM_BUF_INIT;

	for (size_t i = 0; i < FLMEM_ARRAY_SIZE(print_names); i++) {
		if (strcmp(print_names[i], name) == 0) {
			*ret_format = (enum flmem_settings_format)i;
			return 0;
		}
		flmem_buf_printf(&list, "%s%s", i ? ", " : "", print_names[i]);
	}
	return flmem_parse_invalid_choice(name, NULL, list.data, err);
}

bool flmem_settings_format_elsewhere(enum flmem_settings_format format)
{
	return syntax_of(format)->elsewhere;
}

static void put_comment(struct flmem_buf *out, const struct flmem_settings_syntax *syntax,
			const char *text)
{
	flmem_buf_puts(out, syntax->comment_before);
	if (syntax->comment_quote)
		syntax->comment_quote(out, text);
	else
		flmem_buf_puts(out, text);
	flmem_buf_puts(out, syntax->comment_after);
}

static void put_reason(struct flmem_buf *out, const struct flmem_settings_syntax *syntax,
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
	put_comment(out, syntax, text.data);
}

static const char *put_assignment(struct flmem_buf *out, const struct flmem_settings_syntax *syntax,
				  const struct flmem_setting *s)
{
	FLMEM_AUTO_BUF struct flmem_buf pair = FLMEM_BUF_INIT;
	const char *problem;

	flmem_buf_puts(out, syntax->before);
	if (syntax->quotes_pair) {
		flmem_buf_printf(&pair, "%s=%s", s->name, s->value);
		out->failed |= pair.failed;
		problem = syntax->quote(out, pair.data);
	} else {
		flmem_buf_puts(out, s->name);
		flmem_buf_puts(out, syntax->between);
		problem = syntax->quote(out, s->value);
	}
	flmem_buf_puts(out, syntax->after);
	return problem;
}

static int put_setting(struct flmem_buf *out, const struct flmem_settings_syntax *syntax,
		       const struct flmem_setting *s, bool with_reason, struct flmem_error *err)
{
	const char *problem;

	if (with_reason)
		put_reason(out, syntax, s);
	if (s->where || s->origin == FLMEM_SETTING_OMITTED)
		return 0;
	problem = put_assignment(out, syntax, s);
	if (!problem)
		return 0;
	return flmem_error_set(err, FLMEM_EUNSUPPORTED, 0,
			       "the value of %s cannot be written as %s, which cannot hold %s; "
			       "unset it, or use another format",
			       s->name, print_names[syntax->format], problem);
}

static bool has_variables(const struct flmem_settings *settings)
{
	for (size_t i = 0; i < settings->count; i++)
		if (!settings->rows[i].where && settings->rows[i].value)
			return true;
	return false;
}

static void put_names(struct flmem_buf *out, const struct flmem_settings_syntax *syntax,
		      const struct flmem_settings *settings)
{
	flmem_buf_puts(out, syntax->tail);
	for (size_t i = 0; i < settings->count; i++)
		if (!settings->rows[i].where && settings->rows[i].value)
			flmem_buf_printf(out, "%s%s\n", syntax->name_before,
					 settings->rows[i].name);
}

int flmem_settings_print(const struct flmem_settings *settings, enum flmem_settings_format which,
			 bool with_reasons, char **ret_text, struct flmem_error *err)
{
	FLMEM_AUTO_BUF struct flmem_buf out = FLMEM_BUF_INIT;
	const struct flmem_settings_syntax *syntax = syntax_of(which);
	char *text;
	int rc = 0;

	if (has_variables(settings))
		flmem_buf_puts(&out, syntax->head);
	for (size_t i = 0; i < settings->count && !rc; i++)
		rc = put_setting(&out, syntax, &settings->rows[i], with_reasons, err);
	if (rc)
		return rc;
	if (syntax->tail && has_variables(settings))
		put_names(&out, syntax, settings);
	text = flmem_buf_take(&out);
	if (!text)
		return flmem_error_nomem(err, "cannot print the settings");
	*ret_text = text;
	return 0;
}
