"""Packages that ``--with`` adds, by name, release and extras."""

from __future__ import annotations

import pytest

from dsregress.cli.options import requested_versions
from dsregress.errors import UsageError
from dsregress.versions.stack_plans import NEWEST_THAT_FITS


def test_a_package_keeps_its_extras() -> None:
    given = ["TRL=0.24.0", "Json_ArgParse[signatures]", "lightning[app]>=2.5"]
    assert requested_versions({}, given) == {
        "trl": "0.24.0",
        "json-argparse[signatures]": NEWEST_THAT_FITS,
        "lightning[app]": ">=2.5",
    }


@pytest.mark.parametrize("given", [["[signatures]"], ["trl", "TRL=1.0.0"]])
def test_what_is_no_package_or_is_given_twice_is_refused(given: list[str]) -> None:
    with pytest.raises(UsageError):
        requested_versions({}, given)
