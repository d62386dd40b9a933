"""Sessions only; what they do lives in ``harness/dsregress/``. ``nox -l`` lists them.

nox -s regress                                    the main job, with the stacks and scenarios of pyproject.toml
nox -s regress -- --deepspeed '0.16.*'            with options of `dsregress regress`
nox -s "stack(deepspeed='0.16.4')"                one release against the baseline, for a CI matrix
nox -s lint typing unit                           before each commit
nox -s tests                                      the project's own tests
nox -s tests -- --accept                          rewrite the golden files of tests/golden
nox -s changelog dist                             before a release, see CONTRIBUTING.md
nox -s dist image                                 the container image, see docs/docker.md
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import nox
from nox.command import CommandFailed

HERE = Path(__file__).parent
PROJECT = nox.project.load_toml(HERE / "pyproject.toml")

nox.needs_version = ">=2024.10.9"
nox.options.default_venv_backend = "uv|virtualenv"
nox.options.reuse_existing_virtualenvs = True
nox.options.sessions = ["regress"]

EXIT_HARNESS = 3  # see harness/dsregress/errors.py, which is not importable before the installation

#: The tests of a file in one process, the files in the order of tests/conftest.py.
IN_PARALLEL = ("-n", "auto", "--dist", "loadfile", "--no-loadscope-reorder")

#: Folders of workflows: our own, and those that `init` writes.
WORKFLOWS = (".github/workflows", "harness/dsregress/report/workflows")

#: Schema of check-jsonschema -> the files that follow it.
SCHEMAS = {
    "github-workflows": [f"{folder}/*.yml" for folder in WORKFLOWS],
    "github-actions": ["action.yml"],
    "github-issue-forms": [".github/ISSUE_TEMPLATE/[!c]*.yml"],
    "github-issue-config": [".github/ISSUE_TEMPLATE/config.yml"],
    "dependabot": [".github/dependabot.yml"],
    "citation-file-format": ["CITATION.cff"],
}

DIST = HERE / "dist"

#: As it stands in pyproject.toml; what "latest" means is found out when the session runs.
DEEPSPEED: Sequence[str] = PROJECT["tool"]["dsregress"]["stack"]["deepspeed"]


@nox.session
def regress(session: nox.Session) -> None:
    """Measure the releases under test against the baseline. Options after --, see `-- --help`."""
    install(session)
    harness(session, "regress", *session.posargs)


@nox.session
@nox.parametrize("deepspeed", DEEPSPEED)
def stack(session: nox.Session, deepspeed: str) -> None:
    """Measure one release against the baseline."""
    install(session)
    harness(session, "regress", "--deepspeed", deepspeed, *session.posargs)


@nox.session
def bisect(session: nox.Session) -> None:
    """Find the release, and the commit, that made a difference. Options after --, see `-- --help`."""
    install(session)
    harness(session, "bisect", *session.posargs)


@nox.session
def watch(session: nox.Session) -> None:
    """Measure releases that are new on the package index. Options after --, see `-- --help`."""
    install(session)
    harness(session, "watch", *session.posargs)


@nox.session
def explore(session: nox.Session) -> None:
    """Try configurations that no scenario lists in two releases. Options after --, see `-- --help`."""
    install(session)
    harness(session, "explore", *session.posargs)


@nox.session
def report(session: nox.Session) -> None:
    """Report the stored results, or those of the folders given after --."""
    install(session)
    harness(session, "report", *session.posargs)


@nox.session
def stacks(session: nox.Session) -> None:
    """List the stacks; with `-- --json -`, for a CI matrix."""
    install(session)
    harness(session, "stacks", *session.posargs)


@nox.session
def tests(session: nox.Session) -> None:
    """Unit, probe and functional tests, but for those of the night; after --, options and paths of pytest."""
    install(session, "tests")
    pytest(session, *(session.posargs or [*IN_PARALLEL, "-m", "not nightly", "tests"]))


@nox.session
def nightly(session: nox.Session) -> None:
    """What `tests` leaves out: more releases and more of what is alike; after --, options of pytest."""
    install(session, "tests")
    pytest(session, *IN_PARALLEL, "-m", "nightly", *session.posargs, "tests")


@nox.session
def unit(session: nox.Session) -> None:
    """What to run before each commit, with lint and typing: unit tests, but for those that take half a second or more."""
    install(session, "tests")
    pytest(session, *IN_PARALLEL, "-m", "not slow", "tests/unit", *session.posargs)


@nox.session
def instruction_sets(session: nox.Session) -> None:
    """The numerics oracle under several instruction sets; after --, a folder and releases. Takes hours."""
    install(session, "tests")
    session.run("python", "-m", "tests.functional.instruction_sets", *session.posargs)


@nox.session
def ends(session: nox.Session) -> None:
    """A scenario and a program with the oldest and newest torch and transformers; after --, options of pytest."""
    install(session, "tests")
    pytest(session, "tests/functional/stack_ends.py", *session.posargs)


@nox.session
def lint(session: nox.Session) -> None:
    """Style (ruff), the direction of imports (import-linter), workflows (zizmor, actionlint if there), files for GitHub
    (their schemas)."""
    install(session, "lint", project=())
    session.run("ruff", "check", *session.posargs, ".")
    session.run("ruff", "format", "--check", ".")
    session.run("lint-imports", "--no-cache", env={"PYTHONPATH": str(HERE / "harness")})
    for schema, patterns in SCHEMAS.items():
        files = sorted(str(file) for pattern in patterns for file in HERE.glob(pattern))
        session.run("check-jsonschema", "--builtin-schema", f"vendor.{schema}", *files)
    workflows = sorted(str(file) for folder in WORKFLOWS for file in HERE.glob(f"{folder}/*.yml"))
    others = (str(HERE / ".github" / "dependabot.yml"), str(HERE / "action.yml"))
    session.run("zizmor", "--offline", "--quiet", *workflows, *others)
    if shutil.which("actionlint"):  # no package index has its binary
        session.run("actionlint", *workflows, external=True)


@nox.session
def typing(session: nox.Session) -> None:
    """Types, with mypy --strict."""
    install(session, "typing", "tests")
    session.run("mypy", *session.posargs)


@nox.session
def docs(session: nox.Session) -> None:
    """Every link and every command in the documentation leads somewhere."""
    install(session, "tests")
    pytest(session, "tests/unit/docs", *session.posargs)


@nox.session
def bench(session: nox.Session) -> None:
    """What the harness itself costs."""
    install(session)
    session.run("python", "-m", "tests.benchmarks", *session.posargs)


@nox.session
def accuracy(session: nox.Session) -> None:
    """The simulation, compared with what others have measured on GPUs. Options after --, see `-- --help`."""
    install(session)
    with_its_exit_code(session, "tests.accuracy", *session.posargs)


@nox.session
def dist(session: nox.Session) -> None:
    """Build what is published into dist/, and check it: its description, and that the installed command starts."""
    install(session, "release", project=())
    shutil.rmtree(DIST, ignore_errors=True)
    session.run("python", "-m", "build", "--outdir", str(DIST), str(HERE))
    session.run("twine", "check", "--strict", *map(str, sorted(DIST.iterdir())))
    (wheel,) = DIST.glob("*.whl")
    install(session, project=(str(wheel),))
    session.chdir(session.create_tmp())  # and not the checkout's package
    session.run("dsregress", "--version")


@nox.session(python="3.11")  # the image's, for which the wheels are
def image(session: nox.Session) -> None:
    """Build the container image dsregress:VERSION of the wheel in dist/; after --, options of `docker build`."""
    (wheel,) = DIST.glob("*.whl")
    session.install("pip")
    context = Path(session.create_tmp())
    shutil.rmtree(context / "wheels", ignore_errors=True)
    only_wheels = ("--quiet", "--only-binary", ":all:", "--dest", str(context / "wheels"))
    session.run("python", "-m", "pip", "download", *only_wheels, str(wheel))
    name = f"dsregress:{PROJECT['project']['version']}"
    recipe = ("--file", str(HERE / ".github" / "Dockerfile"), "--tag", name)
    session.run("docker", "build", *recipe, *session.posargs, str(context), external=True)


@nox.session
def changelog(session: nox.Session) -> None:
    """Move the files of changes/ into CHANGELOG.md; after --, options of `towncrier build`, e.g. --draft."""
    install(session, "release", project=())
    session.run("towncrier", "build", "--version", PROJECT["project"]["version"], *(session.posargs or ["--yes"]))


@nox.session
def update_pins(session: nox.Session) -> None:
    """Refresh the committed releases and locks; look at the diff before you commit it."""
    install(session)
    session.run("python", "-m", "dsregress.cli.update_pins", *session.posargs)


def install(session: nox.Session, *groups: str, project: Sequence[str] = ("-e", str(HERE))) -> None:
    """The project (editable) and dependency groups, from wherever the user's pip is configured to look."""
    wanted = [requirement for group in groups for requirement in PROJECT["dependency-groups"][group]]
    options: list[str] = []
    variables: dict[str, str] = {}
    if session.venv_backend == "uv":  # which reads nothing that is meant for pip
        sys.path.insert(0, str(HERE / "harness"))
        from dsregress.envs import pip_config

        configured = pip_config.read_pip_config()
        options, variables = configured.uv_options(), configured.uv_environment(os.environ)
    try:
        session.install(*options, *project, *wanted, env=variables)
    except CommandFailed:
        sys.exit(EXIT_HARNESS)  # and not nox's 1, which is a regression


def pytest(session: nox.Session, *arguments: str) -> None:
    """Run tests with bytecode: containers often forbid it, and each worker and each command would compile all anew."""
    session.run("python", "-m", "pytest", *arguments, env={"PYTHONDONTWRITEBYTECODE": ""})


def harness(session: nox.Session, *arguments: str) -> None:
    """Run a command of ours."""
    with_its_exit_code(session, "dsregress", *arguments)


def with_its_exit_code(session: nox.Session, module: str, *arguments: str) -> None:
    """Run a module and end with its own exit code: nox itself would make 1 of a regression (1), a usage error (2), a
    failure of the harness (3) and nothing measured (4) alike."""
    try:
        session.run("python", "-m", module, *arguments)
    except CommandFailed as failed:
        code = getattr(failed, "return_code", None)  # nox before 2026 has it in the text alone
        code = int(str(failed.reason).rpartition(" ")[2]) if code is None else code
        session.log(f"{module} ended with exit code {code}")
        sys.exit(code)
