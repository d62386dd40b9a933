"""Where a program is in its training: the calls that it makes, and the phases between them."""
