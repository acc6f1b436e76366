/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_BASE_REDACT_H
#define FLMEM_BASE_REDACT_H

/*
 * Removes secrets from command lines and environments before they are printed or stored. Federated
 * jobs have tokens on their command lines and in their environments; a reader of a report must not
 * be able to join as that site. In doubt a rule hides too much.
 */

#include <stddef.h>

#include "base/text/buf.h"

/* Printed instead of a secret. */
#define FLMEM_REDACTED "<redacted>"

/* Appends the value of a variable, or only FLMEM_REDACTED when its name is that of a secret. */
void flmem_redact_variable(const char *name, const char *value, struct flmem_buf *out);

/* Appends a command line, its words joined by spaces. */
void flmem_redact_command(const char *const *words, size_t count, struct flmem_buf *out);

#endif
