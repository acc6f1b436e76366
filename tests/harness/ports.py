# SPDX-License-Identifier: Apache-2.0
"""TCP ports of the loopback interface for servers that cannot choose one themselves."""
import socket


def free(count=1):
    """Different ones that no program has at this moment; another may take one before it is used."""
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    found = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return found
