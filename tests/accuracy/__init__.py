"""The simulation's accuracy, by what others have measured on GPUs: ``nox -s accuracy``. See ``results/accuracy.md``."""
