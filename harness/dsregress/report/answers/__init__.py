"""The answers of ``fit``, ``remedies``, ``recommend``, ``bisect`` and ``explain``, one file per command."""
