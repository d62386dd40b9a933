"""What the first page answers from. That its script answers as the command does is tested in tests/browser."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from harness.advice.card_rooms import CardRooms
from harness.compare import Comparison, Thresholds, compare
from harness.model import Result
from harness.report.html import upgrade
from harness.report.view import view
from tests.builders import comparisons
from tests.builders.synthetic import result


def data(comparison: Comparison) -> dict[str, Any]:
    rooms = CardRooms(comparison)
    lines = view(comparison, rooms).screen.problems
    script = upgrade.data(comparison, lines, {line.number: f"problem/{line.number}.html" for line in lines}, rooms)
    content: dict[str, Any] = json.loads(script.removeprefix(b"dsregressUpgrade(").removesuffix(b")\n"))
    return content


def test_each_run_has_a_letter_for_how_it_stands() -> None:
    found = data(comparisons.comparison())
    assert [release["name"] for release in found["releases"]][5] == "0.17.0"
    assert [own["ran"] for own in found["workloads"]] == ["cccccfcfc"]  # two crash


def test_each_problem_has_the_releases_that_have_it_by_workload() -> None:
    problems = data(comparisons.comparison())["problems"]
    assert [(one["kind"], one["on"], one["page"]) for one in problems][:3] == [
        ("WRONG", {"0": [6]}, "problem/1.html"),
        ("CRASH", {"0": [5]}, "problem/2.html"),
        ("LEAK", {"0": [2, 3]}, "problem/3.html"),
    ]


def trained(version: str, **parameters: Any) -> Result:
    """A run whose workload has these parameters."""
    named = ",".join(f"{name}={value}" for name, value in parameters.items())
    one = result(version, variant=named)
    return msgspec.structs.replace(one, cell=msgspec.structs.replace(one.cell, parameters=parameters))


def test_the_form_asks_for_what_workloads_differ_in() -> None:
    kinds = [
        {"model": "llama-tiny", "zero_stage": 3, "lora_rank": 0, "offload_optimizer": False},
        {"model": "llama-tiny", "zero_stage": 1, "lora_rank": 8, "offload_optimizer": True},
        {"model": "llama-tiny"},
    ]
    results = [trained(version, **kind) for kind in kinds for version in ("0.15.0", "0.16.0")]
    form = upgrade.form(compare(results, results[0].cell.stack.id, Thresholds(), lambda r: None))
    assert form.factors == (
        upgrade.Factor("ZeRO stage", ("1", "3")),
        upgrade.Factor("Offload", ("no", "optimizer")),
        upgrade.Factor("LoRA", ("no", "yes")),
    )


def test_of_one_release_alone_nothing_is_asked() -> None:
    alone = result()
    assert upgrade.form(compare([alone], alone.cell.stack.id, Thresholds(), lambda r: None)) == upgrade.UpgradeForm()
