/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_OPS_DETECT_DETECT_SETTINGS_H
#define FLMEM_OPS_DETECT_DETECT_SETTINGS_H

#include <flmem/process_report.h>

/* Adds notes to settings of allocators that are not in the process, if its allocators are known. */
void flmem_detect_note_settings(struct flmem_process_report *report);

#endif
