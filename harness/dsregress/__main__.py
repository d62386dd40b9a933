"""``python -m dsregress``: the same as the installed ``dsregress``."""

from dsregress.cli import run_command_line

if __name__ == "__main__":
    run_command_line()
