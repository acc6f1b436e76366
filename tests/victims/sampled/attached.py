# SPDX-License-Identifier: Apache-2.0
"""
A program that is attached to: eight threads allocate and compare checksums, and one keeps a
bytearray of 4 MiB per round. Lines on standard input are orders: "round", "fork", "import NAME",
"open PATH" (which calls its function), "load PATH", "lazy PATH" (its calls are bound when they are made first), "opens FOLDER" (all libraries of it; the
processor time in ms), "replace PATH PATH" (whether the second came to the place of the first),
"keep PATH" and "drop" (a block of an allocator that only that
library uses), "registered" (what a library registered that was loaded, asking the linker nothing), "call PATH FUNCTION [TEXT]" (without the interpreter's lock), "forks" (many mappings, and forks from then on whose
children call the dynamic linker), "clear NAME" (the first word of a variable), "unseal" (what the linker made read-only becomes writable), "confine" (a thread
filters itself by way of ctypes: rt_sigprocmask ends the process), "check";
each is answered by a line. ATTACHED_PAUSE_S is how long a thread waits before it allocates again.
"""
import _ctypes
import ctypes
import mmap
import os
import signal
import struct
import sys
import threading
import time
import warnings
import zlib

LEAK = 4 << 20
kept = []
faults = []
kept_block = []
counts = [0] * 8
MAPPINGS = 8000
FORKERS = 1
HUNG_S = 20
PAUSE_S = float(os.environ.get("ATTACHED_PAUSE_S", "0.001"))
libc = ctypes.CDLL(None)
get_variable = libc.getenv
get_variable.restype = ctypes.c_char_p
end_walk = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p)(
    lambda info, size, data: 1)


def work(number):
    while True:
        block = os.urandom(32) * (200 * (number + 1))
        before = zlib.crc32(block)
        copies = [bytearray(block) for _ in range(8)]
        if zlib.crc32(block) != before or any(copy != block for copy in copies):
            faults.append(f"checksums of thread {number}")
        counts[number] += 1
        time.sleep(PAUSE_S)


def keep_update():
    kept.append(bytearray(LEAK))


def fork():
    child = os.fork()
    if child == 0:
        keep_update()
        time.sleep(1000)
        os._exit(0)
    return child


def fork_often(number):
    while True:
        child = os.fork()
        if child == 0:
            signal.alarm(HUNG_S)
            libc.dl_iterate_phdr(end_walk, None)
            os._exit(0)
        status = os.waitpid(child, 0)[1]
        if status:
            faults.append(f"a child ended with wait status {status:#x}")
        counts[number] += 1


def start_forks():
    """Makes so many mappings that reading them takes long, so that forks happen meanwhile."""
    page = mmap.PAGESIZE
    kept.append(mmap.mmap(-1, MAPPINGS * page))
    first = ctypes.addressof(ctypes.c_char.from_buffer(kept[-1]))
    for at in range(0, MAPPINGS, 2):
        if libc.mprotect(ctypes.c_void_p(first + at * page), ctypes.c_size_t(page), mmap.PROT_READ):
            faults.append(f"mprotect() at {at}")
    warnings.simplefilter("ignore")
    for _ in range(FORKERS):
        counts.append(0)
        threading.Thread(target=fork_often, args=(len(counts) - 1,), daemon=True).start()


def open_lazily(path, more=0):
    libc.dlopen.restype = ctypes.c_void_p
    libc.dlopen(path.encode(), os.RTLD_LAZY | more)


def keep_block(path):
    open_lazily(path, os.RTLD_DEEPBIND)
    library = ctypes.CDLL(path, mode=os.RTLD_DEEPBIND)
    library.keep_block.restype = ctypes.c_void_p
    library.drop_block.argtypes = [ctypes.c_void_p]
    library.drop_block.restype = None
    kept_block[:] = library.drop_block, library.keep_block()
    return "kept"


def open_all(folder):
    start = time.thread_time_ns()
    for name in sorted(os.listdir(folder)):
        libc.dlsym(ctypes.c_void_p(ctypes.CDLL(os.path.join(folder, name))._handle), b"malloc")
    return (time.thread_time_ns() - start) // 1000000


