"""Tenants and spaces: the catalogue that says which trees exist."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from keelfs.errors import AlreadyExists, NotFound
from keelfs.ident import uuid7
from keelfs.model import UNLIMITED, ChangeKind, Limits, Principal, Usage
from keelfs.store.artifacts import FORGET_ALL, forget, settled_as
from keelfs.store.copying import clone_space
from keelfs.store.database import Row, Statement, Tx
from keelfs.store.ledger import (
    GRANT,
    LOCK_LATE_SPACES,
    LOCK_SPACES,
    LOCK_TENANT,
    decoded,
    encoded,
    in_force,
    settle,
)
from keelfs.store.scope import LOCK, Scope, SpaceRow
from keelfs.store.tree import DIRECTORY, DOOMED, ROOT, TRASH

#: Kind and key.
Key = tuple[str, str]
#: The id of a space, and the limits in force.
Found = tuple[int, Limits]

TENANT: Final = Statement(
    "SELECT id, limits FROM tenants WHERE name = ?2 AND ?1 = 0",
    postgres="SELECT id, limits FROM tenants WHERE name = ?2 AND ?1::bigint = 0",
    unbound="a tenant is looked up by its name before its id is known",
)
TENANTS: Final = Statement(
    "SELECT id, name FROM tenants WHERE name > ?2 AND ?1 = 0 ORDER BY name LIMIT ?3",
    postgres="""SELECT id, name FROM tenants WHERE name > ?2 AND ?1::bigint = 0
                ORDER BY name LIMIT ?3""",
    unbound="the operator lists the tenants",
)
NEW_TENANT: Final = Statement(
    """INSERT INTO tenants (name, limits, created_ns) SELECT ?2, ?3, ?4 WHERE ?1 = 0
       RETURNING id""",
    postgres="""INSERT INTO tenants (name, limits, created_ns)
       SELECT ?2, ?3, ?4::bigint WHERE ?1::bigint = 0 RETURNING id""",
    unbound="a tenant is made before its id is known",
)
SET_TENANT_LIMITS: Final = Statement("UPDATE tenants SET limits = ?2 WHERE id = ?1")
DELETE_TENANT: Final = Statement("DELETE FROM tenants WHERE id = ?1")
SPACE: Final = Statement(
    """SELECT id, limits, own_limits FROM spaces
       WHERE tenant = ?1 AND kind = ?2 AND key = ?3 AND deleted_ns IS NULL"""
)
SPACES: Final = Statement(
    """SELECT id, kind, key FROM spaces
       WHERE tenant = ?1 AND kind <> 'snapshot' AND deleted_ns IS NULL
         AND (kind > ?2 OR kind = ?2 AND key > ?3) ORDER BY kind, key LIMIT ?4"""
)
NEW_SPACE: Final = Statement(
    """INSERT INTO spaces (tenant, kind, key, granted_bytes, granted_nodes, own_limits, limits,
                           created_ns)
       VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) RETURNING id"""
)
NEW_DIRECTORY: Final = Statement(
    """INSERT INTO nodes (tenant, space, id, uuid, kind, mode, atime_ns, mtime_ns, ctime_ns,
                          created_ns, author, revised_ns)
       VALUES (?1, ?2, ?3, ?4, ?5, 493, ?6, ?6, ?6, ?6, '', ?6)"""
)
SET_LIMITS: Final = Statement(
    "UPDATE spaces SET limits = ?3, own_limits = ?4 WHERE tenant = ?1 AND id = ?2"
)
KIND: Final = Statement("SELECT kind FROM spaces WHERE tenant = ?1 AND id = ?2")
SET_ALL: Final = Statement(
    """UPDATE spaces SET limits = ?3, granted_bytes = ?4, granted_nodes = ?5
       WHERE tenant = ?1 AND id = ?2"""
)
TENANT_USAGE: Final = Statement(
    """SELECT coalesce(sum(bytes), 0), coalesce(sum(nodes), 0), coalesce(sum(trash_bytes), 0),
              coalesce(sum(trash_nodes), 0), coalesce(sum(history_bytes), 0),
              coalesce(sum(snapshot_bytes), 0)
         FROM spaces WHERE tenant = ?1 AND kind <> 'snapshot' AND deleted_ns IS NULL""",
    postgres="""SELECT coalesce(sum(bytes), 0)::bigint, coalesce(sum(nodes), 0)::bigint,
              coalesce(sum(trash_bytes), 0)::bigint, coalesce(sum(trash_nodes), 0)::bigint,
              coalesce(sum(history_bytes), 0)::bigint, coalesce(sum(snapshot_bytes), 0)::bigint
         FROM spaces WHERE tenant = ?1 AND kind <> 'snapshot' AND deleted_ns IS NULL""",
)
#: A deleted space gives its name back at once; its rows go with the sweep.
DELETE_SPACE: Final = Statement(
    """UPDATE spaces SET deleted_ns = ?3, key = ?4, granted_bytes = NULL, granted_nodes = NULL
       WHERE tenant = ?1 AND id = ?2"""
)
DELETE_IMAGES: Final = Statement(
    """UPDATE spaces SET deleted_ns = ?3 WHERE tenant = ?1
        AND id IN (SELECT image FROM snapshots WHERE tenant = ?1 AND space = ?2)"""
)
FORGET_IMAGES: Final = Statement("DELETE FROM snapshots WHERE tenant = ?1 AND space = ?2")


def open_tenant(tx: Tx, name: str, now_ns: int, *, create: bool) -> int:
    """The id of a tenant."""
    row = tx.one(TENANT, name)
    if row is None and create:
        row = tx.one(NEW_TENANT, name, "{}", now_ns)
    if row is None:
        raise NotFound("there is no tenant of this name")
    return int(row[0])


def find_spaces(tx: Tx, wanted: Sequence[Key], limits: Limits) -> list[Found] | None:
    """Spaces whose limits are up to date, without locking anything; None if one needs a write."""
    asked = [tx.later(SPACE, kind, key) for kind, key in wanted]
    tenant = tx.one(TENANT_LIMITS)
    found: list[Found] = []
    for (kind, _key), rows in zip(wanted, asked, strict=True):
        row = next(iter(rows()), None)
        if row is None or tenant is None:
            return None
        effective = in_force(kind, limits, decoded(tenant[0]), decoded(row[2]))
        if encoded(effective) != row[1]:
            return None
        found.append((row[0], effective))
    return found


def open_space(
    tx: Tx, kind: str, key: str, now_ns: int, limits: Limits, *, create: bool
) -> tuple[int, Limits]:
    """The id of a space, and the limits in force, those of the store included."""
    row = tx.one(SPACE, kind, key)
    if row is not None:
        # Somebody may have set limits since; from here on nobody can.
        tx.all(LOCK, row[0])
        row = tx.one(SPACE, kind, key)
    if row is None:
        if not create:
            raise NotFound("there is no such space")
        tenant = tx.one(LOCK_TENANT)
        if tenant is None:
            raise NotFound("there is no tenant of this name")
        own = decoded(tenant[0])
        effective = in_force(kind, limits, own, UNLIMITED)
        space = insert_space(tx, kind, key, now_ns, tenant=own, limits=effective)
        return space, effective
    tenant = tx.one(TENANT_LIMITS)
    effective = in_force(kind, limits, decoded(tenant[0] if tenant else "{}"), decoded(row[2]))
    if encoded(effective) != row[1]:
        tx.do(SET_LIMITS, row[0], encoded(effective), row[2])
    return row[0], effective


TENANT_LIMITS: Final = Statement("SELECT limits FROM tenants WHERE id = ?1")


def insert_space(
    tx: Tx,
    kind: str,
    key: str,
    now_ns: int,
    *,
    tenant: Limits = UNLIMITED,
    limits: Limits = UNLIMITED,
) -> int:
    """A new space with its three directories; its id."""
    row = tx.one(
        NEW_SPACE, kind, key,
        None if tenant.bytes is None else 0,
        None if tenant.nodes is None else 0,
        "{}", encoded(limits), now_ns,
    )  # fmt: skip
    assert row is not None
    tx.many(
        NEW_DIRECTORY,
        [(row[0], id_, uuid7(now_ns), DIRECTORY, now_ns) for id_ in (ROOT, TRASH, DOOMED)],
    )
    return int(row[0])


def fork(
    tx: Tx,
    source: Scope,
    kind: str,
    key: str,
    *,
    image: tuple[int, int, int] | None,
    principal: Principal,
    limits: Limits,
) -> tuple[int, Limits]:
    """A new space that begins as a copy of another one, or of one of its snapshots.

    `image` is the snapshot's space, bytes and nodes. The source's row is locked.
    """
    if tx.one(SPACE, kind, key) is not None:
        raise AlreadyExists("there is already a space of this name")
    row = source.row
    origin, bytes_, nodes = image or (source.space, row.bytes, row.nodes)
    source.refuse_many(nodes)
    space, effective = open_space(tx, kind, key, source.now_ns, limits, create=True)
    also = settled_as(kind, settle)
    target = Scope(tx, space, principal, source.now_ns, limits=effective, settle=also)
    clone_space(target, origin, space)
    target.row.bytes, target.row.nodes = bytes_, nodes
    # Ids of the copies lie below the source's next one.
    target.row.next_node = row.next_node
    target.record(ChangeKind.FORK, (), None)
    target.touched.append(((), 0))
    target.flush()
    return space, effective


def set_space_limits(tx: Tx, space: int, own: Limits, limits: Limits) -> Limits:
    """Sets a space's own limits; those now in force."""
    if not tx.all(LOCK, space):
        raise NotFound("this space has been deleted")
    tenant = tx.one(TENANT_LIMITS)
    tenants = decoded(tenant[0] if tenant else "{}")
    effective = in_force((tx.one(KIND, space) or ("",))[0], limits, tenants, own)
    tx.do(SET_LIMITS, space, encoded(effective), encoded(own))
    return effective


