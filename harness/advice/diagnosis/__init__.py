"""What a pasted crash says, and which stored failures have it."""
