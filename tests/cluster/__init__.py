"""Tests on a real Ray cluster: several nodes on this machine, each with an address of its own."""
