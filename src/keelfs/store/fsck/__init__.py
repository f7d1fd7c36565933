"""The invariants of a store, looked at while it is in use, and mended where they can be.

Each invariant is a named question whose answer must be empty. `check` asks them all, tenant by
tenant, in one reading transaction that sees a single state and holds up nobody. Nothing here is
needed for the store to work, and no other room of the store calls it but the catalogue.
"""

from keelfs.store.fsck.checker import Checker

__all__ = ["Checker"]
