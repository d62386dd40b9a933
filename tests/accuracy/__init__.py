"""The simulation's accuracy, by what others have measured on GPUs: ``nox -s accuracy``. See ``docs/accuracy.md``."""
