"""Asks every invariant of every tenant, and says what it found."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

from msgspec import Struct

from keelfs.model import Finding, Report
from keelfs.ports import Clock
from keelfs.store.database import Database, Statement, Tx
from keelfs.store.fsck.contents import by_rows
from keelfs.store.fsck.invariant import MOST_FINDINGS, Invariant
from keelfs.store.fsck.ledgers import LEDGERS
from keelfs.store.fsck.rot import ROT
from keelfs.store.fsck.trees import TREES

SIZES: Final = Statement(
    """SELECT (SELECT count(*) FROM spaces WHERE tenant = ?1 AND kind <> 'snapshot'
                  AND deleted_ns IS NULL),
              (SELECT count(*) FROM nodes WHERE tenant = ?1),
              (SELECT count(*) FROM contents WHERE tenant = ?1)"""
)


class _Seen(Struct):
    """What one look at a tenant found."""

    findings: list[Finding]
    spaces: int
    nodes: int
    contents: int


class Checker:
    """Looks at a store that may be in use."""

    def __init__(self, database: Database, clock: Clock, repair: bool) -> None:
        self._database = database
        self._clock = clock
        self._repair = repair

    def report(self, tenants: Iterable[tuple[int, str]]) -> Report:
        """What is wrong with the rows of these tenants."""
        total = _Seen([], 0, 0, 0)
        for tenant, name in tenants:
            seen = self._look(tenant, name)
            total.findings += seen.findings
            total.spaces += seen.spaces
            total.nodes += seen.nodes
            total.contents += seen.contents
        return Report(total.findings, total.spaces, total.nodes, total.contents)

    def _look(self, tenant: int, name: str) -> _Seen:
        """All invariants of one tenant, as of one moment."""

        def work(tx: Tx) -> _Seen:
            findings = [
                Finding(invariant.name, name, message)
                for invariant, violations in _answers(tx)
                for message in islice(violations, MOST_FINDINGS)
            ]
            spaces, nodes, contents = tx.one(SIZES) or (0, 0, 0)
            return _Seen(findings, spaces, nodes, contents)

        return self._database.snapshot(tenant, work)


def _answers(tx: Tx) -> Iterator[tuple[Invariant, Iterable[str]]]:
    for invariant in (*TREES, *LEDGERS):
        yield invariant, invariant.violations(tx)
    yield from by_rows(tx)
    for invariant in ROT:
        yield invariant, invariant.violations(tx)
