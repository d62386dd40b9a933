"""Poetry's table of dependencies, as pip writes requirements. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

#: ``^0.9.1`` and ``^4.45`` allow what begins with the numbers up to the first that is not 0, ``~4.45.1`` with the first two.
_CARET = re.compile(r"\^\s*((?:0\.)*\d+)((?:\.\d+)*)")
_TILDE = re.compile(r"~\s*(\d+(?:\.\d+)?)((?:\.\d+)*)")


def poetry_requirements(table: Mapping[str, Any]) -> Iterator[str]:
    """Yield the requirements of a table ``[tool.poetry.dependencies]``, or of a group's, without that of Python."""
    for name, value in table.items():
        if name == "python":
            continue
        said = value.get("version", "") if isinstance(value, dict) else value if isinstance(value, str) else ""
        spec = _TILDE.sub(r">=\1\2,==\1.*", _CARET.sub(r">=\1\2,==\1.*", said)).strip()
        yield name if spec in ("*", "") else f"{name}{spec if spec[0] in '=<>~!' else f'=={spec}'}"
