"""`pytest scenarios/`: every scenario and variant that runs on CPU, as pytest-benchmark items, in any environment."""

from dsregress.probe.process.cell import pytest_generate_tests, test_scenario

__all__ = ["pytest_generate_tests", "test_scenario"]
