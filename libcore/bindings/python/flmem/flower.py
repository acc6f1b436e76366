# SPDX-License-Identifier: Apache-2.0
"""A strategy for Flower that writes each reply to a file as it arrives and averages the files.

    strategy = flmem.flower.FedAvg(fraction_train=0.5)

Flower's own strategies get a list with the replies of all clients. This one pulls them one after the
other, so that the server holds one update besides the global model, for any number of clients.
"""

import io
import time
from typing import Any, Dict, Iterable, List, Optional, Tuple

import numpy
from flwr.app import Array, ArrayRecord, Message, MessageType, MetricRecord
from flwr.serverapp import Grid
from flwr.serverapp.strategy import FedAvg as _FedAvg

from ._aggregate import check_numbers
from ._round import Round

__all__ = ["FedAvg"]

_PULL_PAUSE_S = 1.0
_HEADERS = {
    (1, 0): numpy.lib.format.read_array_header_1_0,
    (2, 0): numpy.lib.format.read_array_header_2_0,
}


def _view(array: Array) -> Any:
    """Returns an array over the bytes of a .npy file; copies them where that is needed."""
    file = io.BytesIO(array.data)
    read = _HEADERS.get(numpy.lib.format.read_magic(file)) if array.stype == "numpy.ndarray" else None
    if read is None:
        return array.numpy()
    shape, is_fortran, dtype = read(file)
    if is_fortran or dtype.hasobject:
        return array.numpy()
    return numpy.ndarray(shape, dtype, array.data, file.tell())


class _Pulling(Grid):
    """Wraps a grid and writes each training reply to a file as soon as it is pulled."""

    def __init__(self, grid: Grid, strategy: "FedAvg") -> None:
        self._grid = grid
        self._strategy = strategy

    def __getattr__(self, name: str) -> Any:
        return getattr(self._grid, name)

    @property
    def run(self) -> Any:
        """Calls the wrapped grid."""
        return self._grid.run

    def set_run(self, run: Any) -> None:
        """Calls the wrapped grid."""
        self._grid.set_run(run)

    def create_message(self, *args: Any, **kwargs: Any) -> Message:
        """Calls the wrapped grid."""
        return self._grid.create_message(*args, **kwargs)

    def get_node_ids(self) -> Iterable[int]:
        """Calls the wrapped grid."""
        return self._grid.get_node_ids()

    def get_nodes(self) -> Iterable[Any]:
        """Calls the wrapped grid."""
        return self._grid.get_nodes()

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Calls the wrapped grid."""
        return self._grid.push_messages(messages)

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """Calls the wrapped grid."""
        return self._grid.pull_messages(message_ids)

    def send_and_receive(self, messages: Iterable[Message], *, timeout: Optional[float] = None) -> Iterable[Message]:
        """Yields the replies, pulled one at a time, so that they are never all in memory."""
        waiting = [one for one in self.push_messages(messages) if one]
        del messages
        end = None if timeout is None else time.monotonic() + timeout
        replies: List[Message] = []
        while waiting and (end is None or time.monotonic() < end):
            came = set()
            for message_id in waiting:
                for reply in self.pull_messages([message_id]):
                    self._strategy.take(reply)
                    replies.append(reply)
                    came.add(message_id)
            waiting = [one for one in waiting if one not in came]
            if waiting and not came:
                time.sleep(_PULL_PAUSE_S)
        return replies


class FedAvg(_FedAvg):  # type: ignore[misc]
    """Flower's FedAvg, with ``flmem.aggregate`` in place of the sum in memory.

    Args:
        directory: where the updates are written; None: in TMPDIR, which has to be on a disk.
        algorithm, nan, non_float, trim, hostile, keep, clip_norm: of ``flmem.aggregate``; an algorithm
            without a state. The other arguments are those of Flower's FedAvg.
    """

    def __init__(self, *args: Any, directory: Optional[str] = None, **options: Any) -> None:
        known = ("algorithm", "nan", "non_float", "trim", "hostile", "keep", "clip_norm")
        self._options = {name: options.pop(name) for name in known if name in options}
        check_numbers(self._options)
        super().__init__(*args, **options)
        self._round = Round(directory)

    def start(self, grid: Grid, *args: Any, **kwargs: Any) -> Any:
        """Aggregates as Flower does; updates are written as they arrive."""
        try:
            return super().start(_Pulling(grid, self), *args, **kwargs)
        finally:
            self._round.clear()

    @staticmethod
    def _name(reply: Message) -> str:
        return f"{reply.metadata.src_node_id} {reply.metadata.reply_to_message_id}"

    def take(self, reply: Message) -> None:
        """Writes the arrays of a reply to a file, and empties them."""
        kind = reply.metadata.message_type.partition(".")[0]
        if reply.has_error() or kind != MessageType.TRAIN:
            return
        records = list(reply.content.array_records.values())
        if len(records) != 1 or any(not array.data for array in records[0].values()):
            return  # aggregate_train() refuses it, or it was written before
        self._round.add(self._name(reply), 1, {name: _view(array) for name, array in records[0].items()})
        for array in records[0].values():
            array.data = b""

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> Tuple[Optional[ArrayRecord], Optional[MetricRecord]]:
        """Aggregates as Flower does, from the files."""
        replies = list(replies)
        for reply in replies:
            self.take(reply)
        try:
            valid, _ = self._check_and_log_replies(replies, is_train=True)
            if not valid:
                return None, None
            weights: Dict[str, float] = {}
            for reply in valid:
                metrics = next(iter(reply.content.metric_records.values()))
                weights[self._name(reply)] = float(metrics[self.weighted_by_key])
            found = self._round.combine(weights=weights, **self._options)
            contents = [reply.content for reply in valid]
            return (ArrayRecord({name: Array(array) for name, array in found.items()}),
                    self.train_metrics_aggr_fn(contents, self.weighted_by_key))
        finally:
            self._round.clear()
