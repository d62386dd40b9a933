"""The user's choices: settings from flags, environment variables and ``pyproject.toml``."""
