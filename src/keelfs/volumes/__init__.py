"""Trees that are no space of a store: a folder of the host, and copy-on-write over another tree."""
