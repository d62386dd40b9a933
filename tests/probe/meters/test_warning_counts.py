"""Warnings of a framework by signature."""

from __future__ import annotations

import logging
import warnings

from dsregress.probe.meters.warning_counts import count_warnings


def test_warnings_are_counted_by_signature_from_python_and_from_loggers_that_do_not_propagate() -> None:
    logger = logging.getLogger("tests.framework")
    logger.propagate = False
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        with count_warnings() as counts:
            warnings.warn("slow for 3 reasons", FutureWarning, stacklevel=1)
            logger.warning("bucket of %d bytes\nmore", 512)
            logger.warning("bucket of %d bytes", 1024)
            logger.info("nothing")
    assert counts == {"FutureWarning: slow for N reasons": 1, "tests.framework: bucket of N bytes": 2}
