"""The question on the first page: its form, and its script, which answers as `audit` does."""

from __future__ import annotations

import shutil
import subprocess
from typing import Any

import msgspec
import pytest

from dsregress.advisories.advisory import Advisory, FactCondition
from dsregress.advisories.job_facts import said_fact, said_text
from dsregress.advisories.matching import Match
from dsregress.advisories.shipped import read_advisories
from dsregress.advisories.upgrading import UpgradeAnswer, judge_upgrade
from dsregress.compare import Thresholds, compare
from dsregress.model import Result
from dsregress.report.advisory_words import remedy_request
from dsregress.report.context import report_context
from dsregress.report.html.audit_data import audit_data, fact_json
from dsregress.report.html.upgrade_form import FormField, UpgradeForm, upgrade_data, upgrade_form
from dsregress.report.verdict_words import is_for_measuring, upgrade_headline
from tests.builders.advisories import advisory
from tests.builders.synthetic import result
from tests.paths import ROOT
from tests.unit.advisories.questions import QUESTIONS, Question, ids, stated

ENGINE = ROOT / "harness" / "dsregress" / "report" / "html" / "static" / "audit.js"
NODE = shutil.which("node")
UPGRADES = [one for one in QUESTIONS if one.to]

PRINT = """
const [written, asked] = JSON.parse(require("fs").readFileSync(0, "utf8"));
const ids = (found) => found.map((one) => one.advisory.id);
console.log(JSON.stringify(asked.map((one) => {
  const found = dsregressAudit.upgrade(written, one, one.to);
  return {
    said: found.headline, is_for_measuring: found.shown === "unknown", verdict: found.verdict,
    against: ids(found.against), instead: found.instead,
    remedies: found.conditions.flatMap((each) => each.remedies.map((remedy) => remedy.request)),
    gained: ids(found.gained.filter((each) => each.match === "concerned")), kept: ids(found.kept),
    changes: ids(found.changes), not_run: found.notRun.map((each) => [each.advisory.id, each.notRun]),
    skipped: found.skipped.map((each) => [each.package, each.releases, each.advisory.id]),
  };
})));
"""


