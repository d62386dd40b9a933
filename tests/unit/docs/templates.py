"""Pages that are written from templates: ``NAME.md.jinja`` becomes ``NAME.md``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jinja2

SUFFIX = ".jinja"


def page_of(template: Path) -> Path:
    return template.with_name(template.name.removesuffix(SUFFIX))


def rendered(
    template: Path, functions: Mapping[str, Callable[..., Any]], filters: Mapping[str, Callable[..., Any]] | None = None
) -> str:
    """The page that a template makes, below a line that says so. ``functions`` and ``filters`` are what it may call."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(template.parent),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # Markdown
    )
    environment.globals |= functions
    environment.filters |= filters or {}
    note = f"<!-- Written from {template.name}; change that, then: nox -s tests -- --accept -->\n"
    return note + environment.get_template(template.name).render()
