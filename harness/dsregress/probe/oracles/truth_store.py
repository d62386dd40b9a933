"""The truth of a workload, kept for the other releases of a sweep: plain PyTorch trains the same for all of them, and takes
the same memory. So is the verdict on a program's training, for a release that trains the same, to the last bit.

A file is named by the hash of all that decides what is in it: the workload, the model's shape, the releases of torch and of
the libraries that build the model, the processor's kind, and the source of the oracle. It begins with a digest of its
content: a flipped bit would make a wrong oracle, which neither JSON nor `torch.load` notices. A file that cannot be read, or
does not match its digest, is made anew. What is measured could write there as well, as it could to everything of the same
user; the digest is no signature.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import importlib.metadata
import io
import json
import os
import platform
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import torch

from dsregress.probe.border.surroundings import TRUTHS
from dsregress.probe.border.untrusted import read_regular
from dsregress.probe.factors import FACTORS
from dsregress.probe.oracles.ideal import PlainMemory
from dsregress.probe.oracles.references import References
from dsregress.probe.workloads.workload import Workload
from skeletons import weights
from vgpu.whole_files import write_whole

#: Beyond this, the files that were not read for longest go: a tiny Llama's has a MiB.
MOST_BYTES = 1 << 30

#: Parameters of a workload that change no number of plain PyTorch: it has one forward, evaluates and saves nothing, and
#: computes again what it computed before.
_INDIFFERENT = {
    factor.name: factor.simplest
    for factor in FACTORS
    if not factor.in_truth and factor.name in {field.name for field in dataclasses.fields(Workload)}
}

#: Variables by which the user limits the instructions that libraries compute with.
_INSTRUCTION_SETS = (
    *("ATEN_CPU_CAPABILITY", "DNNL_MAX_CPU_ISA", "ONEDNN_MAX_CPU_ISA"),
    *("MKL_CBWR", "MKL_ENABLE_INSTRUCTIONS"),
)

_T = TypeVar("_T")

_DIGEST_BYTES = hashlib.sha256().digest_size

#: What computes them: folders of modules, and modules.
_ROOMS = (
    Path(__file__).parent,
    Path(__file__).parents[1] / "workloads",
    Path(__file__).parents[2] / "programs" / "truth",
)
_SOURCES = (*_ROOMS, Path(weights.__file__))


def file_of(work: Workload, shape: Mapping[str, object], steps: int, job: object = None) -> Path | None:
    """Return the file of the truth of a workload, or of a job of several models with it; None if no truths are kept.
    ``job`` tells such jobs apart, as JSON has it."""
    simplest = dataclasses.replace(work, **_INDIFFERENT)
    return _store_file("truth", _decides(simplest, shape, steps=steps, job=job))


def memory_file_of(work: Workload, shape: Mapping[str, object], device: str) -> Path | None:
    """Return the file of the memory that plain PyTorch takes for a micro-batch of a workload; None if none is kept."""
    return _store_file("memory", _decides(work, shape, device=device))


def verdict_file_of(parameters: Mapping[str, object], trained: Mapping[str, object]) -> Path | None:
    """Return the file of the verdict on a program's training; None if none is kept. ``parameters`` are its cell's,
    ``trained`` is what shows that two trainings are the same: in all bits, so that the releases do not matter."""
    return _store_file("verdict", {"parameters": dict(parameters), "trained": dict(trained)})


def _store_file(ending: str, decides: Mapping[str, object]) -> Path | None:
    folder = os.environ.get(TRUTHS)
    if not folder:
        return None
    decides = {**decides, "source": _source_of_truth()}
    name = hashlib.sha256(json.dumps(decides, sort_keys=True).encode()).hexdigest()[:32]
    return Path(folder) / f"{name}.{ending}"


def _decides(work: Workload, shape: Mapping[str, object], **more: object) -> dict[str, object]:
    return {
        "work": dataclasses.asdict(work),
        "shape": dict(shape),
        "releases": _releases_of_truth(),
        "processor": _processor(),
        **more,
    }


def read_references(file: Path) -> References | None:
    """None where there is nothing that can be read."""
    return _read_file(file, lambda content: References.from_plain(torch.load(io.BytesIO(content), weights_only=True)))


def read_memory(file: Path) -> PlainMemory | None:
    """As `read_references`."""
    return _read_file(
        file, lambda content: PlainMemory(**{name: int(size) for name, size in json.loads(content).items()})
    )


def read_verdict(file: Path) -> dict[str, Any] | None:
    """As `read_references`."""
    return _read_file(file, lambda content: dict(json.loads(content)))


def _read_file(file: Path, load: Callable[[bytes], _T]) -> _T | None:
    try:
        written = read_regular(file, MOST_BYTES)
        content = written[_DIGEST_BYTES:]
        if written[:_DIGEST_BYTES] != hashlib.sha256(content).digest():
            return None
        kept = load(content)
        os.utime(file)
    except Exception:  # torch raises whatever the bytes of a file that others wrote lead to
        return None
    return kept


def write_references(file: Path, references: References) -> None:
    """Whole or not at all; where the disk does not let it, nothing is kept."""
    kept = io.BytesIO()
    torch.save(references.as_plain(), kept)
    _write_file(file, kept.getvalue())


def write_memory(file: Path, taken: PlainMemory) -> None:
    """As `write_references`."""
    _write_file(file, json.dumps(dataclasses.asdict(taken)).encode())


def write_verdict(file: Path, verdict: Mapping[str, object]) -> None:
    """As `write_references`."""
    _write_file(file, json.dumps(dict(verdict)).encode())


def _write_file(file: Path, content: bytes) -> None:
    with contextlib.suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        write_whole(file, hashlib.sha256(content).digest() + content)
        _drop_oldest(file.parent)


def _drop_oldest(folder: Path) -> None:
    found = sorted(
        (status.st_mtime, status.st_size, file) for file in folder.glob("[0-9a-f]*.*") if (status := file.stat())
    )
    too_much = sum(size for _, size, _ in found) - MOST_BYTES
    for _, size, file in found:
        if too_much <= 0:
            return
        file.unlink(missing_ok=True)
        too_much -= size


@functools.cache
def _releases_of_truth() -> dict[str, str]:
    return {name: importlib.metadata.version(name) for name in ("torch", "transformers", "peft")}


def _processor() -> list[Any]:
    """Return what decides which instructions torch and its libraries compute with, and in which order they add."""
    limits = {name: os.environ.get(name, "") for name in _INSTRUCTION_SETS}
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    features = next((line for line in lines if line.startswith(("flags", "Features"))), "")
    return [platform.machine(), features, limits, torch.backends.cpu.get_cpu_capability(), torch.get_num_threads()]


@functools.cache
def _source_of_truth() -> str:
    sha = hashlib.sha256()
    for source in _SOURCES:
        for file in sorted(source.glob("*.py")) if source.is_dir() else [source]:
            sha.update(file.read_bytes())
    return sha.hexdigest()
