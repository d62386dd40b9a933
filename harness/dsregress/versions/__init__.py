"""Version specs -> releases that exist -> stacks -> locked stacks.

`releases` holds the known releases, `specs` expands what the user writes, `stacks` makes the compared stacks, `locking`
pins everything else in them. Nothing here opens a connection: callers pass in the functions that do.
"""
