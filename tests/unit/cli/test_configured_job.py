"""The job of `[tool.dsregress.job]`: what is tried with it, and how what was tried is written down."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from dsregress.cli.configured_job import configured_packages, configured_workload, job_as_tried
from dsregress.config.job import JobSettings
from dsregress.config.settings import Settings, read_settings
from dsregress.run.available_workloads import list_scenarios
from dsregress.run.cell_matrix import Selection
from dsregress.run.checkout_stacks import Checkout, with_workloads
from dsregress.run.pipeline import Choice
from dsregress.versions.stack_plans import NEWEST_THAT_FITS
from tests.paths import ROOT

NOTHING = Selection(scenarios=(), variants=(), devices=())


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """A job whose file pins DeepSpeed and a transformers; `init` pinned a torch besides."""
    (tmp_path / "requirements.txt").write_text("deepspeed==0.16.8\ntransformers==4.57.6\n")
    (tmp_path / "train.py").write_text("import deepspeed\n")
    (tmp_path / "dsregress.toml").write_text(
        "[tool.dsregress.job]\nprogram = 'deepspeed train.py'\n"
        "packages = ['requirements.txt', 'torch==2.13.0']\nwith = ['datasets', 'trl=1.16.0']\n"
    )
    return read_settings(start=tmp_path, environ={})


def test_what_files_pin_stays_and_the_releases_are_named(settings: Settings) -> None:
    job = configured_workload(settings, NOTHING)
    attempt = job.attempt(Choice(versions=job.added, selection=job.selection))
    assert attempt is not None
    assert attempt.fixed == ("transformers", "deepspeed")
    assert (attempt.added, attempt.pinned) == (("datasets", "trl"), ("trl",))
    assert attempt.choice.versions == {"datasets": NEWEST_THAT_FITS, "trl": "1.16.0", "deepspeed": "0.16.8,latest"}
    assert attempt.choice.baseline == "0.16.8"


def test_files_that_the_configured_one_includes_are_read_as_well(settings: Settings) -> None:
    Path(settings.root, "requirements.txt").write_text("-r base.txt\ntransformers==4.57.6\n")
    Path(settings.root, "base.txt").write_text("deepspeed==0.16.8\n")
    (file, found), _ = configured_packages(settings)
    assert (file, found.versions) == ("requirements.txt", {"deepspeed": "0.16.8", "transformers": "4.57.6"})


def test_the_program_by_its_own_name_is_the_job(settings: Settings) -> None:
    job = configured_workload(settings, NOTHING)
    (name,) = job.selection.scenarios
    again = configured_workload(settings, Selection(scenarios=(name,), variants=("base",), devices=("sim",)))
    assert (again.settings.stack, again.added) == (job.settings.stack, job.added)
    other = configured_workload(settings, Selection(scenarios=("llama*",), variants=(), devices=()))
    assert (other.program, other.settings.stack) == (None, settings.stack)


def test_what_a_first_run_changed_is_the_job_that_keeps_it(settings: Settings) -> None:
    job = configured_workload(settings, NOTHING)
    before = job.attempt(Choice(versions=job.added))
    assert before is not None
    versions = {"datasets": "2.19.0", "deepspeed": "0.16.8,latest", "accelerate": "0.34.2", "wandb": NEWEST_THAT_FITS}
    program = msgspec.structs.replace(before.program, synthetic_data=True, ranks=2)
    after = msgspec.structs.replace(
        before, program=program, choice=msgspec.structs.replace(before.choice, versions=versions)
    )
    assert job_as_tried(settings.job, before, after) == JobSettings(
        program="deepspeed train.py",
        packages=("requirements.txt", "torch==2.13.0", "accelerate==0.34.2"),
        added=("datasets=2.19.0", "wandb"),
        ranks=2,
        synthetic_data=True,
    )


def test_a_release_that_is_too_old_says_what_is_measured_in_its_place(
    settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    Path(settings.root, "requirements.txt").write_text("deepspeed==0.11.1\n")
    configured_workload(settings, NOTHING)
    assert capsys.readouterr().err == (
        "dsregress: deepspeed 0.11.1 is older than what can be measured: latest takes its place\n"
    )


def test_a_change_of_a_framework_is_measured_by_workloads_that_use_it() -> None:
    known = list_scenarios(Settings(scenarios=str(ROOT / "scenarios")))
    for package in ("accelerate", "peft", "transformers", "trl"):
        checkout = Checkout(folder=".", package=package, against="main")
        chosen = with_workloads(Settings(), checkout).select
        assert len(chosen) == 2
        for scenario, variant, device in (one.split("/") for one in chosen):
            assert variant in ("base", *known[scenario].variant_ids)
            assert device in known[scenario].devices
        own = Settings(select=("mine/base/cpu",))
        assert with_workloads(own, checkout) == own
    assert with_workloads(Settings(), Checkout(folder=".", package="deepspeed", against="main")) == Settings()
