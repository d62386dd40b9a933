"""Real GPUs: the ``cuda`` device mode and NVML."""
