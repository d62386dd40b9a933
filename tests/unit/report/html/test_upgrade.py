"""What the first page answers from. That its script answers as the command does is tested in tests/browser."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from dsregress.compare import Comparison, Thresholds, compare
from dsregress.compare.comparison import DetailOf
from dsregress.model import Result
from dsregress.probe.border.wire import Detail
from dsregress.report.context import report_context
from dsregress.report.html import upgrade_form
from dsregress.report.html.site import no_detail
from dsregress.report.report_view import report_view
from tests.builders import comparisons
from tests.builders.synthetic import result


def data(comparison: Comparison) -> dict[str, Any]:
    context = report_context(comparison)
    lines = report_view(context).screen.problems
    kinds = upgrade_form.kinds_of_training(context, no_detail)
    pages = {line.number: f"problem/{line.number}.html" for line in lines}
    script = upgrade_form.upgrade_data(context, kinds, lines, pages)
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


def asked(results: list[Result], detail_of: DetailOf = no_detail) -> upgrade_form.UpgradeForm:
    context = report_context(compare(results, results[0].cell.stack.id, Thresholds(), no_detail))
    return upgrade_form.upgrade_form(context, upgrade_form.kinds_of_training(context, detail_of))


def test_the_form_asks_for_what_workloads_differ_in() -> None:
    kinds = [
        {"model": "llama-tiny", "zero_stage": 3, "lora_rank": 0, "offload_optimizer": False},
        {"model": "llama-tiny", "zero_stage": 1, "lora_rank": 8, "offload_optimizer": True},
        {"model": "llama-tiny"},
    ]
    results = [trained(version, **kind) for kind in kinds for version in ("0.15.0", "0.16.0")]
    form = asked(results)
    assert form.factors == (
        upgrade_form.FormField("ZeRO stage", ("1", "3")),
        upgrade_form.FormField("Offload", ("no", "optimizer")),
        upgrade_form.FormField("LoRA", ("no", "yes")),
    )


def test_of_one_release_alone_nothing_is_asked() -> None:
    alone = result()
    assert asked([alone]) == upgrade_form.UpgradeForm()


def test_of_programs_the_form_asks_for_what_their_engines_were_configured_with() -> None:
    def configured(stage: int, device: str | None) -> Detail:
        offload = {} if device is None else {"actor.deepspeed.zero_config.offload_optimizer.device": device}
        settings = {"actor.deepspeed.zero_optimization_stage": stage, "deepspeed.gradient_accumulation_steps": 1}
        return Detail(configuration={**settings, **offload})

    kinds = {"a": configured(2, None), "b": configured(3, "cpu"), "c": Detail()}
    results = [
        trained(version, program="train.py", stage=name) for name in (*kinds, "d") for version in ("0.15.0", "0.16.0")
    ]
    several = {**configured(2, None).configuration, "critic.deepspeed.zero_optimization_stage": 3}  # they disagree
    details = {**kinds, "d": Detail(configuration=several)}
    form = asked(results, lambda one: details[one.cell.parameters["stage"]])
    assert form.factors == (
        upgrade_form.FormField("ZeRO stage", ("2", "3")),
        upgrade_form.FormField("Offload", ("no", "optimizer")),
    )
