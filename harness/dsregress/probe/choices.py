"""The values of parameters that have few. Standard library only: the host refuses any other before a cell runs, whose
failure would be taken for the release's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dsregress.probe import adapters
from dsregress.probe.factors import FACTORS

#: Parameters of this project's own adapters: name -> all values that they know.
CHOICES: Mapping[str, Sequence[Any]] = {factor.name: factor.known for factor in FACTORS if factor.known}

#: The adapters that take these parameters. A program's parameters of the same names are its own.
_TRAINING = (adapters.DEEPSPEED, adapters.DEEPSPEED_JOBS, adapters.TRAINER)


def refused_choice(framework: str, parameters: Mapping[str, object]) -> str:
    """Return a message on the first parameter with a value that the framework's adapter does not know; empty if all are
    known, or the adapter does not take them."""
    if framework in _TRAINING:
        for name, choices in CHOICES.items():
            if name in parameters and parameters[name] not in choices:
                known = ", ".join("none" if one is None else str(one) or "nothing" for one in choices)
                return f"{name}={parameters[name]}; known are: {known}"
    return ""
