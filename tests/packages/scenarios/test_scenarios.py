"""`pytest tests/packages/scenarios`: tinyframe's scenarios in an environment that a person has already."""

from dsregress.probe.process.cell import pytest_generate_tests, test_scenario

__all__ = ["pytest_generate_tests", "test_scenario"]
