"""What files say is installed: pins, builds, checkouts, markers, locks; and one line for what cannot be read."""

from __future__ import annotations

import pytest

from dsregress.errors import UsageError
from dsregress.versions import installed
from dsregress.versions.installed import InstalledPackages


def read(text: str, file: str = "requirements.txt") -> InstalledPackages:
    return installed.read_packages(text.encode(), file)


@pytest.mark.parametrize(
    ("line", "version"),
    [
        ("deepspeed==0.16.8", "0.16.8"),
        ("DeepSpeed === 0.16.8  # ours", "0.16.8"),
        ("deepspeed[autotuning]==0.16.8; python_version >= '3.8'", "0.16.8"),
        ("deepspeed==0.16.8 \\\n    --hash=sha256:00 \\\n    --hash=sha256:11", "0.16.8"),
        ("deepspeed==0.16.8+cu124", "0.16.8"),
        ("deepspeed @ file:///wheels/deepspeed-0.16.8-py3-none-any.whl#sha256=00", "0.16.8"),
        ("https://host/deepspeed-0.16.8.tar.gz", "0.16.8"),
        ("--index-url https://host\n-f wheels\ndeepspeed==0.16.8", "0.16.8"),
    ],
)
def test_an_exact_pin_is_a_release(line: str, version: str) -> None:
    assert read(line) == InstalledPackages(versions={"deepspeed": version}, unknown={}, unread=())


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("deepspeed", "not pinned"),
        (f"deepspeed==0.{'1' * 5000}", "not a release"),
        ("deepspeed==0.16.8+1a2b3c4d", "not a release: 0.16.8+1a2b3c4d"),
        ("deepspeed @ git+https://host/DeepSpeed@1a2b3c4d", "not a release"),
        ("git+https://host/x#egg=deepspeed", "not a release"),
        ("-e git+https://host/x@1a2b3c4d#egg=deepspeed", "not a release: editable"),
        (
            "# Editable install with no version control (deepspeed==0.16.8)\n-e /home/me/DeepSpeed",
            "not a release: editable",
        ),
    ],
)
def test_anything_else_says_of_no_release_that_it_is_installed(line: str, why: str) -> None:
    assert read(line) == InstalledPackages(versions={}, unknown={"deepspeed": why}, unread=())


@pytest.mark.parametrize(
    ("lines", "bounds"),
    [
        ("deepspeed<0.17,>=0.16", ">=0.16,<0.17"),
        ("deepspeed==0.16.*", "==0.16.*"),
        ("deepspeed>=0.16\ndeepspeed<0.17", ">=0.16,<0.17"),
    ],
)
def test_bounds_leave_a_range_of_releases(lines: str, bounds: str) -> None:
    assert read(lines) == InstalledPackages(
        versions={}, unknown={"deepspeed": "not pinned"}, unread=(), ranges={"deepspeed": bounds}
    )


def test_a_pin_beside_bounds_is_the_release() -> None:
    assert read("deepspeed>=0.16\ndeepspeed==0.16.8") == InstalledPackages(
        versions={"deepspeed": "0.16.8"}, unknown={}, unread=()
    )


def test_markers_are_of_this_machine_and_other_files_are_named() -> None:
    found = read(
        "torch==2.4.0; sys_platform == 'win32'\ntorch==2.5.1; sys_platform != 'win32'\n\n-r base.txt\n-c more.txt"
    )
    assert found == InstalledPackages(
        versions={"torch": "2.5.1"}, unknown={}, unread=("-c more.txt (line 5)",), included=("base.txt",)
    )


def test_a_shell_that_writes_utf_16_is_read() -> None:
    assert installed.read_packages("torch==2.5.1\r\n".encode("utf-16"), "x.txt").versions == {"torch": "2.5.1"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "torch==2.5.1\n\ndeep speed\n",
            "requirements.txt:3: not a requirement: 'deep speed'; write NAME==VERSION, or give the output of `pip freeze`",
        ),
        (
            "torch \\\n ==2.5.1\ntorch==2.5.0",
            "requirements.txt:3: torch is 2.5.0 here and 2.5.1 above; keep one of the two lines",
        ),
        (
            "-deepspeed==0.16.8",
            "requirements.txt:1: not an option of a requirements file: '-deepspeed==0.16.8'; write NAME==VERSION",
        ),
    ],
)
def test_a_line_that_cannot_be_read_is_named(text: str, message: str) -> None:
    with pytest.raises(UsageError) as error:
        read(text)
    assert str(error.value) == message


def test_bytes_are_no_requirements() -> None:
    with pytest.raises(UsageError, match="x.txt: not a text file"):
        installed.read_packages(b"\x7fELF\xfa", "x.txt")


LOCK = """
version = 1

[[package]]
name = "deepspeed"
version = "0.16.8"
source = { registry = "https://pypi.org/simple" }

[[package]]
name = "torch"
version = "2.5.1"
source = { registry = "https://pypi.org/simple" }
resolution-markers = ["sys_platform == 'darwin'"]

[[package]]
name = "torch"
version = "2.5.1+cu124"
source = { registry = "https://download.pytorch.org/whl/cu124" }
resolution-markers = ["sys_platform != 'darwin'"]

[[package]]
name = "trl"
version = "0.24.0"
source = { git = "https://host/trl?rev=main#1a2b" }

[[package]]
name = "peft"
version = "0.20.0"

[[package]]
name = "peft"
version = "0.21.2"

[[package]]
name = "mine"
source = { virtual = "." }
"""


