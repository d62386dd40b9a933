"""The page about the published scripts, written from the answers of `reproduce` beside them and from ``titles.toml``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import tomllib

from harness.reproduce.factors import BY_NAME
from tests.paths import ROOT

FOLDER = ROOT / "docs" / "reproducers"
PAGE = FOLDER / "README.md"
ANSWERS = sorted(FOLDER.glob("*.json"))

_HEAD = """# Reproducers: findings without the harness

Each script needs the released packages alone, prints one line and ends with exit code 1 if the fault is there; its first
comment has the two `pip install` lines. [reproduce](../reproduce.md) wrote them and ran them in the releases below, on CPU.
The `.json` beside each is the whole answer. *Needs* and *does not matter* are of the smallest cell, one factor varied at a
time; *goes away with* is a setting with which the script was run and passed.
"""


class Title(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What an answer does not say, by the name of its script."""

    title: str
    what: str = ""  #: a sentence or two: what goes wrong, where the title does not say it all
    shown_by: dict[str, Any] | None = None  #: further findings that it shows


class Unscripted(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A problem of findings.md that no script shows."""

    problem: str
    reason: str
    shown_by: dict[str, Any] | None = None  #: the findings that it is known by


def titles() -> dict[str, Title]:
    return msgspec.convert(_toml("titles.toml"), dict[str, Title])


def unscripted() -> list[Unscripted]:
    return msgspec.convert(_toml("without_script.toml").get("problem", []), list[Unscripted])


def _toml(name: str) -> dict[str, Any]:
    return tomllib.loads((FOLDER / name).read_text(encoding="utf-8"))


def read(file: Path) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.json.decode(file.read_bytes())
    return found


def written() -> str:
    """The whole page: scripts in the order of ``titles.toml``, which is that of gravity."""
    sections = [
        _section(name, title, read(FOLDER / f"{name}.json"))
        for name, title in titles().items()
        if (FOLDER / f"{name}.json").is_file()
    ]
    reasons = [f"- {one.problem}: {one.reason}" for one in unscripted()]
    last = ["## Problems without a script", "\n".join(reasons)] if reasons else []
    return "\n\n".join([_HEAD.rstrip(), *sections, *last]) + "\n"


def _section(name: str, title: Title, answer: dict[str, Any]) -> str:
    blocks = [f"## {title.title}"]
    if title.what:
        blocks.append(title.what)
    outputs = [f"    {run['version']}, exit code {run['exit_code']}: {run['line']}" for run in answer["runs"]]
    blocks += [f"[{name}]({name}.py), from", f"    {_command(answer)}", "prints", "\n".join(outputs)]
    blocks.append("\n".join(f"- {label}: {text}" for label, text in _facts(answer)))
    return "\n\n".join(blocks)


def _command(answer: dict[str, Any]) -> str:
    cell = f"{answer['bad']}/{_workload(answer['cell'])}"
    metric = answer["metric"]
    if metric.startswith("outcome:"):
        metric = "outcome"  # the error is that of the cell
    sweep = " --results results/2026-11-21-sweep.jsonl.gz" if answer["releases"] else ""
    around = (
        "" if answer["package"] == "deepspeed" else f" --package {answer['package']} --deepspeed {_deepspeed(answer)}"
    )
    return f"python -m harness reproduce {cell} --metric {metric} --against {answer['good']}{around}{sweep}"


def _deepspeed(answer: dict[str, Any]) -> str:
    found = re.search(r"-deepspeed([^-/]+)", answer["cell"])
    assert found is not None
    return found[1]


def _workload(cell: str) -> str:
    """Of a cell's id, what is not its stack."""
    return cell.partition("/")[2]


def _facts(answer: dict[str, Any]) -> Iterator[tuple[str, str]]:
    yield "smallest cell", f"`{_workload(answer['smallest_cell'])}`"
    needed = [_factor(one).text(one["shown"], one["hidden"]) for one in answer["needs"]]
    if needed:
        yield "needs", "; ".join(needed)
    if answer["indifferent"]:
        yield "does not matter", ", ".join(_factor(one).noun for one in answer["indifferent"])
    if answer.get("not_known"):
        yield "not known", "; ".join(_factor(one).text(one["unknown"]) for one in answer["not_known"])
    for remedy in answer["remedies"]:
        yield f"goes away with {remedy['text']}", f"`{remedy['line']}`"


def _factor(condition: dict[str, Any]) -> Any:
    return BY_NAME[condition["factor"]]
