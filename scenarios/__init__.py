"""The workloads: one file each, declared with `harness.probe.scenario`."""
