"""A user's unmodified training program as a workload: how its launch line is read, how it runs as a rank, and where its
phases are. Cells name `dsregress.probe.programs.adapter` as their framework."""
