"""Invariants of what a conversation keeps: numbers, paths, sums, and links to it."""

from __future__ import annotations

from typing import Final

from keelfs.store.database import Statement
from keelfs.store.fsck.invariant import Invariant, asked

_TREE: Final = """WITH RECURSIVE tree (space, node, path) AS (
        SELECT s.id, {0} FROM spaces s
         WHERE s.tenant = ?1 AND s.kind = 'artifacts' AND s.deleted_ns IS NULL
        UNION
        SELECT e.space, e.node, tree.path || '/' || e.name FROM tree
          JOIN entries e ON e.tenant = ?1 AND e.space = tree.space AND e.parent = tree.node
         WHERE length(tree.path) < 5000)
    SELECT n.space, n.id, substr(tree.path, 2) FROM nodes n
      JOIN spaces s ON s.tenant = ?1 AND s.id = n.space AND s.kind = 'artifacts'
       AND s.deleted_ns IS NULL
      JOIN artifacts a ON a.tenant = ?1 AND a.space = n.space AND a.node = n.id
      LEFT JOIN tree ON tree.space = n.space AND tree.node = n.id
     WHERE n.tenant = ?1 AND n.kind = 2
       AND coalesce(a.path, '') <> coalesce(substr(tree.path, 2), '')"""

ARTIFACTS: Final[tuple[Invariant, ...]] = (
    asked(
        "artifact-number",
        "space {0}: node {1} is an artifact without a number",
        """SELECT n.space, n.id FROM nodes n
             JOIN spaces s ON s.tenant = ?1 AND s.id = n.space AND s.kind = 'artifacts'
              AND s.deleted_ns IS NULL
             LEFT JOIN artifacts a ON a.tenant = ?1 AND a.space = n.space AND a.node = n.id
            WHERE n.tenant = ?1 AND n.kind = 2 AND a.id IS NULL""",
    ),
    asked(
        "artifact-node",
        "space {0}: artifact {1} has a number and no file",
        """SELECT a.space, a.id FROM artifacts a
             LEFT JOIN nodes n ON n.tenant = ?1 AND n.space = a.space AND n.id = a.node
              AND n.kind = 2
            WHERE a.tenant = ?1 AND n.id IS NULL""",
    ),
    asked(
        "artifact-path",
        "space {0}: node {1} does not lie where its number says",
        _TREE.format("1, ''"),
        postgres=_TREE.format("1::bigint, ''::text COLLATE \"C\""),
    ),
    asked(
        "artifact-ledger",
        "the artifacts hold {0} bytes, and the tenant counts {1}",
        """SELECT coalesce(held.bytes, 0), t.artifact_bytes FROM tenants t
             JOIN (SELECT sum(bytes + trash_bytes) AS bytes FROM spaces
                    WHERE tenant = ?1 AND kind = 'artifacts' AND deleted_ns IS NULL) AS held
               ON coalesce(held.bytes, 0) <> t.artifact_bytes
            WHERE t.id = ?1""",
    ),
    asked(
        "artifact-counter",
        "artifact {0} and memory entry {1} were given, and next are {2} and {3}",
        """SELECT given.artifact, given.entry, t.next_artifact, t.next_memory FROM tenants t
             JOIN (SELECT coalesce((SELECT max(id) FROM artifacts WHERE tenant = ?1), 0)
                            AS artifact,
                          coalesce((SELECT max(id) FROM memory_entries WHERE tenant = ?1), 0)
                            AS entry) AS given
               ON given.artifact >= t.next_artifact OR given.entry >= t.next_memory
            WHERE t.id = ?1""",
    ),
    asked(
        "memory-link",
        "memory entry {0} links to artifact {1}, which is not there",
        """SELECT m.id, m.artifact FROM memory_entries m
             LEFT JOIN artifacts a ON a.tenant = ?1 AND a.id = m.artifact
            WHERE m.tenant = ?1 AND m.artifact IS NOT NULL AND a.id IS NULL""",
    ),
)

# -- mending

NUMBER: Final = Statement(
    """INSERT INTO artifacts (tenant, id, space, node, path, updated_ns)
       SELECT ?1, t.next_artifact, ?2, ?3, NULL, ?4 FROM tenants t WHERE t.id = ?1""",
    postgres="""INSERT INTO artifacts (tenant, id, space, node, path, updated_ns)
       SELECT ?1, t.next_artifact, ?2::bigint, ?3::bigint, NULL, ?4::bigint
         FROM tenants t WHERE t.id = ?1""",
)
PLACE: Final = Statement(
    "UPDATE artifacts SET path = ?4 WHERE tenant = ?1 AND space = ?2 AND node = ?3"
)
DROP: Final = Statement("DELETE FROM artifacts WHERE tenant = ?1 AND id = ?2")
COUNT: Final = Statement(
    """UPDATE tenants SET artifact_bytes =
           (SELECT coalesce(sum(bytes + trash_bytes), 0) FROM spaces
             WHERE tenant = ?1 AND kind = 'artifacts' AND deleted_ns IS NULL) WHERE id = ?1"""
)
NEXT: Final = Statement(
    """UPDATE tenants SET
           next_artifact = max(next_artifact,
               1 + coalesce((SELECT max(id) FROM artifacts WHERE tenant = ?1), 0)),
           next_memory = max(next_memory,
               1 + coalesce((SELECT max(id) FROM memory_entries WHERE tenant = ?1), 0))
        WHERE id = ?1""",
    postgres="""UPDATE tenants SET
           next_artifact = greatest(next_artifact,
               1 + coalesce((SELECT max(id) FROM artifacts WHERE tenant = ?1), 0)),
           next_memory = greatest(next_memory,
               1 + coalesce((SELECT max(id) FROM memory_entries WHERE tenant = ?1), 0))
        WHERE id = ?1""",
)
UNLINK: Final = Statement(
    """UPDATE memory_entries SET artifact = NULL, expired_artifact = artifact
       WHERE tenant = ?1 AND id = ?2"""
)
