"""The workloads: one file each, declared with `dsregress.probe.scenario`."""
