# SPDX-License-Identifier: Apache-2.0
"""
A server that speaks the protocol of `flmem exchange` (docs/internals/exchange-protocol.md) from
memory, for one round, and lies on request: `lie` is the name of what it does.
"""
import base64
import contextlib
import hashlib
import http.server
import json
import ssl
import struct
import threading
import time
import urllib.parse

from harness import digests

CONTROL = "late\x1b[31m\x07 & reason"


def crc32c(data):
    return struct.pack(">I", digests.crc32c(data))


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def setup(self):
        super().setup()
        self.connection.settimeout(30)

    @property
    def lie(self):
        return self.server.lie

    def answer(self, status, headers=(), body=b"", announced=None):
        self.send_response(status)
        for header in headers:
            self.send_header(*header)
        self.send_header("Content-Length", str(len(body) if announced is None else announced))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def problem(self, status, title="no", detail="because", headers=()):
        body = json.dumps({"type": "about:blank", "title": title, "status": status, "detail": detail}).encode()
        self.answer(status, [("Content-Type", "application/problem+json"), *headers], body)

    def handle_any(self):
        path = urllib.parse.urlsplit(self.path).path
        with self.server.lock:
            self.server.requests.append((self.command, path, dict(self.headers)))
        self.body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.server.token and self.headers.get("Authorization") != f"Bearer {self.server.token}":
            self.problem(401, "unauthorised")
        elif self.lie == "silent":
            self.server.ended.wait(20)
            self.close_connection = True
        elif self.lie == "endless-header":
            self.endless_header()
        elif self.lie == "header-line":
            self.answer(200, [("X-Long", "x" * (101 << 10))])
        elif self.lie == "continues":
            self.continues()
        elif self.lie == "drip":
            self.drip()
        elif self.lie == "redirect":
            self.answer(307, [("Location", "http://127.0.0.1:9/elsewhere")])
        elif self.lie == "garbage":
            self.wfile.write(b"\0\1\2 not HTTP\r\n\r\n")
            self.close_connection = True
        elif path == "/v1/status":
            self.status()
        elif path == "/v1/uploads" or path.startswith("/v1/uploads/"):
            self.upload(path)
        elif path.startswith("/v1/rounds/"):
            self.model(path)
        else:
            self.problem(404)

    do_GET = do_HEAD = do_POST = do_PATCH = do_DELETE = handle_any

    def endless_header(self):
        self.wfile.write(b"HTTP/1.1 200 OK\r\n")
        for i in range(100000):
            self.wfile.write(b"X-%d: %s\r\n" % (i, b"x" * 1000))

    def continues(self):
        """Sends interim answers, until the client has had enough or 16 MiB of them."""
        self.close_connection = True
        with contextlib.suppress(OSError):
            for _ in range(256):
                self.wfile.write(b"HTTP/1.1 100 Continue\r\n\r\n" * 2622)

    def drip(self):
        self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
        for _ in range(200):
            self.wfile.write(b" ")
            self.wfile.flush()
            if self.server.ended.wait(0.1):
                break
        self.close_connection = True

    def status(self):
        state = {"schema": "flmem.exchange-state/1", "round": 0, "rounds": 2, "phase": "collecting",
                 "published_round": 0, "clients": {"expected": 2, "quorum": 2, "complete": 0, "names": []},
                 "deadline_s": None, "chunk_bytes": self.server.chunk_bytes,
                 "max_request_bytes": self.server.max_request, "reason": None}
        changes = {"state-schema": {"schema": "other/1"}, "state-phase": {"phase": "resting"},
                   "state-huge": {"round": 1 << 70}, "state-negative": {"rounds": -1},
                   "state-failed": {"phase": "failed", "reason": CONTROL},
                   "state-limit": {"max_request_bytes": 0}, "state-done": {"phase": "done", "published_round": 2}}
        state.update(changes.get(self.lie, {}))
        body = json.dumps(state).encode()
        if self.lie == "state-text":
            body = b"<html>hello</html>"
        elif self.lie == "state-twice":
            body = body[:-1] + b', "round": 1}'
        elif self.lie == "state-missing":
            body = b'{"schema": "flmem.exchange-state/1"}'
        elif self.lie == "state-large":
            body = body + b" " * (1 << 20)
        elif self.lie == "state-latin":
            body = body[:-1] + b', "x": "\xff"}'
        self.answer(200, [("Content-Type", "application/json")], body)

    # Uploads.

    def metadata(self):
        found = {}
        for pair in self.headers.get("Upload-Metadata", "").split(","):
            key, _, value = pair.strip().partition(" ")
            found[key] = base64.b64decode(value).decode()
        return found

    def upload(self, path):
        if self.headers.get("Tus-Resumable") != "1.0.0":
            self.problem(412)
        elif self.command == "POST":
            self.create()
        elif path.rpartition("/")[2] not in self.server.uploads or self.lie == "upload-forgotten":
            self.problem(404, "no such upload")
        elif self.command == "DELETE":
            del self.server.uploads[path.rpartition("/")[2]]
            self.answer(204)
        else:
            self.known_upload(self.server.uploads[path.rpartition("/")[2]])

    def known_upload(self, upload):
        """Handles a request under a lock: one that its client has given up may still run beside
        it."""
        if self.command == "PATCH":
            self.server.patches += 1
            time.sleep(self.server.pause_s)
        with upload["lock"]:
            if self.command == "HEAD":
                self.head(upload)
            elif self.command == "PATCH":
                self.patch(upload)
            else:
                self.problem(405)

    def create(self):
        refusals = {"late": (409, "round is over", CONTROL), "quota": (413, "too large", "quota"),
                    "full": (507, "no space", "disk"), "forbidden": (403, "not yours", "name")}
        if self.lie in refusals:
            self.problem(*refusals[self.lie])
            return
        metadata = self.metadata()
        length = int(self.headers["Upload-Length"])
        key = (metadata.get("round"), metadata.get("client"), metadata["filename"], length, metadata.get("sha256"))
        with self.server.lock:
            name = self.server.keys.setdefault(key, "%032x" % (len(self.server.keys) + 1))
            self.server.uploads.setdefault(name, {"length": length, "data": bytearray(), "metadata": metadata,
                                                  "lock": threading.Lock()})
        place = {"location-none": "", "location-host": f"http://other.example.org/v1/uploads/{name}",
                 "location-path": "/v1/uploads/../../etc/passwd?x"}.get(self.lie, f"/v1/uploads/{name}")
        self.answer(201, [("Location", place), ("Tus-Resumable", "1.0.0")] if place else ())

    def head(self, upload):
        offset = len(upload["data"])
        if self.lie == "offset-beyond":
            offset = upload["length"] + 1
        more = [("Upload-Offset", str(offset + 1))] if self.lie == "offset-twice" else []
        length = upload["length"] - (self.lie == "length-other")
        checksum = base64.b64encode(crc32c(upload["data"])).decode()
        if self.lie == "checksum-other":
            checksum = "AAAAAA=="
        headers = [("Upload-Offset", str(offset)), *more, ("Upload-Length", str(length))]
        if self.lie != "checksum-none":
            headers.append(("Upload-Checksum", f"crc32c {checksum}"))
        self.answer(200, [] if self.lie == "offset-none" else headers)

    def patch(self, upload):
        data = upload["data"]
        offset = int(self.headers["Upload-Offset"])
        kind, _, value = self.headers["Upload-Checksum"].partition(" ")
        sums = {"crc32c": crc32c, "sha256": lambda data: hashlib.sha256(data).digest()}
        if kind not in sums or base64.b64decode(value) != sums[kind](self.body):
            self.problem(460, "checksum")
        elif len(self.body) > self.server.proxy_limit:
            self.answer(413, (), b"<html>too large</html>")
        elif offset != len(data):
            self.problem(409, "another offset")
        elif self.lie == "late-patch":
            self.problem(409, "round is over", CONTROL)
        elif self.lie == "busy" and self.server.patches % 2:
            self.problem(503, headers=[("Retry-After", "0")])
        elif self.lie == "busy-first" and self.server.patches == 1:
            self.problem(503, headers=[("Retry-After", "2")])
        elif self.lie == "in-use" and self.server.patches % 2:
            self.problem(423)
        elif self.lie == "mismatch" and self.server.patches % 2:
            self.problem(460)
        elif self.lie == "mismatch-always":
            self.problem(460, "checksum", "of this chunk")
        elif self.lie == "swallow":
            self.answer(204, [("Upload-Offset", str(offset))])
        elif self.lie == "disconnect" and self.server.patches % 3 == 0:
            self.close_connection = True  # ends without an answer, and without the bytes
        elif self.lie == "disconnect-late" and self.server.patches % 3 == 0:
            data.extend(self.body)
            self.close_connection = True
        elif self.lie == "backwards" and len(data) > 2 * len(self.body):
            del data[len(self.body):]
            self.problem(503, headers=[("Retry-After", "0")])
        else:
            data.extend(self.body)
            self.server.moved += len(self.body)
            if len(data) == upload["length"] and self.lie == "refused":
                self.problem(422, "refused", "tensor 'w' has another shape" + CONTROL)
            else:
                self.answer(204, [("Upload-Offset", str(len(data)))])

    # Models.

    def model(self, path):
        parts = path.split("/")
        if self.lie == "kept-no-longer":
            self.problem(410, "gone", "only the newest two rounds are kept")
        elif len(parts) == 5:
            self.index()
        elif parts[-1] in self.server.files:
            if parts[-1] == self.server.held:
                self.server.ended.wait(60)
            self.part(self.server.files[parts[-1]])
        else:
            self.problem(404)

    def index(self):
        files = [{"name": name, "size_bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
                 for name, data in self.server.files.items()]
        first = files[0]
        changes = {"name-path": {"name": "../x"}, "name-hidden": {"name": ".bashrc"}, "name-long": {"name": "x" * 65},
                   "name-empty": {"name": ""}, "size-huge": {"size_bytes": 1 << 63},
                   "size-disk": {"size_bytes": 1 << 60}, "size-real": {"size_bytes": 1.5},
                   "digest-short": {"sha256": "ab"}, "digest-other": {"sha256": "0" * 64},
                   "size-more": {"size_bytes": first["size_bytes"] + 1},
                   "size-less": {"size_bytes": first["size_bytes"] - 1}}
        first.update(changes.get(self.lie, {}))
        if self.lie == "file-twice":
            files.append(dict(first))
        elif self.lie == "files-none":
            files = []
        elif self.lie == "files-many":
            files = [dict(first, name=f"f{i}") for i in range(10001)]
        index = {"schema": "flmem.exchange-model/1", "round": 7 if self.lie == "round-other" else 0, "files": files}
        self.answer(200, (), json.dumps(index).encode())

    def part(self, data):
        digest = hashlib.sha256(data).hexdigest()
        self.server.parts += 1
        begin, asked = 0, self.headers.get("Range")
        if asked and self.headers.get("If-Range") == f'"{digest}"' and self.lie != "no-ranges":
            begin = int(asked[len("bytes="):].partition("-")[0])
        etag = "changed" if self.lie == "etag" or (self.lie == "etag-later" and self.server.parts > 1) else digest
        headers = [("ETag", f'"{etag}"'), ("Accept-Ranges", "bytes")]
        shift = 1 if self.lie == "range-shifted" else 0
        last = len(data) - (2 if self.lie == "range-short" else 1)
        if begin:
            headers.append(("Content-Range", f"bytes {begin + shift}-{last}/{len(data)}"))
        body = data[begin:]
        if self.lie == "damaged":
            body = body[:-1] + bytes([body[-1] ^ 1])
        if self.lie == "zipped":
            headers.append(("Content-Encoding", "gzip"))
        cut = len(body)
        if self.lie in ("etag-later", "range-shifted", "range-short", "no-ranges") and self.server.parts == 1:
            cut = len(body) // 2
        if self.lie == "short":
            cut = max(1, len(body) // 2)
        if self.lie in ("never-more", "byte-each"):
            cut = int(self.lie == "byte-each")
        announced = len(body)
        if self.lie == "less":
            cut = announced = len(body) - 1
        if self.lie == "unavailable" and self.server.parts % 2:
            self.problem(503, headers=[("Retry-After", "0")])
            return
        if self.lie == "more":
            self.send_response(200)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            body += b"more"
            self.wfile.write(b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body))
            return
        self.answer(206 if begin else 200, headers, b"" if self.server.pause_s else body[:cut], announced)
        if self.server.pause_s:
            for at in range(0, cut, 20000):
                self.wfile.write(body[at:min(at + 20000, cut)])
                self.server.moved += 20000
                time.sleep(self.server.pause_s)
        if cut < announced:
            self.close_connection = True

    def log_message(self, *words):
        pass


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, files=None, lie="", certificate=None, authority=None, port=0):
        super().__init__(("127.0.0.1", port), Handler)
        self.lock, self.ended = threading.Lock(), threading.Event()
        self.files, self.lie, self.token = files or {}, lie, None
        self.chunk_bytes, self.max_request, self.proxy_limit, self.pause_s = 4096, None, 1 << 62, 0
        self.moved = 0  # number of bytes in both directions
        self.held = None  # a file that is not sent before the end
        self.begin_again()
        scheme = "http"
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            if authority:
                context.load_verify_locations(authority)
                context.verify_mode = ssl.CERT_REQUIRED
            self.socket = context.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)
            scheme = "https"
        self.base = f"{scheme}://127.0.0.1:{self.server_address[1]}"
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()

    def begin_again(self, lie=None):
        """Forgets uploads and counts, and changes the lie."""
        self.lie = self.lie if lie is None else lie
        self.requests, self.uploads, self.keys, self.patches, self.parts = [], {}, {}, 0, 0

    def content(self, name):
        """Returns the bytes that were uploaded under this name."""
        return next(bytes(upload["data"]) for upload in self.uploads.values()
                    if upload["metadata"]["filename"] == name)

    def handle_error(self, request, client_address):
        pass  # clients leave in the middle of answers

    def close(self):
        self.ended.set()
        self.shutdown()
        self.server_close()


if __name__ == "__main__":
    print(Server().base, flush=True)
    time.sleep(3600)
