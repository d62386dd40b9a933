"""Frameworks from a commit: their environments, their repositories, and what changed between two."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from dsregress.envs import recipe, venv
from dsregress.envs.changed_files import changed_files
from dsregress.envs.repository import Repository
from dsregress.envs.venv import Source
from dsregress.errors import UsageError
from dsregress.model import Failed, LockedStack, Stack
from dsregress.versions import commits, locking
from tests.builders import tiny_packages
from tests.nesting import nested
from tests.packages import history
from tests.paths import ROOT

pytestmark = pytest.mark.slow  # environments are built

PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"

_BACKEND = """
import pathlib, zipfile
def build_wheel(folder, config_settings=None, metadata_directory=None):
    info = "mine-9.dist-info"
    files = {"mine/__init__.py": pathlib.Path("mine.py").read_text(),
             f"{info}/METADATA": "Metadata-Version: 2.1\\nName: mine\\nVersion: 9\\n",
             f"{info}/WHEEL": "Wheel-Version: 1.0\\nGenerator: tiny\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n"}
    files[f"{info}/RECORD"] = "".join(f"{name},,\\n" for name in (*files, f"{info}/RECORD"))
    with zipfile.ZipFile(pathlib.Path(folder) / "mine-9-py3-none-any.whl", "w") as wheel:
        for name, text in files.items():
            wheel.writestr(name, text)
    return "mine-9-py3-none-any.whl"
