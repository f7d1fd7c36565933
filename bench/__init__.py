"""How fast keelfs is, as ratios to the least program that does the same work.

What must always be true: subject and floor are measured in the same run, in small blocks that take
turns, so that what else the machine does falls on both. Nothing here asserts a time. `python -m
bench` prints the table that docs/performance.md explains.
"""
