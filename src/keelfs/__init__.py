"""Keelfs: the filesystem an AI agent cannot escape from, cannot lose data in, cannot slow down."""
