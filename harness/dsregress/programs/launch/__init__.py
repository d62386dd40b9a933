"""Start a program as its launcher would, and explain what keeps it from starting."""
