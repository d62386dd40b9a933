"""Which package an import that failed names."""

from __future__ import annotations

import pytest

from dsregress.advice.other_packages import packages_to_try
from dsregress.compare.failed_imports import FailedImport, failed_import
from dsregress.model import Stack, read_signature


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("ModuleNotFoundError: No module named 'trl' (train.py:<module>)", FailedImport("trl", False)),
        ("ModuleNotFoundError: No module named 'huggingface_hub.utils._errors'", FailedImport("huggingface_hub", True)),
        ("ImportError: cannot import name 'X' from 'numpy' (numpy/__init__.py)", FailedImport("numpy", True)),
        ("ImportError: cannot import name 'X' from 'numpy.core' (numpy/core/a.py)", FailedImport("numpy", True)),
        ("ImportError: cannot import name 'X' from 'helpers' (helpers.py)", FailedImport("helpers", False)),
        ("RuntimeError: 'deepspeed.ops' failed (deepspeed/ops/x.py:f)", None),
    ],
)
def test_only_a_package_with_the_part_elsewhere_is_known_to_be_installed(text: str, found: FailedImport | None) -> None:
    assert failed_import(read_signature(text)) == found


@pytest.mark.parametrize(
    ("text", "packages"),
    [
        ("ProgramError: train.py ended after 1 optimizer step, and 2 are needed: give it more data or epochs", []),
        ("CannotRun: train.py lacks the module 'x': add its package with --with PACKAGE", []),
        ("RuntimeError: x (deepspeed/ops/x.py:f)", ["deepspeed", "transformers", "accelerate", "torch"]),
    ],
)
def test_no_other_package_passes_where_a_line_of_ours_says_what_is_wrong(text: str, packages: list[str]) -> None:
    stack = Stack(python="3.11", versions={"torch": "2.13.0", "transformers": "5.24.0", "deepspeed": "0.16.8"})
    assert packages_to_try(read_signature(text), "forward", stack, ()) == packages


def test_what_is_no_failure_names_no_package() -> None:
    assert failed_import(None) is None
