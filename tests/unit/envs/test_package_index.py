"""What a package index that is broken, or behind a login page, says of a release: nothing."""

from __future__ import annotations

import os
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from dsregress.envs import package_index, venv
from dsregress.envs.installer import Installer
from dsregress.envs.pip_config import PipConfig
from dsregress.errors import EnvironmentUnavailable, UsageError
from tests.builders import http_indexes, tiny_packages
from tests.builders.http_indexes import HttpIndex

pytestmark = pytest.mark.slow  # pip and uv are run

PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"


@pytest.fixture
def wheels(tmp_path: Path) -> Path:
    folder = tmp_path / "wheels"
    folder.mkdir()
    for version in ("1.0", "2.0"):
        tiny_packages.wheel(folder, "mine", version)
    return folder


@pytest.fixture
def index(wheels: Path) -> Iterator[HttpIndex]:
    with http_indexes.served(wheels) as index:
        yield index


def user_of(url: str, folder: Path, *, proxy: str = "", as_of: str = "") -> Installer:
    """An installer whose user has configured pip to take packages from there."""
    configuration = folder / "pip.conf"
    configuration.write_text(f"[global]\nindex-url = {url}\n{f'proxy = {proxy}' if proxy else ''}\n")
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "PIP_CONFIG_FILE": str(configuration),
        "UV_CACHE_DIR": str(folder / "uv"),
        "UV_HTTP_RETRIES": "0",
    }
    return Installer(environment=environment, as_of=as_of)


@pytest.mark.parametrize(("day", "known"), [("2025-01-31", ("1.0",)), ("2025-02-01", ("2.0", "1.0"))])
def test_as_of_a_day_a_release_that_is_only_a_source_is_known_without_building_it(
    day: str, known: tuple[str, ...], tmp_path: Path, wheels: Path
) -> None:
    (wheels / "mine-2.0-py3-none-any.whl").unlink()
    with tarfile.open(wheels / "mine-2.0.tar.gz", "w:gz") as source:  # with nothing in it that could be built
        source.addfile(tarfile.TarInfo("mine-2.0/PKG-INFO"))
    with http_indexes.served(wheels, {"mine-1.0": "2025-01-01", "mine-2.0": "2025-02-01"}) as index:
        installer = user_of(index.url, tmp_path, as_of=day)
        assert installer.published("mine") == known
        assert installer.published("mine==2.0") == known[:-1]


def test_an_index_says_on_which_day_a_release_was_uploaded_if_it_knows(
    tmp_path: Path, wheels: Path, index: HttpIndex
) -> None:
    with http_indexes.served(wheels, {"mine-1.0": "2025-01-01"}) as dated:
        installer = user_of(dated.url, tmp_path)
        assert installer.upload_day("mine", "1.0") == "2025-01-01"
        assert installer.upload_day("mine", "3.0") == ""
    (tmp_path / "undated").mkdir()
    assert user_of(index.url, tmp_path / "undated").upload_day("mine", "1.0") == ""


def test_a_pin_of_a_compiled_package_without_a_wheel_has_the_first_later_release_with_one(
    tmp_path: Path, wheels: Path
) -> None:
    tag = f"cp{sys.version_info.major}{sys.version_info.minor}"
    for version in ("2.0", "3.0"):
        tiny_packages.wheel(wheels, "built", version)
        built = wheels / f"built-{version}-py3-none-any.whl"
        built.rename(built.with_name(f"built-{version}-{tag}-{tag}-manylinux_2_17_x86_64.whl"))
    for name in ("built", "mine", "unbuilt"):
        with tarfile.open(wheels / f"{name}-0.5.tar.gz", "w:gz") as source:
            source.addfile(tarfile.TarInfo(f"{name}-0.5/PKG-INFO"))
    with http_indexes.served(wheels) as index:
        installer = user_of(index.url, tmp_path)
        assert installer.later_wheels({"built": "0.5", "mine": "0.5"}, PYTHON) == {"built": "2.0"}
        assert installer.later_wheels({"built": "2.0"}, PYTHON) == {}
        assert installer.later_wheels({"built": "0.5", "unbuilt": "0.5"}, PYTHON) == {"built": "2.0"}


