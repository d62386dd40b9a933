"""Why the kernel has ended a process."""

from __future__ import annotations


def kernel_out_of_memory_kills() -> int:
    """How many processes the kernel has killed for memory since boot; 0 where it does not report that."""
    try:
        with open("/proc/vmstat") as lines:
            for line in lines:
                if line.startswith("oom_kill "):
                    return int(line.split()[1])
    except OSError:
        pass
    return 0
