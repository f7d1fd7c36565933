"""Giving back the room of what was removed, has expired, or was left behind by a crash.

Each step is one short transaction that looks at a bounded number of rows, so that writers wait for
a step and never for a sweep. What a step leaves is sound by itself: a sweep may be interrupted
anywhere, run in several processes at once, and be run again.

Who calls: the catalogue. What a deleted space leaves behind is `reaping`'s.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Final, TypeVar

import msgspec
from msgspec.structs import replace

from keelfs.errors import NotFound
from keelfs.model import Limits, Principal, Swept
from keelfs.ports import Clock
from keelfs.store import reaping, tokens, trashcan
from keelfs.store.content import Extent
from keelfs.store.database import Database, Row, Statement, Tx
from keelfs.store.files import drop_history
from keelfs.store.names import take_out
from keelfs.store.scope import REFER_STRAND, decoded_limits
from keelfs.store.spaces import DELETED
from keelfs.store.staging import discard_chunks
from keelfs.store.tree import CHILDREN, COLUMNS, DOOMED, NODE, Node
from keelfs.store.view import View
from keelfs.store.volume import SpaceVolume

T = TypeVar("T")

#: Rows of nodes, revisions or changes that one step takes away, give or take the last one.
ROWS: Final = 1000
#: Contents that one step takes away; each may hold 64 KiB.
CONTENTS: Final = 256
#: Answers under idempotency keys are kept for a day: long enough for any retry.
KEPT_REQUESTS_S: Final = 24 * 3600
_SECOND: Final = 10**9
#: In whose name the sweep works. It records nothing in any journal.
_SWEEPER: Final = Principal("operator", "sweep")

LIVE: Final = Statement(
    """SELECT id, limits FROM spaces
       WHERE tenant = ?1 AND id > ?2 AND kind <> 'snapshot' AND deleted_ns IS NULL
       ORDER BY id LIMIT ?3"""
)
TRASH_SPACE: Final = Statement(
    """SELECT space FROM trash WHERE tenant = ?1 AND expires_ns <= ?2 AND space > ?3
       ORDER BY space LIMIT 1"""
)
EXPIRED_TRASH: Final = Statement(
    f"""SELECT t.id, {", ".join(f"n.{name}" for name in COLUMNS)} FROM trash t
          JOIN nodes n ON n.tenant = ?1 AND n.space = ?2 AND n.id = t.node
         WHERE t.tenant = ?1 AND t.space = ?2 AND t.expires_ns <= ?3 ORDER BY t.id LIMIT ?4"""
)
REQUEST: Final = Statement("SELECT 1 FROM requests WHERE tenant = ?1 AND at_ns <= ?2 LIMIT 1")
EXPIRED_REQUESTS: Final = Statement(
    """DELETE FROM requests WHERE tenant = ?1 AND (space, key) IN (
           SELECT space, key FROM requests WHERE tenant = ?1 AND at_ns <= ?2
            ORDER BY at_ns LIMIT ?3) RETURNING at_ns"""
)
OLD_REVISIONS: Final = Statement(
    """SELECT node, max(revision) FROM (
           SELECT node, revision FROM revisions
            WHERE tenant = ?1 AND space = ?2 AND until_ns <= ?3
            ORDER BY until_ns LIMIT ?4) AS old GROUP BY node ORDER BY node"""
)
FORGET_REVISIONS: Final = Statement(
    "UPDATE nodes SET first_revision = ?4 WHERE tenant = ?1 AND space = ?2 AND id = ?3"
)
OLD_CHANGES: Final = Statement(
    """SELECT seq, at_ns FROM changes WHERE tenant = ?1 AND space = ?2 ORDER BY seq LIMIT ?3"""
)
FORGET_CHANGES: Final = Statement(
    "DELETE FROM changes WHERE tenant = ?1 AND space = ?2 AND seq <= ?3"
)
DOOMED_SPACE: Final = Statement(
    """SELECT e.space FROM entries e
         JOIN spaces s ON s.tenant = ?1 AND s.id = e.space AND s.deleted_ns IS NULL
        WHERE e.tenant = ?1 AND e.parent = 3 ORDER BY e.space LIMIT 1"""
)
FREED_CONTENT: Final = Statement(
    "SELECT 1 FROM contents WHERE tenant = ?1 AND freed_ns <= ?2 LIMIT 1"
)
FREED_CONTENTS: Final = Statement(
    """DELETE FROM contents WHERE tenant = ?1 AND refs = 0 AND freed_ns <= ?2 AND id IN (
           SELECT id FROM contents WHERE tenant = ?1 AND freed_ns <= ?2
            ORDER BY freed_ns LIMIT ?3) RETURNING extents""",
    postgres="""DELETE FROM contents WHERE tenant = ?1 AND refs = 0 AND freed_ns <= ?2 AND id IN (
           SELECT id FROM contents WHERE tenant = ?1 AND freed_ns <= ?2
            ORDER BY freed_ns LIMIT ?3 FOR UPDATE SKIP LOCKED) RETURNING extents""",
)
FREED_STRAND: Final = Statement(
    """SELECT id FROM strands WHERE tenant = ?1 AND freed_ns <= ?2 ORDER BY freed_ns LIMIT 1""",
)
#: Keeps a stream that wakes up late from going on with a strand whose beginning is gone.
CONDEMN: Final = Statement(
    """UPDATE strands SET freed_ns = 0
       WHERE tenant = ?1 AND id = ?2 AND refs = 0 AND freed_ns <= ?3 RETURNING id"""
)


class Sweeper:
    """One sweep over a store that may be in use."""

    def __init__(self, database: Database, clock: Clock, grace_s: float) -> None:
        self._database = database
        self._clock = clock
        self._grace_ns = int(grace_s * _SECOND)
        self._swept: Counter[str] = Counter()

    def sweep(self, tenants: Iterable[tuple[int, str]], steps: int | None) -> Swept:
        """Works until nothing is left to do, or `steps` transactions have been used up."""
        taken = 0
        for tenant, name in tenants:
            for _step in self._steps(tenant, name):
                taken += 1
                if steps is not None and taken >= steps:
                    return replace(Swept(more=True), **self._swept)
        return replace(Swept(), **self._swept)

    def _steps(self, tenant: int, name: str) -> Iterator[None]:
        """Each step has committed one transaction when it comes.

        The order matters little: what a later step frees for an earlier one, the next sweep finds.
        """
        yield from self._reaped(tenant)
        yield from self._expired_trash(tenant)
        yield from self._expired_requests(tenant)
        yield from self._expired_tokens(tenant)
        yield from self._aged(tenant)
        yield from self._doomed(tenant)
        yield from self._freed(tenant)
        if name.startswith(DELETED):
            self._write(tenant, reaping.forget_tenant)
            yield

    def _write(self, tenant: int, work: Callable[[Tx], T]) -> T:
        """A sweep that a power cut takes back is done again."""
        return self._database.write(tenant, work, durable=False)

    def _read(self, tenant: int, work: Callable[[Tx], T]) -> T:
        return self._database.read(tenant, work)

    def _one(self, tenant: int, statement: Statement, *params: int) -> Row | None:
        return self._read(tenant, lambda tx: tx.one(statement, *params))

    def _in_space(self, tenant: int, space: int, work: Callable[[View], T]) -> T | None:
        """Work on a space with its row locked; None if it was deleted meanwhile."""
        volume = SpaceVolume(self._database, tenant, space, _SWEEPER, self._clock, Limits())

        def inside(tx: Tx) -> T:
            view = volume.writing(tx)
            view.scope.row  # noqa: B018
            answer = work(view)
            view.scope.flush()
            return answer

        try:
            return self._write(tenant, inside)
        except NotFound:
            return None

    # -- deleted spaces

    def _reaped(self, tenant: int) -> Iterator[None]:
        now = self._clock.now_ns()
        while found := self._one(tenant, reaping.DELETED_SPACE):
            step = partial(reaping.step, space=found[0], now_ns=now, rows=ROWS)
            self._swept["nodes"] += self._write(tenant, step)
            yield

    # -- what has expired

    def _expired_trash(self, tenant: int) -> Iterator[None]:
        now, space = self._clock.now_ns(), 0
        discard = partial(_discard_expired, now_ns=now)
        while found := self._one(tenant, TRASH_SPACE, now, space):
            space = found[0]
            while discarded := self._in_space(tenant, space, discard):
                self._swept["expired_trash"] += discarded[0]
                self._swept["nodes"] += discarded[1]
                yield

    def _expired_requests(self, tenant: int) -> Iterator[None]:
        cut = self._clock.now_ns() - KEPT_REQUESTS_S * _SECOND
        while self._one(tenant, REQUEST, cut):
            self._write(tenant, lambda tx: tx.all(EXPIRED_REQUESTS, cut, ROWS))
            yield

    def _expired_tokens(self, tenant: int) -> Iterator[None]:
        """What is worth nothing any more need not be kept either."""
        now = self._clock.now_ns()
        while self._one(tenant, tokens.EXPIRES, now):
            self._write(tenant, lambda tx: tx.all(tokens.EXPIRED, now, ROWS))
            yield

    def _aged(self, tenant: int) -> Iterator[None]:
        """History and journals that the limits of their space let age."""
        after = 0
        while rows := self._read(tenant, partial(_page, after)):
            after = rows[-1][0]
            for space, text in rows:
                limits = decoded_limits(text)
                yield from self._old(tenant, space, limits.history_age_s, "expired_revisions",
                                     _forget_revisions)  # fmt: skip
                yield from self._old(tenant, space, limits.journal_age_s, "expired_changes",
                                     _forget_changes)  # fmt: skip

    def _old(
        self, tenant: int, space: int, age_s: int | None, name: str, forget: Callable[..., int]
    ) -> Iterator[None]:
        if age_s is None:
            return
        cut = self._clock.now_ns() - age_s * _SECOND
        while forgotten := self._in_space(tenant, space, partial(forget, cut_ns=cut)):
            self._swept[name] += forgotten
            yield

    # -- large trees that were removed

    def _doomed(self, tenant: int) -> Iterator[None]:
        while found := self._one(tenant, DOOMED_SPACE):
            self._swept["nodes"] += self._in_space(tenant, found[0], _thin_out) or 0
            yield

    # -- bytes that nothing holds

    def _freed(self, tenant: int) -> Iterator[None]:
        cut = self._clock.now_ns() - self._grace_ns
        while self._one(tenant, FREED_CONTENT, cut):
            self._swept["contents"] += self._write(tenant, partial(_free_contents, cut_ns=cut))
            yield
        while found := self._one(tenant, FREED_STRAND, cut):
            chunks = self._write(tenant, partial(_free_strand, strand=found[0], cut_ns=cut))
            self._swept["chunks"] += chunks
            yield


def _page(after: int, tx: Tx) -> list[Row]:
    return tx.all(LIVE, after, ROWS)


def _discard_expired(view: View, *, now_ns: int) -> tuple[int, int] | None:
    """Discards trashed things, as many as one step may: how many things, and how many nodes."""
    things = nodes = 0
    for row in view.tx.all(EXPIRED_TRASH, view.space, now_ns, ROWS):
        node = view.node(row[1:])
        trashcan.discard(view, row[0], node)
        things, nodes = things + 1, nodes + node.weight[1]
        if nodes >= ROWS:
            break
    return (things, nodes) if things else None


def _forget_revisions(view: View, *, cut_ns: int) -> int:
    forgotten = 0
    for id_, revision in view.tx.all(OLD_REVISIONS, view.space, cut_ns, ROWS):
        row = view.tx.one(NODE, view.space, id_)
        assert row is not None
        node = view.node(row)
        count = revision - node.first_revision + 1
        drop_history(view, node, count)
        view.tx.do(FORGET_REVISIONS, view.space, id_, node.first_revision)
        forgotten += count
    return forgotten


def _forget_changes(view: View, *, cut_ns: int) -> int:
    """The beginning of the journal, up to the first change that is younger."""
    last, count = 0, 0
    for seq, at_ns in view.tx.all(OLD_CHANGES, view.space, ROWS):
        if at_ns > cut_ns:
            break
        last, count = seq, count + 1
    if count:
        view.tx.do(FORGET_CHANGES, view.space, last)
    return count


def _thin_out(view: View) -> int:
    """Removes part of what lies below the first doomed directory, or the directory if it is empty.

    Directories that hold more than one step may remove become doomed themselves, so that a tree of
    any shape goes away in steps of the same size.
    """
    tops = view.tx.all(CHILDREN, view.space, DOOMED, "", 1)
    if not tops:
        return 0
    name, top = tops[0][0], Node(*tops[0][1:])
    children = view.tx.all(CHILDREN, view.space, top.id, "", ROWS)
    if not children:
        take_out(view, [DOOMED], name, top)
        return 1
    removed = 0
    for row in children:
        node = Node(*row[1:])
        take_out(view, [DOOMED, top.id], row[0], node)
        removed += min(node.weight[1], ROWS)
        if removed >= ROWS:
            break
    return removed


def _free_contents(tx: Tx, *, cut_ns: int) -> int:
    """Takes contents away that nothing holds; strands that only they held may go in this sweep."""
    strands: Counter[int] = Counter()
    rows = tx.all(FREED_CONTENTS, cut_ns, CONTENTS)
    for (text,) in rows:
        extents = msgspec.json.decode(text, type=list[Extent]) if text else []
        strands.update({extent[0] for extent in extents if extent[0]})
    tx.many(REFER_STRAND, [(id_, -count, cut_ns) for id_, count in sorted(strands.items())])
    return len(rows)


def _free_strand(tx: Tx, *, strand: int, cut_ns: int) -> int:
    """Takes chunks of a strand away that nothing holds, and in the end the strand."""
    if tx.one(CONDEMN, strand, cut_ns) is None:
        return 0
    return discard_chunks(tx, strand)
