"""One process that serves a store: which surfaces hang in it, and how it starts and stops."""
