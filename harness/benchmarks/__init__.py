"""What the harness itself costs: ``nox -s bench``. See ``docs/benchmarks.md``."""
