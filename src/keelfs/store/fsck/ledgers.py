"""Invariants of what is counted: a space's ledger, its tenant's grants, its journal's numbers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from keelfs.model import ChangeKind
from keelfs.store.database import Row, Statement, Tx
from keelfs.store.fsck.invariant import MOST_FINDINGS, Invariant, asked
from keelfs.store.fsck.trees import WEIGHT_BYTES, WEIGHT_NODES
from keelfs.store.ledger import decoded
from keelfs.store.spaces import TENANT_LIMITS

_HELD_BY_TOPS: Final = f"""SELECT e.space,
        sum(CASE WHEN e.parent = 1 THEN {WEIGHT_BYTES} ELSE 0 END) AS bytes,
        sum(CASE WHEN e.parent = 1 THEN {WEIGHT_NODES} ELSE 0 END) AS nodes,
        sum(CASE WHEN e.parent = 2 THEN {WEIGHT_BYTES} ELSE 0 END) AS trash_bytes,
        sum(CASE WHEN e.parent = 2 THEN {WEIGHT_NODES} ELSE 0 END) AS trash_nodes
   FROM spaces o JOIN entries e ON e.tenant = ?1 AND e.space = o.id AND e.parent IN (1, 2)
   JOIN nodes c ON c.tenant = ?1 AND c.space = e.space AND c.id = e.node
  WHERE o.tenant = ?1 GROUP BY e.space"""

GRANTS: Final = Statement(
    """SELECT s.id FROM spaces s
        WHERE s.tenant = ?1 AND s.kind <> 'snapshot' AND s.deleted_ns IS NULL
          AND ((s.granted_bytes IS NULL) <> (?3 = 0) OR (s.granted_nodes IS NULL) <> (?4 = 0))
        ORDER BY s.id LIMIT ?2"""
)


def _ungranted(tx: Tx, limit: int) -> list[Row]:
    row = tx.one(TENANT_LIMITS)
    limits = decoded(row[0] if row else "{}")
    bounds = (int(limits.bytes is not None), int(limits.nodes is not None))
    return tx.all(GRANTS, limit, *bounds)


def _granted_as_limited(tx: Tx) -> Iterable[str]:
    """A space without a grant is not bound by its tenant's limit."""
    return [
        f"space {space}: its grants are not those of a tenant with such limits"
        for (space,) in _ungranted(tx, MOST_FINDINGS)
    ]


