"""Artifacts: the files that a conversation keeps, and how agents write and read them in text."""
