# SPDX-License-Identifier: Apache-2.0
"""
A web server on the loopback interface that serves the current directory in ranges, and lies on
request: the first component of a path names what it does.
"""
import http.server
import os
import re
import ssl
import struct
import threading
import urllib.parse


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # headers and bodies are two writes

    def do_GET(self):
        path = urllib.parse.urlsplit(self.path).path
        kind, _, name = path[1:].partition("/")
        with self.server.lock:
            self.server.requests.append((kind, self.headers.get("Range"), dict(self.headers)))
            count = self.server.counts[kind] = self.server.counts.get(kind, 0) + 1
        act = getattr(self, "act_" + kind.replace("-", "_"), None)
        if act:
            act(name, count)
        else:
            self.answer(404)

    def answer(self, status, headers=(), body=b"", announced=None):
        self.send_response(status)
        for header in headers:
            self.send_header(*header)
        self.send_header("Content-Length", str(len(body) if announced is None else announced))
        self.end_headers()
        self.wfile.write(body)

    def asked(self, name):
        """Returns the size of the file, and the requested range."""
        size = os.path.getsize(name)
        begin, end = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers["Range"]).groups()
        return size, int(begin), min(int(end) + 1, size)

    def part(self, name, etag='"1"', shift=0, total=None, more=(), cut=0, extra=0, announced=None):
        size, begin, end = self.asked(name)
        if begin >= size:
            self.answer(416, [("Content-Range", f"bytes */{size}")])
            return
        with open(name, "rb") as file:
            file.seek(begin)
            body = file.read(end - begin)
        about = f"bytes {begin + shift}-{end - 1 + shift}/{size if total is None else total}"
        headers = [("Content-Range", about), *more]
        if etag:
            headers.append(("ETag", etag))
        length = len(body) if announced is None else announced(len(body))
        self.answer(206, headers, body[:len(body) - cut] + b"x" * extra, length)

    def lies(self, name):
        """True if the request is to get a lie: the header, before lies_from, is served
        correctly."""
        return self.server.lies_from <= self.asked(name)[1] < self.server.lies_to

    def act_plain(self, name, count):
        self.part(name)

    def act_unmarked(self, name, count):
        self.part(name, etag=None)

    def act_whole(self, name, count):
        with open(name, "rb") as file:
            self.answer(200, [("ETag", '"1"')], file.read())

    def act_shifted(self, name, count):
        self.part(name, shift=-8 if self.lies(name) else 0)

    def act_unsized(self, name, count):
        self.part(name, total="*")

    def act_huge(self, name, count):
        self.part(name, total=1 << 63)

    def act_unranged(self, name, count):
        self.answer(206, [("ETag", '"1"')], b"x")

    def act_short(self, name, count):
        """Announces all bytes, sends fewer and closes, each time."""
        self.part(name, cut=1 if self.lies(name) else 0)
        self.close_connection = self.lies(name)

    def act_less(self, name, count):
        lies = self.lies(name)
        self.part(name, cut=lies, announced=lambda length: length - lies)

    def act_broken(self, name, count):
        """Breaks off every second answer in the middle."""
        size, begin, end = self.asked(name)
        self.part(name, cut=(end - begin) // 2 if count % 2 and self.lies(name) else 0)
        self.close_connection = bool(count % 2)

    def act_chunked(self, name, count, extra=b""):
        size, begin, end = self.asked(name)
        with open(name, "rb") as file:
            file.seek(begin)
            body = file.read(end - begin) + extra
        self.send_response(206)
        self.send_header("Content-Range", f"bytes {begin}-{end - 1}/{size}")
        self.send_header("ETag", '"1"')
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for at in range(0, len(body), 5000):
            some = body[at:at + 5000]
            self.wfile.write(b"%x\r\n%s\r\n" % (len(some), some))
        self.wfile.write(b"0\r\n\r\n")

    def act_more(self, name, count):
        self.act_chunked(name, count, b"more" if self.lies(name) else b"")

    def act_unlimited(self, name, count):
        """Sends neither a length nor chunks: the answer ends with the connection."""
        size, begin, end = self.asked(name)
        self.send_response(206)
        self.send_header("Content-Range", f"bytes {begin}-{end - 1}/{size}")
        self.send_header("Connection", "close")
        self.end_headers()
        with open(name, "rb") as file:
            file.seek(begin)
            self.wfile.write(file.read(end - begin))
        self.close_connection = True

    def act_changing(self, name, count):
        self.part(name, etag='"2"' if self.lies(name) else '"1"')

    def act_replaced(self, name, count):
        """Changes the version as `changes` does, but only when the first byte is requested
        again."""
        self.part(name, etag='"2"' if count > 2 and self.headers["Range"] == "bytes=0-0" else '"1"')

    def act_zipped(self, name, count):
        self.part(name, more=[("Content-Encoding", "gzip")])

    def act_headers(self, name, count):
        self.part(name, more=[(f"X-{i}", "x" * 1000) for i in range(80)])

    def act_busy(self, name, count):
        """Reports an overloaded server in every second answer."""
        if count % 2:
            self.answer(503, [("Retry-After", "0")])
        else:
            self.part(name)

    def act_overloaded(self, name, count):
        self.answer(429)

    def act_reset(self, name, count):
        """Resets every second connection."""
        if count % 2:
            self.connection.setsockopt(1, 13, struct.pack("ii", 1, 0))  # SOL_SOCKET, SO_LINGER
            self.close_connection = True
            self.connection.close()
        else:
            self.part(name)

    def act_slow(self, name, count):
        """Sends nothing until the client leaves."""
        if self.lies(name):
            self.connection.recv(1)
            self.close_connection = True
        else:
            self.part(name)

    def act_secret(self, name, count):
        if self.headers.get("X-Key") == "hush" and "secret" in self.path:
            self.part(name)
        else:
            self.answer(403)

    def move(self, target, body=b"<html>moved</html>"):
        """Redirects, with a body for people, as servers send it."""
        self.answer(302, [("Location", target)], body)

    def act_moved(self, name, count):
        self.move(f"/plain/{name}")

    def act_around(self, name, count):
        self.move(f"/around/{name}")

    def act_away(self, name, count):
        self.move(f"{self.server.other}/plain/{name}")

    def act_file(self, name, count):
        self.move(f"file://{os.path.abspath(name)}")

    def act_wordy(self, name, count):
        self.move(f"/plain/{name}", bytes(1 << 20))

    def act_garbled(self, name, count):
        self.move("http://127.0.0.1: 80/x y")

    def act_line(self, name, count):
        """Sends a header without an end."""
        self.send_response(206)
        self.flush_headers()
        try:
            for _ in range(1 << 12):
                self.wfile.write(b"x" * 1024)
        except OSError:
            self.close_connection = True

    def act_nowhere(self, name, count):
        self.answer(302)

    def act_expiring(self, name, count):
        """Redirects to an address that is valid for three requests."""
        self.move(f"/few/{name}?secret={count}")

    def act_few(self, name, count):
        with self.server.lock:
            count = self.server.counts[self.path] = self.server.counts.get(self.path, 0) + 1
        if count <= 3:
            self.part(name)
        else:
            self.answer(403)

    def log_message(self, *words):
        pass


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, certificate=None):
        super().__init__(("127.0.0.1", 0), Handler)
        self.lock = threading.Lock()
        self.requests, self.counts, self.other, self.lies_from, self.lies_to = [], {}, "", 1, 1 << 62
        scheme = "http"
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self.socket = context.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)
            scheme = "https"
        self.base = f"{scheme}://127.0.0.1:{self.server_address[1]}"
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, request, client_address):
        pass  # clients leave in the middle of answers
