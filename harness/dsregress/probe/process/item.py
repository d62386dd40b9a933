"""The one test of a pytest session that serves the host; see `dsregress.probe.process.server`."""

from __future__ import annotations

from typing import Any

from dsregress.probe.process.cell import execute_cell


def test_cell(request: Any, benchmark: object) -> None:
    """The outcome is in the record; the test only carries pytest-benchmark's timer."""
    session = request.config.dsregress
    execute_cell(session.request, session.folder, benchmark, session)
