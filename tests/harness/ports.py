# SPDX-License-Identifier: Apache-2.0
"""Finds TCP ports of the loopback interface for servers that cannot choose one themselves."""
import socket


def free(count=1):
    """Returns different ports that no program uses at this moment; another program may take one
    before it is used."""
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    found = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return found
