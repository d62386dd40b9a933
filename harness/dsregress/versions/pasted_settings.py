"""accelerate's settings as ``transformers-cli env`` and ``accelerate env`` print them. Pure."""

from __future__ import annotations

import ast
import re
from typing import Any

#: The line above the settings, or in front of the first one.
_HEADING = re.compile(r"^\s*-\s+`?Accelerate`? (?:default )?config:\s*(?P<first>-.*)?$")
_SETTING = re.compile(r"^\s*-\s+(?P<key>[a-z][a-z0-9_]*):\s?(?P<value>.*)$")
_LONGEST = 10_000  # characters of a value


def pasted_settings(text: str) -> dict[str, Any]:
    """Return the settings; empty for a text without them."""
    lines = iter(text.splitlines())
    found: dict[str, Any] = {}
    for line in lines:
        if (heading := _HEADING.match(line)) is not None:
            for one in (heading["first"] or "", *lines):
                setting = _SETTING.match(one)
                if setting is not None:
                    found[setting["key"]] = _read_value(setting["value"].strip())
                elif one.strip():
                    break
            break
    return found


def _read_value(text: str) -> Any:
    """Return a dictionary, which Python's form shows, else the text."""
    if not text.startswith("{") or len(text) > _LONGEST:
        return text
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return text
