# SPDX-License-Identifier: Apache-2.0
"""Requests to the server of an exchange, with the standard library. All that the server sends is
untrusted."""

import functools
import http.client
import io
import json
import logging
import math
import re
import socket
import ssl
import time
import urllib.parse
from typing import Any, Dict, Iterable, NamedTuple, Optional, Tuple, Union

__all__ = ["Answer", "Connection", "ExchangeError", "TransientError", "is_transient", "printable"]

ANSWER_MAX = 8 << 20
_HEADERS_MAX = 65536  # of an answer, with those of interim answers (status 100)
_BYTES_PER_SECOND = 1024
_DELAY_FIRST_S, _DELAY_LARGEST_S, _RETRY_AFTER_MAX_S = 0.25, 30.0, 60.0
_TRANSIENT = (408, 423, 429, 500, 502, 503, 504)
# problem of a client that has to wait in lockstep, which is not a failure
_AHEAD = ", ahead of the others"
_TOKEN = re.compile(r"[!-~]+")
_OF_CERTIFICATE = {  # X509_V_ERR_...: OpenSSL's x509_vfy.h
    9: "; wait until it is valid, or correct the clock here",
    10: "; the server, or its authority, needs a new one, if the clock here is right",
    62: "; use a host name of the certificate in the address",
    64: "; use an address of the certificate",
}

_logger = logging.getLogger("flmem.exchange")


class ExchangeError(RuntimeError):
    """A request that failed for good; ``status`` is that of the answer, None without one."""

    def __init__(self, message: str, status: Optional[int] = None) -> None:
        super().__init__(message)
        self.status = status


class TransientError(ExchangeError):
    """A failure that a retry may overcome."""

    ahead = False  # True: this client is ahead of the others and waits until they have sent as much


def is_transient(status: int) -> bool:
    """Whether a request may succeed later."""
    return status in _TRANSIENT


def printable(text: Any) -> str:
    """Returns a text of the server for people to read: without control characters, and not too
    long."""
    cut = str(text)[:500]
    return "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in cut)


class _Patience(io.RawIOBase):
    """
    Reads a socket; fails if it delivers less than 1 KiB a second for longer than the timeout. Time in which this
    side does something else, or was stopped, does not count.
    """

    def __init__(self, raw: Any, limit_s: float) -> None:
        super().__init__()
        self._raw = raw
        self._limit_s = limit_s
        self._waited, self._moved = 0.0, 0
        self.head: Optional[int] = 0  # bytes read before the headers were complete; None: they are

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> Optional[int]:
        if self.head is not None and self.head > _HEADERS_MAX:
            raise http.client.HTTPException(f"the server sends more than {_HEADERS_MAX} bytes of headers")
        began = time.monotonic()
        count = self._raw.readinto(buffer)
        self._moved += count or 0
        self.head = None if self.head is None else self.head + (count or 0)
        # The socket waits no longer than that.
        self._waited += min(time.monotonic() - began, self._limit_s)
        if self._waited > self._limit_s:
            if self._moved < self._waited * _BYTES_PER_SECOND:
                raise socket.timeout("the server sends less than 1 KiB a second")
            self._waited, self._moved = 0.0, 0
        return count

    def close(self) -> None:
        self._raw.close()
        super().close()


class Answer(NamedTuple):
    """An answer with its whole body."""

    status: int
    headers: Any
    body: bytes

    def number(self, name: str) -> Optional[int]:
        """Returns the value of a header that is one decimal number; None for others."""
        values = set(self.headers.get_all(name, []))
        text = values.pop() if len(values) == 1 else ""
        return int(text) if re.fullmatch("[0-9]{1,18}", text) else None

    def problem(self) -> str:
        """The title and the detail of application/problem+json (RFC 9457)."""
        try:
            found = json.loads(self.body)
            parts = [found.get(key) for key in ("title", "detail")]
        except (ValueError, AttributeError, RecursionError):
            return ""
        return "".join(f", {printable(part)}" for part in parts if isinstance(part, str) and part)


def _is_loopback(host: str) -> bool:
    return host in ("localhost", "::1") or re.fullmatch(r"127(\.[0-9]{1,3}){3}", host) is not None