def test_an_index_lists_the_releases_of_a_package_and_knows_no_other(tmp_path: Path, index: HttpIndex) -> None:
    installer = user_of(index.url, tmp_path)
    assert installer.published("mine") == ("2.0", "1.0")
    assert installer.published("mine==1.0") == ("1.0",)
    assert installer.published("mine==1.5") == ()
    with pytest.raises(UsageError) as refused:
        installer.published("yours")
    assert str(refused.value) == (
        "package index: no configured index has a package 'yours'; check the name and pip config list"
    )


@pytest.mark.parametrize(
    ("status", "page", "why"),
    [
        (500, None, r"no package index can be reached \(HTTP status server error\)"),
        (200, http_indexes.LOGIN_PAGE, "an index returned a page that lists no files of mine"),
    ],
)
@pytest.mark.parametrize("package", ["mine", "mine==1.0"])
def test_an_index_that_fails_is_not_one_that_has_no_such_package(
    tmp_path: Path, index: HttpIndex, status: int, page: bytes | None, why: str, package: str
) -> None:
    index.status, index.page = status, page
    with pytest.raises(EnvironmentUnavailable, match=why) as refused:
        user_of(index.url, tmp_path).published(package)
    assert refused.value.exit_code == 3


def test_a_proxy_of_pips_configuration_that_is_closed_is_no_wrong_name(tmp_path: Path) -> None:
    installer = user_of("http://127.0.0.1:1/simple/", tmp_path, proxy="http://127.0.0.1:9")
    with pytest.raises(EnvironmentUnavailable, match="no package index can be reached"):
        installer.published("mine")


@pytest.mark.parametrize(("status", "page"), [(500, None), (200, http_indexes.LOGIN_PAGE)])
def test_no_release_fails_to_install_for_an_index_that_fails(
    tmp_path: Path, index: HttpIndex, status: int, page: bytes | None
) -> None:
    index.status, index.page = status, page
    locked = tiny_packages.locked(PYTHON, "mine==1.0")
    with pytest.raises(EnvironmentUnavailable):
        venv.build_venv(
            locked, folder=tmp_path / "work", installer=user_of(index.url, tmp_path), gpu=False, framework="mine"
        )


def test_a_release_that_a_working_index_does_not_have_fails_to_install(tmp_path: Path, index: HttpIndex) -> None:
    locked = tiny_packages.locked(PYTHON, "mine==3.0")
    installer = user_of(index.url, tmp_path)
    failure = venv.build_venv(
        locked, folder=tmp_path / "work", installer=installer, gpu=False, framework="mine"
    ).failure
    assert failure is not None
    assert failure.signature == "no solution: there is no version of mine==3.0 and you require mine==3.0"


# --- as of a day ------------------------------------------------------------------------------------------------------


@pytest.fixture
def dated(wheels: Path, tmp_path: Path) -> Iterator[Installer]:
    """The installer of a user who knows what their indexes had on 2025-02-20. One on their disk has no upload
    times, nor has a folder of theirs."""
    for version in ("1.1", "1.2", "2.1rc1"):
        tiny_packages.wheel(wheels, "mine", version)
    tiny_packages.wheel(wheels, "later", "1.0")
    own, undated = tmp_path / "own", tmp_path / "undated" / "mine"
    for folder in (own, undated):
        folder.mkdir(parents=True)
    tiny_packages.wheel(own, "my_own", "3.0")
    tiny_packages.wheel(undated, "mine", "4.0")
    links = [f'<a href="{file.name}">{file.name}</a>' for file in undated.iterdir()]
    (undated / "index.html").write_text("".join(links))
    late = ("mine-1.0", "mine-1.2", "mine-2.1rc1", "later-1.0")
    tiny_packages.wheel(wheels, "mine", "5.0rc1")
    days = {"mine-1.1": "2025-02-20", "mine-2.0": "2025-01-01", "mine-5.0rc1": "2025-02-01"} | dict.fromkeys(
        late, "2025-02-21"
    )
    with http_indexes.served(wheels, days) as index:
        environment = user_of(index.url, tmp_path).environment
        environment |= {"PIP_FIND_LINKS": str(own), "PIP_EXTRA_INDEX_URL": undated.parent.as_uri()}
        yield Installer(environment=environment, as_of="2025-02-20")


