# SPDX-License-Identifier: Apache-2.0
"""Keeps the updates of one round of federated learning in files until they are averaged."""

import contextlib
import json
import logging
import os
import re
import resource
import shutil
import sys
import tempfile
import threading
from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Optional, Tuple

from . import _safetensors
from ._aggregate import aggregate

__all__ = ["Round"]

_INDEX = "model.safetensors.index.json"
_SPARE_FILES = 64  # descriptors left for other threads
_UNWEIGHTED = ("median", "trimmed-mean", "krum", "bulyan", "sum")

_logger = logging.getLogger("flmem")


class _Update(NamedTuple):
    client: str
    weight: float
    # for each parameter: the file, and the parameter's name in it
    places: Dict[str, Tuple[str, str]]
    is_torch: Dict[str, bool]
    owners: List[Any]  # objects that remove their files once nothing refers to them

    def keys(self) -> Dict[str, str]:
        """Returns each parameter's name in its file."""
        return {name: key for name, (_, key) in self.places.items()}

    def files(self) -> List[str]:
        """Returns the files, each once."""
        return sorted({path for path, _ in self.places.values()})


def _is_reference(value: Any) -> bool:
    """True for a tensor that was left in a safetensors file: NVFlare's _LazyRef."""
    return callable(getattr(value, "materialize", None)) and hasattr(value, "file_path") and hasattr(value, "key")


def _is_torch(value: Any) -> bool:
    torch = sys.modules.get("torch")
    return _is_reference(value) or (torch is not None and isinstance(value, torch.Tensor))


@contextlib.contextmanager
def _open_files(count: int) -> Iterator[None]:
    """Raises the limit of open files: it is usually 1024, and NVFlare writes one file per tensor."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = len(os.listdir("/proc/self/fd")) + count + _SPARE_FILES
    if soft == resource.RLIM_INFINITY or wanted <= soft:
        yield
        return
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def _are_too_many(count: int) -> bool:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    return hard != resource.RLIM_INFINITY and len(os.listdir("/proc/self/fd")) + count + _SPARE_FILES > hard


class Round:
    """Collects updates and averages them; an update in memory is written to a file as it arrives.

    Args:
        directory: where files are written; None: beside those of the first update, or in TMPDIR.
    """

    def __init__(self, directory: Optional[str] = None) -> None:
        self._directory = directory
        self._folder: Optional[str] = None
        self._updates: List[_Update] = []
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._updates)

    def add(self, client: str, weight: float, params: Mapping[str, Any]) -> None:
        """Adds an update of tensors of PyTorch, arrays of NumPy, and references to files."""
        with self._lock:
            references = {name: value for name, value in params.items() if _is_reference(value)}
            values = {name: value for name, value in params.items() if name not in references}
            places = {name: (str(value.file_path), str(value.key)) if name in references else ("", name)
                      for name, value in params.items()}
            if values:
                path = self._path(f"update-{len(self._updates)}.safetensors")
                _safetensors.write(path, ((name, _safetensors.of_value(name, value))
                                          for name, value in values.items()))
                places.update((name, (path, name)) for name in values)
            is_torch = {name: _is_torch(value) for name, value in params.items()}
            self._updates.append(_Update(client, weight, places, is_torch, list(references.values())))

    def combine(
        self, algorithm: str = "fedavg", weights: Optional[Mapping[str, float]] = None, **options: Any
    ) -> Dict[str, Any]:
        """Returns the average of all updates, mapped from a file that serves this mapping alone.

        The updates are taken in the order of their clients' names, so their arrival does not matter.

        Args:
            algorithm: of ``flmem.aggregate``; some do not weigh.
            weights: of clients, instead of those given to ``add``; the others are left out.
        """
        weighted = algorithm not in _UNWEIGHTED
        with self._lock:
            updates = sorted(self._updates, key=lambda one: one.client)
            if weights is not None:
                updates = [one._replace(weight=weights[one.client]) for one in updates if one.client in weights]
            if not updates:
                raise ValueError("no update arrived")
            keys = self._common_keys(updates)
            inputs = [self._input(one, number, keys) for number, one in enumerate(updates)]
            out = self._path("average.safetensors")
            files = sum(len(one.files()) for one in updates) if keys else len(updates)
            try:
                with _open_files(files):
                    shares = [one.weight for one in updates] if weighted else None
                    result = aggregate(inputs, shares, out, algorithm=algorithm, **options)
            except (ValueError, OSError) as problem:
                raise type(problem)(_explained(str(problem), updates, inputs, keys)) from problem
            for update, one in zip(updates, result["inputs"]):
                if one["skipped"]:
                    _logger.warning("'%s' is not part of the average: %s", update.client, one["skipped"])
            return self._take(out, updates[0], keys)

    def clear(self) -> None:
        """Forgets the updates and removes this object's files."""
        with self._lock:
            self._updates.clear()
            if self._folder is not None:
                shutil.rmtree(self._folder, ignore_errors=True)
                self._folder = None

    def _path(self, name: str) -> str:
        if self._folder is None:
            place = self._directory
            for update in self._updates[:1]:
                place = place or os.path.dirname(os.path.dirname(update.files()[0]))
            self._folder = tempfile.mkdtemp(prefix="flmem-round-", dir=place)
        return os.path.join(self._folder, name)

    @staticmethod
    def _common_keys(updates: List[_Update]) -> Optional[Dict[str, str]]:
        """Returns the names in the files if the files can be averaged as they are, else None."""
        keys = updates[0].keys()
        together = all(len({os.path.dirname(path) for path in one.files()}) == 1 for one in updates)
        same = all(one.keys() == keys for one in updates)
        if not together or not same or _are_too_many(sum(len(one.files()) for one in updates)):
            return None
        return keys

    def _input(self, update: _Update, number: int, keys: Optional[Dict[str, str]]) -> str:
        """Returns a file, or a folder with an index, that has the parameters of an update and no
        others."""
        files = update.files()
        if keys is None:
            return self._gathered(update, number)
        if len(files) == 1:
            return files[0]
        folder = os.path.dirname(files[0])
        index = {"metadata": {}, "weight_map": {key: os.path.basename(path) for path, key in update.places.values()}}
        with open(os.path.join(folder, _INDEX), "w", encoding="utf-8") as file:
            json.dump(index, file)
        return folder

    def _gathered(self, update: _Update, number: int) -> str:
        """Returns the path of a copy in one file, with the names of the parameters."""
        if all(key == name and path == update.files()[0] for name, (path, key) in update.places.items()):
            return update.files()[0]
        path = self._path(f"gathered-{number}.safetensors")
        _safetensors.write(path, ((name, _safetensors.of_file(*place)) for name, place in update.places.items()))
        return path

    @staticmethod
    def _take(out: str, first: _Update, keys: Optional[Dict[str, str]]) -> Dict[str, Any]:
        names = keys or {name: name for name in first.places}
        found = _safetensors.map_tensors(out, {key: first.is_torch[name] for name, key in names.items()})
        os.unlink(out)
        return {name: found[key] for name, key in names.items()}


def _explained(text: str, updates: List[_Update], inputs: List[str], keys: Optional[Dict[str, str]]) -> str:
    """Returns the message with clients and parameters in place of files and the names in them."""
    for update, path in zip(updates, inputs):
        text = text.replace(f"'{path}'", f"'{update.client}'")
    names = {key: name for name, key in (keys or {}).items()}
    return re.sub(r"tensor '([^']*)'", lambda found: f"tensor '{names.get(found[1], found[1])}'", text)
