# SPDX-License-Identifier: Apache-2.0
"""
What `trim --gc` takes besides the collection itself, and for how long it holds a thread of the
program, in a busy interpreter with many threads.
"""
import json
import subprocess
import sys
import time

import figures
import stage

COMPETITORS = 4
LIMIT_MS = 500
HELD_LIMIT_MS = 1  # limit for starting a thread; the collection runs in that thread
CYCLES = 20000

# A program that makes cyclic garbage for each line that it reads, while COMPETITORS threads
# compute.
BUSY = """
import gc, sys, threading
gc.disable()
class Cycle:
    pass
def compute():
    while True:
        sum(i * i for i in range(1000))
for _ in range(int(sys.argv[1])):
    threading.Thread(target=compute, daemon=True).start()
print('ready', flush=True)
for line in sys.stdin:
    for _ in range(int(sys.argv[2])):
        one = Cycle()
        one.itself = one
    del one
    print('ready', flush=True)
"""


class Busy:
    """The running program; its main thread waits for input between the lines."""

    def __init__(self):
        self.process = subprocess.Popen([stage.PYTHON, "-uc", BUSY, str(COMPETITORS), str(CYCLES)],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.pid = self.process.pid

    def wait(self):
        if not self.process.stdout.readline().startswith(b"ready"):
            raise stage.Failed("the busy interpreter ended")

    def litter(self):
        self.process.stdin.write(b"\n")
        self.process.stdin.flush()
        self.wait()
        time.sleep(0.1)  # until the main thread has had the lock once more and waits again

    def __enter__(self):
        self.wait()
        return self

    def __exit__(self, *unused):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


def collect(bench):
    """Trims one process again and again."""
    stage.progress("gc")
    besides, inside, held = [], [], []
    with Busy() as busy:
        for _ in range(bench.count(20)):
            busy.litter()
            timing = bench.tools.time(bench.flmem, "trim", "--gc", "--pid", str(busy.pid), "--json",
                                      "--no-predict", keep=True)
            steps = json.loads(timing.output)["results"][0]["steps"]
            if int(steps[0]["detail"].split()[0]) < CYCLES:
                raise stage.Failed(f"the collection found {steps[0]['detail']}")
            inside.append(steps[0]["took_us"] / 1000)
            held.append(steps[0]["stopped_us"] / 1000)
            besides.append((timing.wall_us - sum(step["took_us"] for step in steps)) / 1000)
    yield figures.of_values(f"gc.collect itself, {COMPETITORS} threads compute", inside)
    yield figures.of_values("flmem trim --gc without the collection", besides, limit=LIMIT_MS)
    yield figures.of_values("borrowed thread held for the collection", held, limit=HELD_LIMIT_MS)


if __name__ == "__main__":
    sys.exit("part of tests/bench/run")
