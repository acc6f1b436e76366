/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_BASE_REDACT_H
#define FLMEM_BASE_REDACT_H

/*
 * Removes secrets from command lines and environments before they are printed or stored. Federated
 * jobs have tokens on their command lines and in their environments; a reader of a report must not
 * be able to join as that site. In doubt a rule hides too much.
 */

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

/* Printed instead of a secret. */
#define FLMEM_REDACTED "<redacted>"

/* True when a variable, option or key of this name holds a secret ("HF_TOKEN", "--api-key"). */
bool flmem_redact_is_secret_name(const char *name, size_t length);

/* Appends one word or value without its secrets: URLs with a user, NAME=secret, known tokens. */
void flmem_redact_text(const char *text, struct flmem_buf *out);

/* Appends the value of a variable, or only FLMEM_REDACTED when its name is that of a secret. */
void flmem_redact_variable(const char *name, const char *value, struct flmem_buf *out);

/* Appends a command line, its words joined by spaces. */
void flmem_redact_command(const char *const *words, size_t count, struct flmem_buf *out);

#endif