LEDGERS: Final[tuple[Invariant, ...]] = (
    asked(
        "ledger",
        "space {0}: it holds {1} bytes and {2} nodes, and counts {3} and {4}",
        f"""SELECT s.id, coalesce(held.bytes, 0), coalesce(held.nodes, 0), s.bytes, s.nodes
              FROM spaces s LEFT JOIN ({_HELD_BY_TOPS}) AS held ON held.space = s.id
             WHERE s.tenant = ?1 AND s.kind <> 'snapshot' AND s.deleted_ns IS NULL
               AND (s.bytes <> coalesce(held.bytes, 0) OR s.nodes <> coalesce(held.nodes, 0))""",
    ),
    asked(
        "trash-ledger",
        "space {0}: its trash holds {1} bytes and {2} nodes, and counts {3} and {4}",
        f"""SELECT s.id, coalesce(held.trash_bytes, 0), coalesce(held.trash_nodes, 0),
                   s.trash_bytes, s.trash_nodes
              FROM spaces s LEFT JOIN ({_HELD_BY_TOPS}) AS held ON held.space = s.id
             WHERE s.tenant = ?1 AND s.kind <> 'snapshot' AND s.deleted_ns IS NULL
               AND (s.trash_bytes <> coalesce(held.trash_bytes, 0)
                 OR s.trash_nodes <> coalesce(held.trash_nodes, 0))""",
    ),
    asked(
        "history-ledger",
        "space {0}: its history holds {1} bytes, and counts {2}",
        """SELECT s.id, coalesce(held.bytes, 0), s.history_bytes FROM spaces s
             LEFT JOIN (SELECT space, sum(size) AS bytes FROM revisions WHERE tenant = ?1
                         GROUP BY space) AS held ON held.space = s.id
            WHERE s.tenant = ?1 AND s.deleted_ns IS NULL
              AND s.history_bytes <> coalesce(held.bytes, 0)""",
    ),
    asked(
        "snapshot-ledger",
        "space {0}: its snapshots hold {1} bytes, and it counts {2}",
        """SELECT s.id, coalesce(held.bytes, 0), s.snapshot_bytes FROM spaces s
             LEFT JOIN (SELECT space, sum(bytes) AS bytes FROM snapshots WHERE tenant = ?1
                         GROUP BY space) AS held ON held.space = s.id
            WHERE s.tenant = ?1 AND s.deleted_ns IS NULL
              AND s.snapshot_bytes <> coalesce(held.bytes, 0)""",
    ),
    asked(
        "image",
        "space {0}: a snapshot needs the image {1}, which is not there",
        """SELECT p.space, p.image FROM snapshots p
             LEFT JOIN spaces i ON i.tenant = ?1 AND i.id = p.image AND i.kind = 'snapshot'
              AND i.deleted_ns IS NULL
            WHERE p.tenant = ?1 AND i.id IS NULL""",
    ),
    asked(
        "image-owner",
        "space {0}: it is an image, and {1} snapshots need it",
        """SELECT s.id, count(p.image) FROM spaces s
             LEFT JOIN snapshots p ON p.tenant = ?1 AND p.image = s.id
            WHERE s.tenant = ?1 AND s.kind = 'snapshot' AND s.deleted_ns IS NULL
            GROUP BY s.id HAVING count(p.image) <> 1""",
    ),
    asked(
        "image-size",
        "space {0}: the image {1} holds {2} bytes and {3} nodes, its snapshot says {4} and {5}",
        f"""SELECT p.space, p.image, coalesce(held.bytes, 0), coalesce(held.nodes, 0), p.bytes,
                   p.nodes
              FROM snapshots p
              JOIN spaces i ON i.tenant = ?1 AND i.id = p.image AND i.deleted_ns IS NULL
              LEFT JOIN ({_HELD_BY_TOPS}) AS held ON held.space = p.image
             WHERE p.tenant = ?1 AND (p.bytes <> coalesce(held.bytes, 0)
                OR p.nodes <> coalesce(held.nodes, 0))""",
    ),
    asked(
        "tenant-grants",
        "the spaces hold grants of {0} bytes and {1} nodes, and the tenant counts {2} and {3}",
        """SELECT held.bytes, held.nodes, t.granted_bytes, t.granted_nodes
             FROM tenants t
             JOIN (SELECT coalesce(sum(granted_bytes), 0) AS bytes,
                          coalesce(sum(granted_nodes), 0) AS nodes FROM spaces
                    WHERE tenant = ?1 AND kind <> 'snapshot' AND deleted_ns IS NULL) AS held
               ON held.bytes <> t.granted_bytes OR held.nodes <> t.granted_nodes
            WHERE t.id = ?1""",
    ),
    asked(
        "grant",
        "space {0}: it uses {1} bytes and {2} nodes, and was granted {3} and {4}",
        """SELECT s.id, s.bytes + s.trash_bytes, s.nodes + s.trash_nodes, s.granted_bytes,
                  s.granted_nodes
             FROM spaces s
            WHERE s.tenant = ?1 AND s.kind <> 'snapshot' AND s.deleted_ns IS NULL
              AND (s.bytes + s.trash_bytes > s.granted_bytes
                OR s.nodes + s.trash_nodes > s.granted_nodes)""",
    ),
    Invariant("grant-limit", _granted_as_limited, _ungranted),
    asked(
        "journal",
        "space {0}: its journal holds {1} changes from {2} to {3}, and {4} were made",
        """SELECT s.id, count(*), min(c.seq), max(c.seq), s.seq FROM spaces s
             JOIN changes c ON c.tenant = ?1 AND c.space = s.id
            WHERE s.tenant = ?1 AND s.deleted_ns IS NULL
            GROUP BY s.id, s.seq
           HAVING max(c.seq) <> s.seq OR max(c.seq) - min(c.seq) + 1 <> count(*)""",
    ),
    asked(
        "change",
        "space {0}: change {1} tells what cannot have happened",
        f"""SELECT c.space, c.seq FROM changes c
             JOIN spaces s ON s.tenant = ?1 AND s.id = c.space AND s.deleted_ns IS NULL
            WHERE c.tenant = ?1
              AND (c.kind NOT IN ({", ".join(f"'{kind.value}'" for kind in ChangeKind)})
                OR c.node NOT BETWEEN 1 AND 7 OR c.batch NOT BETWEEN 1 AND c.seq
                OR c.revision < 1
                OR (substr(c.path, 1, 1) <> '/' AND NOT (c.kind = 'copy' AND c.path = ''))
                OR (c.kind IN ('move', 'copy', 'link')) <> (c.dest IS NOT NULL))""",
    ),
    asked(
        "homeless",
        "rows of {0} belong to space {1}, which does not exist",
        """SELECT held.name, held.space FROM (
               SELECT 'nodes' AS name, space FROM nodes WHERE tenant = ?1 UNION
               SELECT 'entries', space FROM entries WHERE tenant = ?1 UNION
               SELECT 'revisions', space FROM revisions WHERE tenant = ?1 UNION
               SELECT 'changes', space FROM changes WHERE tenant = ?1 UNION
               SELECT 'trash', space FROM trash WHERE tenant = ?1 UNION
               SELECT 'snapshots', space FROM snapshots WHERE tenant = ?1 UNION
               SELECT 'requests', space FROM requests WHERE tenant = ?1) AS held
             LEFT JOIN spaces s ON s.tenant = ?1 AND s.id = held.space
            WHERE s.id IS NULL""",
    ),
    asked(
        "marks",
        "space {0}: {1} marks were left behind by a copy",
        "SELECT space, count(*) FROM marks WHERE tenant = ?1 GROUP BY space",
    ),
)
