"""Which package an import that failed names."""

from __future__ import annotations

import pytest

from dsregress.advice.other_packages import FailedImport, failed_import
from dsregress.model import read_signature


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


def test_what_is_no_failure_names_no_package() -> None:
    assert failed_import(None) is None
