"""Ends of an oracle without a verdict: it does not cover the job, or it broke. Imports no torch."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from dsregress.probe.border.faults import signature_of
from dsregress.probe.harness_fault import HarnessFault


class NotCoveredError(Exception):
    """The oracle does not cover this job; the message says why. The job is measured without its verdict."""


@contextlib.contextmanager
def unbroken(oracle: str) -> Iterator[None]:
    """Turn every error within the block but a NotCoveredError into a HarnessFault that names the oracle. Nothing of a
    framework may run there."""
    try:
        yield
    except NotCoveredError:
        raise
    except Exception as error:  # whatever its arithmetic, torch or transformers raise
        raise HarnessFault(f"the {oracle} oracle broke: {signature_of(error)}") from error
