"""The numerics oracle under several instruction sets of one processor: `nox -s instruction_sets`.

    python -m tests.functional.instruction_sets FOLDER RELEASE [RELEASE ...]

Trains every declared CPU cell of the releases, on real ranks, once for each group of `SETTINGS` that compute the same
bits, and judges them, and plain PyTorch with each known fault (`tests/probe/oracles/campaign.py`). Prints the tables of
docs/numerics-oracle.md; exit code 1 where a release is wrong under one instruction set and not under another, or where a
fault is not found. What FOLDER already holds is not trained again. Takes hours on two cores.
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from dsregress.config import variables
from tests.paths import ROOT

ONEDNN, ATEN = "ONEDNN_MAX_CPU_ISA", "ATEN_CPU_CAPABILITY"
#: ONEDNN_MAX_CPU_ISA and ATEN_CPU_CAPABILITY; empty: not set.
SETTINGS = tuple(itertools.product(("", "SSE41", "AVX2", "AVX512_CORE", "AVX512_CORE_BF16"), ("", "avx2", "avx512")))
#: What tells whether two settings compute the same bits: all dtypes, two models, with and without adapters.
SAMPLE = ("llama_zero3_backward/dtype*", "llama_zero3_backward/base", "trl_qwen2_5_7b_lora/base")

Setting = tuple[str, str]
Line = Mapping[str, Any]


def main(folder: Path, releases: Sequence[str]) -> int:
    pythons = {release: _environment(release) for release in releases}
    python = pythons[releases[0]]
    for setting in SETTINGS:
        for pattern in SAMPLE:
            _campaign(python, setting, "train", pattern, str(folder / "sample" / _name(setting)))
    groups = _alike(python, folder / "sample")
    lines: dict[Setting, list[Line]] = {}
    for setting in groups:
        trained = folder / "all" / _name(setting)
        for release in releases:
            _campaign(pythons[release], setting, "train", "*", str(trained / release))
        _campaign(python, setting, "judge", str(trained), str(trained / "judged.jsonl"))
        lines[setting] = [json.loads(line) for line in (trained / "judged.jsonl").read_text().splitlines()]
    sys.stdout.write(table(groups, lines, releases))
    return 1 if _undeserved(lines, releases) or _missed(lines) else 0


def table(
    groups: Mapping[Setting, Sequence[Setting]], lines: Mapping[Setting, Sequence[Line]], releases: Sequence[str]
) -> str:
    """Markdown: a row per group of settings and release; a row per group and fault; the cells that are wrong."""
    out = [
        "| oneDNN / ATen | release | cells | right | furthest | wrong | only here | not trainable |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    undeserved = _undeserved(lines, releases)
    for setting, release in itertools.product(groups, releases):
        cells = _cells(lines[setting], release)
        distances = {cell: _furthest(line) for cell, line in cells.items() if "errors" in line}
        right = {cell: size for cell, size in distances.items() if size <= 1}
        here = sum(1 for place, of, _ in undeserved if (place, of) == (setting, release))
        out.append(
            f"| {_names(groups[setting])} | {release} | {len(cells)} | {len(right)} | {max(right.values(), default=0):.2f} "
            f"| {len(distances) - len(right)} | {here} | {len(cells) - len(distances)} |"
        )
    out += [
        "",
        "| oneDNN / ATen | fault | workloads | found in | nearest |",
        "| --- | --- | --- | --- | --- |",
    ]
    for setting in groups:
        for fault, sizes in _faults(lines[setting]).items():
            found = [size for size in sizes if size > 1]
            out.append(f"| {_names(groups[setting])} | {fault} | {len(sizes)} | {len(found)} | {min(sizes):.2f} |")
    for release in releases:
        wrong = sorted(
            {cell for place in lines for cell, line in _cells(lines[place], release).items() if _furthest(line) > 1}
        )
        out += ["", f"Wrong in {release}: {', '.join(f'`{cell}`' for cell in wrong) or 'nothing'}."]
    return "\n".join(out) + "\n"


def _environment(release: str) -> str:
    ran = subprocess.run(
        [sys.executable, "-m", "dsregress", "env", release], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True
    )
    return ran.stdout.strip()


def _campaign(python: str, setting: Setting, *arguments: str) -> None:
    environment = {name: value for name, value in variables.child_environment().items() if name not in (ONEDNN, ATEN)}
    environment |= {name: value for name, value in zip((ONEDNN, ATEN), setting) if value} | {"OMP_NUM_THREADS": "1"}
    command = [python, "-m", "tests.probe.oracles.campaign", *arguments]
    subprocess.run(command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, check=True)


def _alike(python: str, sample: Path) -> dict[Setting, list[Setting]]:
    """The settings whose samples are the same to the bit, under the first of each group."""
    _campaign(python, SETTINGS[0], "judge", str(sample), str(sample / "judged.jsonl"))
    digests: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for line in map(json.loads, (sample / "judged.jsonl").read_text().splitlines()):
        if "digest" in line:
            digests[line["where"]].append((line["cell"], line["digest"]))
    groups: dict[tuple[Any, ...], list[Setting]] = defaultdict(list)
    for setting in SETTINGS:
        groups[tuple(sorted(digests[_name(setting)]))].append(setting)
    return {members[0]: members for members in groups.values()}


def _undeserved(lines: Mapping[Setting, Sequence[Line]], releases: Iterable[str]) -> list[tuple[Setting, str, str]]:
    """Where a cell is wrong under a setting and right under another one: setting, release, cell."""
    found = []
    for release in releases:
        wrong = {
            place: {cell for cell, line in _cells(lines[place], release).items() if _furthest(line) > 1}
            for place in lines
        }
        always = set.intersection(*wrong.values())
        found += [(place, release, cell) for place, cells in wrong.items() for cell in sorted(cells - always)]
    return found


def _missed(lines: Mapping[Setting, Sequence[Line]]) -> bool:
    return any(size <= 1 for judged in lines.values() for sizes in _faults(judged).values() for size in sizes)


def _cells(judged: Sequence[Line], release: str) -> dict[str, Line]:
    return {line["cell"]: line for line in judged if line.get("where") == release}


def _faults(judged: Sequence[Line]) -> dict[str, list[float]]:
    found: dict[str, list[float]] = defaultdict(list)
    for line in judged:
        if "fault" in line:
            found[line["fault"]].append(_furthest(line))
    return found


def _furthest(line: Line) -> float:
    return max((size for size in line.get("errors", ()) if size is not None), default=0.0)


def _name(setting: Setting) -> str:
    return "-".join(value or "default" for value in setting)


def _names(settings: Iterable[Setting]) -> str:
    return ", ".join(" / ".join(value or "default" for value in setting) for setting in settings)


if __name__ == "__main__":
    os.chdir(ROOT)
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
