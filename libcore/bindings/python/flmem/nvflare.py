# SPDX-License-Identifier: Apache-2.0
"""An aggregator for NVFlare that averages the clients' updates on disk.

    FedAvgRecipe(..., aggregator=flmem.nvflare.Aggregator(), enable_tensor_disk_offload=True,
                 server_expected_format=ExchangeFormat.PYTORCH)

NVFlare then leaves the updates in safetensors files, from which libflmem averages them. The result is
mapped from a file, too, so the server's anonymous memory has neither the updates nor their average.
"""

import math
import os
import re
import threading
from typing import Any, Dict, Optional

from nvflare.apis.fl_constant import FLMetaKey
from nvflare.app_common.abstract.fl_model import FLModel
from nvflare.app_common.aggregators.model_aggregator import ModelAggregator
from nvflare.app_common.aggregators.weighted_aggregation_helper import (
    WeightedAggregationHelper,
    filter_aggregatable_metrics,
)

from ._aggregate import check_numbers
from ._round import Round

__all__ = ["Aggregator"]


def _steps(meta: Dict[str, Any]) -> float:
    """Returns the weight that the client reports; 1 if that is not a positive number, as in
    NVFlare."""
    value = meta.get(FLMetaKey.NUM_STEPS_CURRENT_ROUND)
    try:
        steps = 1.0 if value is None or isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        return 1.0
    return steps if math.isfinite(steps) and steps > 0 else 1.0


class Aggregator(ModelAggregator):  # type: ignore[misc]
    """Averages the updates of a round with ``flmem.aggregate``.

    Without ``enable_tensor_disk_offload`` each update is written to a file as it arrives.

    Args:
        algorithm: of ``flmem.aggregate``, one without a state.
        aggregation_weights: of clients by their names; each is multiplied by the client's number of
            steps, as in NVFlare's FedAvg.
        exclude_vars: regular expression of parameters that are not averaged.
        nan: "reject" ends the job with the reason, "skip-client" averages without such updates,
            "propagate" does as NVFlare.
        non_float: what to do with integers, for example counters of batches: "round" averages them.
        trim, hostile, keep, clip_norm: of some algorithms.
        directory: where files are made; None: where NVFlare makes its own.
    """

    def __init__(  # pylint: disable=too-many-arguments,too-many-positional-arguments
        self,
        algorithm: str = "fedavg",
        aggregation_weights: Optional[Dict[str, float]] = None,
        exclude_vars: Optional[str] = None,
        nan: str = "reject",
        non_float: str = "round",
        trim: Optional[float] = None,
        hostile: Optional[int] = None,
        keep: Optional[int] = None,
        clip_norm: Optional[float] = None,
        directory: Optional[str] = None,
    ) -> None:
        super().__init__()
        check_numbers({"trim": trim, "clip_norm": clip_norm, "hostile": hostile, "keep": keep})
        self.algorithm = algorithm
        self.aggregation_weights = aggregation_weights
        self.exclude_vars = exclude_vars
        self.nan = nan
        self.non_float = non_float
        self.trim = trim
        self.hostile = hostile
        self.keep = keep
        self.clip_norm = clip_norm
        self.directory = directory
        self._lock = threading.Lock()
        self._start()

    def _start(self) -> None:
        self._round = Round(self.directory and os.fspath(self.directory))
        self._params_type: Any = None
        self._metrics: Optional[WeightedAggregationHelper] = WeightedAggregationHelper()

    def accept_model(self, model: FLModel) -> None:
        """Adds one update."""
        meta = model.meta or {}
        client = str(meta.get("client_name") or "unknown")
        weight = (self.aggregation_weights or {}).get(client, 1.0) * _steps(meta)
        excluded = re.compile(self.exclude_vars) if self.exclude_vars else None
        params = {
            name: value for name, value in model.params.items() if not (excluded and excluded.search(name))
        }
        with self._lock:
            if len(self._round) and model.params_type != self._params_type:
                raise ValueError(f"{client} sent {model.params_type}, others sent {self._params_type}")
            self._params_type = model.params_type
            self._round.add(client, weight, params)
            self._accept_metrics(model, client, weight)

    def _accept_metrics(self, model: FLModel, client: str, weight: float) -> None:
        """Averages metrics. As in NVFlare, there are none if one client sent none."""
        if model.metrics is None:
            self._metrics = None
        metrics = filter_aggregatable_metrics(model.metrics)
        if self._metrics is not None and metrics:
            self._metrics.add(metrics, weight, client, model.current_round)

    def aggregate_model(self) -> FLModel:
        """Returns the average, mapped from a file."""
        with self._lock:
            params = self._round.combine(
                algorithm=self.algorithm,
                nan=self.nan,
                non_float=self.non_float,
                trim=self.trim,
                hostile=self.hostile,
                keep=self.keep,
                clip_norm=self.clip_norm,
            )
            metrics = self._metrics.get_result() if self._metrics is not None else None
            result = FLModel(params=params, params_type=self._params_type, metrics=metrics or None)
            self._round.clear()
            self._start()
            return result

    def reset_stats(self) -> None:
        """Discards the updates of the round."""
        with self._lock:
            self._round.clear()
            self._start()
