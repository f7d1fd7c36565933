"""Where the outside meets the store: each surface authenticates, decodes, calls, encodes.

No surface holds a rule of the filesystem, and none imports another.
"""
