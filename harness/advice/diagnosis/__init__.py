"""What a crash that somebody pasted says, and which stored failures have it."""
