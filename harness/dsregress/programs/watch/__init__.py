"""Watch a running program: its phases, its models, its losses and what it saves."""
