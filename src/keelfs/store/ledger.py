"""Limits: of a space to the byte in its own row, of a tenant by allowances.

A space may use what it was granted of its tenant's limit without touching the tenant's row, so
that many sessions of one tenant write side by side. When a grant is used up the space draws a
slice, the smaller the nearer the limit. When the tenant has nothing left to grant, the write is
tried again behind `settle_tenant`, which takes back what other spaces hold unused, in one
transaction: only then is it refused.

Lock order: spaces by id, then the tenant.
"""

from __future__ import annotations

from typing import Final

import msgspec

from keelfs.errors import QuotaExceeded
from keelfs.model import UNLIMITED, Limits
from keelfs.store.database import Row, Statement, Tx
from keelfs.store.scope import MOST_BYTES, Scope

#: What a space draws at once while the tenant has plenty.
SLICE_BYTES: Final = 16 * 2**20
SLICE_NODES: Final = 4096
#: Near the limit a space draws at most this part of what is left.
SHARE: Final = 32

LOCK_TENANT: Final = Statement(
    "SELECT limits, granted_bytes, granted_nodes FROM tenants WHERE id = ?1",
    postgres="""SELECT limits, granted_bytes, granted_nodes FROM tenants WHERE id = ?1
                FOR NO KEY UPDATE""",
)
GRANT: Final = Statement("UPDATE tenants SET granted_bytes = ?2, granted_nodes = ?3 WHERE id = ?1")
_SPACES: Final = """SELECT id, bytes + trash_bytes, nodes + trash_nodes, granted_bytes,
           granted_nodes, own_limits, kind
       FROM spaces WHERE tenant = ?1 AND kind <> 'snapshot' AND deleted_ns IS NULL ORDER BY id"""
LOCK_SPACES: Final = Statement(_SPACES, postgres=f"{_SPACES} FOR NO KEY UPDATE")
#: Behind the lock of the tenant, for which the writer of a space that came late may be waiting.
LOCK_LATE_SPACES: Final = Statement(_SPACES, postgres=f"{_SPACES} FOR NO KEY UPDATE NOWAIT")
SET_GRANT: Final = Statement(
    "UPDATE spaces SET granted_bytes = ?3, granted_nodes = ?4 WHERE tenant = ?1 AND id = ?2"
)


class Unsettled(Exception):
    """The tenant has nothing left to grant until unused grants are taken back."""

    def __init__(self, refusal: QuotaExceeded) -> None:
        super().__init__()
        self.refusal = refusal


def settle(scope: Scope) -> None:
    """Refuses what passes a limit; draws what the tenant has to grant, and a slice ahead."""
    _settle(scope, SLICE_BYTES, SLICE_NODES)


def settle_exactly(scope: Scope) -> None:
    """The same without a slice: another space may need the rest in the same transaction."""
    _settle(scope, 0, 0)


def _settle(scope: Scope, slice_bytes: int, slice_nodes: int) -> None:
    row, before, limits = scope.row, scope.before, scope.limits
    bytes_, nodes = row.bytes + row.trash_bytes, row.nodes + row.trash_nodes
    if bytes_ > before.bytes + before.trash_bytes:
        most = MOST_BYTES if limits.bytes is None else min(limits.bytes, MOST_BYTES)
        _check("space.bytes", most, bytes_, before.bytes + before.trash_bytes)
    if row.history_bytes > before.history_bytes:
        _check("space.history_bytes", MOST_BYTES, row.history_bytes, before.history_bytes)
    if nodes > before.nodes + before.trash_nodes:
        _check("space.nodes", limits.nodes, nodes, before.nodes + before.trash_nodes)
    lacks_bytes = row.granted_bytes is not None and bytes_ > row.granted_bytes
    lacks_nodes = row.granted_nodes is not None and nodes > row.granted_nodes
    if (lacks_bytes and bytes_ > before.bytes + before.trash_bytes) or (
        lacks_nodes and nodes > before.nodes + before.trash_nodes
    ):
        _draw(scope, bytes_, nodes, slice_bytes, slice_nodes)


def _check(name: str, limit: int | None, wanted: int, used: int) -> None:
    if limit is not None and wanted > limit:
        raise QuotaExceeded(
            f"{name} is limited to {limit}, {used} are used and this would make it {wanted}",
            limit=name,
            size=limit,
            used=used,
        )


