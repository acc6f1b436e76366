# SPDX-License-Identifier: Apache-2.0
"""Receives the files of a published model into tensors. What a server sends is untrusted."""

import hashlib
import http.client
import json
import queue
import re
import struct
import threading
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Tuple, Union

from . import _safetensors
from ._exchange_http import Connection, ExchangeError, TransientError, printable

__all__ = ["Download", "File", "read_index"]

_FILES_MAX = 10000
_HEADER_MAX = 100_000_000  # the limit of the format's own reader
_PART_BYTES = 1 << 20
# bytes that count as progress between failures, unless half of the rest is less
_PROGRESS_BYTES = 64 << 10
_RESTARTS_MAX = 3
_FILE_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}")
_DIGEST = re.compile("[0-9a-f]{64}")
_RANGE = re.compile("bytes ([0-9]{1,18})-([0-9]{1,18})/([0-9]{1,18})")


class File(NamedTuple):
    """One file of a model."""

    name: str
    size: int
    sha256: str


def _read_file(entry: Any) -> File:
    file = File(entry["name"], entry["size_bytes"], entry["sha256"])
    if (not isinstance(file.size, int) or isinstance(file.size, bool) or not 0 <= file.size < 1 << 62
            or not _FILE_NAME.fullmatch(file.name) or not _DIGEST.fullmatch(file.sha256)):
        raise ValueError("a file is not described")
    return file


def read_index(connection: Connection, number: Union[int, str]) -> Tuple[int, List[File]]:
    """Returns the round and the files of a published model."""
    answer = connection.ask("GET", f"/v1/rounds/{number}/model")
    if answer.status != 200:
        raise connection.refused("cannot fetch the model", answer)
    try:
        index = json.loads(answer.body)
        found, files = index["round"], [_read_file(entry) for entry in index["files"][:_FILES_MAX + 1]]
        valid = (index["schema"] == "flmem.exchange-model/1" and isinstance(found, int) and not isinstance(found, bool)
                 and 0 <= found <= 10 ** 9 and number in ("latest", found)
                 and 0 < len(files) <= _FILES_MAX and len({file.name for file in files}) == len(files))
    except (ValueError, KeyError, TypeError, RecursionError):
        valid = False
    if not valid:
        raise ExchangeError(f"the list of files that {connection.name} sends is invalid")
    return found, files


class _Restart(Exception):
    """Raised when the server sends the file from its start again."""


class _Digest:
    """Computes the SHA-256 of memory that does not change, in a separate thread."""

    def __init__(self) -> None:
        self._found = hashlib.sha256()
        self._views: "queue.Queue[Optional[memoryview]]" = queue.Queue(64)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        view = self._views.get()
        while view is not None:
            self._found.update(view)
            view = self._views.get()

    def update(self, view: memoryview) -> None:
        """Continues the checksum with `view`."""
        self._views.put(view)

    def hexdigest(self) -> str:
        """Returns the checksum and ends the thread; no update may follow."""
        if self._thread.is_alive():
            self._views.put(None)
            self._thread.join()
        return self._found.hexdigest()


