# SPDX-License-Identifier: Apache-2.0
"""The client of ``flmem exchange`` for training loops, on the standard library; faster with libflmem.

    client = flmem.exchange.Client("https://fl.example.org", client="site-1", token="...")
    model.load_state_dict(client.pull())
    ...
    client.push(model.state_dict(), weight=samples)
    client.wait(client.round + 1)

Tensors of PyTorch, arrays of NumPy and ``Tensor`` are sent and received as safetensors, one after
the other, without a second copy of the model. A disconnect, or a server that restarts, is resumed.
docs/internals/exchange-protocol.md has the protocol.
"""

import base64
import hashlib
import json
import math
import numbers
import re
import ssl
import sys
import time
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Tuple, Union

from . import _crc32c, _safetensors
from ._exchange_http import Answer, Connection, ExchangeError, TransientError
from ._exchange_pull import Download, read_index

__all__ = ["Client", "ExchangeError", "Tensor"]

Tensor = _safetensors.Raw

_TUS = {"Tus-Resumable": "1.0.0"}
_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")
_PHASES = ("collecting", "combining", "done", "failed")
_CHUNK_BYTES, _PROPOSED_MAX, _SMALLEST = 2 << 20, 16 << 20, 16 << 10
_PIECE_BYTES = 256 << 10
_RECREATED_MAX = 3
_WAIT_S = 60
_CHECK_BYTES_PER_SECOND = 100 << 20


class _Layout:
    """A model laid out as a safetensors file that is never in memory as a whole."""

    def __init__(self, state: Mapping[str, Any]) -> None:
        self._values: List[Tuple[str, Any]] = []
        described = []
        self._begins = []
        kinds = {name: _safetensors.kind_of(name, value) for name, value in state.items()}
        # The order of tensors depends on their names and types alone: a server in lockstep has one
        # position for all updates.
        for name in sorted(kinds, key=lambda name: _safetensors.place_of(name, kinds[name])):
            kind, value = kinds[name], state[name]
            shape = tuple(value.shape)
            size = _safetensors.count_bytes(kind, shape)
            described.append((name, kind, shape, size))
            self._values.append((name, value))
        header = _safetensors.make_header(described)
        at = len(header)
        for _, _, _, size in described:
            self._begins.append(at)
            at += size
        self.size = at
        self._header = memoryview(header)
        self._kept: Tuple[int, memoryview] = (-1, memoryview(b""))

    def _data(self, number: int) -> memoryview:
        """Returns the data of one tensor. A copy that this needed is kept until another tensor is
        read."""
        if self._kept[0] != number:
            self._kept = (number, _safetensors.bytes_of(self._values[number][1]))
        return self._kept[1]

    def _parts(self) -> Iterator[Tuple[int, int, Callable[[], memoryview]]]:
        yield 0, len(self._header), lambda: self._header
        ends = self._begins[1:] + [self.size]
        for number, (begin, end) in enumerate(zip(self._begins, ends)):
            yield begin, end, lambda number=number: self._data(number)  # type: ignore[misc]

    def pieces(self, begin: int, end: int) -> Iterator[memoryview]:
        """Yields the bytes from `begin` to `end`, in parts that a slow connection can send within
        its timeout."""
        for first, last, get in self._parts():
            low, high = max(begin, first), min(end, last)
            if low >= high:
                continue
            data = get()
            for at in range(low, high, _PIECE_BYTES):
                yield data[at - first:min(at + _PIECE_BYTES, high) - first]

    def digest(self, begin: int, end: int) -> "hashlib._Hash":
        """Returns the SHA-256 of a range."""
        found = hashlib.sha256()
        for piece in self.pieces(begin, end):
            found.update(piece)
        return found

    def crc32c(self, crc: _crc32c.Crc32c, begin: int, end: int) -> int:
        """Returns the CRC-32C of a range."""
        found = 0
        for piece in self.pieces(begin, end):
            found = crc.update(found, piece)
        return found