def test_as_of_a_day_an_index_lists_what_was_uploaded_until_its_end(dated: Installer) -> None:
    assert dated.published("mine") == ("5.0rc1", "2.0", "1.1")
    assert dated.published("my-own") == ("3.0",)
    assert (dated.published("mine==1.1"), dated.published("mine==1.2")) == (("1.1",), ())


def test_as_of_a_day_an_index_that_does_not_say_when_it_got_a_release_is_no_help(
    tmp_path: Path, index: HttpIndex
) -> None:
    installer = Installer(environment=user_of(index.url, tmp_path).environment, as_of="2025-02-20")
    with pytest.raises(UsageError) as refused:
        installer.published("mine")
    assert str(refused.value) == (
        "--as-of: a package index does not say when its releases of mine were uploaded; "
        "use one that does, as pypi.org (see pip config list)"
    )


def test_as_of_a_day_before_all_releases_of_a_package_it_does_not_exist(dated: Installer) -> None:
    with pytest.raises(UsageError, match="no configured index has a package 'later'"):
        dated.published("later")


@pytest.mark.parametrize(("required", "pinned"), [("mine", "mine==2.0"), ("mine<2", "mine==1.1")])
def test_as_of_a_day_nothing_that_came_later_is_resolved(
    dated: Installer, tmp_path: Path, required: str, pinned: str
) -> None:
    source, output = tmp_path / "in.txt", tmp_path / "out.txt"
    source.write_text(f"{required}\n")
    output.write_text("mine==1.2\n")
    assert dated.compile(source, output, PYTHON) is None
    assert output.read_text().split() == [pinned]


def test_as_of_a_day_what_the_probe_needs_may_be_newer(wheels: Path, tmp_path: Path) -> None:
    tiny_packages.wheel(wheels, "pytest_benchmark", "5.0")
    tiny_packages.wheel(wheels, "pytest_benchmark", "4.0")
    days = {"pytest_benchmark-4.0": "2022-10-01", "pytest_benchmark-5.0": "2025-02-21"}
    source, output = tmp_path / "in.txt", tmp_path / "out.txt"
    source.write_text("pytest-benchmark>=5\n")
    with http_indexes.served(wheels, days) as index:
        assert user_of(index.url, tmp_path, as_of="2024-06-17").compile(source, output, PYTHON) is None
    assert output.read_text().split() == ["pytest-benchmark==5.0"]


def test_as_of_a_day_a_later_torch_is_resolved_with_what_it_requires(wheels: Path, tmp_path: Path) -> None:
    """The nearest torch with a build for the CPU may be a later one; what torch does not require stays of the day."""
    tiny_packages.wheel(wheels, "torch", "2.7")
    tiny_packages.wheel(wheels, "torch", "2.13", requires=("sympy>=1.13",))
    tiny_packages.wheel(wheels, "sympy", "1.13")
    days = {"torch-2.7": "2025-01-01", "torch-2.13": "2026-01-01", "sympy-1.13": "2026-01-01"}
    days |= {"mine-1.0": "2025-01-01", "mine-2.0": "2026-01-01"}
    source, output = tmp_path / "in.txt", tmp_path / "out.txt"
    with http_indexes.served(wheels, days) as index:
        installer = user_of(index.url, tmp_path, as_of="2025-02-20")
        source.write_text("torch===2.13\nmine\n")
        assert installer.compile(source, output, PYTHON) is None
        assert output.read_text().split() == ["mine==1.0", "sympy==1.13", "torch==2.13"]
        source.write_text("torch===2.7\nsympy\n")
        assert installer.compile(source, output, PYTHON) is not None