class Connection:
    """One connection at a time, opened again when it is lost; retries with growing delays."""

    def __init__(self, url: str, token: Optional[str], context: Optional[ssl.SSLContext],
                 limits: Tuple[float, int], insecure: bool) -> None:
        parts = urllib.parse.urlsplit(url)
        if (parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment
                or "@" in parts.netloc or not re.fullmatch(r"[!-~]*", url)):
            raise ValueError("expected an address like http://HOST:PORT or https://HOST:PORT")
        if token is not None and not _TOKEN.fullmatch(token):
            raise ValueError("a token has visible ASCII characters without spaces only; strip() what was read from a file")
        if token is not None and parts.scheme == "http" and not insecure and not _is_loopback(parts.hostname):
            raise ValueError("a token is not sent to another host without encryption; use https://, or insecure=True")
        self._parts, self._token, self._context = parts, token, context
        self.prefix = parts.path.rstrip("/")
        self.timeout, self._retries = limits
        self.name = f"{parts.scheme}://{parts.netloc}"
        self._connection: Optional[http.client.HTTPConnection] = None
        self._response: Optional[http.client.HTTPResponse] = None  # the last response
        self._failed = 0
        self._retry_after = 0.0
        self.until = math.inf  # value of time.monotonic() after which no retry begins

    def close(self) -> None:
        """Closes the connection; the next request opens another one."""
        self._response = None
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _open(self) -> http.client.HTTPConnection:
        if self._response is not None and not self._response.isclosed():
            self.close()  # an exception, as of Ctrl-C, left a part of the body unread
        if self._connection is None:
            host, port = self._parts.hostname, self._parts.port
            if self._parts.scheme == "https":
                self._connection = http.client.HTTPSConnection(host, port, timeout=self.timeout, context=self._context)
            else:
                self._connection = http.client.HTTPConnection(host, port, timeout=self.timeout)
        return self._connection

    def _exchange(self, method: str, path: str, headers: Dict[str, str],
                  body: Union[bytes, Iterable[memoryview], None], wait_s: float) -> http.client.HTTPResponse:
        connection = self._open()
        all_headers = {"Accept-Encoding": "identity", **headers}
        if self._token is not None:
            all_headers["Authorization"] = f"Bearer {self._token}"
        try:
            connection.request(method, self.prefix + path, body=body, headers=all_headers)
        except (BrokenPipeError, ConnectionResetError):
            if connection.sock is None:
                raise
            # The server may have answered before it read the body: 413 for example.
        assert connection.sock is not None
        connection.sock.settimeout(self.timeout + wait_s)
        limit_s = self.timeout + wait_s
        connection.response_class = functools.partial(_Response, limit_s)  # type: ignore
        self._response = response = connection.getresponse()
        if connection.sock is not None:
            connection.sock.settimeout(self.timeout)
        return response

    def start(self, method: str, path: str, headers: Optional[Dict[str, str]] = None,
              body: Union[bytes, Iterable[memoryview], None] = None, wait_s: float = 0) -> http.client.HTTPResponse:
        """Sends a request once; TransientError if there is no answer. The caller reads its body."""
        try:
            return self._exchange(method, path, headers or {}, body, wait_s)
        except (ssl.SSLCertVerificationError, UnicodeError) as problem:
            self.close()
            code = getattr(problem, "verify_code", None)
            advice = _OF_CERTIFICATE.get(code, "; name its authority with cafile") if code else ""
            raise ExchangeError(f"{self.name}: {printable(problem)}{advice}") from problem
        except (OSError, http.client.HTTPException) as problem:
            self.close()
            raise TransientError(f"a request to {self.name} failed: {printable(problem) or type(problem).__name__}") \
                from problem
        except BaseException:  # Ctrl-C, or a tensor that cannot be read: the request is incomplete
            self.close()
            raise

    def finish(self, response: http.client.HTTPResponse) -> Answer:
        """Reads the rest of an answer; TransientError if the connection breaks."""
        body = bytearray()
        try:
            while len(body) <= ANSWER_MAX:
                part = response.read(1 << 16)
                if not part:
                    break
                body += part
        except (OSError, http.client.HTTPException) as problem:
            self.close()
            raise TransientError(f"an answer of {self.name} broke off: {printable(problem)}") from problem
        if len(body) > ANSWER_MAX:
            self.close()
            raise ExchangeError(f"{self.name} sends an answer of more than {ANSWER_MAX} bytes")
        text = response.headers.get("Retry-After", "")
        self._retry_after = float(text) if re.fullmatch("[0-9]{1,4}", text) else 0.0
        return Answer(response.status, response.headers, bytes(body))

    def attempt(self, method: str, path: str, headers: Optional[Dict[str, str]] = None,
                body: Union[bytes, Iterable[memoryview], None] = None, wait_s: float = 0) -> Answer:
        """Sends a request once and reads its whole answer; TransientError also for a status that
        may pass."""
        self._retry_after = 0.0
        answer = self.finish(self.start(method, path, headers, body, wait_s))
        if is_transient(answer.status):
            problem = TransientError(f"{self.name} is not ready: status {answer.status}{answer.problem()}",
                                     answer.status)
            problem.ahead = answer.problem().startswith(_AHEAD)
            raise problem
        return answer

    def progressed(self) -> None:
        """Resets the count of failures, since data have moved."""
        self._failed = 0

    def pause(self, problem: ExchangeError) -> None:
        """Waits before the next try, longer each time; raises after the last try."""
        self._failed += not getattr(problem, "ahead", False)
        if self._failed > self._retries:
            tries = f"tried {self._failed} times: " if self._failed > 1 else ""
            raise ExchangeError(f"{tries}{problem}", problem.status) from problem
        delay = min(_DELAY_FIRST_S * 2 ** max(self._failed - 1, 0), _DELAY_LARGEST_S)
        delay = max(delay, min(self._retry_after, _RETRY_AFTER_MAX_S))
        if time.monotonic() + delay > self.until:
            raise TimeoutError(str(problem)) from problem
        if self._failed == 1:
            _logger.warning("trying again: %s", problem)
        time.sleep(delay)

    def ask(self, method: str, path: str, headers: Optional[Dict[str, str]] = None, wait_s: float = 0) -> Answer:
        """Sends a request that may be repeated, until there is an answer."""
        while True:
            try:
                return self.attempt(method, path, headers, wait_s=wait_s)
            except TransientError as problem:
                self.pause(problem)

    def refused(self, what: str, answer: Answer) -> ExchangeError:
        """Returns the error for an answer with a status other than success."""
        if answer.status in (301, 302, 303, 307, 308):
            return ExchangeError(f"{self.name} redirects to another address, which is not followed", answer.status)
        return ExchangeError(f"{what}: {self.name} answers with status {answer.status}{answer.problem()}",
                             answer.status)


class _Response(http.client.HTTPResponse):
    """A response that is read with patience."""

    def __init__(self, limit_s: float, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self._patience = _Patience(self.fp.detach(), limit_s)
        self.fp = io.BufferedReader(self._patience, 1 << 18)

    def begin(self) -> None:
        super().begin()
        self._patience.head = None