class _Upload:  # pylint: disable=too-few-public-methods,too-many-instance-attributes; a record
    """The state of sending one file."""

    def __init__(self, layout: _Layout, path: str, chunk: int, crc: Optional[_crc32c.Crc32c]) -> None:
        self.layout, self.path, self.chunk = layout, path, chunk
        self.crc = crc  # None: the server knows the upload by its SHA-256
        # number of bytes that the server certainly has of this model, and their checksum
        self.ours, self.sum = 0, 0
        self.offset: Optional[int] = None  # None: unknown, ask the server
        self.highest = 0
        self.may_replace = False


def _weight_text(weight: Any) -> str:
    """Returns a weight in the protocol's form; takes numbers of Python and of NumPy."""
    if isinstance(weight, bool) or not isinstance(weight, numbers.Real) or not math.isfinite(weight) or weight <= 0:
        raise ValueError(f"invalid weight {weight!r}; expected a number above 0")
    return repr(int(weight) if isinstance(weight, numbers.Integral) else float(weight))


def _is_count(value: Any, most: int = 1 << 62) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= most


def _read_state(answer: Answer, name: str) -> Dict[str, Any]:
    """Returns the state that a server sends, after checking it."""
    try:
        state = json.loads(answer.body)
        valid = (state["schema"] == "flmem.exchange-state/1" and state["phase"] in _PHASES
                 and all(_is_count(state[key], 10 ** 9) for key in ("round", "rounds", "published_round"))
                 and isinstance(state["clients"], dict) and _is_count(state["chunk_bytes"])
                 and (state.get("max_request_bytes") is None
                      or (_is_count(state["max_request_bytes"]) and state["max_request_bytes"] > 0)))
    except (ValueError, KeyError, TypeError, RecursionError):
        valid = False
    if not valid:
        raise ExchangeError(f"the status that {name} sends is invalid; is it an flmem exchange?")
    return state


def _make_context(cafile: Optional[str], cert: Union[str, Tuple[str, str], None]) -> ssl.SSLContext:
    """Names the file in errors, which the ssl module does not."""
    try:
        context = ssl.create_default_context(cafile=cafile)
    except OSError as problem:
        raise ValueError(f"cannot use the authorities in {cafile!r}: {problem}") from problem
    if cert is not None:
        try:
            context.load_cert_chain(*((cert,) if isinstance(cert, str) else cert))
        except OSError as problem:
            raise ValueError(f"cannot use the certificate and key in {cert!r}: {problem}") from problem
    return context


