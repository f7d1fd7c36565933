"""Verbs that make, move and remove names.

A directory moves, and leaves, as one row: what lies below it is charged and discharged by the sums
that it carries. Removing a large tree hangs it under the node that awaits the sweep; small ones go
at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from keelfs.errors import (
    AlreadyExists,
    Busy,
    DanglingLink,
    InvalidArgument,
    IsADirectory,
    NotADirectory,
    NotALink,
    NotEmpty,
    NotFound,
    ReadOnly,
    TooLarge,
)
from keelfs.ident import uuid7
from keelfs.model import ChangeKind, Expect, Kind, Stat
from keelfs.path import VPath
from keelfs.store.database import Statement
from keelfs.store.expect import check_expect
from keelfs.store.tree import (
    CHILDREN,
    COLUMNS,
    DIRECTORY,
    DOOMED,
    FILE,
    KIND_NUMBERS,
    NODE,
    ROOT,
    SYMLINK,
    Node,
    Spot,
    resolve,
    stat_of,
)

if TYPE_CHECKING:
    from keelfs.store.view import View

#: A tree of more nodes than this is removed by the sweep, in steps.
REMOVED_AT_ONCE: Final = 1000

INSERT_NODE: Final = Statement(
    f"""INSERT INTO nodes (tenant, space, {", ".join(COLUMNS)})
        VALUES (?1, ?2, {", ".join(f"?{at}" for at in range(3, 3 + len(COLUMNS)))})"""
)
INSERT_ENTRY: Final = Statement(
    """INSERT INTO entries (tenant, space, parent, name, node, shared)
       VALUES (?1, ?2, ?3, ?4, ?5, ?6)"""
)
MOVE_ENTRY: Final = Statement(
    """UPDATE entries SET parent = ?5, name = ?6
       WHERE tenant = ?1 AND space = ?2 AND parent = ?3 AND name = ?4"""
)
DELETE_ENTRY: Final = Statement(
    "DELETE FROM entries WHERE tenant = ?1 AND space = ?2 AND parent = ?3 AND name = ?4"
)
SHARE_ENTRY: Final = Statement(
    """UPDATE entries SET shared = 1
       WHERE tenant = ?1 AND space = ?2 AND parent = ?3 AND name = ?4"""
)
DELETE_NODE: Final = Statement("DELETE FROM nodes WHERE tenant = ?1 AND space = ?2 AND id = ?3")
SET_NLINK: Final = Statement(
    """UPDATE nodes SET nlink = ?4, ctime_ns = ?5
       WHERE tenant = ?1 AND space = ?2 AND id = ?3"""
)
SET_PARENT: Final = Statement(
    """UPDATE nodes SET parent = CASE WHEN kind = 1 THEN ?4 ELSE 0 END, ctime_ns = ?5
       WHERE tenant = ?1 AND space = ?2 AND id = ?3""",
    postgres="""UPDATE nodes SET parent = CASE WHEN kind = 1 THEN ?4::bigint ELSE 0 END,
           ctime_ns = ?5
       WHERE tenant = ?1 AND space = ?2 AND id = ?3""",
)


# -- making


def new_node(view: View, kind: int, mode: int) -> Node:
    """A node that is not yet in the database."""
    scope = view.scope
    now = scope.now_ns
    return Node(
        id=scope.new_node(), uuid=uuid7(now), kind=kind, mode=mode, uid=0, gid=0, size=0,
        revision=1, first_revision=1, nlink=1, readonly=0, content=None, sha256=None, mime=None,
        target=None, rdev=0, xattrs=None, atime_ns=now, mtime_ns=now, ctime_ns=now,
        created_ns=now, author=scope.author, revised_ns=now, parent=0, below_bytes=0,
        below_nodes=0, children=0, height=0,
    )  # fmt: skip


def row_of(node: Node) -> list[Any]:
    return [getattr(node, name) for name in COLUMNS]


def make_parents(view: View, spot: Spot, parents: bool) -> None:
    """Makes the directories that are missing above the last name, or refuses."""
    if len(spot.missing) <= 1:
        return
    if not parents:
        raise NotFound("the parent directory does not exist")
    refuse_dangling(spot, parents)
    made = len(spot.parts) - len(spot.missing)
    for index, name in enumerate(spot.missing[:-1]):
        node = new_node(view, DIRECTORY, 0o755)
        above = Spot(spot.parts[: made + index + 1], spot.chain, None, (name,))
        add_entry(view, above, node)
        view.scope.record(ChangeKind.CREATE, above.parts, node)
        spot.chain = [*spot.chain, node.id]
    spot.missing = spot.missing[-1:]


def refuse_dangling(spot: Spot, parents: bool) -> None:
    """Nothing is made where a link points to."""
    if spot.dangling and (parents or len(spot.missing) == 1):
        raise DanglingLink


def add_entry(view: View, spot: Spot, node: Node) -> None:
    """Puts a new node where nothing is."""
    hang(view, spot.chain, spot.parts, node, new=True)
    view.scope.touch(spot.parts, node)


def hang(view: View, chain: list[int], parts: tuple[str, ...], node: Node, *, new: bool) -> None:
    """Gives a node a name below a directory, and charges what it holds."""
    scope = view.scope
    parent = chain[-1]
    check_place(view, parent, len(parts) - 1, node)
    if node.kind == DIRECTORY:
        node.parent = parent
    scope.charge(chain, *node.weight)
    scope.raised(chain, node.height)
    scope.children_changed(parent, +1)
    if new:
        view.tx.do(INSERT_NODE, view.space, *row_of(node))
    shared = int(node.nlink > 1)
    view.tx.do(INSERT_ENTRY, view.space, parent, parts[-1], node.id, shared)


def check_place(view: View, parent: int, depth: int, node: Node) -> None:
    """Refuses what would lie too deep, itself or below it, and a directory that is full."""
    limits = view.scope.limits
    if limits.depth is not None and depth + node.height > limits.depth:
        depth += _levels_below(view, node)
    if limits.depth is not None and depth > limits.depth:
        raise TooLarge(
            f"an entry may lie {limits.depth} directories deep",
            limit="space.depth",
            size=limits.depth,
            used=depth,
        )
    if limits.directory_entries is not None:
        row = view.tx.one(NODE, view.space, parent)
        children = view.node(row).children if row else 0
        if children >= limits.directory_entries:
            raise TooLarge(
                f"a directory may hold {limits.directory_entries} entries",
                limit="space.directory_entries",
                size=limits.directory_entries,
                used=children + 1,
            )


def _levels_below(view: View, node: Node) -> int:
    """How deep the tree below a directory is at present; its row may remember a deeper one."""
    if node.kind != DIRECTORY or not node.children:
        return 0
    view.scope.flush_directories()
    row = view.tx.one(LEVELS, view.space, node.id)
    return int(row[0]) if row else 0


def mkdir(view: View, path: VPath, parents: bool, exist_ok: bool, mode: int) -> Stat:
    # A link at the end has the name already, wherever it leads.
    spot = resolve(view, path, follow=exist_ok)
    if spot.node is not None:
        if exist_ok and spot.node.kind == DIRECTORY:
            return stat_of(spot.node)
        raise AlreadyExists
    if spot.dangling:
        raise AlreadyExists("a symbolic link that leads nowhere has this name")
    make_parents(view, spot, parents)
    return _make(view, spot, new_node(view, DIRECTORY, mode & 0o7777))


def mknod(view: View, path: VPath, kind: Kind, mode: int, rdev: int) -> Stat:
    if kind in {Kind.FILE, Kind.DIRECTORY, Kind.SYMLINK}:
        raise InvalidArgument("use write, mkdir or symlink for this kind")
    spot = free_spot(view, path, False)
    node = new_node(view, KIND_NUMBERS[kind], mode & 0o7777)
    node.rdev = rdev
    return _make(view, spot, node)


def symlink(view: View, target: str, path: VPath, parents: bool) -> Stat:
    check_target(target)
    spot = free_spot(view, path, parents)
    node = new_node(view, SYMLINK, 0o777)
    node.target = target
    return _make(view, spot, node)


def readlink(view: View, path: VPath) -> str:
    node = resolve(view, path, follow=False).found
    if node.kind != SYMLINK or node.target is None:
        raise NotALink
    return node.target


def check_target(target: str) -> None:
    """What a link may point to: any text that a path may be."""
    try:
        size = len(target.encode())
    except UnicodeEncodeError:
        raise InvalidArgument("the target of a link is UTF-8 text") from None
    if not 1 <= size <= 4095 or "\0" in target:
        raise InvalidArgument("the target of a link has 1 to 4,095 bytes and no NUL")


def free_spot(view: View, path: VPath, parents: bool) -> Spot:
    """A place where nothing is, links at its end included."""
    spot = resolve(view, path, follow=False)
    if spot.node is not None:
        raise AlreadyExists
    refuse_dangling(spot, parents)
    make_parents(view, spot, parents)
    return spot


def _make(view: View, spot: Spot, node: Node) -> Stat:
    add_entry(view, spot, node)
    view.scope.record(ChangeKind.CREATE, spot.parts, node)
    return stat_of(node)


def link(view: View, path: VPath, to: VPath, parents: bool) -> Stat:
    source = resolve(view, path, follow=False)
    node = source.found
    if node.kind == DIRECTORY:
        raise IsADirectory("a directory has one name only")
    spot = free_spot(view, to, parents)
    scope = view.scope
    if node.nlink == 1:
        view.tx.do(SHARE_ENTRY, view.space, source.chain[-1], source.parts[-1])
    node.nlink += 1
    node.ctime_ns = scope.now_ns
    view.tx.do(SET_NLINK, view.space, node.id, node.nlink, scope.now_ns)
    hang(view, spot.chain, spot.parts, node, new=False)
    scope.touch(spot.parts, node)
    scope.record(ChangeKind.LINK, source.parts, node, to=spot.parts)
    return stat_of(node)


# -- removing


def removable(view: View, path: VPath) -> Spot:
    """What a verb may take away: anything but the root."""
    if path.is_root:
        raise Busy("the root of a tree stays where it is")
    spot = resolve(view, path, follow=False)
    spot.found  # noqa: B018
    return spot


def remove(view: View, path: VPath, recursive: bool, expect: Expect) -> None:
    spot = removable(view, path)
    node = spot.found
    check_expect(node, expect)
    if node.children and not recursive:
        raise NotEmpty
    view.scope.record(ChangeKind.REMOVE, spot.parts, node)
    take_out(view, spot.chain, spot.parts[-1], node)


def take_out(view: View, chain: list[int], name: str, node: Node) -> None:
    """Takes a name away for good, with what lies below it."""
    unhang(view, chain, node)
    parent = chain[-1]
    if node.kind == DIRECTORY and node.below_nodes > REMOVED_AT_ONCE:
        unique = uuid7(view.scope.now_ns).hex()
        view.tx.do(MOVE_ENTRY, view.space, parent, name, DOOMED, unique)
        view.tx.do(SET_PARENT, view.space, node.id, DOOMED, view.scope.now_ns)
        view.scope.gone.append(node.id)
        return
    view.tx.do(DELETE_ENTRY, view.space, parent, name)
    if node.kind == DIRECTORY and node.children:
        _remove_below(view, node)
    let_go(view, node)


def unhang(view: View, chain: list[int], node: Node) -> None:
    """Discharges what a name holds from the directories above it."""
    bytes_, nodes = node.weight
    view.scope.charge(chain, -bytes_, -nodes)
    view.scope.children_changed(chain[-1], -1)


def _remove_below(view: View, top: Node) -> None:
    """Removes what lies below a directory, whose sums were discharged already."""
    view.scope.flush_directories()
    pending, emptied = [top.id], list[Node]()
    while pending:
        parent = pending.pop()
        for row in view.tx.all(CHILDREN, view.space, parent, "", REMOVED_AT_ONCE + 1):
            node = Node(*row[1:])
            view.tx.do(DELETE_ENTRY, view.space, parent, row[0])
            if node.kind == DIRECTORY:
                pending.append(node.id)
                emptied.append(node)
            else:
                let_go(view, node)
    for node in emptied:
        let_go(view, node)


def let_go(view: View, node: Node) -> None:
    """One name fewer; with the last one goes the node, its history and its hold on bytes."""
    scope = view.scope
    if node.nlink > 1:
        # Of a node with two names in a tree that is removed, the second is read before the first
        # is written off, so the count is the database's.
        view.tx.do(DROP_NLINK, view.space, node.id, scope.now_ns)
        node.nlink = view.links_left(node.id)
        if node.nlink:
            return
    if node.revision > node.first_revision:
        view.drop_history(node)
    scope.refer(node.content, -1)
    scope.forget(node.id)
    view.tx.do(DELETE_NODE, view.space, node.id)


LEVELS: Final = Statement(
    """WITH RECURSIVE tree (id, level) AS (
           SELECT ?3, 0 UNION ALL
           SELECT e.node, tree.level + 1 FROM tree CROSS JOIN entries e
             ON e.tenant = ?1 AND e.space = ?2 AND e.parent = tree.id)
       SELECT max(level) FROM tree""",
    postgres="""WITH RECURSIVE tree (id, level) AS (
           SELECT ?3::bigint, 0 UNION ALL
           SELECT e.node, tree.level + 1 FROM tree CROSS JOIN LATERAL (SELECT node FROM entries
             WHERE tenant = ?1 AND space = ?2 AND parent = tree.id OFFSET 0) e)
       SELECT max(level) FROM tree""",
)
DROP_NLINK: Final = Statement(
    """UPDATE nodes SET nlink = nlink - 1, ctime_ns = ?4
       WHERE tenant = ?1 AND space = ?2 AND id = ?3"""
)


# -- moving


def move(view: View, path: VPath, to: VPath, replace: bool, parents: bool, expect: Expect) -> Stat:
    if to.is_root:
        raise Busy("the root of a tree cannot be replaced")
    source = removable(view, path)
    node = source.found
    check_expect(node, expect)
    spot = resolve(view, to, follow=False)
    if spot.node is not None and spot.node.id == node.id:
        return stat_of(node)
    if node.id in spot.chain:
        raise InvalidArgument("a directory cannot be moved into itself")
    if spot.node is not None:
        clear_place(view, spot, spot.node, node, replace)
    refuse_dangling(spot, parents)
    make_parents(view, spot, parents)
    scope = view.scope
    unhang(view, source.chain, node)
    check_place(view, spot.chain[-1], len(spot.parts) - 1, node)
    scope.charge(spot.chain, *node.weight)
    scope.raised(spot.chain, node.height)
    scope.children_changed(spot.chain[-1], +1)
    relocate(view, source.chain[-1], source.parts[-1], spot.chain[-1], spot.parts[-1], node)
    scope.record(ChangeKind.MOVE, source.parts, node, to=spot.parts)
    scope.touch(spot.parts, node)
    return stat_of(node)


def relocate(
    view: View, parent: int, name: str, new_parent: int, new_name: str, node: Node
) -> None:
    """Moves one row; what lies below does not notice."""
    view.tx.do(MOVE_ENTRY, view.space, parent, name, new_parent, new_name)
    view.tx.do(SET_PARENT, view.space, node.id, new_parent, view.scope.now_ns)
    node.ctime_ns = view.scope.now_ns
    if node.kind == DIRECTORY:
        node.parent = new_parent


def clear_place(view: View, spot: Spot, there: Node, coming: Node, replace: bool) -> None:
    """Removes what a move or a copy replaces, if it may."""
    check_replaceable(spot, there, coming, replace)
    view.scope.record(ChangeKind.REMOVE, spot.parts, there)
    take_out(view, spot.chain, spot.parts[-1], there)
    spot.node, spot.missing = None, spot.parts[-1:]


def check_replaceable(spot: Spot, there: Node, coming: Node, replace: bool) -> None:
    if there.id == ROOT or not spot.parts:
        raise Busy("the root of a tree cannot be replaced")
    if not replace:
        raise AlreadyExists
    if there.kind == DIRECTORY and coming.kind != DIRECTORY:
        raise IsADirectory("a directory cannot be replaced by something else")
    if there.kind != DIRECTORY and coming.kind == DIRECTORY:
        raise NotADirectory("a directory cannot replace something else")
    if there.children:
        raise NotEmpty("a directory that holds something cannot be replaced")
    if there.kind == FILE and there.readonly:
        raise ReadOnly
