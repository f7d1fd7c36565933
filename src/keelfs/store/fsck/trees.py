"""Invariants of names and nodes: every space is one tree, and every count in it is right.

A deleted space is not looked at: the sweep takes its rows away in steps, and nobody reads them.
"""

from __future__ import annotations

from typing import Final

from keelfs.store.fsck.invariant import Invariant, asked

#: Spaces that somebody may still open; `{0}` is the table whose rows belong to them.
_LIVE: Final = "JOIN spaces s ON s.tenant = ?1 AND s.id = {0}.space AND s.deleted_ns IS NULL"
_NODES: Final = f"nodes n {_LIVE.format('n')}"
_ENTRIES: Final = f"entries e {_LIVE.format('e')}"
#: How many names each node has, and how many of them say that there may be others.
_NAMES: Final = """(SELECT space, node, count(*) AS names, sum(shared) AS shared FROM entries
    WHERE tenant = ?1 GROUP BY space, node) AS held"""
#: What the name of a node charges to the directories above it.
WEIGHT_BYTES: Final = "CASE c.kind WHEN 1 THEN c.below_bytes WHEN 2 THEN c.size ELSE 0 END"
WEIGHT_NODES: Final = "CASE c.kind WHEN 1 THEN c.below_nodes + 1 ELSE 1 END"
#: What each directory holds, by the entries in it.
SUM_BELOW: Final = f"""SELECT e.space, e.parent, sum({WEIGHT_BYTES}) AS bytes,
        sum({WEIGHT_NODES}) AS nodes, count(*) AS children
   FROM entries e JOIN nodes c ON c.tenant = ?1 AND c.space = e.space AND c.id = e.node
  WHERE e.tenant = ?1 GROUP BY e.space, e.parent"""

#: What no path of the journal, and no entry, can be called.
_BAD_NAME: Final = """(octet_length(e.name) NOT BETWEEN 1 AND 255 OR e.name IN ('.', '..')
    OR instr(e.name, '/') > 0 OR instr(e.name, char(0)) > 0)"""
_BAD_NAME_PG: Final = """(octet_length(e.name) NOT BETWEEN 1 AND 255 OR e.name IN ('.', '..')
    OR strpos(e.name, '/') > 0)"""
#: Whatever has no name of its own begins a tree; a cycle has no beginning. SQLite, left to itself,
#: reads all entries anew for each node.
_UNREACHED: Final = f"""SELECT n.space, n.id FROM {_NODES} WHERE n.tenant = ?1{{0}}
    EXCEPT SELECT space, node FROM (
        WITH RECURSIVE tops (space, node) AS (
            SELECT space, id FROM nodes WHERE tenant = ?1
            EXCEPT SELECT space, node FROM entries WHERE tenant = ?1),
        tree (space, node) AS (
            SELECT space, node FROM tops
            UNION SELECT e.space, e.node FROM tree {{1}} entries e
                ON e.tenant = ?1 AND e.space = tree.space AND e.parent = tree.node)
        SELECT space, node FROM tree) AS found"""

