"""Mending what a conversation keeps, with all spaces of the tenant locked."""

from __future__ import annotations

from collections.abc import Iterator

from keelfs.store.artifacts import HIDE
from keelfs.store.database import Row, Tx
from keelfs.store.fsck.artifacts import COUNT, DROP, NEXT, NUMBER, PLACE, UNLINK


def number(tx: Tx, now_ns: int, rows: list[Row]) -> Iterator[str]:
    """A new number: which one a file had is not known any more."""
    for space, node in rows:
        tx.do(NEXT)
        tx.do(NUMBER, space, node, now_ns)
        yield f"space {space}: node {node} has a number"
    tx.do(NEXT)


def node(tx: Tx, now_ns: int, rows: list[Row]) -> Iterator[str]:
    del now_ns
    for space, id_ in rows:
        tx.do(DROP, id_)
        yield f"space {space}: the number {id_} of no file was removed"


def path(tx: Tx, now_ns: int, rows: list[Row]) -> Iterator[str]:
    del now_ns
    tx.many(HIDE, [(space, id_) for space, id_, _path in rows])
    for space, id_, there in rows:
        if there is not None:
            tx.do(PLACE, space, id_, there)
        yield f"space {space}: node {id_} is known by where it lies"


def ledger(tx: Tx, now_ns: int, rows: list[Row]) -> Iterator[str]:
    del now_ns, rows
    tx.do(COUNT)
    yield "what the artifacts of the tenant hold was counted anew"


def counter(tx: Tx, now_ns: int, rows: list[Row]) -> Iterator[str]:
    del now_ns, rows
    tx.do(NEXT)
    yield "no number will be given a second time"


def link(tx: Tx, now_ns: int, rows: list[Row]) -> Iterator[str]:
    del now_ns
    for id_, artifact in rows:
        tx.do(UNLINK, id_)
        yield f"memory entry {id_}: its link to artifact {artifact} has expired"
