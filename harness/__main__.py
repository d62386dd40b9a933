"""``python -m harness``: the same as the installed ``dsregress``."""

from harness.cli import main

if __name__ == "__main__":
    main()
