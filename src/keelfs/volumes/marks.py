"""What an overlay writes into the extended attributes of its upper tree, and how it reads it.

Whiteouts are the names that a directory hides from the lower tree. An origin is the identity and
the revision that a node had below when it was brought up. Nobody outside sees either.
"""

from __future__ import annotations

import json
from typing import Final

from msgspec.structs import replace

from keelfs.model import Stat

#: Attributes of this family belong to the overlay, not to its users.
OWN: Final = "keelfs.overlay."
WHITEOUTS: Final = OWN + "whiteouts"
ORIGIN: Final = OWN + "origin"


def whiteouts(stat: Stat | None) -> frozenset[str]:
    """The names that a directory of the upper tree hides from the lower one."""
    value = stat.xattrs.get(WHITEOUTS) if stat is not None else None
    return frozenset(json.loads(value)) if value else frozenset()


def own_xattrs(stat: Stat, revision: int | None) -> dict[str, bytes | None] | None:
    """A node's attributes, with its origin if it is the same node."""
    xattrs: dict[str, bytes | None] = dict(shown(stat).xattrs)
    if revision is not None:
        xattrs[ORIGIN] = b"%s:%d" % (stat.id.hex().encode(), revision)
    return xattrs or None


def shown(stat: Stat) -> Stat:
    """A stat of the upper volume as the merged tree tells it."""
    if not any(name.startswith(OWN) for name in stat.xattrs):
        return stat
    xattrs = {name: value for name, value in stat.xattrs.items() if not name.startswith(OWN)}
    origin = stat.xattrs.get(ORIGIN)
    if origin is None:
        return replace(stat, xattrs=xattrs)
    identity, _ = origin.decode().split(":")
    return replace(
        stat, xattrs=xattrs, id=bytes.fromhex(identity), revision=stat.revision + shift(stat)
    )


def shift(stat: Stat) -> int:
    """How far the revisions of the merged tree are ahead of those of the upper volume."""
    origin = stat.xattrs.get(ORIGIN)
    return 0 if origin is None else int(origin.decode().split(":")[1]) - 1
