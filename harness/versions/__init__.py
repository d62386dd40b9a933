"""Version specs -> releases that exist -> stacks -> locked stacks.

`releases` holds what is known, `specs` expands what a person writes, `stacks` makes the compared stacks, `locking` pins
everything else in them. Nothing here opens a connection: whoever calls passes in the functions that do.
"""
