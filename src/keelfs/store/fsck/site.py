"""One space inside one transaction that mends it.

The row of the space is locked before anything is looked at, so whoever mends sees what no writer is
changing, and looks again before it touches anything. What hangs nowhere is hung into a directory of
the root of its own space. Sums are not carried along: when the work is done, `finish` counts the
directories anew that have changed, with everything above them, and the ledger.

An image takes the ids of its nodes from the space it is an image of, since a node that stands in
both is the same node.
"""

from __future__ import annotations

from typing import Any, Final

from keelfs.errors import NotFound
from keelfs.ident import uuid7
from keelfs.model import UNLIMITED, ChangeKind, Principal
from keelfs.store.database import Row, Statement, Tx
from keelfs.store.fsck.invariant import ids, ids_pg, listed
from keelfs.store.fsck.trees import WEIGHT_BYTES, WEIGHT_NODES
from keelfs.store.names import INSERT_ENTRY, INSERT_NODE, SET_PARENT, row_of
from keelfs.store.scope import Scope
from keelfs.store.tree import DIRECTORY, DOOMED, FILE, NODE, ROOT, TRASH, Node

#: The directory for what hangs nowhere, as every file system calls it.
LOST_AND_FOUND: Final = "lost+found"
#: Above the root.
_NOWHERE: Final = 0
_MENDER: Final = Principal("operator", "repair")

OWNER: Final = Statement("SELECT space FROM snapshots WHERE tenant = ?1 AND image = ?2 LIMIT 1")
KIND: Final = Statement("SELECT kind FROM spaces WHERE tenant = ?1 AND id = ?2")
ENTRY: Final = Statement(
    """SELECT node FROM entries WHERE tenant = ?1 AND space = ?2 AND parent = ?3 AND name = ?4"""
)
_NAMES: Final = """SELECT node, parent, name, shared FROM entries
    WHERE tenant = ?1 AND space = ?2 AND node {0} ORDER BY node, parent, name"""
#: All names of nodes ?3, whatever they say of themselves.
NAMES: Final = Statement(_NAMES.format(f"IN {ids(3)}"), postgres=_NAMES.format(ids_pg(3)))
COUNTS: Final = Statement(
    """SELECT kind, parent, children, below_bytes, below_nodes, height FROM nodes
        WHERE tenant = ?1 AND space = ?2 AND id = ?3"""
)
_HELD: Final = f"""SELECT count(*), coalesce(sum({WEIGHT_BYTES}), 0){{0}},
        coalesce(sum({WEIGHT_NODES}), 0){{0}}, coalesce(max(c.height) + 1, 0)
   FROM entries e JOIN nodes c ON c.tenant = ?1 AND c.space = ?2 AND c.id = e.node
  WHERE e.tenant = ?1 AND e.space = ?2 AND e.parent = ?3"""
HELD: Final = Statement(_HELD.format(""), postgres=_HELD.format("::bigint"))
COUNT_ANEW: Final = Statement(
    """UPDATE nodes SET children = ?4, below_bytes = ?5, below_nodes = ?6, height = ?7
        WHERE tenant = ?1 AND space = ?2 AND id = ?3"""
)
_KEPT: Final = """SELECT
    (SELECT coalesce(sum(size), 0) FROM revisions WHERE tenant = ?1 AND space = ?2){0},
    (SELECT coalesce(sum(bytes), 0) FROM snapshots WHERE tenant = ?1 AND space = ?2){0}"""
KEPT: Final = Statement(_KEPT.format(""), postgres=_KEPT.format("::bigint"))
#: Unlike `names.MOVE_ENTRY` this finds an entry by what it leads to as well.
MOVE: Final = Statement(
    """UPDATE entries SET parent = ?6, name = ?7
        WHERE tenant = ?1 AND space = ?2 AND parent = ?3 AND name = ?4 AND node = ?5"""
)


def locked(tx: Tx, space: int, now_ns: int) -> Scope:
    """A space that is written to without being held to its limits."""
    scope = Scope(tx, space, _MENDER, now_ns, limits=UNLIMITED, settle=lambda _scope: None)
    scope.row  # noqa: B018
    return scope


def begin(tx: Tx, space: int, now_ns: int) -> None:
    """The journal of a space that is there again says that nothing is known of what was before."""
    scope = locked(tx, space, now_ns)
    scope.record(ChangeKind.REPAIR, (), None)
    scope.flush()


