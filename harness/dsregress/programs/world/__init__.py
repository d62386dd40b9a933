"""Surround a program: its folder, the network, process pools, random numbers, and the ranks that send to it."""
