#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# flmem trim --cuda with a stand-in for PyTorch: which device the cache is emptied on, and when it is left alone.

load helpers
load python

# Starts a Python with a module `torch` in place of the real one, whose devices 1 and 2 are in use;
# it prints the device of each call, the current one of the calling thread.
start_torch_user() {
	start_victim /usr/bin/python3 -uc '
import sys, threading, time, types
local, cache = threading.local(), {0: 0, 1: 3000, 2: 50}
def current():
    return getattr(local, "device", 0)
def using(what, answer=None):
    if not cache[current()]:
        print("context made on device", current(), "by", what, flush=True)
    return answer
class Stream:
    def __init__(self, device, capturing=False):
        self.device, self.capturing = device, capturing
class entered:
    def __init__(self, stream):
        self.stream = stream
    def __enter__(self):
        self.before = current()
        local.device, local.stream = self.stream.device, self.stream
    def __exit__(self, *unused):
        local.device, local.stream = self.before, None
def capturing():
    stream = getattr(local, "stream", None)
    return using("asking", stream.capturing if stream else False)
def empty():
    using("emptying")
    cache[1] = 1000
sys.modules["torch"] = torch = types.ModuleType("torch")
torch._C = types.SimpleNamespace(_host_emptyCache=lambda: using("pinned"))
torch.cuda = types.SimpleNamespace(
    is_initialized=lambda: True, device_count=lambda: 3, memory_reserved=lambda i: cache[i],
    set_device=lambda i: setattr(local, "device", i) or using("setting"), Stream=Stream,
    stream=entered, is_current_stream_capturing=capturing, empty_cache=empty)
streams = [Stream(2), Stream(1)]
'"$1"'
print("ready", flush=True)
time.sleep(1000)'
}

@test "the CUDA cache is emptied without a context on a device that is not in use" {
	start_torch_user
	flmem trim --pid "$VICTIM" --cuda --json
	assert_status 0
	[ "$(json 'r["steps"][1]["detail"]')" = "2000 bytes of device memory" ]
	assert_victim_unharmed
	assert_silent
}

# There are many objects, so that other threads run while they are searched. The generator ends
# after the search has begun: before that it sleeps.
@test "the search for capturing streams leaves tuples alone that are about to be filled" {
	start_torch_user '
kept = [[i] for i in range(300000)]
def two():
    time.sleep(0.001)
    yield 1
    yield 2
def fill():
    while True:
        assert tuple(two()) == (1, 2)
threading.Thread(target=fill, daemon=True).start()
threading.excepthook = lambda failed: print(failed.exc_type.__name__, flush=True)'
	flmem trim --pid "$VICTIM" --cuda --json
	assert_status 0
	[ "$(json 'r["steps"][1]["detail"]')" = "2000 bytes of device memory" ]
	assert_victim_unharmed
	assert_silent
}

@test "the CUDA cache is left alone while any stream captures, and where there is none" {
	start_torch_user 'streams.append(Stream(1, True))'
	flmem trim --pid "$VICTIM" --cuda --json
	assert_status 0
	[ "$(json 'r["steps"][1]["detail"]')" = "a CUDA graph is being captured" ]
	assert_silent
	start_torch_user 'cache.update({1: 0, 2: 0})'
	flmem trim --pid "$VICTIM" --cuda --json
	assert_status 0
	[ "$(json 'r["steps"][1]["outcome"]')" = skipped ]
	[ "$(json 'r["steps"][1]["detail"]')" = "PyTorch holds no device memory" ]
	assert_silent
}
