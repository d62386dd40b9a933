"""A factor is one file: a made-up one, in a file of its own, is everywhere."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from dsregress.probe.factors import FACTORS
from tests.paths import ROOT, SOURCE

MADE_UP = """
from dsregress.probe.factor import ZERO, Fragment, Hooks, need, switch


def _shard(engine, value):
    engine.calls.append(value)


MICS = switch(
    "mics",
    "a MiCS shard",
    group="sharding",
    needs=(need("zero_stage", 3),),
    configured=True,
    key=f"{ZERO}mics_shard_size",
    known=(False, True),
    hooks=Hooks(after_update=_shard),
    script=Fragment(at={"after_update": "engine.shard({{ mics }})"}, imports=("shlex",), is_between=True),
)
"""

ASKED = """
import json, sys, types
from pathlib import Path
from dsregress.bisect.questions import parse_question
from dsregress.explore import space
from dsregress.probe import choices, scenario
from dsregress.probe.factor import Configured
from dsregress.probe.factors import FACTORS, active_hooks, deepspeed_configuration, factor_values
from dsregress.reproduce.factors import varied_in
from dsregress.reproduce.requirements import is_valid
from dsregress.reproduce.script import Subject, compose
from tests.unit.docs.factor_table import factor_table

root = Path(sys.argv[1])
minimal = scenario.load(root / "scenarios" / "minimal_training.py")
p = minimal.resolve("zero_stage=3,mics=true", "cpu")
engine = types.SimpleNamespace(calls=[])
for call, value in active_hooks(p, "after_update"):
    call(engine, value)
versions = {"torch": "2.13.0", "deepspeed": "0.18.3"}
subject = Subject(
    parameters=p, defaults=minimal.resolve("base", "cpu"), question=parse_question("outcome"), bad=versions, good=versions
)
print(json.dumps({
    "parameter": minimal.parameters["mics"],
    "last": list(minimal.parameters)[-2:],
    "refused": choices.refused_choice("deepspeed", {**p, "mics": 7}),
    "configuration": deepspeed_configuration(Configured(values=factor_values(p)), {})["zero_optimization"],
    "varied": [one.name for one in varied_in(minimal.parameters)][-1],
    "explored": ["mics" in row for row in space.everyday()],
    "valid": [is_valid(p), is_valid({**p, "zero_stage": 2})],
    "hooked": engine.calls,
    "script": compose(subject).text,
    "table": factor_table(FACTORS)[0]["factors"],
}))
"""


@pytest.fixture(scope="module")
def made_up(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What a copy of the source with one more file answers."""
    folder = tmp_path_factory.mktemp("source") / "harness"
    own = folder / "dsregress" / "probe" / "factors"
    own.mkdir(parents=True)
    beside = [SOURCE, SOURCE / "dsregress", SOURCE / "dsregress" / "probe", SOURCE / "dsregress" / "probe" / "factors"]
    for original in beside:
        copied = folder / original.relative_to(SOURCE)
        for entry in original.iterdir():
            if not (copied / entry.name).exists() and entry.name != "__pycache__":
                (copied / entry.name).symlink_to(entry)
    (own / "mics.py").write_text(MADE_UP)
    done = subprocess.run(
        [sys.executable, "-B", "-c", ASKED, str(ROOT)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), str(ROOT)])},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    answers: dict[str, Any] = json.loads(done.stdout)
    return answers


@pytest.mark.slow
def test_a_factor_of_one_file_is_a_parameter_that_is_varied_and_explored(made_up: dict[str, Any]) -> None:
    assert made_up["parameter"] is False
    assert made_up["last"] == ["mics", "judged"]  # the names of variants that are stored stay
    assert made_up["varied"] == "mics"
    assert all(made_up["explored"])
    assert made_up["valid"] == [True, False]
    assert made_up["refused"] == "mics=7; known are: False, True"


@pytest.mark.slow
def test_a_factor_of_one_file_is_in_the_configuration_the_loop_the_script_and_the_page(made_up: dict[str, Any]) -> None:
    assert made_up["configuration"]["mics_shard_size"] is True
    assert made_up["hooked"] == [True]
    script = made_up["script"]
    assert '"mics_shard_size": True' in script
    assert "    engine.step()\n    engine.shard(True)\n" in script
    assert "import shlex\n" in script
    assert made_up["table"].endswith("a MiCS shard (`mics`)")


def test_no_module_but_its_own_names_a_factor_of_calls_alone() -> None:
    """Else a new one would need an edit elsewhere as well."""
    assert "empty_cache" in {one.name for one in FACTORS}
    named = [
        file.relative_to(ROOT).as_posix()
        for folder in (SOURCE / "dsregress", ROOT / "scenarios")
        for file in folder.rglob("*")
        if file.suffix in (".py", ".jinja") and not {"programs", "measured"} & set(file.relative_to(folder).parts)
        if '"empty_cache"' in (text := file.read_text(encoding="utf-8")) or ".empty_cache:" in text
    ]
    assert named == ["harness/dsregress/probe/factors/calls.py"]
