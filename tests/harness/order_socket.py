# SPDX-License-Identifier: Apache-2.0
"""
The socket of `flmem start --profile-socket`, met by others than flmem, and flmem without rights:
"name PID"; "speak PATH TEXT" prints the answer, or the error; "leave PATH COUNT TEXT" does not wait for it;
"silent PATH COUNT" holds connections and says nothing; "flood PATH" connects on and on; "squat PATH" listens there
and answers; "untraced COMMAND ..." may not trace, "filtered COMMAND ..." has a filter that allows all.
"""
import ctypes
import itertools
import os
import socket
import struct
import sys
import time

ALLOW, FAIL = 0x7fff0000, 0x50000
LOAD, EQUAL, RETURN = 0x20, 0x15, 0x06
TRACING = (101, 310, 311, 312, 438)  # ptrace, process_vm_readv and writev, kcmp, pidfd_getfd (x86-64)
OPENAT, MEMORY = 257, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW  # as flmem opens /proc/PID/mem
EPERM = 1
FLOOD = 300


def name(pid):
    with open(f"/proc/{pid}/status", encoding="utf-8") as file:
        fields = dict(line.split(":", 1) for line in file)
    user, own = fields["Uid"].split()[1], fields["NSpid"].split()[-1]
    return f"/proc/{pid}/root/tmp/flmem-{user}/sampler-{os.stat(f'/proc/{pid}/ns/pid').st_ino}-{own}"


def connect(path):
    client = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    client.connect(path)
    return client


def speak(path, text):
    try:
        with connect(path) as client:
            client.send(text.encode())
            return client.recv(8192)[:200].decode(errors="replace") or "nothing"
    except OSError as error:
        return type(error).__name__


def leave(path, count, text):
    for _ in range(count):
        with connect(path) as client:
            client.send(text.encode())


def silent(path, count):
    held = [connect(path) for _ in range(count)]
    print("ready", flush=True)
    time.sleep(1000)
    return held


def flood(path):
    """Each waits until the queue has room: all but a few were served when it is ready."""
    for count in itertools.count():
        connect(path).close()
        if count == FLOOD:
            print("ready", flush=True)


def squat(path):
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    if os.path.exists(path):
        os.unlink(path)
    listener.bind(path)
    listener.listen()
    print("ready", flush=True)
    while True:
        client = listener.accept()[0]
        client.recv(8192)
        client.send(b"flmem: ok")
        client.close()


def instruction(code, value, true=0, false=0):
    return struct.pack("HBBI", code, true, false, value)


def install(rows):
    """The descriptor of a filter has a pointer, before which four bytes are padding."""
    code = ctypes.create_string_buffer(b"".join(rows))
    program = struct.pack("HxxxxxxQ", len(rows), ctypes.addressof(code))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, ctypes.create_string_buffer(program)):
        raise OSError(ctypes.get_errno(), "seccomp")


def forbid_tracing():
    rows = [instruction(LOAD, 0)]
    for number in TRACING:
        rows += instruction(EQUAL, number, 0, 1), instruction(RETURN, FAIL | EPERM)
    rows += (instruction(EQUAL, OPENAT, 0, 3), instruction(LOAD, 32),
             instruction(EQUAL, MEMORY, 0, 1), instruction(RETURN, FAIL | EPERM), instruction(RETURN, ALLOW))
    install(rows)


def main(order, *words):
    if order in ("untraced", "filtered"):
        forbid_tracing() if order == "untraced" else install([instruction(RETURN, ALLOW)])
        os.execvp(words[0], words)
    numbers = {"leave": 1, "silent": 1}
    values = [int(word) if numbers.get(order) == i else word for i, word in enumerate(words)]
    answer = {"name": name, "speak": speak, "leave": leave, "silent": silent, "flood": flood,
              "squat": squat}[order](*values)
    if answer:
        print(answer)


main(*sys.argv[1:])
