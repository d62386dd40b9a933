"""Foreign TOML, as values."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

#: A key of 100 parts and more: what tomllib takes for one grows with their square.
_LONG_KEY = re.compile(r"(?<![\w-])(?:[\w-]+[\"']?\s*\.\s*[\"']?){100}")


def parsed_toml(text: str) -> dict[str, Any]:
    """Parse TOML. Raise ValueError, whose text describes the error."""
    if _LONG_KEY.search(text):
        raise ValueError("a key of more than 100 parts")
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        raise
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except ValueError:
        raise ValueError("a number of too many digits") from None


def table_of(values: Mapping[str, Any], *names: str) -> Mapping[str, Any]:
    """Return the table of these names, one in another; empty if there is none."""
    found: Any = values
    for name in names:
        found = found.get(name, {}) if isinstance(found, dict) else {}
    return found if isinstance(found, dict) else {}
