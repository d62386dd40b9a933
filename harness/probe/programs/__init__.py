"""A user's training program, unmodified, as a workload: how its launch line is read, how it runs as a rank, and where
its phases are. `harness.probe.programs.adapter` is what a cell names as its framework."""
