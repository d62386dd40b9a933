"""Locked stacks -> environments on this machine.

`pip_config` reads what the user told pip, `installer` runs uv (or pip) under it, `recipe` decides what a lock means on
this machine, `venv` builds and reuses environments, `hardware` tells what the machine is.
"""
