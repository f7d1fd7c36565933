"""Repair: what an invariant has found, put right.

Whoever repairs goes through the invariants in one order, in which what comes later counts what came
before, and asks again until nothing more is done. Each looks where it does not hold, and mends a
bounded number of places at a time in a writing transaction that locks the space first and looks
again: so writers may go on, two repairs may run at once, and a repair may stop anywhere and be
begun again.

What must always be true: no bytes are made up, and none that somebody could still want are dropped.
What nobody can know any more stays as it is, and is said: see `BEYOND_REPAIR`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from functools import partial
from itertools import groupby
from typing import Final

from msgspec import Struct

from keelfs.errors import NotFound
from keelfs.ports import Clock
from keelfs.store.database import Database, Row, Statement, Tx
from keelfs.store.fsck import mendartifacts, mendcontents, mendledgers, mendtrees
from keelfs.store.fsck.artifacts import ARTIFACTS
from keelfs.store.fsck.contents import CONTENTS, EXTENTS, OF_EXTENTS, are_readable
from keelfs.store.fsck.invariant import MOST_FINDINGS, Invariant
from keelfs.store.fsck.ledgers import LEDGERS
from keelfs.store.fsck.site import Site
from keelfs.store.fsck.trees import TREES
from keelfs.store.scope import NUMBER_BITS

#: Places that are looked for at once, and mended in one transaction.
FOUND: Final = 2000
AT_ONCE: Final = 200
#: What is lost or has changed, and cannot be had back from anything else that is kept.
BEYOND_REPAIR: Final = {
    "target": "where a link led is written nowhere else",
    "content-there": "the bytes are lost",
    "strand-range": "the bytes are lost",
    "chunks": "the bytes are lost, or there are two of which one is wrong",
    "chunk-bytes": "the bytes have changed",
    "inline-bytes": "the bytes have changed",
    "sha256": "the bytes have changed, or have not, and the hash has",
    "empty-sha256": "the bytes are lost, or the hash has changed",
    "change": "what happened is written nowhere else",
    "replay": "a change is lost or was changed; a new snapshot is a new beginning",
}

#: Every space of a tenant, deleted ones and images as well, in the order in which all lock them.
LOCK_ALL: Final = Statement(
    "SELECT id FROM spaces WHERE tenant = ?1 ORDER BY id",
    postgres="SELECT id FROM spaces WHERE tenant = ?1 ORDER BY id FOR NO KEY UPDATE",
)

InSpace = Callable[[Site, list[Row]], None]
InTenant = Callable[[Tx, int, list[Row]], Iterator[str]]


def _first(row: Row) -> int:
    return int(row[0])


def _space_of_birth(row: Row) -> int:
    """The space that made a content which counts somebody, though nobody holds it."""
    return int(row[0]) >> NUMBER_BITS if row[1] and not row[2] else 0


class Mender(Struct, frozen=True):
    """What mends one invariant, in one space or, without one, in the whole tenant."""

    invariant: str
    in_space: InSpace | None = None
    in_tenant: InTenant | None = None
    #: The space of a place; 0 for a place that is not this mender's.
    space_of: Callable[[Row], int] = _first


MENDERS: Final[tuple[Mender, ...]] = (
    Mender("marks", in_tenant=mendledgers.marks),
    Mender("homeless", in_tenant=mendledgers.homeless),
    Mender("image", mendledgers.image),
    Mender("image-owner", in_tenant=mendledgers.image_owner),
    Mender("tops", mendtrees.tops),
    Mender("node-counter", mendtrees.node_counter),
    Mender("content-counter", mendcontents.content_counter),
    Mender("journal", mendledgers.journal),
    Mender("identity", in_tenant=mendledgers.identity),
    Mender("kind", mendtrees.kind),
    Mender("node-size", mendcontents.node_size),
    Mender("entry-node", mendtrees.entry_node),
    Mender("directory-name", mendtrees.directory_name),
    Mender("directory-parent", mendtrees.directory_parent),
    Mender("entry-parent", mendtrees.entry_parent),
    Mender("named", mendtrees.named),
    Mender("reached", mendtrees.reached),
    Mender("names", mendtrees.names),
    Mender("trash-entry", mendtrees.trash_entry),
    Mender("trash-row", mendtrees.trash_row),
    Mender("trash-path", mendtrees.trash_path),
    Mender("inline-size", in_tenant=mendcontents.inline_size),
    Mender("extents", in_tenant=mendcontents.extents),
    Mender("content-size", mendcontents.content_size),
    Mender("revisions", mendcontents.revisions),
    Mender("revision-node", mendcontents.revisions),
    Mender("refs", mendcontents.recover, space_of=_space_of_birth),
    Mender("refs", in_tenant=mendcontents.refs),
    Mender("freed", in_tenant=mendcontents.refs),
    Mender("chunk-strand", in_tenant=mendcontents.chunk_strand),
    Mender("strand-length", in_tenant=mendcontents.strand_length),
    Mender("strand-refs", in_tenant=mendcontents.strand_refs),
    Mender("strand-freed", in_tenant=mendcontents.strand_refs),
    Mender("nlink", mendtrees.nlink),
    Mender("shared", mendtrees.shared),
    Mender("children", mendtrees.counts),
    Mender("height", mendtrees.counts),
    Mender("below", mendtrees.counts),
    Mender("image-size", mendledgers.image_size),
    Mender("ledger", mendledgers.ledger),
    Mender("trash-ledger", mendledgers.ledger),
    Mender("history-ledger", mendledgers.ledger),
    Mender("snapshot-ledger", mendledgers.ledger),
    Mender("grant-limit", in_tenant=mendledgers.grants),
    Mender("grant", in_tenant=mendledgers.grants),
    Mender("tenant-grants", in_tenant=mendledgers.grants),
    Mender("artifact-counter", in_tenant=mendartifacts.counter),
    Mender("artifact-node", in_tenant=mendartifacts.node),
    Mender("artifact-number", in_tenant=mendartifacts.number),
    Mender("artifact-path", in_tenant=mendartifacts.path),
    Mender("artifact-ledger", in_tenant=mendartifacts.ledger),
    Mender("memory-link", in_tenant=mendartifacts.link),
)
_INVARIANTS: Final = {
    each.name: each for each in (*TREES, *LEDGERS, *ARTIFACTS, *CONTENTS, EXTENTS)
}
_OF_EXTENTS: Final = {each.name: each for each in OF_EXTENTS}
#: These read all extents, which must be readable.
_NEED_EXTENTS: Final = frozenset(_OF_EXTENTS) | {"strand-freed"}


class Repair:
    """One repair of one tenant that may be in use."""

    def __init__(self, database: Database, clock: Clock, tenant: int) -> None:
        self._database = database
        self._clock = clock
        self._tenant = tenant
        #: What was done, by the name of the invariant; not all of it where it is much.
        self.deeds: dict[str, list[str]] = {}

    def mend(self, invariants: Collection[str]) -> bool:
        """Mends what these have found, as far as it can be; whether anything was done."""
        done = [self._mend(each) for each in MENDERS if each.invariant in invariants]
        return any(done)

    def _mend(self, mender: Mender) -> bool:
        """Whether anything was done."""
        if mender.invariant in _NEED_EXTENTS and not self._database.read(
            self._tenant, are_readable
        ):
            return False
        invariant = _INVARIANTS.get(mender.invariant) or _OF_EXTENTS[mender.invariant]
        done, before = False, list[Row]()
        while rows := self._found(invariant, mender):
            if rows == before or not self._mended(mender, rows):
                break
            done, before = True, rows
        return done

    def _found(self, invariant: Invariant, mender: Mender) -> list[Row]:
        rows = self._database.snapshot(self._tenant, lambda tx: invariant.rows(tx, FOUND))
        if mender.in_space is None:
            return rows
        return sorted((row for row in rows if mender.space_of(row)), key=mender.space_of)

    def _mended(self, mender: Mender, rows: list[Row]) -> bool:
        done = False
        for at in range(0, len(rows), AT_ONCE):
            few = rows[at : at + AT_ONCE]
            if mender.in_tenant is not None:
                works = [partial(self._in_tenant, mender.in_tenant, few)]
            else:
                works = [
                    partial(self._in_space, mender.in_space, space, list(group))
                    for space, group in groupby(few, mender.space_of)
                ]
            for work in works:
                deeds = self._database.write(self._tenant, work)
                done |= bool(deeds)
                self._keep(mender.invariant, deeds)
        return done

    def _keep(self, name: str, deeds: Iterable[str]) -> None:
        kept = self.deeds.setdefault(name, [])
        kept.extend(list(deeds)[: MOST_FINDINGS - len(kept)])

    def _in_space(self, mend: InSpace | None, space: int, rows: list[Row], tx: Tx) -> list[str]:
        assert mend is not None
        try:
            site = Site(tx, space, self._clock.now_ns())
        except NotFound:
            return []
        mend(site, rows)
        site.finish()
        return site.deeds

    def _in_tenant(self, mend: InTenant, rows: list[Row], tx: Tx) -> list[str]:
        tx.all(LOCK_ALL)
        return list(mend(tx, self._clock.now_ns(), rows))