class Site:
    """See the module."""

    def __init__(self, tx: Tx, space: int, now_ns: int) -> None:
        """Raises `NotFound` where the space was deleted meanwhile."""
        self.tx = tx
        self.space = space
        row = tx.one(KIND, space)
        self.is_image = row is not None and row[0] == "snapshot"
        owner = tx.one(OWNER, space) if self.is_image else None
        if self.is_image and owner is None:
            raise NotFound("no snapshot needs this image")
        #: Where new nodes get their ids; an owner is older than its images, and locked before them.
        self._numbers = locked(tx, owner[0], now_ns) if owner else None
        self.scope = locked(tx, space, now_ns)
        #: What was done, for the report.
        self.deeds: list[str] = []
        self._changed: set[int] = set()
        self._tree_changed = False
        self._counting = False
        self._lost_and_found = 0

    def _scope(self, space: int, now_ns: int) -> Scope:
        scope = Scope(self.tx, space, _MENDER, now_ns, limits=UNLIMITED, settle=lambda _scope: None)
        scope.row  # noqa: B018
        return scope

    def did(self, what: str) -> None:
        self.deeds.append(f"space {self.space}: {what}")

    # -- looking

    def node(self, id_: int) -> Node | None:
        row = self.tx.one(NODE, self.space, id_)
        return None if row is None else Node(*row)

    def names(self, nodes: list[int]) -> dict[int, list[tuple[int, str, int]]]:
        """All names of some nodes: parent, name, and whether it says that there may be others."""
        found: dict[int, list[tuple[int, str, int]]] = {node: [] for node in nodes}
        for node, parent, name, shared in self.tx.all(NAMES, self.space, listed(nodes)):
            found[node].append((parent, name, shared))
        return found

    # -- changing the tree

    def changed(self, *directories: int) -> None:
        """These hold other entries than before."""
        self._changed.update(directories)
        self._tree_changed = True

    def miscounted(self, *directories: int) -> None:
        """These hold what they held, and may not know it."""
        self._changed.update(directories)
        self._counting = True

    def hang(self, node: Node, name: str | None = None) -> None:
        """Gives a node a name in the directory for what is lost."""
        parent = self.lost_and_found()
        self.tx.do(INSERT_ENTRY, self.space, parent, self.free(parent, name or f"#{node.id}"),
                   node.id, int(node.nlink > 1))  # fmt: skip
        self.tx.do(SET_PARENT, self.space, node.id, parent, self.scope.now_ns)
        self.changed(parent)

    def rehang(self, parent: int, name: str, node: int) -> None:
        """Moves an entry into the directory for what is lost."""
        to = self.lost_and_found()
        self.tx.do(MOVE, self.space, parent, name, node, to, self.free(to, f"#{node}"))
        self.tx.do(SET_PARENT, self.space, node, to, self.scope.now_ns)
        self.changed(parent, to)

    def free(self, parent: int, name: str) -> str:
        """The name, or one like it that the directory does not have."""
        found, number = name, 1
        while self.tx.one(ENTRY, self.space, parent, found) is not None:
            number += 1
            found = f"{name}.{number}"
        return found

    def lost_and_found(self) -> int:
        """The directory for what is lost; made when it is needed first."""
        name, number = LOST_AND_FOUND, 1
        while not self._lost_and_found:
            row = self.tx.one(ENTRY, self.space, ROOT, name)
            node = None if row is None else self.node(row[0])
            if node is not None and node.kind == DIRECTORY:
                self._lost_and_found = node.id
            elif row is None:
                self._lost_and_found = self.add(self.fresh(DIRECTORY), ROOT, name)
            number += 1
            name = f"{LOST_AND_FOUND}.{number}"
        return self._lost_and_found

    def add(self, node: Node, parent: int, name: str) -> int:
        """A new node with its name; its id."""
        node.parent = parent if node.kind == DIRECTORY else 0
        self.tx.do(INSERT_NODE, self.space, *row_of(node))
        self.tx.do(INSERT_ENTRY, self.space, parent, name, node.id, 0)
        self.changed(parent)
        return node.id

    def fresh(self, kind: int, **given: Any) -> Node:
        """A node that is not yet in the database."""
        now = self.scope.now_ns
        fields: dict[str, Any] = {
            "uuid": uuid7(now), "kind": kind, "mode": 0o644 if kind == FILE else 0o755, "uid": 0,
            "gid": 0, "size": 0, "revision": 1, "first_revision": 1, "nlink": 1, "readonly": 0,
            "content": None, "sha256": None, "mime": None, "target": None, "rdev": 0,
            "xattrs": None, "atime_ns": now, "mtime_ns": now, "ctime_ns": now, "created_ns": now,
            "author": self.scope.author, "revised_ns": now, "parent": 0, "below_bytes": 0,
            "below_nodes": 0, "children": 0, "height": 0,
        }  # fmt: skip
        fields.update(given)
        if "id" not in fields:
            fields["id"] = (self._numbers or self.scope).new_node()
        return Node(**fields)

    # -- the end

    def finish(self) -> None:
        """Counts anew what has changed; the last act of the work."""
        self._count()
        if self._tree_changed:
            # What is known of an image is known from the journal of the space it is an image of.
            (self._numbers or self.scope).record(ChangeKind.REPAIR, (), None)
        self.scope.flush()
        if self._numbers is not None:
            self._numbers.flush()

    def _count(self) -> None:
        """Each directory once, the deepest first; then those above it, as far as they change."""
        depths = self._depths()
        while self._changed:
            deepest = max(self._changed, key=lambda id_: (depths.get(id_, 0), id_))
            self._changed.discard(deepest)
            above = self._count_one(deepest)
            if above in depths:
                self._changed.add(above)

    def _depths(self) -> dict[int, int]:
        """How deep directories lie that are to be counted, and those above them.

        Who lies in a cycle, which has no top, is not counted before the cycle is cut.
        """
        depths: dict[int, int] = {}
        for start in self._changed:
            chain: list[int] = []
            here = start
            while here != _NOWHERE and here not in depths and here not in chain:
                chain.append(here)
                row = self.tx.one(COUNTS, self.space, here) if here > DOOMED else None
                here = row[1] if row is not None else _NOWHERE
            if here in chain:
                continue
            base = depths.get(here, -1) + 1
            depths.update({id_: base + at for at, id_ in enumerate(reversed(chain))})
        self._changed &= depths.keys()
        return depths

    def _count_one(self, directory: int) -> int:
        """The directory above, if what this one counts is another now."""
        stored = self.tx.one(COUNTS, self.space, directory)
        if stored is None or stored[0] != DIRECTORY:
            return _NOWHERE
        held = self.tx.one(HELD, self.space, directory)
        assert held is not None
        if directory <= DOOMED:
            self._count_top(directory, held, stored)
            return _NOWHERE
        height = max(held[3], stored[5])
        if (*held[:3], height) == tuple(stored[2:]):
            return _NOWHERE
        self.tx.do(COUNT_ANEW, self.space, directory, *held[:3], height)
        self._counted(f"what directory {directory} holds was counted anew")
        return int(stored[1])

    def _counted(self, what: str) -> None:
        """Counting is worth a word where nothing but the count was wrong."""
        if self._counting:
            self.did(what)

    def _count_top(self, directory: int, held: Row, stored: Row) -> None:
        row = self.scope.row
        if directory == ROOT:
            if held[0] != stored[2]:
                self.tx.do(COUNT_ANEW, self.space, ROOT, held[0], *stored[3:])
                self._counted("the entries of its root were counted anew")
            totals = ("bytes", "nodes")
        else:
            totals = ("trash_bytes", "trash_nodes")
        if directory == DOOMED or self.is_image:
            return
        if (getattr(row, totals[0]), getattr(row, totals[1])) != tuple(held[1:3]):
            setattr(row, totals[0], held[1])
            setattr(row, totals[1], held[2])
            self._counted("its ledger was counted anew")

    def count_ledger(self) -> None:
        """What history and snapshots hold."""
        self.miscounted(ROOT, TRASH)
        row, kept = self.scope.row, self.tx.one(KEPT, self.space)
        assert kept is not None
        if (row.history_bytes, row.snapshot_bytes) != tuple(kept):
            row.history_bytes, row.snapshot_bytes = kept
            self.did("what its history and its snapshots hold was counted anew")
