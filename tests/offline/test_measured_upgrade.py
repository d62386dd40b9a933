"""`upgrade --measure`: the old and the new packages as they go together, and the one of them that makes it worse."""

from __future__ import annotations

import pytest

from tests.offline.project import GOOD, NOT_INSTALLING, VERSION, Project

LATER = "2.0.0"  #: another good release of the framework


@pytest.fixture
def project(project: Project) -> Project:
    project.configure(GOOD, LATER)
    configuration = project.folder / "pyproject.toml"
    text = configuration.read_text()
    heading = "[tool.dsregress.stack]\n"
    configuration.write_text(text.replace(heading, f'{heading}tinytrainer = "1.0.0"\n'))
    return project


def upgrade(project: Project, old: str, new: str) -> tuple[int, list[str]]:
    """Exit code, and the lines on what was measured."""
    for name, text in (("old.txt", old), ("new.txt", new)):
        (project.folder / name).write_text(text.replace(" ", "\n"))
    said = project.run("upgrade", "--from", "old.txt", "--to", "new.txt", "--scenario", "fit", "--measure")
    lines = said.out.splitlines()
    start = next((at for at, line in enumerate(lines) if line.startswith("measured: ")), len(lines))
    return said.code, lines[start:] or [said.err]


def test_the_package_that_makes_an_upgrade_worse_is_named(project: Project) -> None:
    code, lines = upgrade(project, f"tinyframe=={GOOD} tinytrainer==1.0.0", f"tinyframe=={LATER} tinytrainer==1.2.0")
    assert code == 1
    worse = "backward holds 7.81 KiB more after it ends (+50 %): 15.6 KiB -> 23.4 KiB, rank 0"
    assert lines == [
        f"measured: worse on fit/base/cpu: {worse}",
        "  it is tinytrainer 1.0.0 -> 1.2.0, with tinyframe as installed",
        f"    with tinyframe {GOOD} -> {LATER}: not worse",
        f"    with tinytrainer 1.0.0 -> 1.2.0: worse: {worse}",
    ]


def test_an_upgrade_that_is_not_worse_is_said_to_be_so(project: Project) -> None:
    code, lines = upgrade(project, f"tinyframe=={GOOD} tinytrainer==1.0.0", f"tinyframe=={LATER} tinytrainer==1.1.0")
    assert (code, lines) == (
        0,
        [f"measured: nothing is worse on fit/base/cpu with tinyframe {GOOD} -> {LATER}, tinytrainer 1.0.0 -> 1.1.0"],
    )


def test_what_is_installed_and_does_not_train_is_no_measure_of_anything(project: Project) -> None:
    project.configure(GOOD, LATER)  # without the trainer, which sets the framework's behaviour
    code, lines = upgrade(project, f"tinyframe=={VERSION['crashing']}", f"tinyframe=={LATER}")
    assert code == 4, lines
    assert "the old stack gives no answer: failed in" in lines[-1]


def test_packages_that_do_not_install_together_are_not_worse_but_not_measured(project: Project) -> None:
    code, lines = upgrade(project, f"tinyframe=={GOOD}", f"tinyframe=={NOT_INSTALLING}")
    assert code == 4
    assert "the new packages cannot be tested together: failed in install: " in lines[-1]


def test_without_a_job_there_is_nothing_to_measure(project: Project) -> None:
    (project.folder / "old.txt").write_text(f"tinyframe=={GOOD}")
    said = project.run("upgrade", "--from", "old.txt", "--measure")
    assert said.code == 2
    assert said.err.splitlines()[-1] == (
        "dsregress: error: --measure: needs a job to measure; add --program 'LINE' or --scenario NAME"
    )
