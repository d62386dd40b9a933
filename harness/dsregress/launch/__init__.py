"""Runs cells: `contract` is the interface of executors, `local` runs on this machine, `fake` is for tests."""
