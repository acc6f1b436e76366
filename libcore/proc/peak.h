/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FLMEM_PROC_PEAK_H
#define FLMEM_PROC_PEAK_H

/*
 * Measures the highest resident memory of a process between two moments, exactly, because the
 * kernel counts it: VmHWM of /proc/PID/status (proc_pid_status(5)), which a write of 5 to
 * /proc/PID/clear_refs sets to the present resident memory (proc_pid_clear_refs(5), since Linux
 * 4.0). The process itself sees the same counter (VmHWM, ru_maxrss of getrusage(2)), so it is reset
 * only on request.
 */

#include <flmem/error.h>
#include <flmem/value.h>

struct flmem_process;

/*
 * Resets the peak to the current resident memory. The kernel takes the lock of the address space;
 * if the process does not release it in time, the attempt is abandoned (base/attempt.h).
 * FLMEM_EPERM for processes of others without CAP_DAC_OVERRIDE, FLMEM_ENOPROC, FLMEM_EUNSAFE,
 * FLMEM_EFAILED.
 */
int flmem_peak_reset(const struct flmem_process *process, struct flmem_error *err);

/* Reads the peak since the last reset; unknown if the process has ended. Takes no lock. */
struct flmem_u64 flmem_peak_read(const struct flmem_process *process);

#endif
