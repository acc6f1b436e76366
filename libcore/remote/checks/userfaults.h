/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_REMOTE_CHECKS_USERFAULTS_H
#define FLMEM_REMOTE_CHECKS_USERFAULTS_H

/*
 * Detects programs that handle page faults in their memory themselves (userfaultfd). A thread that
 * drops pages then waits until another one has read a notice of it (UFFD_FEATURE_EVENT_REMOVE), as
 * does one that touches a missing page. If the borrowed thread is the one that reads, or if that
 * one needs the heap, both wait without limit, with the heap locked.
 */

#include <flmem/error.h>

struct flmem_process;

/*
 * FLMEM_EUNSAFE if the process has a userfaultfd open. One whose faults another process handles
 * (live migration) has none.
 */
int flmem_userfaults_check(const struct flmem_process *process, struct flmem_error *err);

#endif
