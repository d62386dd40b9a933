"""How quantities, stacks and commands are written for a reader."""
