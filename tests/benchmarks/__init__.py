"""Costs of the harness itself: ``nox -s bench``. See ``docs/benchmarks.md``."""
