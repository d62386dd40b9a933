"""Adapters have ids that last: the module may move, and results of before name it by its path."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from dsregress.probe import adapters
from dsregress.probe.scenario import Scenario, ScenarioError, load


@pytest.mark.parametrize("module", adapters.ADAPTERS.values())
def test_each_id_has_a_module(module: str) -> None:
    assert importlib.util.find_spec(module) is not None


@pytest.mark.parametrize(("path", "adapter"), adapters.FORMER_PATHS.items())
def test_a_module_path_of_before_is_the_adapter_s_id(path: str, adapter: str) -> None:
    assert adapters.adapter_id(path) == adapter
    assert adapter in adapters.ADAPTERS


def test_a_module_that_moved_is_known_by_its_new_path_too(monkeypatch: pytest.MonkeyPatch) -> None:
    moved = {**adapters.ADAPTERS, "trainer": "dsregress.probe.elsewhere.trainer"}
    monkeypatch.setattr(adapters, "ADAPTERS", moved)
    former = adapters.adapter_id("harness.probe.frameworks.hf_trainer")
    assert (former, adapters.adapter_id("dsregress.probe.elsewhere.trainer")) == ("trainer", "trainer")


def test_an_adapter_of_the_user_is_its_dotted_path() -> None:
    assert adapters.adapter_id("scenarios._ddp") == "scenarios._ddp"
    assert adapters.adapter_module("scenarios._ddp") == "scenarios._ddp"


def test_a_scenario_may_name_an_adapter_of_the_project_either_way() -> None:
    by_path = declared("dsregress.probe.frameworks.deepspeed")
    assert by_path == declared("deepspeed")
    assert by_path.framework == "deepspeed"


def declared(framework: str) -> Scenario:
    return Scenario(version=1, summary="", framework=framework, parameters={}, devices={"cpu": {}})


def test_a_misspelled_adapter_is_an_error_of_the_file_that_names_it(tmp_path: Path) -> None:
    file = tmp_path / "typo.py"
    file.write_text(
        "from dsregress.probe.scenario import Scenario\n"
        'SCENARIO = Scenario(version=1, summary="", framework="deepsped", parameters={}, devices={"cpu": {}})\n'
    )
    with pytest.raises(ScenarioError) as caught:
        load(file)
    assert str(caught.value) == (
        f"{file}: framework: no such adapter: deepsped (known: deepspeed, deepspeed_jobs, trainer, program; "
        "any other by the dotted path of its module)"
    )
