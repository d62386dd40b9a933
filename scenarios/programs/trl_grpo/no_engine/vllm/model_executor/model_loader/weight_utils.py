"""TRL 0.26 to 1.0 puts its progress bar here."""
