"""An effective configuration as dotted keys and JSON scalars, from any objects in which a release keeps it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from enum import Enum
from typing import Any

from dsregress.probe.border.encoding import bounded_text

#: Keys that identify this run or this machine, not a choice of the framework.
_OWN = ("_param_dict", "global_rank", "mesh_device")


def flatten(prefix: str, value: object, depth: int = 5) -> dict[str, object]:
    """Return ``{"deepspeed.zero_config.stage": 3, ...}``; modules, handles and other objects are left out."""
    found: dict[str, Any] = {}
    _flatten(prefix, value, depth, found)
    return dict(sorted(found.items()))


def _flatten(key: str, value: object, depth: int, found: dict[str, object]) -> None:
    if isinstance(value, Enum):
        value = value.value
    if isinstance(value, float) and not math.isfinite(value):
        value = str(value)  # which JSON has no number for
    if value is None or isinstance(value, (bool, int, float, str)):
        found[key] = value
        return
    if depth == 0:
        return
    fields = _fields(value)
    if fields is not None:
        for name, inner in fields.items():
            if name not in _OWN:
                _flatten(f"{key}.{bounded_text(name).lstrip('_')}", inner, depth - 1, found)
    elif isinstance(value, (list, tuple)) and all(isinstance(v, (bool, int, float, str)) for v in value):
        found[key] = ", ".join(map(bounded_text, value))
    elif type(value).__name__ == "dtype":
        found[key] = str(value)


def _fields(value: object) -> Mapping[Any, object] | None:
    if isinstance(value, Mapping):
        return value
    dump = getattr(type(value), "model_fields", None) or getattr(type(value), "__fields__", None)
    if dump is not None:  # pydantic, either major version
        return {name: getattr(value, name, None) for name in dump}
    if type(value).__module__.startswith(("deepspeed", "transformers", "accelerate", "peft")) and hasattr(
        value, "__dict__"
    ):
        return vars(value)
    return None
