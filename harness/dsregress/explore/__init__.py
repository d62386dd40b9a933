"""Explores configurations that no scenario lists: tries them in two releases, judges them, and reduces each fault to its
conditions."""
