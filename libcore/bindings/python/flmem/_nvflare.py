# SPDX-License-Identifier: Apache-2.0
"""Replaces functions of nvflare.fuel.utils.memory_utils, also where they were imported before."""

import importlib
import logging
import sys
from types import ModuleType
from typing import Any, Callable, Dict, List, Sequence

_HOME = "nvflare.fuel.utils.memory_utils"

_logger = logging.getLogger("flmem")


def _loaded_modules() -> List[ModuleType]:
    """Returns a list, not an iterator, because other threads may import modules meanwhile."""
    return [
        module
        for name, module in list(sys.modules.items())
        if module is not None and (name == "nvflare" or name.startswith("nvflare."))
    ]


def _replace_in(module: ModuleType, new_by_old: Dict[int, Callable[..., Any]]) -> None:
    for name, value in list(vars(module).items()):
        new = new_by_old.get(id(value))
        if new is not None:
            setattr(module, name, new)


def replace(functions: Sequence[Callable[..., Any]]) -> bool:
    """Replaces the functions of the same names. Returns False, with nothing changed, if one is
    missing."""
    try:
        home = importlib.import_module(_HOME)
        old = [getattr(home, function.__name__) for function in functions]
    except (ImportError, AttributeError) as problem:
        _logger.warning("NVFlare keeps its own clean-up: %s", problem)
        return False
    new_by_old = {id(a): b for a, b in zip(old, functions)}
    for module in _loaded_modules():
        _replace_in(module, new_by_old)
    return True
