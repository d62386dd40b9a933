"""What to do: does it fit, what does each remedy buy, which release to pin, who holds the memory."""