def open_place(path):
    """Returns the handle, and the load address: the first word of a link map."""
    handle = _ctypes.dlopen(path, os.RTLD_NOW)
    _ctypes.dlsym(handle, "library_allocate")
    return handle, ctypes.c_uint64.from_address(handle).value


def replace(first, second):
    handle, place = open_place(first)
    _ctypes.dlclose(handle)
    return "same" if open_place(second)[1] == place else "elsewhere"


class Part(ctypes.Structure):
    _fields_ = [("type", ctypes.c_uint32), ("flags", ctypes.c_uint32),
                *((name, ctypes.c_uint64) for name in ("offset", "vaddr", "paddr", "filesz", "memsz", "align"))]


class Object(ctypes.Structure):
    _fields_ = [("base", ctypes.c_uint64), ("name", ctypes.c_char_p), ("parts", ctypes.POINTER(Part)),
                ("count", ctypes.c_uint16)]


def unseal():
    """Makes sealed tables writable, as tools do that put their functions into the tables of
    objects."""
    sealed = []

    @ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(Object), ctypes.c_size_t, ctypes.c_void_p)
    def collect(one, _size, _data):
        for part in one[0].parts[:one[0].count]:
            if part.type == 0x6474e552:  # PT_GNU_RELRO
                sealed.append((one[0].base + part.vaddr, one[0].base + part.vaddr + part.memsz))
        return 0

    libc.dl_iterate_phdr(collect, None)
    for start, end in sealed:
        start, end = start // mmap.PAGESIZE * mmap.PAGESIZE, end // mmap.PAGESIZE * mmap.PAGESIZE
        if end > start and libc.mprotect(ctypes.c_void_p(start), ctypes.c_size_t(end - start),
                                         mmap.PROT_READ | mmap.PROT_WRITE):
            faults.append(f"mprotect() at {start:#x}")
    return len(sealed)


def confine():
    prctl = ctypes.CDLL("libc.so.6").prctl
    numbers = {"x86_64": 14, "aarch64": 135}
    code = struct.pack("HBBIHBBIHBBIHBBI", 0x20, 0, 0, 0, 0x15, 1, 0, numbers[os.uname().machine],
                       0x6, 0, 0, 0x7fff0000, 0x6, 0, 0, 0x80000000)
    program = struct.pack("HP", 4, ctypes.addressof(rows := ctypes.create_string_buffer(code)))
    kept.append(rows)
    started = threading.Event()

    def run():
        if prctl(38, 1, 0, 0, 0) or prctl(22, ctypes.c_ulong(2), program):
            faults.append("it has no filter")
        started.set()
        while True:
            bytearray(100000)
            time.sleep(PAUSE_S)

    threading.Thread(target=run, daemon=True).start()
    started.wait()


def obey(order):
    word, _, rest = order.partition(" ")
    if word == "round":
        keep_update()
    elif word == "fork":
        return fork()
    elif word == "forks":
        start_forks()
    elif word == "import":
        __import__(rest)
    elif word == "open":
        return ctypes.CDLL(rest).open_neighbour()
    elif word == "load":
        ctypes.CDLL(rest)
    elif word == "lazy":
        open_lazily(rest)
    elif word == "opens":
        return open_all(rest)
    elif word == "replace":
        return replace(*rest.split())
    elif word == "keep":
        return keep_block(rest)
    elif word == "drop":
        kept_block[0](kept_block[1])
    elif word == "registered":
        return ctypes.CFUNCTYPE(ctypes.c_int)(int(get_variable(b"SAMPLED_REGISTERED"), 16))()
    elif word == "call":
        path, function, *text = rest.split()
        return getattr(ctypes.CDLL(path), function)(*(one.encode() for one in text))
    elif word == "clear":
        ctypes.c_uint64.in_dll(libc, rest).value = 0
    elif word == "confine":
        confine()
    elif word == "unseal":
        return unseal()
    elif word == "exec":
        os.execv(sys.executable, [sys.executable, "-B", __file__])
    elif word == "check":
        before = list(counts)
        while any(now <= then for now, then in zip(counts, before)):
            time.sleep(0.01)
        return f"{len(faults)} faults: {faults[0]}" if faults else "sound"
    return word


def main():
    for number in range(8):
        threading.Thread(target=work, args=(number,), daemon=True).start()
    print("ready", flush=True)
    for line in sys.stdin:
        print(obey(line.strip()), flush=True)


main()