def set_tenant_limits(tx: Tx, own: Limits, limits: Limits) -> None:
    """Sets a tenant's limits, and grants each of its spaces just what it uses."""
    rows = _locked_ledger(tx)
    tx.do(SET_TENANT_LIMITS, encoded(own))
    all_bytes = all_nodes = 0
    updates: list[Row] = []
    for id_, bytes_, nodes, _granted_bytes, _granted_nodes, text, kind in rows:
        granted = (None if own.bytes is None else bytes_, None if own.nodes is None else nodes)
        all_bytes += granted[0] or 0
        all_nodes += granted[1] or 0
        updates.append((id_, encoded(in_force(kind, limits, own, decoded(text))), *granted))
    tx.many(SET_ALL, updates)
    tx.do(GRANT, all_bytes, all_nodes)


def _locked_ledger(tx: Tx) -> list[Row]:
    """Every space of the tenant, locked together with the tenant itself."""
    tx.all(LOCK_SPACES)
    if tx.one(LOCK_TENANT) is None:
        raise NotFound("there is no tenant of this name")
    # While locks were waited for a space may have been made; from now on none can be. If it is in
    # use already, all of this starts anew.
    return tx.all(LOCK_LATE_SPACES)


def tenant_usage(tx: Tx) -> Usage:
    tenant = tx.one(TENANT_LIMITS)
    row = tx.one(TENANT_USAGE)
    if tenant is None or row is None:
        raise NotFound("there is no tenant of this name")
    return Usage(
        bytes=row[0], nodes=row[1], trash_bytes=row[2], trash_nodes=row[3], history_bytes=row[4],
        snapshot_bytes=row[5], limits=decoded(tenant[0]),
    )  # fmt: skip