def test_a_lock_is_read_by_its_name_or_by_what_it_is() -> None:
    found = read(LOCK, "uv.lock")
    assert found.versions == {"deepspeed": "0.16.8", "torch": "2.5.1"}
    assert found.unknown == {"trl": "not a release", "peft": "0.20.0 or 0.21.2", "mine": "not a release"}
    assert read(LOCK, "stdin") == found


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "[[package]]\nname = x\n",
            r"uv.lock: not valid TOML: .* \(at line 2, column 8\); regenerate it with `uv lock`",
        ),
        ("version = 1\n", r"uv.lock: not a lock file: it has no \[\[package\]\]"),
        (
            "[[package]]\nname = 'x'\n[[package]]\nversion = '1'\n",
            r"uv.lock: \[\[package\]\] 2: not in the form that uv writes: .*`name`",
        ),
    ],
)
def test_a_damaged_lock_is_one_line(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        read(text, "uv.lock")


def test_no_message_holds_a_password() -> None:
    assert read("-r https://me:pw@host/r.txt\n-c https://me:pw@host/c.txt").unread == (
        "-r https://***@host/r.txt (line 1)",
        "-c https://***@host/c.txt (line 2)",
    )
    for line in ("--unknown https://me:pw@host", "not one https://me:pw@host", "HF_TOKEN=pw x"):
        with pytest.raises(UsageError) as refused:
            read(line)
        assert "pw" not in str(refused.value)
        assert "***" in str(refused.value)


CONDA = """\
name: train
dependencies:
  - python=3.11
  - pytorch::pytorch=2.5.1=py3.11_cuda12.4
  - numpy>=1.26
  - pip
  - pip:
      - deepspeed==0.16.8
      - transformers>=4.57
"""


def test_a_conda_environment_is_read_with_its_pip() -> None:
    found = read(CONDA, "environment.yml")
    assert found.versions == {"torch": "2.5.1", "deepspeed": "0.16.8"}
    assert found.unknown == {
        "python": "not pinned",
        "numpy": "not pinned",
        "pip": "not pinned",
        "transformers": "not pinned",
    }


def test_yaml_that_is_no_conda_environment_is_one_line() -> None:
    for text in ("name: x\n", "- 1\n", "a: [\n"):
        with pytest.raises(UsageError, match=r"^environment.yml: not a conda environment: .*; `pip freeze` prints"):
            read(text, "environment.yml")


def test_poetrys_lock_is_read_as_a_lock() -> None:
    text = '[[package]]\nname = "deepspeed"\nversion = "0.16.8"\noptional = false\nfiles = []\n'
    assert read(text, "poetry.lock").versions == {"deepspeed": "0.16.8"}
    assert installed.is_lock(text, "poetry.lock")
    assert not installed.is_lock("deepspeed==0.16.8\n", "requirements.txt")


def test_the_packages_of_an_environment_are_releases_or_not() -> None:
    found = installed.packages_of({"torch": "2.13.0+cu126", "deepspeed": "0.16.8+abc1234"})
    assert found.versions == {"torch": "2.13.0"}
    assert found.unknown == {"deepspeed": "not a release: 0.16.8+abc1234"}


@pytest.mark.parametrize(
    "line",
    [
        "deepspeed @ git+https://github.com/deepspeedai/DeepSpeed.git@v0.16.8",
        "git+https://github.com/deepspeedai/DeepSpeed@v0.16.8",
        "-e git+https://github.com/deepspeedai/DeepSpeed.git@refs/tags/v0.16.8#egg=deepspeed",
    ],
)
def test_a_checkout_of_a_tag_is_its_release(line: str) -> None:
    assert read(line).versions == {"deepspeed": "0.16.8"}


def test_a_checkout_without_a_tag_is_of_its_repository() -> None:
    assert read("git+https://github.com/huggingface/trl.git").unknown == {"trl": "not a release"}


def test_a_lock_s_checkout_of_a_tag_is_its_release() -> None:
    lock = """[[package]]
name = "transformers"
version = "4.51.3.dev0"
source = { git = "https://github.com/huggingface/transformers?tag=v4.51.3#0123abcd" }
"""
    assert read(lock, "uv.lock").versions == {"transformers": "4.51.3"}


@pytest.mark.parametrize(
    ("pin", "version", "bounds"),
    [
        ("transformers=4.40", "", "==4.40.*"),
        ("transformers=4.51.3", "4.51.3", ""),
        ("transformers==4.40", "4.40", ""),
        ("transformers=4.40=pyhd8ed1ab_0", "4.40", ""),
        ("conda-forge::transformers=4.40.*", "", "==4.40.*"),
        ("transformers >=4.46,<5", "", ">=4.46,<5"),
        ("transformers", "", ""),
    ],
)
def test_conda_s_single_sign_of_equality_is_a_prefix(pin: str, version: str, bounds: str) -> None:
    found = read(f"dependencies:\n  - {pin}\n", "environment.yml")
    assert found.versions.get("transformers", "") == version
    assert found.ranges.get("transformers", "") == bounds


def test_the_images_of_compose_are_read_and_what_its_shell_installs() -> None:
    compose = (
        "services:\n  train:\n    image: pytorch/pytorch:2.5.1-cuda12.4-cudnn9-devel\n"
        '    command: bash -c "pip install deepspeed==0.15.4 && torchrun train.py"\n'
    )
    assert read(compose, "docker-compose.yml").versions == {"torch": "2.5.1", "deepspeed": "0.15.4"}
