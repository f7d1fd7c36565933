"""The tree that one agent sees, and what it works with in it."""
