# SPDX-License-Identifier: Apache-2.0
"""
What a recorder with psutil costs: recorder.py INTERVAL_S TICKS FILE PID... writes a line for each
process at each tick, and prints its processor time per tick in ms.
"""
import resource
import sys
import time

import psutil


def spent_ms():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return (usage.ru_utime + usage.ru_stime) * 1000


def main():
    interval, ticks = float(sys.argv[1]), int(sys.argv[2])
    processes = [psutil.Process(int(pid)) for pid in sys.argv[4:]]
    with open(sys.argv[3], "w", encoding="ascii") as file:
        before = spent_ms()
        due = time.monotonic()
        for _ in range(ticks):
            now = time.time()
            file.writelines(f"{now:.3f},{process.pid},{process.memory_info().rss}\n"
                            for process in processes)
            due += interval
            time.sleep(max(0, due - time.monotonic()))
        print((spent_ms() - before) / ticks)


main()
