"""What a person chooses: settings from flags, environment variables and ``pyproject.toml``."""