def delete_spaces(tx: Tx, wanted: Sequence[Key], now_ns: int) -> int:
    """Deletes those of the spaces that there are; how many they were."""
    asked = [tx.later(SPACE, kind, key) for kind, key in wanted]
    there = sorted(row[0] for rows in asked for row in rows())
    # All of them are locked before the tenant is.
    for space in there:
        tx.all(LOCK, space)
    for space in there:
        delete_space(tx, space, now_ns)
    return len(there)


def delete_space(tx: Tx, space: int, now_ns: int) -> None:
    """Makes a space unreachable and gives its allowance back; the sweep removes its rows."""
    rows = tx.all(LOCK, space)
    if not rows:
        raise NotFound("this space has been deleted")
    row = SpaceRow(*rows[0])
    if row.deleted_ns is not None:
        raise NotFound("this space has been deleted")
    tx.do(DELETE_IMAGES, space, now_ns)
    tx.do(FORGET_IMAGES, space)
    tx.do(DELETE_SPACE, space, now_ns, f"deleted {space}")
    forget(tx, space, row)
    tenant = tx.one(LOCK_TENANT)
    assert tenant is not None
    tx.do(GRANT, tenant[1] - (row.granted_bytes or 0), tenant[2] - (row.granted_nodes or 0))


def delete_tenant(tx: Tx, now_ns: int) -> None:
    """Gives the tenant's name back and marks all its spaces as deleted."""
    tx.all(LOCK_SPACES)
    tx.do(FORGET_ALL)
    for row in _locked_ledger(tx):
        tx.do(DELETE_IMAGES, row[0], now_ns)
        tx.do(FORGET_IMAGES, row[0])
        tx.do(DELETE_SPACE, row[0], now_ns, f"deleted {row[0]}")
    tx.do(RENAME_TENANT, uuid7(now_ns).hex())


#: Begins the name of a deleted tenant; no caller can give such a name.
DELETED: Final = "\x01"
RENAME_TENANT: Final = Statement(
    """UPDATE tenants SET name = char(1) || ?2, limits = '{}', granted_bytes = 0,
              granted_nodes = 0, artifact_bytes = 0 WHERE id = ?1""",
    postgres="""UPDATE tenants SET name = chr(1) || ?2, limits = '{}', granted_bytes = 0,
              granted_nodes = 0, artifact_bytes = 0 WHERE id = ?1""",
)
