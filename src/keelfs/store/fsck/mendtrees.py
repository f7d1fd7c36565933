"""Mending names and nodes: nothing that has bytes is dropped, it is hung where it can be found.

Each function is given places where an invariant did not hold a moment ago, and looks again.
"""

from __future__ import annotations

from typing import Final

from keelfs.ident import uuid7
from keelfs.store.database import Row, Statement
from keelfs.store.fsck.site import LOST_AND_FOUND, Site
from keelfs.store.names import DELETE_ENTRY, MOVE_ENTRY, SHARE_ENTRY
from keelfs.store.spaces import NEW_DIRECTORY
from keelfs.store.trashcan import NEVER, PUT
from keelfs.store.tree import DIRECTORY, DOOMED, ROOT, TRASH

CUT: Final = Statement(
    """DELETE FROM entries WHERE tenant = ?1 AND space = ?2 AND parent = ?3 AND node = ?4
          AND NOT EXISTS (SELECT 1 FROM nodes n WHERE n.tenant = ?1 AND n.space = ?2
                             AND n.id = ?4) RETURNING node"""
)
#: What a node of unknown kind must be, by what it has.
SET_KIND: Final = Statement(
    """UPDATE nodes SET kind = CASE
              WHEN content IS NOT NULL OR size > 0 OR sha256 IS NOT NULL THEN 2
              WHEN target IS NOT NULL THEN 3
              WHEN EXISTS (SELECT 1 FROM entries e WHERE e.tenant = ?1 AND e.space = ?2
                              AND e.parent = ?3) THEN 1 ELSE 2 END
        WHERE tenant = ?1 AND space = ?2 AND id = ?3 AND kind NOT BETWEEN 1 AND 7
       RETURNING id"""
)
#: What only another kind has goes.
STRIP: Final = Statement(
    """UPDATE nodes SET target = CASE kind WHEN 3 THEN target END,
              sha256 = CASE kind WHEN 2 THEN sha256 END,
              parent = CASE kind WHEN 1 THEN parent ELSE 0 END,
              children = CASE kind WHEN 1 THEN children ELSE 0 END,
              height = CASE kind WHEN 1 THEN height ELSE 0 END,
              below_bytes = CASE kind WHEN 1 THEN below_bytes ELSE 0 END,
              below_nodes = CASE kind WHEN 1 THEN below_nodes ELSE 0 END
        WHERE tenant = ?1 AND space = ?2 AND id = ?3"""
)
ADOPT_REVISIONS: Final = Statement(
    "UPDATE revisions SET node = ?4 WHERE tenant = ?1 AND space = ?2 AND node = ?3"
)
MAKE_TOP: Final = Statement(
    """UPDATE nodes SET kind = 1, uuid = ?4, content = NULL, sha256 = NULL, target = NULL,
              mime = NULL, size = 0, revision = 1, first_revision = 1, nlink = 1, parent = 0,
              mode = 493, readonly = 0
        WHERE tenant = ?1 AND space = ?2 AND id = ?3"""
)
PARENT: Final = Statement(
    "UPDATE nodes SET parent = ?4 WHERE tenant = ?1 AND space = ?2 AND id = ?3 AND parent <> ?4"
)
NLINK: Final = Statement(
    "UPDATE nodes SET nlink = ?4 WHERE tenant = ?1 AND space = ?2 AND id = ?3 AND nlink <> ?4"
)
UUID: Final = Statement(
    "UPDATE nodes SET uuid = ?4 WHERE tenant = ?1 AND space = ?2 AND id = ?3 RETURNING id"
)
TRASHED: Final = Statement("SELECT node FROM trash WHERE tenant = ?1 AND space = ?2 AND id = ?3")
IN_TRASH: Final = Statement(
    """SELECT node FROM entries WHERE tenant = ?1 AND space = ?2 AND parent = 2 AND name = ?3"""
)
TAKE: Final = Statement(
    "DELETE FROM trash WHERE tenant = ?1 AND space = ?2 AND id = ?3 RETURNING node"
)
COMES_FROM: Final = Statement(
    "UPDATE trash SET path = ?4 WHERE tenant = ?1 AND space = ?2 AND id = ?3"
)
LAST_NODE: Final = Statement(
    "SELECT coalesce(max(id), 0) FROM nodes WHERE tenant = ?1 AND space = ?2"
)
ALIKE: Final = Statement(
    """SELECT space, id FROM nodes WHERE tenant = ?1 AND uuid = (
           SELECT uuid FROM nodes WHERE tenant = ?1 AND space = ?2 AND id = ?3)
       ORDER BY space, id"""
)


