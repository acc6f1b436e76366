# SPDX-License-Identifier: Apache-2.0
"""Opens a page in a real Chromium and prints the result as JSON: browse.py CHROMIUM FILE

{"dom": the resulting page, "console": lines of the console, "asked": requests to any host}

A server of this script sends the page, and all host names resolve to it, so it sees every other
request of the page. Only the names of the browser's vendor, which the browser itself requests, do
not resolve. The browser has a new profile.
"""
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading


class Server(threading.Thread):
    def __init__(self, page):
        super().__init__(daemon=True)
        self.page = page
        self.asked = []
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]

    def run(self):
        while True:
            connection, _ = self.socket.accept()
            threading.Thread(target=self.answer, args=(connection,), daemon=True).start()

    def answer(self, connection):
        with connection:
            connection.settimeout(60)
            try:
                head = connection.recv(65536)
            except OSError:
                return
            if not head:
                return  # opened in advance and never used
            # The first message of TLS has no line to show.
            tls = head.startswith(b"\x16")
            self.asked.append("TLS" if tls else head.split(b"\r\n")[0].decode("latin-1"))
            try:
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n"
                                   b"Connection: close\r\n"
                                   b"Content-Length: %d\r\n\r\n" % len(self.page) + self.page)
            except OSError:
                return  # the peer sent the first message of TLS


def serve(path):
    with open(path, "rb") as file:
        server = Server(file.read())
    server.start()
    return server


def command(chromium, profile, server):
    """Returns the words that start Chromium with no network but the server."""
    return [chromium, "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run",
            "--disable-background-networking", "--disable-component-update", "--disable-sync",
            "--disable-default-apps", "--disable-extensions", "--disable-dev-shm-usage",
            "--no-proxy-server", "--enable-logging=stderr", f"--user-data-dir={profile}",
            "--host-resolver-rules=MAP *.google.com ~NOTFOUND, MAP *.googleapis.com ~NOTFOUND, "
            f"MAP * 127.0.0.1:{server.port}"]


def environment(profile):
    """Returns an environment in which a killed Chromium leaves its files in the profile."""
    return dict(os.environ, TMPDIR=profile)


def browse(chromium, path):
    server = serve(path)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        run = subprocess.run(
            [*command(chromium, profile, server), "--dump-dom",
             f"http://page.example:{server.port}/report"],
            capture_output=True, text=True, timeout=240, check=True, env=environment(profile))
    lines = [line for line in run.stderr.splitlines() if "CONSOLE" in line]
    return {"dom": run.stdout, "console": lines, "asked": server.asked}


if __name__ == "__main__":
    print(json.dumps(browse(sys.argv[1], sys.argv[2])))
