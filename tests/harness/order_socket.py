# SPDX-License-Identifier: Apache-2.0
"""
The socket of `flmem start --profile-socket`, met by others than flmem, and flmem without rights:
"name PID"; "speak PATH TEXT" prints the answer, or the error; "leave PATH COUNT TEXT" does not wait for it;
"silent PATH COUNT" holds connections and says nothing; "flood PATH" connects on and on; "squat PATH" listens there
and answers; "hostile KIND" makes a socket of its own and answers as no sampler would; "untraced COMMAND ..." may not trace, "filtered COMMAND ..." has a filter that allows all.
"""
import contextlib
import ctypes
import itertools
import os
import socket
import struct
import sys
import time

ALLOW, FAIL = 0x7fff0000, 0x50000
LOAD, EQUAL, RETURN = 0x20, 0x15, 0x06
# numbers on x86-64 of ptrace, process_vm_readv and writev, kcmp, pidfd_getfd
TRACING = (101, 310, 311, 312, 438)
# the call with which flmem opens /proc/PID/mem
OPENAT, MEMORY = 257, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW
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
    """Makes connections; each waits until the queue has room: all except a few were served then."""
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


def state(phase=1, path=b"/tmp/none.prof", magic=0x3153504d4153464c, version=1):
    """Returns a struct flmem_sampler_state."""
    return struct.pack("=Q4I7Q4096s", magic, version, phase, 0, 0, *[2**64 - 1] * 7, path)


IDLE, SAMPLING = 0, 2
ANSWERS = {  # answers to "state", then to an order
    "deaf": [],
    "silent": [None],
    "garbage": [bytes(range(256)) * 8],
    "long": [b"x" * 100000],
    "short": [state()[:100]],
    "refuses": [b"flmem: refused \x1b[2J\xe2\x80\xae" + b"y" * 400],
    "version": [state(version=99)],
    "phase": [state(phase=77)],
    "cleared": [b"\0" * len(state())],
    "unending": [state(SAMPLING, b"/" + b"z" * 4095)],
    "kernel": [state(SAMPLING, b"/proc/kmsg")],
    "device": [state(SAMPLING, b"/dev/zero")],
    "fifo": [state(SAMPLING, b"FIFO")],
    "garbled": [state(IDLE), b"\xff" * 300],
    "late": [state(IDLE), None],
    "turns": [state(IDLE), b"flmem: refused", state(SAMPLING)],
}


def hostile(kind):
    path = name(os.getpid()).replace(f"/proc/{os.getpid()}/root", "")
    os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(path)
    listener.listen()
    fifo = os.path.join(os.path.dirname(path), "fifo")
    os.path.exists(fifo) or os.mkfifo(fifo)
    answers = [answer and answer.replace(b"FIFO".ljust(4096, b"\0"), fifo.encode().ljust(4096, b"\0"))
               for answer in ANSWERS[kind]]
    held = []
    print("ready", flush=True)
    for count in itertools.count():
        if not answers:
            time.sleep(1000)
        client = listener.accept()[0]
        order = client.recv(8192)
        answer = answers[0] if order == b"state" else answers[min(count, len(answers) - 1)]
        held.append(client)
        if answer is not None:
            # Send descriptors that were not requested, and a second answer, which may have no
            # reader any more.
            with contextlib.suppress(OSError):
                socket.send_fds(client, [answer], [0] * 50)
                client.send(answer[:10])


def instruction(code, value, true=0, false=0):
    return struct.pack("HBBI", code, true, false, value)


def install(rows):
    """Returns the descriptor of a filter, which has a pointer after four bytes of padding."""
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
              "squat": squat, "hostile": hostile}[order](*values)
    if answer:
        print(answer)


main(*sys.argv[1:])
