"""Asks every invariant of every tenant, says what it found, and has it mended if that is wanted.

What rows say is asked in one reading transaction, which sees a single state, and mended if that is
wanted. A journal is then compared with its tree in a transaction per space, and bytes, which never
change, are read page by page without one: no transaction lasts as long as a check, and no writer
waits for any of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from itertools import islice
from typing import Final

from msgspec import Struct

from keelfs.model import Finding, Report
from keelfs.ports import Clock
from keelfs.store.database import Database, Statement, Tx
from keelfs.store.fsck.artifacts import ARTIFACTS
from keelfs.store.fsck.contents import CONTENTS, EXTENTS, OF_EXTENTS, by_rows
from keelfs.store.fsck.invariant import MOST_FINDINGS, Invariant
from keelfs.store.fsck.ledgers import LEDGERS
from keelfs.store.fsck.mending import Repair
from keelfs.store.fsck.ownerless import OWNERLESS, adopt, is_ownerless
from keelfs.store.fsck.replay import REPLAY, differences, spaces
from keelfs.store.fsck.rot import ROT
from keelfs.store.fsck.trees import TREES

#: Every question there is.
INVARIANTS: Final[tuple[Invariant, ...]] = (
    *TREES, *LEDGERS, *ARTIFACTS, *CONTENTS, EXTENTS, *OF_EXTENTS, REPLAY, *ROT
)  # fmt: skip
#: What mending breaks for an invariant that comes earlier is mended in the next round.
ROUNDS: Final = 8
#: Ids that are looked at behind the newest tenant that is known, which may have been lost.
_BEYOND: Final = 16

SIZES: Final = Statement(
    """SELECT (SELECT count(*) FROM spaces WHERE tenant = ?1 AND kind <> 'snapshot'
                  AND deleted_ns IS NULL),
              (SELECT count(*) FROM nodes WHERE tenant = ?1),
              (SELECT count(*) FROM contents WHERE tenant = ?1)"""
)


class _Seen(Struct):
    """What was found so far."""

    findings: list[Finding]
    spaces: int
    nodes: int
    contents: int

    def add(self, other: _Seen) -> None:
        self.findings += other.findings
        self.spaces += other.spaces
        self.nodes += other.nodes
        self.contents += other.contents


class Checker:
    """Looks at a store that may be in use."""

    def __init__(self, database: Database, clock: Clock, repair: bool) -> None:
        self._database = database
        self._clock = clock
        self._repair = repair

    def whole(self, tenants: Iterable[tuple[int, str]]) -> Report:
        """What is wrong with a store that has these tenants, and with rows of those it lost."""
        total, known = _Seen([], 0, 0, 0), set[int]()
        for tenant, name in tenants:
            known.add(tenant)
            total.add(self._looked_after(tenant, name))
        for tenant in range(1, max(known, default=0) + _BEYOND):
            if tenant not in known and self._database.read(tenant, is_ownerless):
                total.add(self._found(tenant))
        return _report(total)

    def report(self, tenants: Iterable[tuple[int, str]]) -> Report:
        """What is wrong with the rows of these tenants alone."""
        total = _Seen([], 0, 0, 0)
        for tenant, name in tenants:
            total.add(self._looked_after(tenant, name))
        return _report(total)

    def _found(self, tenant: int) -> _Seen:
        """A tenant that was lost."""
        name = f"tenant {tenant}"
        if not self._repair:
            message = "rows belong to a tenant that does not exist"
            return _Seen([Finding(OWNERLESS, name, message)], 0, 0, 0)
        now = self._clock.now_ns()
        name = self._database.write(tenant, lambda tx: adopt(tx, tenant, now))
        message = "it was lost, and can be opened again under this name"
        seen = _Seen([Finding(OWNERLESS, name, message, repaired=True)], 0, 0, 0)
        seen.add(self._looked_after(tenant, name))
        return seen

    def _looked_after(self, tenant: int, name: str) -> _Seen:
        """What is wrong with a tenant, and what was mended of it."""
        seen = self._rows(tenant, name)
        repair = Repair(self._database, self._clock, tenant)
        for _round in range(ROUNDS if self._repair else 0):
            if not repair.mend({each.invariant for each in seen.findings}):
                break
            seen = self._rows(tenant, name)
        seen.findings += self._bytes(tenant, name)
        seen.findings[:0] = [
            Finding(invariant, name, deed, repaired=True)
            for invariant, deeds in repair.deeds.items()
            for deed in deeds
        ]
        return seen

    # -- looking

    def _rows(self, tenant: int, name: str) -> _Seen:
        """What rows say, as of one moment."""

        def work(tx: Tx) -> _Seen:
            findings = [
                Finding(invariant.name, name, message)
                for invariant, violations in _answers(tx)
                for message in islice(violations, MOST_FINDINGS)
            ]
            spaces_, nodes, contents = tx.one(SIZES) or (0, 0, 0)
            return _Seen(findings, spaces_, nodes, contents)

        return self._database.snapshot(tenant, work)

    def _bytes(self, tenant: int, name: str) -> list[Finding]:
        """What is read row by row and cannot be mended: journals, and bytes."""
        found = [
            Finding(REPLAY.name, name, message)
            for message in islice(self._replayed(tenant), MOST_FINDINGS)
        ]
        for invariant in ROT:
            messages = self._database.read(tenant, partial(_some, invariant))
            found += [Finding(invariant.name, name, message) for message in messages]
        return found

    def _replayed(self, tenant: int) -> Iterator[str]:
        after = 0
        while rows := self._database.read(tenant, partial(spaces, after=after)):
            for (after,) in rows:
                yield from self._database.snapshot(tenant, partial(_differences, space=after))


def _differences(tx: Tx, space: int) -> list[str]:
    return list(islice(differences(tx, space), MOST_FINDINGS))


def _some(invariant: Invariant, tx: Tx) -> list[str]:
    return list(islice(invariant.violations(tx), MOST_FINDINGS))


def _report(seen: _Seen) -> Report:
    return Report(seen.findings, seen.spaces, seen.nodes, seen.contents)


def _answers(tx: Tx) -> Iterator[tuple[Invariant, Iterable[str]]]:
    for invariant in (*TREES, *LEDGERS, *ARTIFACTS):
        yield invariant, invariant.violations(tx)
    yield from by_rows(tx)
