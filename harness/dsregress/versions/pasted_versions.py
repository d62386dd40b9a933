"""Versions as reports paste them: tables of ``pip list`` and ``conda list``, the blocks of ``transformers-cli env``, torch's
collect_env and DeepSpeed's ds_report. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from dsregress.versions.install_lines import installed_lines

_TABLE = re.compile(r"^\s*(?:Package|#\s*Name)\s+Version\b", re.IGNORECASE)
_ROW = re.compile(r"^\s*(?P<name>[A-Za-z0-9][\w.-]*)\s+(?P<version>\d\S*)(?:\s|$)")

#: A line of ``conda list --export``: ``pytorch=2.6.0=py3.11_cuda12.4_cudnn9.1.0_0``.
_EXPORTED = re.compile(r"^(?P<name>[A-Za-z0-9][\w.-]*)=(?P<version>\d[^=\s]*)=[^=\s]+$")

#: ``- `transformers` version: 4.57.6``, ``- PyTorch version (GPU?): 2.6.0+cu124 (True)``
_FACT = re.compile(r"^\s*-\s+`?(?P<name>[A-Za-z][\w.-]*)`? version(?: \([^)]*\))?: (?P<version>\d\S*)")

#: A line of torch's collect_env: ``[pip3] torch==2.7.1+cu126``, ``[conda] pytorch 2.5.1 py3.11_cuda12.4 pytorch``
_COLLECTED = re.compile(r"^\[(?:pip3?|conda)\]\s+(?P<name>[A-Za-z0-9][\w.-]*)(?:==|\s+)(?P<version>\d\S*)")

#: A line of DeepSpeed's ds_report: ``deepspeed info ................... 0.16.8, unknown, unknown``
_REPORTED = re.compile(r"^(?P<name>torch|deepspeed) (?:version|info) \.+ (?P<version>\d[^\s,]*)")

#: A line of ``conda list --explicit``.
_EXPLICIT = re.compile(
    r"^https?://\S+/(?P<name>[\w.-]+)-(?P<version>\d[^-/\s]*)-[^-/\s]+\.(?:conda|tar\.bz2)(?:#\S*)?$"
)

_FORMS = (_EXPORTED, _FACT, _COLLECTED, _REPORTED, _EXPLICIT)

#: Lines that name a torch for CUDA, or its cards: of ``transformers-cli env``, ``trl env`` and LLaMA-Factory's,
_OF_ENV = (
    r"-?\s*(?:.*\bversion[^:\n]*: \d\S* \((?:CUDA|GPU)\)|PyTorch version \(GPU\?\): \d\S* \(True\)|Using GPU .*: yes)"
)
#: of these, torch's collect_env and DeepSpeed's ds_report,
_OF_CARDS = (
    r"-?\s*(?:GPU type|CUDA used to build PyTorch|accelerator\(s\)): (?:NVIDIA|Tesla|\d).*|torch cuda version \.+ \d.*"
)
#: images of containers,
_OF_IMAGE = r"(?:FROM\s+|-?\s*image:\s*)?\S*(?:pytorch/pytorch|nvidia/\w+):\S*(?:cuda\d|\d-py3)\S*(?:\s+as\s+\S+)?"
#: and conda's builds.
_OF_BUILD = r"-?\s*(?:\S*(?:::|/))?pytorch(?:=+|\s+|-)\d[\w.]*(?:=|\s+|-)\S*cuda\S*.*"
_OF_CUDA = re.compile(rf"^\s*(?:{_OF_ENV}|{_OF_CARDS}|{_OF_IMAGE}|{_OF_BUILD})\s*$", re.MULTILINE | re.IGNORECASE)

#: Distributions that only a torch for CUDA requires: pip's and conda's.
_WITH_CUDA = re.compile(r"nvidia-cuda-runtime(?:-cu\d+)?|pytorch-cuda|pytorch-gpu|cuda-cudart")

#: conda's name -> the package's, where they are not the same.
CONDA_NAMES = {"pytorch": "torch", "pytorch-cpu": "torch", "pytorch-gpu": "torch"}

#: Names in these -> names of packages, where they are not the same but for case; None for what is no package.
_NAMES = {**CONDA_NAMES, "python": None}


def sign_of_cuda(text: str, packages: Iterable[str]) -> str:
    """Return the package, or else the line, by which an environment has a torch for CUDA; empty if nothing says so."""
    found = next((name for name in packages if _WITH_CUDA.fullmatch(name)), "")
    line = _OF_CUDA.search(text) if not found else None
    return " ".join(line[0].strip(" -\t").split()) if line is not None else found


def as_requirements(text: str) -> str:
    """Return the text with a pasted table or block as lines of pins, each in its place, and what a Dockerfile or a script
    installs; another text as it is."""
    if (installed := installed_lines(text)) is not None:
        return "\n".join(installed)
    lines = text.splitlines()
    written = [line for line in lines if line.strip()]
    if written and all(map(_ROW.match, written)):  # of a table, without its heading
        return "\n".join(_pin_line(_ROW.match(line)) for line in lines)
    if any(map(_TABLE.match, lines)):
        return "\n".join(_of_table(lines))
    found = [next((one for form in _FORMS if (one := form.match(line))), None) for line in lines]
    return "\n".join(map(_pin_line, _once(found))) if any(found) else text


def _once(found: Iterable[re.Match[str] | None]) -> Iterator[re.Match[str] | None]:
    """Yield the lines, each package once: reports repeat it under pip's and conda's name."""
    seen = set()
    for one in found:
        pin = _pin_line(one).partition("==")[0]
        yield None if pin in seen else one
        seen |= {pin} - {""}


def _of_table(lines: list[str]) -> Iterator[str]:
    is_inside = False
    for line in lines:
        is_inside = is_inside or _TABLE.match(line) is not None
        yield _pin_line(_ROW.match(line) if is_inside else None)


def _pin_line(found: re.Match[str] | None) -> str:
    """Return the pin of a name with a version; empty for what is none, or is no package."""
    if found is None:
        return ""
    name = found["name"].lower()
    name = _NAMES.get(name, name)
    return f"{name}=={found['version']}" if name else ""
