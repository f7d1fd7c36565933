"""Figures for the operator: how much a store holds."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from keelfs.store.database import Database, Statement

FIGURES: Final = Statement(
    """SELECT (SELECT count(*) FROM spaces WHERE tenant = ?1 AND kind <> 'snapshot'
                  AND deleted_ns IS NULL),
              (SELECT count(*) FROM nodes WHERE tenant = ?1),
              (SELECT count(*) FROM contents WHERE tenant = ?1),
              (SELECT count(*) FROM chunks WHERE tenant = ?1),
              (SELECT coalesce(sum(length), 0) FROM strands WHERE tenant = ?1)
                + (SELECT coalesce(sum(size), 0) FROM contents
                    WHERE tenant = ?1 AND extents IS NULL),
              (SELECT count(*) FROM contents WHERE tenant = ?1 AND freed_ns IS NOT NULL)""",
    postgres="""SELECT (SELECT count(*) FROM spaces WHERE tenant = ?1 AND kind <> 'snapshot'
                  AND deleted_ns IS NULL),
              (SELECT count(*) FROM nodes WHERE tenant = ?1),
              (SELECT count(*) FROM contents WHERE tenant = ?1),
              (SELECT count(*) FROM chunks WHERE tenant = ?1),
              (SELECT coalesce(sum(length), 0)::bigint FROM strands WHERE tenant = ?1)
                + (SELECT coalesce(sum(size), 0)::bigint FROM contents
                    WHERE tenant = ?1 AND extents IS NULL),
              (SELECT count(*) FROM contents WHERE tenant = ?1 AND freed_ns IS NOT NULL)""",
)
_NAMES: Final = ("spaces", "nodes", "contents", "chunks", "stored_bytes", "unreferenced_contents")


def stats(database: Database, tenants: Iterable[tuple[int, str]]) -> dict[str, Any]:
    """Totals over all tenants. `stored_bytes` counts shared bytes once."""
    totals: dict[str, Any] = {"tenants": 0, **dict.fromkeys(_NAMES, 0)}
    for tenant, _name in tenants:
        row = database.read(tenant, lambda tx: tx.one(FIGURES))
        totals["tenants"] += 1
        for name, value in zip(_NAMES, row or (), strict=False):
            totals[name] += value
    return totals
