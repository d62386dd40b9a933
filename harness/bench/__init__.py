"""What the harness itself costs: ``nox -s bench``."""
