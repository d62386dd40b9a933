"""Locked stacks -> environments on this machine.

`pip_config` reads the user's pip configuration, `installer` runs uv under it, `recipe` adapts a lock to a machine,
`venv` and `stack_images` build and reuse environments, `hardware` describes the machine.
"""
