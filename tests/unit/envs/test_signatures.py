"""An installer's output in one stable line, and whose fault it was."""

from __future__ import annotations

import pytest

from dsregress.envs.signatures import classify, failed_build, signature
from dsregress.errors import EnvironmentUnavailable
from dsregress.model import MachineFault
from dsregress.probe.border import machine

UV_BUILD = """\
  × Failed to build `deepspeed==0.14.0`
  ├─▶ The build backend returned an error
  ╰─▶ Call to `setuptools.build_meta:__legacy__.build_wheel` failed (exit status: 1)

      [stderr]
      Traceback (most recent call last):
        File "<string>", line 14, in <module>
      ConnectionRefusedError: [Errno 111] Connection refused
      ModuleNotFoundError: No module named 'torch'

      hint: This usually indicates a problem with the package or the build environment.
"""

UV_NO_SOLUTION = """\
error: No solution found when resolving dependencies
  cause: Because transformers==5.0.0 depends on huggingface-hub>=1.0 and peft==0.9 depends on huggingface-hub<1,
      we can conclude that your requirements are unsatisfiable.
"""


def test_a_build_is_named_with_its_last_exception() -> None:
    assert signature(UV_BUILD) == "build of deepspeed: ModuleNotFoundError: No module named 'torch'"
    assert failed_build(UV_BUILD) == "deepspeed"


def test_what_a_build_prints_of_networks_is_not_the_machines_fault() -> None:
    assert classify(UV_BUILD, "here").stage == "install"


@pytest.mark.parametrize(
    ("printed", "fault"),
    [
        ("      as: /tmp/cc1.o: No space left on device\n", machine.DISK_FULL),
        ("      c++: fatal error: Killed signal terminated program cc1plus\n", machine.MEMORY),
        ("      OSError: [Errno 24] Too many open files: 'setup.cfg'\n", machine.OPEN_FILES),
    ],
)
def test_a_build_that_the_machine_stops_is_no_verdict_on_the_package(printed: str, fault: str) -> None:
    output = UV_BUILD.replace("      ConnectionRefusedError", f"{printed}      ConnectionRefusedError")
    found = classify(output, "here")
    assert isinstance(found, MachineFault)
    assert (found.stage, found.fault, found.signature) == ("install", fault, signature(output))


def test_a_build_whose_download_fails_is_no_verdict_on_the_package_and_no_lost_network() -> None:
    lost = "URLError: <urlopen error [Errno -3] Temporary failure in name resolution>"
    found = classify(UV_BUILD.replace("ModuleNotFoundError: No module named 'torch'", lost), "here")
    assert isinstance(found, MachineFault)
    assert found.fault == machine.BUILD_DOWNLOAD
    assert "the index" in machine.REMEDIES[found.fault]


UV_CUT_OFF = """\
error: Failed to download `tinyframe==1.1.0`
  cause: Failed to extract archive: /home/me/index/tinyframe-1.1.0-py3-none-any.whl
  cause: Invalid zip file structure
  cause: unable to locate the end of central directory record
"""


@pytest.mark.parametrize(
    "output",
    [
        UV_CUT_OFF,
        "error: No solution found when resolving dependencies\n  cause: Because x==1 has an invalid package format",
        "ERROR: Wheel 'tinyframe' located at /x/tinyframe-1.1.0-py3-none-any.whl is invalid.",
        "zipfile.BadZipFile: Bad CRC-32 for file 'tinyframe/__init__.py'",
        "ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE.",
    ],
)
def test_a_package_that_was_cut_off_is_no_verdict_on_it(output: str) -> None:
    found = classify(output, "here")
    assert isinstance(found, MachineFault)
    assert (found.stage, found.fault) == ("install", machine.DAMAGED)


def test_no_solution_is_reported_by_its_reason() -> None:
    assert signature(UV_NO_SOLUTION) == (
        "no solution: transformers==5.0.0 depends on huggingface-hub>=1.0 and peft==0.9 depends on huggingface-hub<1"
    )


def test_pips_own_words_are_taken_where_there_is_nothing_else() -> None:
    assert signature("noise\nERROR: No matching distribution found for mine==9.0\n") == (
        "ERROR: No matching distribution found for mine==9.0"
    )
    assert signature("") == "no output"


def test_a_secret_that_a_build_prints_is_in_no_signature() -> None:
    said = UV_BUILD.replace("No module named 'torch'", "pip install --token abc HF_TOKEN=def 'torch'")
    assert signature(said) == "build of deepspeed: ModuleNotFoundError: pip install --token *** HF_TOKEN=*** 'torch'"


def test_addresses_and_places_of_a_machine_are_left_out() -> None:
    assert signature("OSError: /home/me/x/lib.so at 0x7f00aa") == "OSError: lib.so at 0x"


@pytest.mark.parametrize(
    ("output", "what"),
    [
        ("error: Failed to fetch: `https://x/simple/a/`\n dns error", "no package index can be reached (dns error)"),
        ("error: failed to write: No space left on device (os error 28)", "the disk is full (No space left on device)"),
        (
            "error: failed to open file: Too many open files (os error 24)",
            "too many files are open (error: failed to open file: Too many open files (os error 24))",
        ),
        ("error: request or response body error", "no package index can be reached (request or response body error)"),
        ("error: Read-only file system (os error 30)", "a folder cannot be written (Read-only file system)"),
        (
            "error: No interpreter found for Python 3.99",
            "the stack's Python cannot be found (No interpreter found for)",
        ),
    ],
)
def test_the_machines_faults_are_errors(output: str, what: str) -> None:
    with pytest.raises(EnvironmentUnavailable) as caught:
        classify(output, "here")
    assert str(caught.value).startswith(f"here: {what}; ")
