"""What the user chooses: settings from flags, environment variables and ``pyproject.toml``."""
