"""``results/findings.md`` is what its template makes of the published results and answers."""

from __future__ import annotations

import pytest

from tests.golden_files import Golden
from tests.paths import ROOT
from tests.unit.docs import findings_page


@pytest.mark.slow
def test_the_page_is_written_from_published_results(golden: Golden) -> None:
    golden(findings_page.PAGE.relative_to(ROOT).as_posix(), findings_page.written(), folder=ROOT)