"""


def source(code: str, backend: str = _BACKEND) -> Source:
    def unpack(folder: Path) -> Failed | None:
        folder.mkdir()
        (folder / "mine.py").write_text(code)
        (folder / "backend.py").write_text(backend)
        (folder / "pyproject.toml").write_text(
            '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
            '[project]\nname = "mine"\nversion = "9"\n'
        )
        return None

    return Source(package="mine", unpack=unpack)


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    history.make(tmp_path / "upstream")
    made = Repository(str(tmp_path / "upstream"), cache=tmp_path / "cache", environment={"PATH": os.environ["PATH"]})
    made.open()
    return made


def test_a_commit_is_installed_beside_what_the_lock_of_a_release_pins(tmp_path: Path) -> None:
    index = tmp_path / "index"
    index.mkdir()
    tiny_packages.wheel(index, "other", "1.0")
    release = tiny_packages.locked(PYTHON, "mine==1.0", "other==1.0")
    stack = commits.stack_of(release.stack, "mine", commits.version_of("1.0", "f" * 40))
    locked = commits.lock_of(release, stack, "mine")
    assert locked.requirements == (f"mine==1.0+g{'f' * 12}", "other==1.0")
    built = [
        venv.build_venv(
            lock,
            folder=tmp_path / "work",
            installer=tiny_packages.installer(index, tmp_path / "cache"),
            gpu=False,
            framework="mine",
            source=source(code),
        )
        for lock, code in ((locked, "A = 1\n"), (commits.lock_of(release, release.stack, "mine"), "A = 2\nB = 3\n"))
    ]
    assert [environment.failure for environment in built] == [None, None]
    assert built[0].installed["mine"] == "9"
    assert built[0].installed["other"] == "1.0"
    assert built[0].code_sha256 != built[1].code_sha256
    assert changed_files(built[0], built[1], "mine") == ("+2 -1 mine/__init__.py",)
    place = Path(built[0].python).parents[1]
    assert [path.name for path in place.iterdir() if path.name.startswith("source-")] == []
    standing = venv.existing_venv(locked, folder=tmp_path / "work", gpu=False, framework="mine")
    assert standing == msgspec.structs.replace(built[0], build_s=0.0)


def test_a_commit_that_does_not_build_is_a_failure_of_its_stack(tmp_path: Path) -> None:
    index = tmp_path / "index"
    index.mkdir()
    broken = "def build_wheel(*arguments, **more):\n    raise RuntimeError('Connection refused by nvcc')\n"
    built = venv.build_venv(
        tiny_packages.locked(PYTHON, "mine==1.0"),
        folder=tmp_path / "work",
        installer=tiny_packages.installer(index, tmp_path / "cache"),
        gpu=False,
        source=source("", broken),
    )
    assert isinstance(built.failure, Failed)
    assert (built.failure.stage, built.failure.signature) == (
        "install",
        "build of mine: RuntimeError: Connection refused by nvcc",
    )


def test_only_the_pins_of_the_package_itself_are_left_out() -> None:
    lines = ("my-frame==1.0", "my_frame==1.0", "my-frame-extra==2.0", "torch==2.5 ; python_version < '3.12'")
    assert recipe.without_pins_of(lines, "My.Frame") == ("my-frame-extra==2.0", "torch==2.5 ; python_version < '3.12'")


def test_a_lock_without_the_package_is_no_lock_of_its_commits() -> None:
    with pytest.raises(UsageError, match="tiny is not in the stack"):
        commits.lock_of(
            tiny_packages.locked(PYTHON, "other==1.0"), Stack(python=PYTHON, versions={"tiny": "1"}), "tiny"
        )


def test_versions_of_commits_sort_behind_their_release() -> None:
    from packaging.version import Version

    name = commits.version_of("0.15.4", "1a2b3c4d5e6f7a8b")
    assert name == "0.15.4+g1a2b3c4d5e6f"
    assert Version("0.15.4") < Version(name) < Version("0.16.0")
    assert (commits.is_commit(name), commits.is_commit("0.15.4"), commits.is_commit("2.13.0+cpu")) == (
        True,
        False,
        False,
    )


def test_a_lock_that_was_never_resolved_is_not_known(tmp_path: Path) -> None:
    stack = Stack(python="3.11", versions={"mine": "1.0"})
    assert locking.known_lock(stack, cache=tmp_path) is None

    def compile(source: Path, output: Path, python: str, overrides: Path | None) -> Failed | None:
        output.write_text("mine==1.0\n")
        return None

    made = locking.lock_stack(stack, cache=tmp_path, compile=compile)
    assert isinstance(made, LockedStack)
    assert locking.known_lock(stack, cache=tmp_path) == made


def test_the_commits_between_two_releases_come_oldest_first(repository: Repository) -> None:
    old, new = (repository.release("tinyframe", version) for version in ("1.0.0", "1.1.0"))
    between = repository.between(old, new)
    assert [commit.subject for commit in between] == list(history.HISTORY)[:7]
    assert repository.newest_tag(between[3]) == "1.0.0"
    assert repository.changed_files(between[0], between[1]) == ("+1 -1 CHANGES",)
    assert repository.patch(between[0], between[1], ["CHANGES"]) == (
        "CHANGES",
        "@@ -1 +1 @@",
        "-0: Release 1.0.0",
        "+1: Split the engine from its memory",
    )
    with pytest.raises(UsageError, match="is not newer than"):
        repository.between(new, old)


def test_a_release_that_has_no_tag_is_reported_before_anything_is_measured(repository: Repository) -> None:
    with pytest.raises(UsageError, match=r"has neither a tag v7.0 or 7.0 nor a commit of that name"):
        repository.release("tinyframe", "7.0")


def test_a_commit_is_unpacked_without_touching_the_clone(repository: Repository, tmp_path: Path) -> None:
    commit = repository.commit("HEAD~6")
    assert commit is not None
    repository.unpack(commit, tmp_path / "unpacked")
    assert (tmp_path / "unpacked" / "tinyframe" / "_release.py").read_text() == 'BEHAVIOUR = "not-importing"\n'
    assert history.git(tmp_path / "upstream", "status", "--porcelain") == ""
    assert repository.head().subject == "Thank who reported it"


def test_the_day_of_a_merge_is_known_without_the_files_of_its_parents(repository: Repository, tmp_path: Path) -> None:
    upstream = tmp_path / "upstream"
    history.git(upstream, "checkout", "--quiet", "-b", "side", "HEAD~1")
    (upstream / "CHANGES").write_text("aside\n")
    history.git(upstream, "commit", "--quiet", "--all", "--message", "Aside")
    tree = history.git(upstream, "rev-parse", "HEAD^{tree}")
    history.git(upstream, "checkout", "--quiet", "-")
    history.git(upstream, "merge", "--quiet", "--no-ff", "--no-commit", "--strategy", "ours", "side")
    (upstream / "CHANGES").write_text("of both\n")
    history.git(upstream, "commit", "--quiet", "--all", "--message", "Merge")
    file = upstream / ".git" / "objects" / tree[:2] / tree[2:]
    file.chmod(0o600)
    file.unlink()
    assert repository.head().subject == "Merge"


def test_a_url_is_cloned_once_and_asked_again_for_what_is_missing(tmp_path: Path) -> None:
    upstream = tmp_path / "upstream"
    history.make(upstream)
    place = f"file://{upstream}"
    far = Repository(place, cache=tmp_path / "cache", environment={"PATH": os.environ["PATH"]})
    far.open()
    (upstream / "CHANGES").write_text("later\n")
    history.git(upstream, "commit", "--quiet", "--all", "--message", "Later")
    later = history.git(upstream, "rev-parse", "HEAD")
    again = Repository(place, cache=tmp_path / "cache", environment={"PATH": os.environ["PATH"]})
    again.open()
    found = again.commit(later)
    assert found is not None
    assert found.subject == "Later"
    again.unpack(found, tmp_path / "unpacked")
    assert (tmp_path / "unpacked" / "CHANGES").read_text() == "later\n"


def committed(tmp_path: Path, message: str) -> Repository:
    """The upstream with what lies in it now as a further commit."""
    history.git(tmp_path / "upstream", "add", "--all")
    history.git(tmp_path / "upstream", "commit", "--quiet", "--message", message)
    return Repository(str(tmp_path / "upstream"), cache=tmp_path / "cache", environment={"PATH": os.environ["PATH"]})


def unpacked(repository: Repository, folder: Path) -> Failed | None:
    return repository.unpack(repository.head(), folder)


@pytest.mark.parametrize(
    "target", ["/etc/passwd", "../../../../etc/passwd", "inside/../../outside", "inside/up/inside/up/outside", "round"]
)
def test_a_link_out_of_a_commit_is_left_out(repository: Repository, tmp_path: Path, target: str) -> None:
    upstream = tmp_path / "upstream"
    (upstream / "inside").mkdir()
    (upstream / "inside" / "up").symlink_to("..")
    (upstream / "inside" / "up2").symlink_to("up/inside")
    (upstream / "outside").symlink_to("..")
    (upstream / "round").symlink_to("round")
    (upstream / "link").symlink_to(target)
    (upstream / "kept").symlink_to("inside/up/CHANGES")
    assert unpacked(committed(tmp_path, "Link"), tmp_path / "unpacked") is None
    assert not (tmp_path / "unpacked" / "link").is_symlink()
    assert (tmp_path / "unpacked" / "kept").read_text() == (upstream / "CHANGES").read_text()
    inside = (tmp_path / "unpacked").resolve()
    links = [path for path in (tmp_path / "unpacked").rglob("*") if path.is_symlink()]
    assert len(links) >= 3
    assert [link for link in links if not link.resolve().is_relative_to(inside)] == []


def test_hooks_and_monitors_of_the_user_s_clone_are_not_run(repository: Repository, tmp_path: Path) -> None:
    upstream, ran = tmp_path / "upstream", tmp_path / "ran"
    for name in ("post-checkout", "post-merge", "reference-transaction", "fsmonitor", "pre-auto-gc"):
        hook = upstream / ".git" / "hooks" / name
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(f"#!/bin/sh\ntouch {ran}\n")
        hook.chmod(0o755)
    history.git(upstream, "config", "core.fsmonitor", str(upstream / ".git" / "hooks" / "fsmonitor"))
    assert unpacked(repository, tmp_path / "unpacked") is None
    assert repository.release("tinyframe", "1.1.0")
    assert not ran.exists()


def test_hooks_of_the_user_s_template_are_not_run_in_a_clone_of_a_url(tmp_path: Path) -> None:
    history.make(tmp_path / "upstream")
    ran, hooks = tmp_path / "ran", tmp_path / "template" / "hooks"
    hooks.mkdir(parents=True)
    for name in ("post-checkout", "reference-transaction"):
        (hooks / name).write_text(f"#!/bin/sh\ntouch {ran}\n")
        (hooks / name).chmod(0o755)
    environment = {"PATH": os.environ["PATH"], "GIT_TEMPLATE_DIR": str(tmp_path / "template")}
    far = Repository(f"file://{tmp_path / 'upstream'}", cache=tmp_path / "cache", environment=environment)
    far.open()
    assert far.commit("f" * 40) is None  # fetches again
    assert unpacked(far, tmp_path / "unpacked") is None
    assert not ran.exists()


def test_a_submodule_is_unpacked_at_the_commit_that_is_pinned(repository: Repository, tmp_path: Path) -> None:
    upstream, library = tmp_path / "upstream", tmp_path / "library"
    library.mkdir()
    history.git(library, "init", "--quiet", "--initial-branch=main")
    for text in ("pinned\n", "later\n"):
        (library / "kernel.py").write_text(text)
        history.git(library, "add", "--all")
        history.git(library, "commit", "--quiet", "--message", text)
    history.git(upstream, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(library), "third/lib")
    history.git(upstream / "third" / "lib", "checkout", "--quiet", "HEAD~1")
    made = committed(tmp_path, "Use a library")
    assert unpacked(made, tmp_path / "unpacked") is None
    assert (tmp_path / "unpacked" / "third" / "lib" / "kernel.py").read_text() == "pinned\n"


def test_a_submodule_that_the_clone_has_not_makes_that_commit_fail(repository: Repository, tmp_path: Path) -> None:
    upstream, ran = tmp_path / "upstream", tmp_path / "ran"
    (upstream / ".gitmodules").write_text(
        f'[submodule "x"]\n\tpath = third\n\turl = ext::sh -c "touch {ran}"\n'
        f'[submodule "../../../upstream/.git"]\n\tpath = third\n\turl = {upstream}\n'
    )
    pinned = history.git(upstream, "rev-parse", "HEAD")
    history.git(upstream, "add", ".gitmodules")
    history.git(upstream, "update-index", "--add", "--cacheinfo", f"160000,{pinned},third")
    history.git(upstream, "commit", "--quiet", "--message", "Use a library")
    failed = unpacked(repository, tmp_path / "unpacked")
    assert failed == Failed("install", f"submodule third is not in the clone at {pinned[:12]}")
    assert not ran.exists()


def test_a_pointer_into_large_file_storage_stays_what_it_is(repository: Repository, tmp_path: Path) -> None:
    pointer = f"version https://git-lfs.github.com/spec/v1\noid sha256:{'0' * 64}\nsize 12\n"
    upstream = tmp_path / "upstream"
    (upstream / "weights.bin").write_text(pointer)
    (upstream / ".gitattributes").write_text("*.bin filter=lfs diff=lfs merge=lfs -text\n")
    assert unpacked(committed(tmp_path, "Weights"), tmp_path / "unpacked") is None
    assert (tmp_path / "unpacked" / "weights.bin").read_text() == pointer


def test_names_that_differ_in_case_are_two_files_and_a_large_file_takes_no_memory(
    repository: Repository, tmp_path: Path
) -> None:
    upstream = tmp_path / "upstream"
    (upstream / "Readme").write_text("one\n")
    (upstream / "README").write_text("two\n")
    with (upstream / "large").open("wb") as large:
        large.truncate(96 * 1024 * 1024)
    made = committed(tmp_path, "Large")
    code = (
        "import pathlib, re\n"
        "from dsregress.envs.repository import Repository\n"
        "import os\n"
        f"repository = Repository({str(upstream)!r}, cache=pathlib.Path('.'), environment=os.environ)\n"
        f"assert repository.unpack(repository.head(), pathlib.Path({str(tmp_path / 'unpacked')!r})) is None\n"
        "print(re.search(r'VmHWM:\\s+(\\d+)', pathlib.Path('/proc/self/status').read_text())[1])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert int(done.stdout) < 96 * 1024
    assert made.head().subject == "Large"
    assert (tmp_path / "unpacked" / "large").stat().st_size == 96 * 1024 * 1024
    assert {path.name for path in (tmp_path / "unpacked").iterdir()} >= {"Readme", "README"}
    assert [path.name for path in tmp_path.iterdir() if path.suffix == ".tar"] == []


@pytest.mark.slow
def test_a_source_that_nests_folders_without_end_fails_alone_and_is_removed(tmp_path: Path) -> None:
    failed = Failed("install", "its build nests folders")

    def nests(folder: Path) -> Failed:
        nested(folder, 1_500)
        return failed

    (tmp_path / "index").mkdir()
    built = venv.build_venv(
        tiny_packages.locked(PYTHON, "mine==1.0"),
        folder=tmp_path / "work",
        installer=tiny_packages.installer(tmp_path / "index", tmp_path / "cache"),
        gpu=False,
        source=Source(package="mine", unpack=nests),
    )
    assert built.failure == failed
    assert [path.name for path in (tmp_path / "work" / "envs").iterdir() if path.is_dir()] == []


def test_a_commit_whose_files_cannot_be_unpacked_fails_alone(tmp_path: Path) -> None:
    index = tmp_path / "index"
    index.mkdir()
    failed = Failed("install", "submodule third is not in the clone at 0123456789ab")
    built = venv.build_venv(
        tiny_packages.locked(PYTHON, "mine==1.0"),
        folder=tmp_path / "work",
        installer=tiny_packages.installer(index, tmp_path / "cache"),
        gpu=False,
        source=Source(package="mine", unpack=lambda folder: failed),
    )
    assert built.failure == failed
