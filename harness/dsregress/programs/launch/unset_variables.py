"""Variables of the environment that a program reads with ``os.environ[NAME]``, or a package asks for in its own words, and
that are not set."""

from __future__ import annotations

import ast
import os
import re
import traceback

from dsregress.programs.world.resource_errors import innermost_place, place_of
from vgpu.error_chain import behind_one_another

#: Before it in a sentence: it is advice, as torch's to set TORCH_DISTRIBUTED_DEBUG for more information.
_NOT_NEEDED = re.compile(r"\b(?:can|may|might|could|consider)\b[^.\n]*$")

#: ``either pass an `api_key` or set the `OPENAI_API_KEY` environment variable``
_ASKED_FOR = re.compile(
    r"\b[Ss]et(?:ting)?\s+(?:(?:the|an?|environment|variable)\s+)*[`'\"$]*([A-Z][A-Z0-9]*_[A-Z0-9_]+)\b"
)


def what_to_set(error: Exception) -> str | None:
    """Return one line that names the variable for want of which the program ended, and those that the rest of its file
    reads; None if an error is another one."""
    frames = list(traceback.walk_tb(error.__traceback__))
    if not isinstance(error, KeyError) or not frames or frames[-1][0].f_locals.get("self") is not os.environ:
        return _asked_for(error)
    place = innermost_place((frame.f_code.co_filename, line) for frame, line in reversed(frames))
    later = _read_from(*place) if place is not None else []
    names = [*dict.fromkeys([str(error.args[0]), *(name for name in later if name not in os.environ)])]
    said = f"variable {names[0]}, which is" if len(names) == 1 else f"variables {', '.join(names)}, which are"
    given = " ".join(f"{name}=VALUE" for name in names)
    return f"{place_of(error)} reads the {said} not set: write {given} before the line"


def _asked_for(error: Exception) -> str | None:
    for one in behind_one_another(error):
        text = str(one)
        found = _ASKED_FOR.search(text) if "environment variable" in text else None
        if found is not None and found[1] not in os.environ and not _NOT_NEEDED.search(text[: found.start()]):
            name = found[1]
            return f"{place_of(error)} needs the variable {name}, which is not set: write {name}=VALUE before the line"
    return None


def _read_from(file: str, line: int) -> list[str]:
    """Return the names in ``os.environ[NAME]`` of a file from a line on, in their order."""
    try:
        with open(file, "rb") as opened:
            nodes = list(ast.walk(ast.parse(opened.read())))
    except (OSError, SyntaxError, ValueError):
        return []
    found = [
        (node.lineno, node.slice.value)
        for node in nodes
        if isinstance(node, ast.Subscript)
        and isinstance(node.ctx, ast.Load)
        and ast.unparse(node.value) in ("os.environ", "environ")
        and isinstance(node.slice, ast.Constant)
        and isinstance(node.slice.value, str)
        and node.lineno >= line
    ]
    return [name for _, name in sorted(found)]