class Said(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of one engine or the other."""

    said: str
    is_for_measuring: bool
    verdict: str
    against: tuple[str, ...]
    instead: dict[str, str]
    remedies: tuple[str, ...]
    gained: tuple[str, ...]
    kept: tuple[str, ...]
    changes: tuple[str, ...]
    not_run: list[tuple[str, tuple[str, ...]]]
    skipped: list[tuple[str, tuple[str, ...], str]]


def by_script(advisories: list[Advisory], questions: list[Question]) -> list[Said]:
    asked = [
        {
            "versions": one.job,
            "facts": {fact.name: fact_json(fact.value) for fact in map(said_fact, one.facts)},
            "to": one.to,
        }
        for one in questions
    ]
    assert NODE is not None
    ran = subprocess.run(
        [NODE, "-e", ENGINE.read_text(encoding="utf-8") + PRINT],
        input=msgspec.json.encode([audit_data(advisories), asked]),
        capture_output=True,
        check=True,
        timeout=60,
    )
    return msgspec.json.decode(ran.stdout, type=list[Said])


def by_audit(advisories: list[Advisory], question: Question) -> Said:
    old = stated(question)
    new = old.going_to(question.to)
    found: UpgradeAnswer = judge_upgrade(advisories, old.job, new.job)
    return Said(
        said=upgrade_headline(found, old, new),
        is_for_measuring=is_for_measuring(found),
        verdict=found.verdict.value,
        against=ids(found.against),
        instead=dict(found.instead),
        remedies=tuple(remedy_request(remedy) for one in found.conditions for remedy in one.remedies),
        gained=ids(one for one in found.gained if one.match is Match.CONCERNED),
        kept=ids(found.kept),
        changes=ids(found.changes),
        not_run=[(one.advisory.id, one.not_run) for one in found.not_run],
        skipped=[(one.package, one.releases, one.matched.advisory.id) for one in found.skipped],
    )


@pytest.mark.skipif(NODE is None, reason="no node here")
def test_the_script_answers_every_question_as_audit_does() -> None:
    advisories = list(read_advisories())
    for question, said in zip(UPGRADES, by_script(advisories, UPGRADES), strict=True):
        assert said == by_audit(advisories, question), question.name


@pytest.mark.skipif(NODE is None, reason="no node here")
@pytest.mark.parametrize(
    ("affected", "unaffected", "to"),
    [
        (["0.17.0rc1"], ["0.16.0", "0.17.0"], "0.17.0rc1"),
        (["0.17.0a2", "0.17.0b1"], ["0.16.0", "0.17.0"], "0.17.0a9"),
        (["0.17.0.post1"], ["0.17.0", "0.18.0"], "0.17.0.post1"),
        (["0.9.0"], ["0.10.0", "0.16.0"], "0.16.0"),
        (["0.17.0.dev1"], ["0.16.0", "0.17.0a1"], "0.17.0.dev1"),
    ],
)
def test_the_script_orders_releases_as_packaging_does(affected: list[str], unaffected: list[str], to: str) -> None:
    own = [advisory(affected=affected, unaffected=unaffected)]
    question = Question(name="", job={"deepspeed": unaffected[0]}, facts=(), to={"deepspeed": to})
    assert by_script(own, [question]) == [by_audit(own, question)]


@pytest.mark.skipif(NODE is None, reason="no node here")
@pytest.mark.parametrize("fact", ["lora=yes", "lora_rank=64", "gradient_clipping=0.3", "hpz_partition_size=1"])
@pytest.mark.parametrize("needs", [{"lora_rank": ([8], [0])}, {"gradient_clipping": ([1.0], [0.0])}])
def test_the_script_takes_a_number_for_the_one_that_was_run(fact: str, needs: Any) -> None:
    own = [advisory(needs=needs)]
    question = Question(name="", job={"deepspeed": "0.16.0"}, facts=(fact,), to={"deepspeed": "0.18.0"})
    assert by_script(own, [question]) == [by_audit(own, question)]


@pytest.mark.skipif(NODE is None, reason="no node here")
@pytest.mark.parametrize("steps", [0, 1, 7])
def test_the_script_takes_every_number_above_another(steps: int) -> None:
    above = FactCondition(fact="warmup_steps", shown=(2,), above=0)
    own = [msgspec.structs.replace(advisory(), conditions=(above,))]
    question = Question(
        name="", job={"deepspeed": "0.16.0"}, facts=(f"warmup_steps={steps}",), to={"deepspeed": "0.18.0"}
    )
    assert by_script(own, [question]) == [by_audit(own, question)]


def form_of(*results: Result) -> UpgradeForm:
    return upgrade_form(report_context(compare(results, results[0].cell.stack.id, Thresholds(), lambda _: None)))


def test_the_form_first_asks_about_the_way_to_the_newest_release() -> None:
    form = form_of(result("0.16.0"), result("0.16.4"))
    assert (form.package, form.old, form.new) == ("deepspeed", "0.16.0", "0.16.4")
    assert form.answer.startswith("deepspeed 0.16.0 -> 0.16.4: ")
    assert {"0.15.4", "0.19.8"} <= set(form.releases)
    assert form.fields[0] == FormField(
        "zero_stage", "ZeRO stage", tuple((str(stage), f"ZeRO stage {stage}") for stage in range(4))
    )


def test_every_choice_of_the_form_is_a_fact_that_can_be_said() -> None:
    for field in form_of(result("0.16.0"), result("0.16.4")).fields:
        for value, _ in field.values:
            own = msgspec.json.decode(value)
            assert said_fact(f"{field.fact}={said_text(own)}").value == own


def test_of_one_release_alone_nothing_is_asked() -> None:
    assert form_of(result()) == UpgradeForm()


def test_the_data_is_a_script() -> None:
    content = msgspec.json.decode(upgrade_data().removeprefix(b"dsregressUpgrade(").removesuffix(b")\n"))
    assert len(content["advisories"]) == len([one for one in read_advisories() if not one.withdrawn])
