"""A whole store in dictionaries: tenants and spaces that live as long as the process.

The tenant's own totals of bytes and nodes are judged per space only, since no space here knows of
another; whoever needs them needs a database.
"""
