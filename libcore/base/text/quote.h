/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_BASE_QUOTE_H
#define FLMEM_BASE_QUOTE_H

/*
 * Quotes a value so that the reader of a format gets the same bytes. Each function appends the
 * quoted text and returns NULL. If the format cannot represent the value, it appends nothing and
 * returns a static text that names the cause.
 */

#include "base/text/buf.h"

typedef const char *flmem_quote_fn(struct flmem_buf *out, const char *value);

flmem_quote_fn flmem_quote_sh;	   /* dash, bash, zsh, ksh, busybox sh */
flmem_quote_fn flmem_quote_fish;   /* fish */
flmem_quote_fn flmem_quote_csh;	   /* csh, tcsh; interactive or not */
flmem_quote_fn flmem_quote_dotenv; /* python-dotenv and docker compose alike */
flmem_quote_fn flmem_quote_docker; /* right-hand side in a `docker run --env-file` file */
flmem_quote_fn flmem_quote_yaml;   /* double-quoted YAML scalar */
/* double-quoted YAML scalar in which $ is doubled against $(NAME) */
flmem_quote_fn flmem_quote_k8s;
flmem_quote_fn flmem_quote_sh_in_yaml;	    /* a word of sh on a line of a literal block of YAML */
flmem_quote_fn flmem_quote_systemd;	    /* one word of a unit file's list */
flmem_quote_fn flmem_quote_systemd_command; /* one word of ExecStart=, where $ is special, too */

#endif