def tops(site: Site, rows: list[Row]) -> None:
    """Each space has three directories that nothing can take away."""
    now = site.scope.now_ns
    for id_ in (ROOT, TRASH, DOOMED) if rows else ():
        node = site.node(id_)
        if node is None:
            site.tx.many(NEW_DIRECTORY, [(site.space, id_, uuid7(now), DIRECTORY, now)])
            site.did(f"node {id_} was made anew")
        elif node.kind != DIRECTORY:
            aside = site.fresh(
                node.kind, size=node.size, content=node.content, sha256=node.sha256,
                target=node.target, revision=node.revision, first_revision=node.first_revision,
                mime=node.mime,
            )  # fmt: skip
            site.tx.do(MAKE_TOP, site.space, id_, uuid7(now))
            site.miscounted(id_)
            site.add(aside, site.lost_and_found(), site.free(site.lost_and_found(), f"#{id_}"))
            site.tx.do(ADOPT_REVISIONS, site.space, id_, aside.id)
            site.did(f"node {id_} is a directory again; what it was is in {LOST_AND_FOUND}")
        elif node.parent:
            site.tx.do(PARENT, site.space, id_, 0)
            site.did(f"node {id_} lies in nothing")
        site.changed(id_)


def entry_node(site: Site, rows: list[Row]) -> None:
    for _space, parent, node in rows:
        if site.tx.all(CUT, site.space, parent, node):
            site.changed(parent)
            site.did(f"an entry of directory {parent} that led to no node was removed")


def kind(site: Site, rows: list[Row]) -> None:
    for _space, id_, *_kind in rows:
        if site.tx.one(SET_KIND, site.space, id_) is not None:
            site.changed(id_)
        site.tx.do(STRIP, site.space, id_)
        site.did(f"node {id_} has what its kind has")


def names(site: Site, rows: list[Row]) -> None:
    for _space, id_, parent, name in rows:
        free = site.free(parent, f"#{id_}")
        site.tx.do(MOVE_ENTRY, site.space, parent, name, parent, free)
        site.changed(parent)
        site.did(f"a name of node {id_} was none and is one now, in the same directory")


def directory_name(site: Site, rows: list[Row]) -> None:
    """Of several names a directory keeps the one in the directory that it knows."""
    for id_, found in site.names([row[1] for row in rows]).items():
        node = site.node(id_)
        if node is None or node.kind != DIRECTORY:
            continue
        known = [each for each in found if each[0] == node.parent] or found
        kept = known[:1] if id_ > DOOMED else []
        for each in found:
            if each not in kept:
                site.tx.do(DELETE_ENTRY, site.space, each[0], each[1])
                site.changed(each[0])
                site.did(f"one name too many of directory {id_} was removed")


def entry_parent(site: Site, rows: list[Row]) -> None:
    """A directory that was lost is made again under its number, so that names stay together."""
    found = site.names([row[1] for row in rows])
    for _space, id_, parent in rows:
        node = site.node(parent)
        if node is None:
            made = site.fresh(DIRECTORY, id=parent)
            site.add(made, site.lost_and_found(), site.free(site.lost_and_found(), f"#{parent}"))
            site.changed(parent)
            site.did(f"directory {parent} was lost; what it held is in {LOST_AND_FOUND}")
        elif node.kind != DIRECTORY:
            for above, name, _shared in found[id_]:
                if above == parent:
                    site.rehang(parent, name, id_)
                    site.did(f"a name of node {id_} is in {LOST_AND_FOUND} now")