class Client:
    """One client of an exchange. One thread at a time.

    Args:
        url: address of the server, http:// or https://.
        client: name of this client; None where a token or a certificate contains it.
        token: bearer token.
        cafile: certificates of authorities to trust, as PEM; None: those of the system.
        cert: path of this client's certificate and key as PEM, or both paths.
        timeout: seconds in which the server has to accept a connection, answer, and move 1 KiB a second.
        retries: how often to retry after temporary failures without progress between them.
        insecure: send a token over http:// to other hosts, too.
    """

    def __init__(self, url: str, client: Optional[str] = None, token: Optional[str] = None,
                 cafile: Optional[str] = None, cert: Union[str, Tuple[str, str], None] = None,
                 timeout: float = 30.0, retries: int = 10, insecure: bool = False) -> None:
        # pylint: disable=too-many-arguments; they are named
        if client is not None and not _NAME.fullmatch(client):
            raise ValueError(f"{client!r} is not a name for a client; expected at most 64 of A-Z a-z 0-9 . _ -")
        context = None
        if url.lower().startswith("https:"):
            context = _make_context(cafile, cert)
        self._client = client
        self._connection = Connection(url, token, context, (timeout, retries), insecure)
        self.round: Optional[int] = None  # round of the model that was pulled last

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *problem: Any) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connection."""
        self._connection.close()

    def status(self) -> Dict[str, Any]:
        """Returns the state of the exchange: the document of GET /v1/status."""
        return self._state("/v1/status", 0)

    def _state(self, path: str, wait_s: float) -> Dict[str, Any]:
        answer = self._connection.ask("GET", path, wait_s=wait_s)
        if answer.status != 200:
            raise self._connection.refused("cannot read the state", answer)
        return _read_state(answer, self._connection.name)

    def wait(self, round: int, timeout: Optional[float] = None) -> Dict[str, Any]:
        """Waits until the model of a round, or of a later one, is published.

        Returns:
            The state, as ``status`` does.

        Raises:
            TimeoutError: after ``timeout`` seconds.
            ExchangeError: the exchange failed, or ended before this round.
        """
        # pylint: disable=redefined-builtin; the protocol's word
        until = math.inf if timeout is None else time.monotonic() + timeout
        self._connection.until = until
        try:
            return self._wait(round, until)
        finally:
            self._connection.until = math.inf

    def _wait(self, number: int, until: float) -> Dict[str, Any]:
        state = self.status()
        while state["published_round"] < number:
            if state["phase"] in ("failed", "done") or number > state["rounds"]:
                raise ExchangeError(f"{self._connection.name} will not publish round {number}: it is {state['phase']}")
            began = time.monotonic()
            if began >= until:
                raise TimeoutError(f"{self._connection.name} did not publish round {number} in time")
            wait_s = max(1, min(_WAIT_S, math.ceil(min(until - began, _WAIT_S))))
            state = self._state(f"/v1/status?after={number - 1}&wait={wait_s}", wait_s)
            if state["published_round"] < number and time.monotonic() - began < 0.2:
                time.sleep(0.2)  # do not poll a server that answers at once without a pause
            self._connection.progressed()
        return state

    def push(self, state_dict: Mapping[str, Any], weight: float = 1, round: Optional[int] = None,
             sha256: bool = False, replace: bool = False) -> int:
        """Sends an update, and returns when the server has accepted it.

        The tensors must not change meanwhile.

        Args:
            state_dict: tensors of PyTorch, arrays of NumPy or ``Tensor`` by name.
            weight: for example the number of samples.
            round: that of the model which the update was made from; None: of the last ``pull``, else
                the one that is collected now.
            sha256: have the server compare the SHA-256 of the whole, too, which is computed before
                the first byte is sent. Without libflmem it always is.
            replace: delete what an earlier push of this client and round has sent of another model, or
                with another weight, and has not completed. Else that is an error (409).

        Returns:
            The round.

        Raises:
            ExchangeError: the server refuses the update (``status`` 409: the round is over; 422: it
                does not fit the model), or cannot be reached.
        """
        # pylint: disable=redefined-builtin; the protocol's word
        weight_text = _weight_text(weight)
        layout = _Layout(state_dict)
        state = self._state_to_push(round)
        number = round if round is not None else self.round if self.round is not None else state["round"]
        chunk = min(state["chunk_bytes"] or _CHUNK_BYTES, _PROPOSED_MAX, state.get("max_request_bytes") or sys.maxsize)
        metadata = {"round": str(number), "filename": "update.safetensors", "weight": weight_text, "files": "1"}
        # such a server has no checksum of the bytes that it received
        lockstep = state.get("mode") == "lockstep"
        crc = None if sha256 or lockstep else _crc32c.find()
        if crc is None:
            metadata["sha256"] = layout.digest(0, layout.size).hexdigest()
        if self._client is not None:
            metadata["client"] = self._client
        for _ in range(_RECREATED_MAX):
            upload = _Upload(layout, self._create(layout.size, metadata, replace), chunk, crc)
            upload.may_replace = replace
            if self._send(upload):
                return number
            # two clients of one name must not delete each other's uploads in turns
            replace = replace and not upload.highest
        raise ExchangeError(f"{self._connection.name} forgot the upload {_RECREATED_MAX} times: the update was refused "
                            "while the connection was lost (the server's log has the reason), or is too slow for the "
                            "time that the server keeps one")

    def _state_to_push(self, number: Optional[int]) -> Dict[str, Any]:
        state = self.status()
        while number is None and self.round is None and state["phase"] == "combining":
            time.sleep(0.1)
            state = self._state(f"/v1/status?after={state['published_round']}&wait={_WAIT_S}", _WAIT_S)
        if state["phase"] == "failed":
            raise ExchangeError(f"the exchange of {self._connection.name} failed")
        return state

    def _create(self, size: int, metadata: Dict[str, str], replace: bool) -> str:
        """Creates an upload and returns its path; that of an earlier one of the same data, if there
        is one."""
        pairs = ",".join(f"{key} {base64.b64encode(value.encode()).decode()}" for key, value in metadata.items())
        headers = {**_TUS, "Upload-Length": str(size), "Upload-Metadata": pairs, "Content-Length": "0"}
        answer = self._connection.ask("POST", "/v1/uploads", headers)
        # Take only the identifier: an address could lead elsewhere, and proxies add prefixes.
        found = re.search(r"/([A-Za-z0-9_-]{1,128})$", answer.headers.get("Location", ""))
        if answer.status == 409 and found and replace:
            self._delete(f"/v1/uploads/{found[1]}")
            return self._create(size, metadata, False)
        if answer.status != 201:
            refusal = self._connection.refused("the update is not accepted", answer)
            raise ExchangeError(f"{refusal}, or push with replace=True", 409) if answer.status == 409 and found else refusal
        if not found:
            raise ExchangeError(f"{self._connection.name} does not report where to send the update")
        return f"/v1/uploads/{found[1]}"

    def _delete(self, path: str) -> None:
        answer = self._connection.ask("DELETE", path, _TUS)
        while answer.status == 423:
            self._connection.pause(self._connection.refused("the upload is not replaced", answer))
            answer = self._connection.ask("DELETE", path, _TUS)
        if answer.status not in (200, 204, 404, 410):
            raise self._connection.refused("the upload is not replaced", answer)

    def _send(self, upload: _Upload) -> bool:
        """Sends the bytes that the server lacks. Returns False if it has forgotten the upload."""
        while upload.offset is None or upload.offset < upload.layout.size:
            known = self._ask_offset(upload) if upload.offset is None else self._send_chunk(upload)
            if not known:
                return False
        return True

    def _note(self, upload: _Upload, offset: int) -> None:
        upload.offset = offset
        if offset > upload.highest:
            upload.highest = offset
            self._connection.progressed()

    def _ask_offset(self, upload: _Upload) -> bool:
        answer = self._connection.ask("HEAD", upload.path, _TUS)
        if answer.status in (404, 410):
            return False
        if answer.status not in (200, 204):
            raise self._connection.refused("the upload cannot continue", answer)
        offset = answer.number("Upload-Offset")
        length = answer.number("Upload-Length") if "Upload-Length" in answer.headers else upload.layout.size
        if offset is None or offset > upload.layout.size or length != upload.layout.size:
            raise ExchangeError(f"{self._connection.name} reports an invalid offset or length of the upload")
        if not self._compare(upload, offset, answer):
            self._delete(upload.path)
            return False
        self._note(upload, offset)
        return True

    def _compare(self, upload: _Upload, offset: int, answer: Answer) -> bool:
        """Compares the bytes that the server has with this model: bytes of two are never mixed.

        Returns False if they are of another model of this size and are to be deleted.
        """
        if upload.crc is None or not offset:
            return True
        begin = upload.ours if upload.ours <= offset else 0
        more = upload.layout.crc32c(upload.crc, begin, offset)
        found = upload.crc.join(upload.sum if begin else 0, more, offset - begin)
        text = answer.headers.get("Upload-Checksum", "")
        if not text.startswith("crc32c "):
            raise ExchangeError(f"{self._connection.name} does not report the checksum of what it has; "
                                "push with sha256=True")
        if text != _crc32c.header(found):
            if upload.may_replace and not upload.highest and offset < upload.layout.size:
                return False
            what = ("that is complete, and counts" if offset == upload.layout.size else
                    f"push with replace=True to send this one in its place ({upload.path})")
            raise ExchangeError(f"{self._connection.name} has {offset} bytes of another update of this client and "
                                f"round; {what}", 409)
        upload.ours, upload.sum = offset, found
        return True

    def _send_chunk(self, upload: _Upload) -> bool:
        assert upload.offset is not None
        begin, end = upload.offset, min(upload.offset + upload.chunk, upload.layout.size)
        more = 0
        if upload.crc is None:
            checksum = "sha256 " + base64.b64encode(upload.layout.digest(begin, end).digest()).decode()
        else:
            more = upload.layout.crc32c(upload.crc, begin, end)
            checksum = _crc32c.header(more)
        headers = {**_TUS, "Content-Type": "application/offset+octet-stream", "Upload-Offset": str(begin),
                   "Upload-Checksum": checksum, "Content-Length": str(end - begin)}
        # The server answers the last request of an update after it has checked the update.
        wait_s = _WAIT_S + upload.layout.size // _CHECK_BYTES_PER_SECOND if end == upload.layout.size else 0
        try:
            answer = self._connection.attempt("PATCH", upload.path, headers, upload.layout.pieces(begin, end), wait_s)
        except TransientError as problem:
            upload.offset = None
            self._connection.pause(problem)
            return True
        if answer.status in (200, 204) and upload.crc is not None:
            upload.ours, upload.sum = end, upload.crc.join(upload.sum, more, end - begin)
        return self._take_answer(upload, (begin, end), answer)

    def _take_answer(self, upload: _Upload, sent: Tuple[int, int], answer: Answer) -> bool:
        begin, end = sent
        upload.offset = None
        if answer.status in (200, 204):
            if answer.number("Upload-Offset") != end:
                raise ExchangeError(f"{self._connection.name} does not confirm the offset of the upload")
            self._note(upload, end)
            return True
        refusal = self._connection.refused("the update is not accepted", answer)
        if answer.status in (404, 410):
            return False
        if answer.status == 460:  # the checksum did not match
            self._connection.pause(refusal)
        elif answer.status == 413 and end - begin > _SMALLEST:
            # the limit is that of a proxy, which does not announce it
            upload.chunk = max((end - begin) // 2, _SMALLEST)
        elif answer.status == 409 and self._ask_offset(upload) and upload.offset != begin:
            self._connection.pause(refusal)
        else:
            raise refusal
        return True

    def pull(self, round: Optional[int] = None, into: Optional[Mapping[str, Any]] = None,
             framework: Optional[str] = None) -> Dict[str, Any]:
        """Receives a published model, straight into its tensors.

        Args:
            round: its round; None: the latest.
            into: tensors to fill in place, such as ``model.state_dict()``: no second copy of the
                model. After a failure they have parts of both models.
            framework: "torch", "numpy" or "raw" (``Tensor``) for new tensors; None: PyTorch if the
                program has imported it, else NumPy if it has, else raw.

        Returns:
            The tensors by name. ``Client.round`` is their round.

        Raises:
            ExchangeError: the server no longer has that round, or sends data with another SHA-256.
        """
        # pylint: disable=redefined-builtin; the protocol's word
        chosen = framework or next((name for name in ("torch", "numpy") if name in sys.modules), "raw")
        if chosen not in ("torch", "numpy", "raw"):
            raise ValueError(f"invalid framework {framework!r}; choose from torch, numpy, raw")
        number, files = read_index(self._connection, "latest" if round is None else round)
        found: Dict[str, Any] = {}
        for file in files:
            if file.name.endswith(".index.json"):
                continue
            for name, value in Download(self._connection, number, file).read(chosen, into).items():
                if name in found:
                    raise ExchangeError(f"{self._connection.name} sends tensor '{name}' in two files")
                found[name] = value
        if into is not None and set(found) != set(into):
            raise ExchangeError("the model has other tensors than 'into'")
        self.round = number
        return found
