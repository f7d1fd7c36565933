"""A volume in dictionaries: the reference model of tests, usable in earnest.

Written for obviousness and sharing nothing with the store, so that where both agree they are
right. The floors, from below: `records` (frozen values), `state` (dictionaries with an undo log),
`tree` (paths and limits), then the verbs: `files`, `entries`, `bin`, `snapshots`, `volume`. `space`
is the door: it holds the lock and begins and ends transactions.
"""

from keelfs.memory.space import MemorySpace

__all__ = ["MemorySpace"]
