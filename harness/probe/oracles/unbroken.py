"""An oracle's own errors, told from those of what it judges."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from harness.probe.border.faults import signature_of
from harness.probe.oracle_error import NotCoveredError, OracleError


@contextlib.contextmanager
def unbroken(oracle: str) -> Iterator[None]:
    """Inside, nothing of a framework runs. Every error but a NotCoveredError is an OracleError that names the oracle."""
    try:
        yield
    except NotCoveredError:
        raise
    except Exception as error:  # whatever its arithmetic, torch or transformers raise
        raise OracleError(f"the {oracle} oracle broke: {signature_of(error)}") from error
