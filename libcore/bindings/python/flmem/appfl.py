# SPDX-License-Identifier: Apache-2.0
"""A scheduler and an aggregator for APPFL that write each update to a file as it arrives.

    server_configs:
      scheduler: Scheduler
      scheduler_path: .../flmem/appfl.py      # python3 -c 'import flmem.appfl; print(flmem.appfl.__file__)'
      aggregator: Aggregator
      aggregator_path: .../flmem/appfl.py

APPFL's own scheduler keeps the updates of all clients until the last one has arrived. APPFL loads this
file by its path, so it imports the rest of the module by its whole name.
"""

from typing import Any, Dict, Optional

import torch
from appfl.algorithm.aggregator import FedAvgAggregator
from appfl.algorithm.scheduler import SyncScheduler

from flmem._aggregate import check_numbers
from flmem._round import Round

__all__ = ["Aggregator", "Scheduler"]

_OPTIONS = ("algorithm", "nan", "trim", "hostile", "keep", "clip_norm")


class _Written(Dict[str, Any]):
    """Takes the place of an update that is in a file."""


class Aggregator(FedAvgAggregator):  # type: ignore[misc]
    """APPFL's FedAvg, with ``flmem.aggregate`` in place of the sums in memory.

    aggregator_kwargs are those of APPFL's FedAvgAggregator, ``algorithm``, ``nan``, ``non_float``
    ("round"), ``trim``, ``hostile``, ``keep`` and ``clip_norm`` of ``flmem.aggregate``, and
    ``directory``, where the updates are written.
    """

    def __init__(self, model: Optional[torch.nn.Module] = None, aggregator_configs: Any = None,
                 logger: Optional[Any] = None) -> None:
        configs = {} if aggregator_configs is None else aggregator_configs
        if configs.get("use_secure_agg", False):
            raise ValueError("masked updates cannot be averaged by flmem; use APPFL's FedAvgAggregator")
        super().__init__(model, configs, logger)
        self._options = {name: configs[name] for name in _OPTIONS if name in configs}
        check_numbers(self._options)
        self._options["non_float"] = configs.get("non_float", "round")
        self._round = Round(configs.get("directory", None))

    def take(self, client_id: Any, local_model: Dict[str, Any]) -> Dict[str, Any]:
        """Writes an update to a file; returns the object that takes its place."""
        if not isinstance(local_model, _Written):
            self._round.add(str(client_id), 1, local_model)
        return _Written()

    def aggregate(self, local_models: Dict[Any, Dict[str, Any]], **kwargs: Any) -> Dict[str, Any]:
        """Returns the average of the updates, or of one chunk of them, mapped from a file."""
        try:
            for client_id in list(local_models):
                local_models[client_id] = self.take(client_id, local_models[client_id])
            found: Dict[str, Any] = self._round.combine(weights=self._weights(local_models), **self._options)
        finally:
            self._round.clear()
        if self.global_state is None:
            self.global_state = {}
        self.global_state.update(found)
        if self.model is not None:
            self.model.load_state_dict(found, strict=False)
        return found

    def _weights(self, local_models: Dict[Any, Any]) -> Dict[str, float]:
        """Returns the weight of a client. As in APPFL, a client of unknown size has the weight
        1/n."""
        sizes = getattr(self, "client_sample_size", {}) if self.client_weights_mode == "sample_size" else {}
        total = sum(sizes.get(client_id, 0) for client_id in local_models)
        equal = 1 / len(local_models)
        return {str(client_id): sizes[client_id] / total if total and client_id in sizes else equal
                for client_id in local_models}


class Scheduler(SyncScheduler):  # type: ignore[misc]
    """APPFL's SyncScheduler, which hands each update to ``Aggregator`` as it arrives."""

    def schedule(self, client_id: Any, local_model: Dict[str, Any], **kwargs: Any) -> Any:
        """Schedules an update as APPFL does."""
        return super().schedule(client_id, self.aggregator.take(client_id, local_model), **kwargs)