def _draw(scope: Scope, bytes_: int, nodes: int, slice_bytes: int, slice_nodes: int) -> None:
    found = scope.tx.one(LOCK_TENANT)
    assert found is not None
    limits = decoded(found[0])
    row = scope.row
    new_bytes = _drawn("tenant.bytes", row.granted_bytes, bytes_, limits.bytes, found[1],
                       slice_bytes)  # fmt: skip
    new_nodes = _drawn("tenant.nodes", row.granted_nodes, nodes, limits.nodes, found[2],
                       slice_nodes)  # fmt: skip
    scope.tx.do(
        GRANT,
        found[1] + (new_bytes or 0) - (row.granted_bytes or 0),
        found[2] + (new_nodes or 0) - (row.granted_nodes or 0),
    )
    row.granted_bytes, row.granted_nodes = new_bytes, new_nodes


def _drawn(
    name: str, granted: int | None, used: int, limit: int | None, all_granted: int, slice_: int
) -> int | None:
    """What the space holds after drawing what it lacks, and a slice while there is plenty."""
    if granted is None or limit is None or used <= granted:
        return granted
    left = limit - all_granted - (used - granted)
    if left < 0:
        raise Unsettled(
            QuotaExceeded(
                f"{name} is limited to {limit}, and this would pass it by at least one",
                limit=name,
                size=limit,
                used=all_granted,
            )
        )
    return used + min(slice_, left // SHARE)


def give_back(scope: Scope) -> None:
    """Lets others in this transaction draw what the space has let go of in it."""
    row, before = scope.row, scope.before
    bytes_, nodes = row.bytes + row.trash_bytes, row.nodes + row.trash_nodes
    fewer = max(before.bytes + before.trash_bytes - bytes_, 0)
    less = max(before.nodes + before.trash_nodes - nodes, 0)
    if row.granted_bytes is None:
        fewer = 0
    if row.granted_nodes is None:
        less = 0
    if not fewer and not less:
        return
    tenant = scope.tx.one(LOCK_TENANT)
    assert tenant is not None
    scope.tx.do(GRANT, tenant[1] - fewer, tenant[2] - less)
    row.granted_bytes = None if row.granted_bytes is None else row.granted_bytes - fewer
    row.granted_nodes = None if row.granted_nodes is None else row.granted_nodes - less


def settle_tenant(tx: Tx) -> None:
    """Takes back what the spaces of the tenant hold unused."""
    rows = tx.all(LOCK_SPACES)
    tenant = tx.one(LOCK_TENANT)
    assert tenant is not None
    changed: list[Row] = []
    # Differences, not sums: a space that was made while the locks were waited for, and has drawn
    # already, is none of the rows, and what it holds stays granted.
    all_bytes, all_nodes = tenant[1:]
    for id_, bytes_, nodes, granted_bytes, granted_nodes, *_own in rows:
        new_bytes = None if granted_bytes is None else bytes_
        new_nodes = None if granted_nodes is None else nodes
        all_bytes += (new_bytes or 0) - (granted_bytes or 0)
        all_nodes += (new_nodes or 0) - (granted_nodes or 0)
        if (new_bytes, new_nodes) != (granted_bytes, granted_nodes):
            changed.append((id_, new_bytes, new_nodes))
    tx.many(SET_GRANT, changed)
    tx.do(GRANT, all_bytes, all_nodes)


def for_spaces(limits: Limits) -> Limits:
    """A tenant's limits as they narrow each of its spaces: its totals bound only the sum."""
    return msgspec.structs.replace(limits, bytes=None, nodes=None)


def in_force(kind: str, store: Limits, tenant: Limits, own: Limits) -> Limits:
    """The limits of one space: those of its store, its tenant and its own."""
    return store.narrowed(for_spaces(tenant)).narrowed(own).for_kind(kind)


def encoded(limits: Limits) -> str:
    """Limits as a row keeps them."""
    return "{}" if limits == UNLIMITED else msgspec.json.encode(limits).decode()


def decoded(text: str) -> Limits:
    return UNLIMITED if text == "{}" else msgspec.json.decode(text, type=Limits)
