/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_START_EMIT_IMAGE_H
#define FLMEM_OPS_START_EMIT_IMAGE_H

#include <flmem/error.h>

/*
 * The name of a container image: [HOST[:PORT]/]PATH[:TAG][@DIGEST], as Docker and Kubernetes accept
 * it (the grammar of distribution/reference). FLMEM_EUSAGE with the part that is invalid.
 */
int flmem_emit_image_check(const char *image, struct flmem_error *err);

#endif