TREES: Final[tuple[Invariant, ...]] = (
    asked(
        "tops",
        "space {0}: its root, its trash or what awaits the sweep is missing, or is no directory",
        """SELECT s.id FROM spaces s LEFT JOIN nodes n
               ON n.tenant = ?1 AND n.space = s.id AND n.id IN (1, 2, 3) AND n.kind = 1
              AND n.parent = 0
            WHERE s.tenant = ?1 AND s.deleted_ns IS NULL
            GROUP BY s.id HAVING count(n.id) <> 3""",
    ),
    asked(
        "names",
        "space {0}: a name of node {1} is none that an entry can have",
        f"SELECT e.space, e.node, e.parent, e.name FROM {_ENTRIES}"
        f" WHERE e.tenant = ?1 AND {_BAD_NAME}",
        postgres=f"SELECT e.space, e.node, e.parent, e.name FROM {_ENTRIES}"
        f" WHERE e.tenant = ?1 AND {_BAD_NAME_PG}",
    ),
    asked(
        "kind",
        "space {0}: node {1} is of kind {2}, and has what only another kind can have",
        f"""SELECT n.space, n.id, n.kind FROM {_NODES}
             WHERE n.tenant = ?1 AND (n.kind NOT BETWEEN 1 AND 7
                OR n.kind <> 3 AND n.target IS NOT NULL
                OR n.kind <> 2 AND (n.content IS NOT NULL OR n.sha256 IS NOT NULL)
                OR n.kind <> 1 AND (n.parent <> 0 OR n.children <> 0 OR n.height <> 0
                                    OR n.below_bytes <> 0 OR n.below_nodes <> 0))""",
    ),
    asked(
        "target",
        "space {0}: link {1} does not say where it leads",
        f"""SELECT n.space, n.id FROM {_NODES} WHERE n.tenant = ?1 AND n.kind = 3
               AND (n.target IS NULL OR octet_length(n.target) NOT BETWEEN 1 AND 4095)""",
    ),
    asked(
        "entry-node",
        "space {0}: an entry of directory {1} leads to node {2}, which does not exist",
        f"""SELECT e.space, e.parent, e.node FROM {_ENTRIES}
              LEFT JOIN nodes n ON n.tenant = ?1 AND n.space = e.space AND n.id = e.node
             WHERE e.tenant = ?1 AND n.id IS NULL""",
    ),
    asked(
        "entry-parent",
        "space {0}: a name of node {1} lies in node {2}, which is no directory",
        f"""SELECT e.space, e.node, e.parent FROM {_ENTRIES}
              LEFT JOIN nodes n ON n.tenant = ?1 AND n.space = e.space AND n.id = e.parent
               AND n.kind = 1
             WHERE e.tenant = ?1 AND n.id IS NULL""",
    ),
    asked(
        "named",
        "space {0}: node {1} has no name",
        f"""SELECT n.space, n.id FROM {_NODES} WHERE n.tenant = ?1 AND n.id > 3
            EXCEPT SELECT space, node FROM entries WHERE tenant = ?1""",
    ),
    asked(
        "reached",
        "space {0}: node {1} is reached neither from the root nor from the trash",
        _UNREACHED.format("", "CROSS JOIN"),
        postgres=_UNREACHED.format("", "JOIN"),
        where=(
            _UNREACHED.format(" AND n.kind = 1", "CROSS JOIN"),
            _UNREACHED.format(" AND n.kind = 1", "JOIN"),
        ),
    ),
    asked(
        "directory-name",
        "space {0}: directory {1} has {2} names",
        f"""SELECT n.space, n.id, held.names FROM {_NODES}
              JOIN {_NAMES} ON held.space = n.space AND held.node = n.id
             WHERE n.tenant = ?1 AND n.kind = 1 AND held.names <> CASE WHEN n.id > 3 THEN 1
               ELSE 0 END""",
    ),
    asked(
        "directory-parent",
        "space {0}: directory {1} lies in node {2} and takes {3} for its parent",
        f"""SELECT e.space, e.node, e.parent, n.parent FROM {_ENTRIES}
              JOIN nodes n ON n.tenant = ?1 AND n.space = e.space AND n.id = e.node
             WHERE e.tenant = ?1 AND n.kind = 1 AND n.id > 3 AND n.parent <> e.parent""",
    ),
    asked(
        "nlink",
        "space {0}: node {1} counts {2} names and has {3}",
        f"""SELECT n.space, n.id, n.nlink, held.names FROM {_NODES}
              JOIN {_NAMES} ON held.space = n.space AND held.node = n.id
             WHERE n.tenant = ?1
               AND n.nlink <> CASE WHEN n.kind = 1 THEN 1 ELSE held.names END""",
    ),
    asked(
        "shared",
        "space {0}: node {1} has {2} names, and only {3} of them say so",
        f"""SELECT n.space, n.id, held.names, held.shared FROM {_NODES}
              JOIN {_NAMES} ON held.space = n.space AND held.node = n.id
             WHERE n.tenant = ?1 AND n.kind <> 1 AND held.names > 1
               AND held.shared <> held.names""",
    ),
    # The trash and what awaits the sweep keep no counts of their own.
    asked(
        "children",
        "space {0}: directory {1} counts {2} entries and has {3}",
        f"""SELECT n.space, n.id, n.children, coalesce(held.children, 0) FROM {_NODES}
              LEFT JOIN (SELECT space, parent, count(*) AS children FROM entries
                          WHERE tenant = ?1 GROUP BY space, parent) AS held
                ON held.space = n.space AND held.parent = n.id
             WHERE n.tenant = ?1 AND n.kind = 1 AND n.id NOT IN (2, 3)
               AND n.children <> coalesce(held.children, 0)""",
    ),
    asked(
        "below",
        "space {0}: directory {1} holds {2} bytes and {3} nodes, and counts {4} and {5}",
        f"""SELECT n.space, n.id, coalesce(held.bytes, 0), coalesce(held.nodes, 0),
                   n.below_bytes, n.below_nodes
              FROM {_NODES}
              LEFT JOIN ({SUM_BELOW}) AS held ON held.space = n.space AND held.parent = n.id
             WHERE n.tenant = ?1 AND n.kind = 1 AND n.id > 3
               AND (n.below_bytes <> coalesce(held.bytes, 0)
                 OR n.below_nodes <> coalesce(held.nodes, 0))""",
    ),
    asked(
        "height",
        "space {0}: directory {1} counts {2} levels of entries below it and has {3}",
        f"""SELECT n.space, n.id, n.height, held.height FROM {_NODES}
              JOIN (SELECT e.space, e.parent, max(c.height) + 1 AS height FROM entries e
                      JOIN nodes c ON c.tenant = ?1 AND c.space = e.space AND c.id = e.node
                     WHERE e.tenant = ?1 GROUP BY e.space, e.parent) AS held
                ON held.space = n.space AND held.parent = n.id
             WHERE n.tenant = ?1 AND n.kind = 1 AND n.id > 3 AND n.height < held.height""",
    ),
    asked(
        "trash-entry",
        "space {0}: node {1} is said to lie in the trash, and does not",
        f"""SELECT t.space, t.node, t.id FROM trash t {_LIVE.format("t")}
              LEFT JOIN entries e ON e.tenant = ?1 AND e.space = t.space AND e.parent = 2
               AND e.name = t.id AND e.node = t.node
             WHERE t.tenant = ?1 AND e.node IS NULL""",
    ),
    asked(
        "trash-row",
        "space {0}: node {1} lies in the trash, and nothing says where it came from",
        f"""SELECT e.space, e.node, e.name FROM {_ENTRIES}
              LEFT JOIN trash t ON t.tenant = ?1 AND t.space = e.space AND t.id = e.name
             WHERE e.tenant = ?1 AND e.parent = 2 AND t.id IS NULL""",
    ),
    asked(
        "trash-path",
        "space {0}: node {1} lies in the trash, and came from where nothing can be",
        f"""SELECT t.space, t.node, t.id FROM trash t {_LIVE.format("t")}
             WHERE t.tenant = ?1 AND (substr(t.path, 1, 1) <> '/'
                OR instr(t.path || '/', '//') > 0 OR instr(t.path || '/', '/./') > 0
                OR instr(t.path || '/', '/../') > 0)""",
        postgres=f"""SELECT t.space, t.node, t.id FROM trash t {_LIVE.format("t")}
             WHERE t.tenant = ?1 AND (substr(t.path, 1, 1) <> '/'
                OR strpos(t.path || '/', '//') > 0 OR strpos(t.path || '/', '/./') > 0
                OR strpos(t.path || '/', '/../') > 0)""",
    ),
    asked(
        "node-counter",
        "space {0}: node {1} exists, and the next new one would be {2}",
        """SELECT s.id, max(n.id), s.next_node FROM spaces s
             JOIN nodes n ON n.tenant = ?1 AND n.space = s.id
            WHERE s.tenant = ?1 AND s.kind <> 'snapshot' AND s.deleted_ns IS NULL
            GROUP BY s.id, s.next_node HAVING max(n.id) >= s.next_node""",
    ),
    asked(
        "identity",
        "{0} nodes of one tenant have the same identity, node {2} of space {1} among them",
        """SELECT count(*), min(space), min(id) FROM nodes WHERE tenant = ?1
            GROUP BY uuid HAVING count(*) > 1""",
    ),
)
