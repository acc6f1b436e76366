# SPDX-License-Identifier: Apache-2.0
"""
Runs Python programs of the tests in forks of one process that has imported what they share, as an interpreter takes
20 to 150 ms of processor time to start and import it. Its client, tests/harness/python.c, starts an interpreter where
there is no server, so that a test means the same with and without.

usage: python_server.py SOCKET

A request: the client's descriptors 0, 1, 2 and its working directory as SCM_RIGHTS, beside a header of two 32-bit
numbers (bytes, arguments), then the arguments and the environment, each ended by NUL. The answer: the exit status.
"""
import array
import atexit
import gc
import io
import os
import runpy
import selectors
import socket
import struct
import sys
import threading
import traceback

TESTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
HEADER = struct.Struct("=II")
BYTES_MAX = 4 << 20
SHARED = ("ast", "collections", "ctypes", "hashlib", "json", "re", "signal", "socket", "subprocess", "tempfile", "time",
          "harness.proc")
LARGE = ("jsonschema", "numpy")  # a machine may lack these modules


def preload():
    sys.path.insert(0, TESTS)
    os.environ["OPENBLAS_NUM_THREADS"] = "1"  # threads do not survive a fork
    for name in SHARED:
        __import__(name)
    for name in LARGE:
        try:
            __import__(name)
        except ImportError:
            pass
    sys.path.pop(0)


def receive(connection):
    """Returns (descriptors, arguments, environment) of a request."""
    descriptors = array.array("i")
    header, ancillary, _, _ = connection.recvmsg(HEADER.size, socket.CMSG_SPACE(4 * descriptors.itemsize))
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            descriptors.frombytes(data)
    size, count = HEADER.unpack(header)
    if size > BYTES_MAX or len(descriptors) != 4:
        raise ValueError("not a request")
    text = bytearray()
    while len(text) < size:
        more = connection.recv(size - len(text))
        if not more:
            raise EOFError
        text += more
    words = [os.fsdecode(word) for word in bytes(text).split(b"\0")[:-1]]
    return descriptors, words[:count], dict(word.split("=", 1) for word in words[count:])


def become(descriptors, environment):
    """Takes the client's place, as far as a program can see: its files, directory and
    environment."""
    for number in range(3):
        os.dup2(descriptors[number], number)
    os.fchdir(descriptors[3])
    for descriptor in descriptors:
        os.close(descriptor)
    os.environ.clear()
    os.environ.update(environment)
    sys.stdin = io.open(0, closefd=False)
    sys.stdout = io.open(1, "w", closefd=False)
    sys.stderr = io.TextIOWrapper(io.open(2, "wb", buffering=0, closefd=False), errors="backslashreplace",
                                  write_through=True)
    sys.path[:0] = [path for path in environment.get("PYTHONPATH", "").split(":") if path]


def run(words):
    """Runs `python3 -B WORDS`, in the forms that the tests use: -c TEXT, - and FILE."""
    del sys.modules["__main__"]
    while words[0] in ("-B", "-u"):
        words.pop(0)
    text = words.pop(1) if words[0] == "-c" else None
    sys.argv = words
    if words[0] in ("-c", "-"):
        text = text if words[0] == "-c" else sys.stdin.read()
        main = type(sys)("__main__")
        sys.modules["__main__"] = main
        sys.path.insert(0, "")
        exec(compile(text, "<string>" if words[0] == "-c" else "<stdin>", "exec"), main.__dict__)  # pylint: disable=exec-used
    else:
        sys.path.insert(0, os.path.dirname(os.path.abspath(words[0])))
        runpy.run_path(words[0], run_name="__main__")


def run_to_status(words):
    status = 0
    try:
        run(words)
    except SystemExit as end:
        if isinstance(end.code, int):
            status = end.code & 255
        elif end.code is not None:
            print(end.code, file=sys.stderr)
            status = 1
    except BaseException:  # pylint: disable=broad-except
        traceback.print_exc()
        status = 1
    threading._shutdown()  # pylint: disable=protected-access
    atexit._run_exitfuncs()  # pylint: disable=protected-access
    # this closes the files that the program has left open, and writes their buffers
    sys.modules.pop("__main__", None)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            status = status or 120  # the status of a failing interpreter
    return status


def serve(connection):
    """Answers in a child process, which becomes the program. The program may execute another
    one."""
    descriptors, words, environment = receive(connection)
    connection.close()
    become(descriptors, environment)
    return run_to_status(words)


class Server:
    def __init__(self, path):
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.listener.bind(path)
        self.listener.listen(64)
        self.events = selectors.DefaultSelector()
        self.events.register(self.listener, selectors.EVENT_READ)

    def start(self):
        connection, _ = self.listener.accept()
        child = os.fork()
        if child == 0:
            status = 1
            try:
                self.listener.close()
                self.events.close()
                status = serve(connection)
            except BaseException:  # pylint: disable=broad-except
                traceback.print_exc()
            os._exit(status)
        self.events.register(os.pidfd_open(child), selectors.EVENT_READ, (child, connection))

    def end(self, key):
        child, connection = key.data
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        self.events.unregister(key.fd)
        os.close(key.fd)
        try:
            # in the form of a shell
            connection.sendall(struct.pack("=i", status if status >= 0 else 128 - status))
        except OSError:
            pass  # the client has ended
        connection.close()

    def run(self):
        while True:
            for key, _ in self.events.select():
                if key.data:
                    self.end(key)
                else:
                    self.start()


def main():
    preload()
    server = Server(sys.argv[1])
    gc.collect()
    gc.freeze()
    print("ready", flush=True)
    server.run()


if __name__ == "__main__":
    main()