def named(site: Site, rows: list[Row]) -> None:
    for id_, found in site.names([row[1] for row in rows]).items():
        node = site.node(id_)
        if node is not None and not found:
            site.hang(node)
            site.did(f"node {id_} had no name and is in {LOST_AND_FOUND} now")


def directory_parent(site: Site, rows: list[Row]) -> None:
    found = site.names([row[1] for row in rows])
    for id_, names_ in found.items():
        if len(names_) == 1:
            site.tx.do(PARENT, site.space, id_, names_[0][0])
            site.miscounted(names_[0][0])
            site.did(f"directory {id_} knows the directory that it lies in")


def reached(site: Site, rows: list[Row]) -> None:
    """Cuts each cycle of directories once, above the oldest directory in it."""
    for _space, start in rows:
        chain: list[int] = []
        here = start
        while here > DOOMED and here not in chain:
            node = site.node(here)
            if node is None:
                break
            chain.append(here)
            here = node.parent
        if here not in chain:
            continue
        oldest = min(chain[chain.index(here) :])
        for parent, name, _shared in site.names([oldest])[oldest]:
            site.rehang(parent, name, oldest)
        site.did(f"directory {oldest} lay in itself and is in {LOST_AND_FOUND} now")


def nlink(site: Site, rows: list[Row]) -> None:
    for id_, found in site.names([row[1] for row in rows]).items():
        node = site.node(id_)
        if node is None or not found:
            continue
        site.tx.do(NLINK, site.space, id_, 1 if node.kind == DIRECTORY else len(found))
        site.did(f"the names of node {id_} were counted anew")


def shared(site: Site, rows: list[Row]) -> None:
    for id_, found in site.names([row[1] for row in rows]).items():
        if len(found) > 1:
            for parent, name, _shared in found:
                site.tx.do(SHARE_ENTRY, site.space, parent, name)
            site.did(f"each name of node {id_} says that there are others")


def counts(site: Site, rows: list[Row]) -> None:
    """What directories hold, and how many names and levels."""
    site.miscounted(*(row[1] for row in rows))


def trash_entry(site: Site, rows: list[Row]) -> None:
    for _space, id_, trash_id in rows:
        row = site.tx.one(IN_TRASH, site.space, trash_id)
        if (row is None or row[0] != id_) and site.tx.one(TAKE, site.space, trash_id):
            site.did(f"node {id_} is no more said to lie in the trash")


def trash_row(site: Site, rows: list[Row]) -> None:
    for _space, id_, trash_id in rows:
        row = site.tx.one(IN_TRASH, site.space, trash_id)
        if row is None or site.tx.one(TRASHED, site.space, trash_id) is not None:
            continue
        site.tx.do(
            PUT, site.space, trash_id, row[0], _found_path(row[0]), site.scope.author,
            site.scope.now_ns, NEVER,
        )  # fmt: skip
        site.did(f"node {id_}, which lies in the trash, can be restored to {LOST_AND_FOUND}")


def trash_path(site: Site, rows: list[Row]) -> None:
    for _space, id_, trash_id in rows:
        site.tx.do(COMES_FROM, site.space, trash_id, _found_path(id_))
        site.did(f"node {id_}, which lies in the trash, can be restored to {LOST_AND_FOUND}")


def _found_path(node: int) -> str:
    return f"/{LOST_AND_FOUND}/#{node}"


def node_counter(site: Site, rows: list[Row]) -> None:
    last = site.tx.one(LAST_NODE, site.space)
    if rows and last is not None and last[0] >= site.scope.row.next_node:
        site.scope.row.next_node = last[0] + 1
        site.did("no id of a node will be given a second time")
