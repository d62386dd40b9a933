"""TRL 0.26 to 1.0 puts a function for tokenizers here."""
