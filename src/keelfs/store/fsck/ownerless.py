"""Rows of a tenant that is not in the list of tenants.

Only the operator may read that list, and nobody the rows of all tenants at once; so the numbers
that are missing from it are asked for one by one.
"""

from __future__ import annotations

from typing import Final

from keelfs.store.database import Statement, Tx
from keelfs.store.fsck.site import LOST_AND_FOUND

OWNERLESS: Final = "ownerless"

ANY_ROW: Final = Statement(
    """SELECT 1 WHERE NOT EXISTS (SELECT 1 FROM tenants WHERE id = ?1)
          AND (EXISTS (SELECT 1 FROM spaces WHERE tenant = ?1)
            OR EXISTS (SELECT 1 FROM nodes WHERE tenant = ?1)
            OR EXISTS (SELECT 1 FROM entries WHERE tenant = ?1)
            OR EXISTS (SELECT 1 FROM contents WHERE tenant = ?1)
            OR EXISTS (SELECT 1 FROM strands WHERE tenant = ?1)
            OR EXISTS (SELECT 1 FROM chunks WHERE tenant = ?1)
            OR EXISTS (SELECT 1 FROM revisions WHERE tenant = ?1)
            OR EXISTS (SELECT 1 FROM changes WHERE tenant = ?1)
            OR EXISTS (SELECT 1 FROM trash WHERE tenant = ?1)
            OR EXISTS (SELECT 1 FROM snapshots WHERE tenant = ?1)
            OR EXISTS (SELECT 1 FROM requests WHERE tenant = ?1)
            OR EXISTS (SELECT 1 FROM marks WHERE tenant = ?1)
            OR EXISTS (SELECT 1 FROM agents WHERE tenant = ?1)
            OR EXISTS (SELECT 1 FROM sessions WHERE tenant = ?1)
            OR EXISTS (SELECT 1 FROM tokens WHERE tenant = ?1)
            OR EXISTS (SELECT 1 FROM artifacts WHERE tenant = ?1)
            OR EXISTS (SELECT 1 FROM memory_entries WHERE tenant = ?1)
            OR EXISTS (SELECT 1 FROM citations WHERE tenant = ?1))"""
)
ADOPT: Final = Statement(
    """INSERT INTO tenants (id, name, limits, created_ns)
       SELECT ?1, ?2, '{}', ?3 WHERE NOT EXISTS (SELECT 1 FROM tenants WHERE id = ?1)""",
    postgres="""INSERT INTO tenants (id, name, limits, created_ns) OVERRIDING SYSTEM VALUE
       SELECT ?1::bigint, ?2::text, '{}', ?3::bigint
        WHERE NOT EXISTS (SELECT 1 FROM tenants WHERE id = ?1)""",
)


def is_ownerless(tx: Tx) -> bool:
    return tx.one(ANY_ROW) is not None


def adopt(tx: Tx, tenant: int, now_ns: int) -> str:
    """Puts the tenant into the list again; its name."""
    name = f"{LOST_AND_FOUND} {tenant}"
    tx.do(ADOPT, name, now_ns)
    return name
