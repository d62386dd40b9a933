"""The processes inside a measured environment: server, cell, ranks."""