class Download:
    """Reads the bytes of one file in order, across disconnects."""

    def __init__(self, connection: Connection, number: int, file: File) -> None:
        self._connection, self._file = connection, file
        self._path = f"/v1/rounds/{number}/model/{file.name}"
        self._at = self._highest = 0
        self._digest = _Digest()
        self._response: Optional[http.client.HTTPResponse] = None

    def _fail(self, what: str) -> ExchangeError:
        self._connection.close()
        return ExchangeError(f"{self._connection.name} sends {what} for '{self._file.name}'")

    def _check(self, response: http.client.HTTPResponse) -> None:
        etag = response.headers.get("ETag")
        if etag is not None and etag != f'"{self._file.sha256}"':
            raise self._fail("a version that differs from its list")
        if response.headers.get("Content-Encoding", "identity") != "identity":
            raise self._fail("compressed data, which were not requested,")
        left = self._file.size - self._at
        if response.status == 200:
            left = self._file.size
        else:
            found = _RANGE.fullmatch(response.headers.get("Content-Range", ""))
            if not found or tuple(map(int, found.groups())) != (self._at, self._file.size - 1, self._file.size):
                raise self._fail("a range that was not requested")
        if response.length is not None and response.length != left:
            raise self._fail("more or fewer bytes than announced")
        if response.status == 200 and self._at:
            self._connection.close()
            raise _Restart()

    def _request(self) -> http.client.HTTPResponse:
        headers = {"Range": f"bytes={self._at}-", "If-Range": f'"{self._file.sha256}"'} if self._at else {}
        response = self._connection.start("GET", self._path, headers)
        if response.status in (200, 206):
            self._check(response)
            return response
        answer = self._connection.finish(response)
        refusal = self._connection.refused("cannot fetch the model", answer)
        if answer.status in (408, 423, 429, 500, 502, 503, 504):
            raise TransientError(str(refusal), answer.status)
        raise refusal

    def _read_some(self, view: memoryview) -> int:
        if self._response is None:
            self._response = self._request()
        try:
            count = self._response.readinto(view)
        except (OSError, http.client.HTTPException, ValueError) as problem:
            raise TransientError(f"an answer of {self._connection.name} broke off: {printable(problem)}") from problem
        if not count:
            raise TransientError(f"{self._connection.name} sends fewer bytes of '{self._file.name}' than announced")
        return count

    def _fill(self, view: memoryview) -> None:
        """Fills `view` with the next bytes, which may arrive over several connections."""
        done = 0
        while done < len(view):
            part = view[done:done + _PART_BYTES]
            try:
                count = self._read_some(part)
            except TransientError as problem:
                self._response = None
                self._connection.close()
                self._connection.pause(problem)
                continue
            self._digest.update(part[:count])
            done += count
            self._at += count
            self._note()

    def _note(self) -> None:
        """Counts progress only after enough bytes: otherwise a server that closes the connection
        after each byte would be asked for each."""
        new, left = self._at - self._highest, self._file.size - self._highest
        if new > 0 and (new >= _PROGRESS_BYTES or new >= left // 2):
            self._highest = self._at
            self._connection.progressed()

    def _bytes(self, count: int) -> bytes:
        data = bytearray(count)
        self._fill(memoryview(data))
        return bytes(data)

    def _entries(self) -> List[_safetensors.Entry]:
        name = self._file.name
        try:
            size = struct.unpack("<Q", self._bytes(8))[0] if self._file.size >= 8 else _HEADER_MAX + 1
            if size > min(_HEADER_MAX, self._file.size - 8):
                raise ValueError("it has no header")
            return _safetensors.parse_header(self._bytes(size), self._file.size - 8 - size)
        except ValueError as problem:
            self._connection.close()
            raise ExchangeError(f"'{name}' of {self._connection.name} is not a safetensors file "
                                f"({printable(problem)}); fetch other formats with 'flmem exchange pull'") from problem

    def _finish(self) -> None:
        if self._response is not None:
            response, self._response = self._response, None
            if self._connection.finish(response).body:
                raise self._fail("more bytes than announced")
        if self._digest.hexdigest() != self._file.sha256:
            raise self._fail("data with another SHA-256")

    def _read_tensor(self, entry: _safetensors.Entry, framework: str, into: Optional[Mapping[str, Any]]) -> Any:
        if into is None:
            value, view = _safetensors.empty(entry, framework)
            self._fill(view)
            return value
        if entry.name not in into:
            raise ExchangeError(f"'into' has no tensor '{printable(entry.name)}'")
        value = into[entry.name]
        view = _safetensors.memory_of(entry.name, value, entry)
        if view is not None:
            self._fill(view)
            return value
        new, view = _safetensors.empty(entry, "torch" if hasattr(value, "copy_") else "numpy")
        self._fill(view)
        if hasattr(value, "copy_"):
            value.detach().copy_(new)
        else:
            value[...] = new
        return value

    def read(self, framework: str, into: Optional[Mapping[str, Any]]) -> Dict[str, Any]:
        """Returns all tensors, in new memory or in that of `into`."""
        try:
            for _ in range(_RESTARTS_MAX):
                try:
                    found = {entry.name: self._read_tensor(entry, framework, into) for entry in self._entries()}
                    self._finish()
                    return found
                except _Restart:
                    self._digest.hexdigest()
                    self._at, self._digest, self._response = 0, _Digest(), None
        except BaseException:
            self._connection.close()  # the connection is in the middle of an answer
            raise
        finally:
            self._digest.hexdigest()
        raise self._fail(f"the whole file {_RESTARTS_MAX} times, when asked for a part of it,")
