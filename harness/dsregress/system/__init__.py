"""The machine the harness runs on: files, locks, the container engine."""
