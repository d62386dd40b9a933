"""Each template has one page, whose fields are the variables that the template names."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from jinja2 import meta

from dsregress.report.html import advisory_pages, badges, finding, overview, problem, release_pages, workload_pages
from dsregress.report.html.page import Page
from dsregress.report.html.rendering import TEMPLATES, environment

MODULES = (advisory_pages, badges, finding, overview, problem, release_pages, workload_pages)

#: What no page has a template of its own for.
SHARED = {"base.html", "parts.html"}

#: What `Renderer` gives to every template, and the macros of parts.html, which a template imports.
GIVEN = {"frame", "root", "path", "parts"}


def pages() -> Iterator[type[Page]]:
    for module in MODULES:
        for value in vars(module).values():
            if isinstance(value, type) and issubclass(value, Page) and value is not Page:
                yield value


def named(template: str) -> set[str]:
    """The variables of a template, and of the one that it extends."""
    made = environment()
    names: set[str] = set()
    for name in (template, "base.html") if template.endswith(".html") else (template,):
        assert made.loader is not None
        source, _, _ = made.loader.get_source(made, name)
        names |= meta.find_undeclared_variables(made.parse(source))
    return names - set(made.globals) - GIVEN


@pytest.mark.parametrize("page", list(pages()), ids=lambda page: page.template)
def test_a_page_has_what_its_template_names_and_nothing_else(page: type[Page]) -> None:
    assert set(page.__struct_fields__) == named(page.template)


def test_every_template_has_a_page() -> None:
    assert {page.template for page in pages()} == {file.name for file in TEMPLATES.iterdir()} - SHARED


def test_only_templates_have_markup() -> None:
    for file in TEMPLATES.parent.glob("*.py"):
        text = file.read_text(encoding="utf-8")
        assert not any(tag in text for tag in ("<td", "<th", "<a ", "<span", "<small", "<wbr")), file.name