def test_as_of_a_day_a_later_deepspeed_that_a_stack_has_is_resolved_with_what_the_day_has(
    wheels: Path, tmp_path: Path
) -> None:
    """It takes the place of one that does not run with a later torch."""
    tiny_packages.wheel(wheels, "deepspeed", "0.10", requires=("mine",))
    tiny_packages.wheel(wheels, "deepspeed", "0.14", requires=("mine",))
    days = {"deepspeed-0.10": "2023-07-01", "deepspeed-0.14": "2024-07-01"}
    days |= {"mine-1.0": "2023-01-01", "mine-2.0": "2026-01-01"}
    source, output = tmp_path / "in.txt", tmp_path / "out.txt"
    source.write_text("deepspeed==0.14\n")
    with http_indexes.served(wheels, days) as index:
        assert user_of(index.url, tmp_path, as_of="2023-08-24").compile(source, output, PYTHON) is None
    assert output.read_text().split() == ["deepspeed==0.14", "mine==1.0"]


# --- builds for the CPU -----------------------------------------------------------------------------------------------

LOCK = ("torch==9.9.0", "torchvision==9.9.1", "mine==1.0")


@pytest.fixture
def pytorch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HttpIndex]:
    folder = tmp_path / "pytorch"
    folder.mkdir()
    tiny_packages.wheel(folder, "torch", "9.9.0+cpu")
    with http_indexes.served(folder) as index:
        monkeypatch.setattr(package_index, "PYTORCH_CPU_INDEX", index.url)
        yield index


def test_a_cpu_build_of_the_users_own_index_is_taken_before_pytorchs(
    tmp_path: Path, index: HttpIndex, pytorch: HttpIndex, wheels: Path
) -> None:
    tiny_packages.wheel(wheels, "torch", "9.9.0+cpu")
    found = user_of(index.url, tmp_path).cpu_builds(("torch==9.9.0",), PYTHON)
    assert (found.requirements, found.unknown) == ({"torch": "torch==9.9.0+cpu"}, "")
    assert pytorch.asked == []


def test_a_cpu_build_that_pytorch_alone_has_is_installed_from_there(
    tmp_path: Path, index: HttpIndex, pytorch: HttpIndex
) -> None:
    installer = user_of(index.url, tmp_path)
    found = installer.cpu_builds(LOCK, PYTHON)
    assert list(found.requirements) == ["torch"]
    files = pytorch.url.removesuffix("simple/") + "files/"
    assert found.requirements["torch"].startswith(f"torch @ {files}torch-9.9.0+cpu-py3-none-any.whl#sha256=")
    locked = tiny_packages.locked(PYTHON, "torch==9.9.0", "mine==1.0")
    built = venv.build_venv(locked, folder=tmp_path / "work", installer=installer, gpu=False, framework="mine")
    assert built.installed == {"mine": "1.0", "torch": "9.9.0+cpu"}
    assert built.notes == ()


def test_a_lookup_that_failed_is_made_again_for_the_next_stack(
    tmp_path: Path, index: HttpIndex, pytorch: HttpIndex
) -> None:
    installer = user_of(index.url, tmp_path)
    pytorch.status = 503
    lost = installer.cpu_builds(LOCK, PYTHON)
    assert lost.requirements == {}
    assert lost.unknown == "no package index can be reached (HTTP status server error)"
    pytorch.status = 200
    found = installer.cpu_builds(LOCK, PYTHON)
    assert list(found.requirements) == ["torch"]
    pytorch.status = 503  # what was found once is the same for all stacks of a run
    assert installer.cpu_builds(LOCK, PYTHON).requirements == found.requirements


def test_nobody_is_asked_where_pip_is_configured_for_folders_alone(tmp_path: Path, pytorch: HttpIndex) -> None:
    installer = tiny_packages.installer(tmp_path, tmp_path)
    assert installer.pip == PipConfig(no_index=True, find_links=(str(tmp_path),))
    assert installer.cpu_builds(LOCK, PYTHON).requirements == {}
    assert pytorch.asked == []


def test_what_a_release_requires_is_read_from_its_wheel_and_unknown_without_one(
    tmp_path: Path, wheels: Path, index: HttpIndex
) -> None:
    tiny_packages.wheel(wheels, "theirs", "1.0", requires=("mine>=2", 'mine<3; extra == "fast"'))
    mine = user_of(index.url, tmp_path)
    assert mine.declared_requirements("theirs", "1.0") == ["mine>=2", 'mine<3; extra == "fast"']
    assert mine.declared_requirements("mine", "2.0") == []
    assert mine.declared_requirements("mine", "3.0") is None
