"""``python -m vgpu``: the same as the installed ``vgpu``."""

import sys

from vgpu.command import main

if __name__ == "__main__":
    sys.exit(main())
