"""Which names mean a program that was given before, and what is read of it."""

from __future__ import annotations

import stat
from pathlib import Path

import msgspec
import pytest

from dsregress.config.settings import Settings
from dsregress.errors import UsageError
from dsregress.launch.contract import ProgramLaunch
from dsregress.probe import program as programs
from dsregress.run import available_workloads, cell_matrix, scenario_files
from dsregress.run.available_workloads import Program
from dsregress.run.cell_matrix import Selection

SCENARIO = """
from dsregress.probe.scenario import Scenario
SCENARIO = Scenario(version=1, summary="s", framework="frames.adapter", parameters={"size": 1}, devices={"sim": {}})
"""


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    (tmp_path / "scenarios").mkdir()
    (tmp_path / "scenarios" / "llama.py").write_text(SCENARIO)
    return Settings(scenarios=str(tmp_path / "scenarios"), environments=str(tmp_path / "environments"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "mine"
    made.mkdir()
    (made / "train.py").write_text("print('trains')\n")
    return made


@pytest.fixture
def hashed(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The folders whose files were hashed, in order."""
    seen: list[Path] = []
    real = programs.sources_sha256

    def sources_sha256(line: programs.LaunchLine, folder: Path) -> str:
        seen.append(folder)
        return real(line, folder)

    monkeypatch.setattr(programs, "sources_sha256", sources_sha256)
    return seen


def given(settings: Settings, folder: Path, line: str = "torchrun train.py") -> str:
    return available_workloads.chosen_workload(None, Program(line=line, folder=str(folder)), settings)


def test_a_program_that_was_given_is_a_scenario_by_its_exact_name(settings: Settings, folder: Path) -> None:
    name = given(settings, folder)
    found = available_workloads.load_scenarios(settings, [name])
    assert list(found) == ["llama", name]
    assert found[name].parameters["program"] == "torchrun train.py"


def test_a_folder_of_scenarios_that_is_not_there_is_named(settings: Settings, folder: Path, tmp_path: Path) -> None:
    nowhere = msgspec.structs.replace(settings, scenarios=str(tmp_path / "nowhere"))
    with pytest.raises(UsageError, match="nowhere: the scenarios folder does not exist; set `scenarios`"):
        available_workloads.load_scenarios(nowhere, ["llama"])
    name = given(nowhere, folder)
    assert list(available_workloads.load_scenarios(nowhere, [name])) == [name]  # a program needs none


@pytest.mark.parametrize(
    "selection", [Selection(scenarios=("*",)), Selection(scenarios=("train-*",)), Selection(variants=("base",))]
)
def test_no_glob_means_a_program(settings: Settings, folder: Path, selection: Selection) -> None:
    given(settings, folder)
    globs = cell_matrix.scenario_globs(selection, settings.select)
    assert list(available_workloads.load_scenarios(settings, globs)) == ["llama"]


def test_the_name_of_a_program_may_stand_in_the_settings(settings: Settings, folder: Path) -> None:
    name = given(settings, folder)
    globs = cell_matrix.scenario_globs(Selection(), [f"{name}/base/sim", "llama/base/sim"])
    assert list(available_workloads.load_scenarios(settings, globs)) == ["llama", name]


def test_all_programs_are_listed_but_for_those_that_are_gone(settings: Settings, folder: Path, tmp_path: Path) -> None:
    name = given(settings, folder)
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "gone.py").write_text("")
    gone = given(settings, tmp_path / "old", "python gone.py")
    available_workloads._scenario.cache_clear()  # another command
    (tmp_path / "old" / "gone.py").unlink()
    assert list(available_workloads.list_scenarios(settings)) == ["llama", name]
    with pytest.raises(UsageError, match=r"gone-\w+: no such file: gone.py"):
        available_workloads.load_scenarios(settings, [gone])


def test_a_line_that_starts_in_another_folder_of_its_project_is_told_which(settings: Settings, folder: Path) -> None:
    inner = folder / "a" / "b"
    inner.mkdir(parents=True)
    (inner / "tune.py").write_text("")
    with pytest.raises(UsageError, match="; start the line in a/b, where there is one"):
        given(settings, folder, "torchrun tune.py")
    with pytest.raises(UsageError, match=r"; start the line in \.\./\.\., where there is one"):
        given(settings, inner, "torchrun a/b/tune.py")
    with pytest.raises(UsageError, match=r"no such file: une\.py in \S+; see docs"):
        given(settings, folder, "torchrun une.py")


def test_a_scenario_of_the_project_keeps_its_name(settings: Settings, folder: Path) -> None:
    name = given(settings, folder)
    Path(settings.scenarios, f"{name}.py").write_text(SCENARIO)
    assert available_workloads.load_scenarios(settings, [name])[name].framework == "frames.adapter"
    assert available_workloads.list_scenarios(settings)[name].framework == "frames.adapter"
    assert available_workloads.launches(settings) == {}


def test_the_files_of_a_program_are_hashed_once(settings: Settings, folder: Path, hashed: list[Path]) -> None:
    name = given(settings, folder)
    available_workloads.load_scenarios(settings, [name])
    available_workloads.list_scenarios(settings)
    available_workloads.launches(settings)
    assert hashed == [folder]


def test_the_files_of_a_program_are_not_read_for_another_workload(
    settings: Settings, folder: Path, hashed: list[Path]
) -> None:
    name = given(settings, folder)
    available_workloads._scenario.cache_clear()  # another command
    hashed.clear()
    available_workloads.load_scenarios(settings, ["llama"])
    assert available_workloads.launches(settings) == {name: ProgramLaunch(str(folder), "torchrun train.py")}
    assert hashed == []


def test_a_scenario_that_is_a_program_is_read_once(
    settings: Settings, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[Path] = []
    real = scenario_files.declared_scenarios
    monkeypatch.setattr(scenario_files, "declared_scenarios", lambda folder: read.append(folder) or real(folder))
    Path(settings.scenarios, "ours.py").write_text(
        "from dsregress.probe.program import program\n"
        f"SCENARIO = program(version=1, line='torchrun train.py', folder={str(folder)!r})\n"
    )
    assert list(available_workloads.load_scenarios(settings)) == ["llama", "ours"]
    assert available_workloads.launches(settings) == {"ours": ProgramLaunch(str(folder), "torchrun train.py")}
    assert read == [Path(settings.scenarios)]


def test_a_program_of_the_scenarios_folder_is_staged_with_it_and_finds_its_card(settings: Settings) -> None:
    programs = Path(settings.scenarios, "programs", "lora")
    programs.mkdir(parents=True)
    (programs / "train.py").write_text("")
    Path(settings.scenarios, "lora.py").write_text(
        "from pathlib import Path\n"
        "from dsregress.probe.program import program\n"
        "SCENARIO = program(version=1, line='python train.py', folder=str(Path(__file__).parent / 'programs/lora'),\n"
        "                   packages={'trl': '0.24.0'}, gpu='V100-32G',\n"
        "                   devices={'sim': {}, 'cpu': {'tiny': True, 'world_size': 2, 'gpu': 'A100-80G'}})\n"
    )
    scenario = available_workloads.load_scenarios(settings)["lora"]
    assert available_workloads.launches(settings) == {
        "lora": ProgramLaunch("scenarios/programs/lora", "python train.py")
    }
    assert scenario.resolve("base", "cpu")["tiny"]
    assert scenario.resolve("base", "sim")["card"]["compute_capability"] == [7, 0]
    assert scenario.resolve("base", "cpu")["card"]["compute_capability"] == [8, 0]
    assert scenario.parameters["packages"] == {"trl": "0.24.0"}


def test_a_scenario_names_a_known_card_or_none(settings: Settings) -> None:
    Path(settings.scenarios, "llama.py").write_text(
        SCENARIO.replace("parameters={", "parameters={'gpu': 'H1000-80G', ")
    )
    with pytest.raises(UsageError, match="no such GPU: H1000-80G") as refused:
        available_workloads.load_scenarios(settings)
    assert refused.value.where == "llama: gpu"


def test_a_scenario_that_changed_is_loaded_anew(settings: Settings) -> None:
    assert available_workloads.load_scenarios(settings)["llama"].version == 1
    file = Path(settings.scenarios, "llama.py")
    file.write_text(SCENARIO.replace("version=1", "version=2"))
    assert available_workloads.load_scenarios(settings)["llama"].version == 2


def test_what_cannot_be_read_is_no_program(settings: Settings, folder: Path) -> None:
    name = given(settings, folder)
    (Path(settings.environments) / "programs" / "torn-123456.json").write_text('{"line": "tor')
    assert available_workloads.launches(settings) == {name: ProgramLaunch(str(folder), "torchrun train.py")}


def test_what_reads_results_finds_a_program_with_the_ranks_that_it_was_given(settings: Settings, folder: Path) -> None:
    asked = Program(line="torchrun train.py", folder=str(folder))
    on_8_ranks = available_workloads.chosen_workload(
        None, Program(line=asked.line, folder=asked.folder, ranks=8), settings
    )
    assert available_workloads.measured_workload(None, asked, settings) == on_8_ranks
    tiny = Program(line=asked.line, folder=asked.folder, tiny=True)
    assert available_workloads.measured_workload(None, tiny, settings) == tiny.name != on_8_ranks
    with pytest.raises(UsageError, match="was run with several sets of options"):
        available_workloads.measured_workload(None, asked, settings)


def test_a_program_keeps_the_name_that_it_had_before_there_was_an_option() -> None:
    training = Program(line="torchrun train.py", folder="/x/project")
    assert training.name == "train-1f55f8"
    assert Program(line=training.line, folder=training.folder, inference=True).name != training.name


def test_what_a_script_writes_before_its_line_is_part_of_its_program(settings: Settings, folder: Path) -> None:
    def loaded(text: str) -> tuple[str, object, tuple[tuple[str, str], ...]]:
        program = Program(line="torchrun train.py", folder=str(folder), written=(("ds.json", text),))
        name = available_workloads.chosen_workload(None, program, settings)
        scenario = available_workloads.load_scenarios(settings, [name])[name]
        launch = available_workloads.launches(settings)[name]
        return name, scenario.parameters["sources_sha256"], launch.written

    first, again, other = loaded("{}"), loaded("{}"), loaded('{"fp16": {}}')
    assert first == again
    assert first[2] == (("ds.json", "{}"),)
    assert other[0] != first[0]
    assert other[1] != first[1]


SECRET = "HF_TOKEN={} torchrun train.py --data /home/me/data"


def test_a_secret_is_in_no_parameter_and_a_new_one_is_the_same_program(settings: Settings, folder: Path) -> None:
    name = given(settings, folder, SECRET.format("old"))
    assert given(settings, folder, SECRET.format("new")) == name
    found = available_workloads.load_scenarios(settings, [name])[name]
    assert (found.parameters["program"], found.summary) == ("HF_TOKEN=*** torchrun train.py --data ~/data",) * 2
    assert available_workloads.launches(settings) == {name: ProgramLaunch(str(folder), SECRET.format("new"))}
    file = Path(settings.environments) / "programs" / f"{name}.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    wanted = Program(line=SECRET.format("newest"), folder=str(folder))
    assert available_workloads.measured_workload(None, wanted, settings) == name


def test_a_scenario_that_is_a_program_publishes_no_secret(settings: Settings, folder: Path) -> None:
    line = SECRET.format("x")
    Path(settings.scenarios, "ours.py").write_text(
        "from dsregress.probe.program import program\n"
        f"SCENARIO = program(version=1, line={line!r}, folder={str(folder)!r})\n"
    )
    scenario = available_workloads.load_scenarios(settings)["ours"]
    assert scenario.resolve("base", "sim")["program"] == "HF_TOKEN=*** torchrun train.py --data ~/data"
    assert available_workloads.launches(settings) == {"ours": ProgramLaunch(str(folder), line)}
