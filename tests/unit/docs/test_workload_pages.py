"""The pages about reported workloads are what their templates make of published results."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.golden_files import Golden
from tests.paths import ROOT
from tests.unit.docs import templates, workload_pages

TEMPLATES = list(workload_pages.templates())


@pytest.mark.slow
@pytest.mark.parametrize("template", TEMPLATES, ids=[template.name for template in TEMPLATES])
def test_a_page_is_what_its_template_makes_of_results(template: Path, golden: Golden) -> None:
    page = templates.page_of(template)
    golden(page.relative_to(ROOT).as_posix(), workload_pages.written(template), folder=ROOT)
