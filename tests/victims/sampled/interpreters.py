# SPDX-License-Identifier: Apache-2.0
"""
Three threads, in each COUNT sub-interpreters one after another, each with a function of its own
that allocates three times.
"""
import sys
import threading

if sys.version_info >= (3, 13):
    import _interpreters
    execute = _interpreters.exec
else:
    import _xxsubinterpreters as _interpreters
    execute = _interpreters.run_string

CODE = "def function_%05d():\n%s    return bytearray(%d)\nfor _ in range(3):\n    function_%05d()\n"


def work(first, count):
    for number in range(first, first + count):
        interpreter = _interpreters.create()
        execute(interpreter, CODE % (number, "\n" * (number % 3), 200000 + 64 * number, number))
        _interpreters.destroy(interpreter)


def main(count):
    threads = [threading.Thread(target=work, args=(count * i, count)) for i in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


main(int(sys.argv[1]))
