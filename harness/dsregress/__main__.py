"""``python -m dsregress``: the same as the installed ``dsregress``."""

from dsregress.cli import main

if __name__ == "__main__":
    main()
