"""Names and nodes: how a path becomes a row.

A path is walked by one statement, a chain of primary-key probes of up to 16 names; longer paths
take one more statement for each further 16. Only a symbolic link makes the walk start again, from
where its target points, inside the root that the view was opened with.

Nothing here changes a row; the rooms that do receive a `Spot`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct, msgpack

from keelfs.errors import Corrupt, IsADirectory, LinkLoop, NotADirectory, NotAFile, NotFound
from keelfs.model import Kind, Stat
from keelfs.path import VPath
from keelfs.store.database import Row, Statement
from keelfs.store.walk import walk

if TYPE_CHECKING:
    from keelfs.store.view import View

#: Nodes that every space has: its root, its trash, and what awaits the sweep.
ROOT: Final = 1
TRASH: Final = 2
DOOMED: Final = 3

DIRECTORY: Final = 1
FILE: Final = 2
SYMLINK: Final = 3
KINDS: Final = (
    None,
    Kind.DIRECTORY,
    Kind.FILE,
    Kind.SYMLINK,
    Kind.FIFO,
    Kind.SOCKET,
    Kind.CHAR_DEVICE,
    Kind.BLOCK_DEVICE,
)
KIND_NUMBERS: Final = {kind: number for number, kind in enumerate(KINDS) if kind is not None}

MAX_HOPS: Final = 40
#: Names that one statement walks; SQLite joins at most 64 tables.
STRIDE: Final = 16


def kind_of(number: int) -> Kind:
    """The kind that a row's number stands for."""
    kind = KINDS[number]
    assert kind is not None
    return kind


class Node(Struct):
    """One row of `nodes`, in the order of `COLUMNS`."""

    id: int
    uuid: bytes
    kind: int
    mode: int
    uid: int
    gid: int
    size: int
    revision: int
    first_revision: int
    nlink: int
    readonly: int
    content: int | None
    sha256: bytes | None
    mime: str | None
    target: str | None
    rdev: int
    xattrs: bytes | None
    atime_ns: int
    mtime_ns: int
    ctime_ns: int
    created_ns: int
    author: str
    revised_ns: int
    parent: int
    below_bytes: int
    below_nodes: int
    children: int
    height: int

    @property
    def weight(self) -> tuple[int, int]:
        """What its name charges: bytes, and nodes including itself."""
        if self.kind == DIRECTORY:
            return self.below_bytes, self.below_nodes + 1
        return (self.size if self.kind == FILE else 0), 1


COLUMNS: Final = Node.__struct_fields__
_KIND: Final = COLUMNS.index("kind")
_TARGET: Final = COLUMNS.index("target")


def _columns(alias: str) -> str:
    return ", ".join(f"{alias}.{name}" for name in COLUMNS)


#: By number of names.
WALK: Final = [None, *(walk(depth, COLUMNS) for depth in range(1, STRIDE + 1))]
#: The same with the small bytes of the file at the end, for a read that costs one statement.
READ: Final = [None, *(walk(depth, COLUMNS, reading=True) for depth in range(1, STRIDE + 1))]
NODE: Final = Statement(
    f"SELECT {_columns('n')} FROM nodes n WHERE n.tenant = ?1 AND n.space = ?2 AND n.id = ?3"
)
CHILDREN: Final = Statement(
    f"""SELECT e.name, {_columns("n")} FROM entries e
        JOIN nodes n ON n.tenant = ?1 AND n.space = ?2 AND n.id = e.node
        WHERE e.tenant = ?1 AND e.space = ?2 AND e.parent = ?3 AND e.name > ?4
        ORDER BY e.name LIMIT ?5""",
    postgres=f"""SELECT e.name, {_columns("n")} FROM entries e
        CROSS JOIN LATERAL (SELECT {", ".join(COLUMNS)} FROM nodes
                             WHERE tenant = ?1 AND space = ?2 AND id = e.node OFFSET 0) n
        WHERE e.tenant = ?1 AND e.space = ?2 AND e.parent = ?3 AND e.name > ?4
        ORDER BY e.name LIMIT ?5""",
)
#: All names of a node that may have several.
NAMES: Final = Statement(
    """SELECT parent, name FROM entries
       WHERE tenant = ?1 AND space = ?2 AND node = ?3 AND shared = 1 ORDER BY parent, name"""
)
#: From a directory up to the root, the trash or the doomed: id, and the name under its parent.
CLIMB: Final = Statement(
    """WITH RECURSIVE up (id, parent, level) AS (
           SELECT id, parent, 0 FROM nodes WHERE tenant = ?1 AND space = ?2 AND id = ?3
           UNION ALL
           SELECT n.id, n.parent, up.level + 1 FROM up
             JOIN nodes n ON n.tenant = ?1 AND n.space = ?2 AND n.id = up.parent
            WHERE up.parent <> 0 AND up.level < 4096)
       SELECT up.id, (SELECT e.name FROM entries e WHERE e.tenant = ?1 AND e.space = ?2
                         AND e.parent = up.parent AND e.node = up.id)
         FROM up ORDER BY up.level DESC"""
)


class Spot:
    """Where a path leads: the directories down to it, and what is there."""

    __slots__ = ("chain", "content", "dangling", "missing", "node", "parts")

    def __init__(
        self,
        parts: tuple[str, ...],
        chain: list[int],
        node: Node | None,
        missing: tuple[str, ...] = (),
        dangling: bool = False,
        content: Sequence[Any] = (),
    ) -> None:
        #: The canonical names from the root of the space, links resolved, missing ones included.
        self.parts = parts
        #: Directory ids from the root of the space to the one that holds the node.
        self.chain = chain
        self.node = node
        #: The names that do not exist; the last of them is the one that was asked for.
        self.missing = missing
        #: Whether what is missing is the target of a link.
        self.dangling = dangling
        #: What `content.body_of` takes, where it was asked for.
        self.content = content

    @property
    def found(self) -> Node:
        if self.node is None:
            raise NotFound
        return self.node

    @property
    def file(self) -> Node:
        node = self.found
        if node.kind != FILE:
            refuse_kind(node)
        return node

    @property
    def directory(self) -> Node:
        node = self.found
        if node.kind != DIRECTORY:
            raise NotADirectory
        return node


def refuse_kind(node: Node) -> None:
    """For a verb that needs a file and found something else."""
    if node.kind == DIRECTORY:
        raise IsADirectory
    raise NotAFile


def resolve(view: View, path: VPath, *, follow: bool = True, reading: bool = False) -> Spot:
    """Walks `path` from the view's root; with `follow`, a link at its end is followed."""
    names = path.parts
    if len(names) <= STRIDE and names:
        spot = _straight(view, names, follow, reading)
        if spot is not None:
            return spot
    return _Walk(view, names, follow, reading).to_end()


def _straight(view: View, names: tuple[str, ...], follow: bool, reading: bool) -> Spot | None:
    """The answer of one statement, where no link has to be followed and nothing is missing."""
    row = _ask(view, view.chain[-1], names, reading)
    depth = len(names)
    if row[depth - 1] is None or (follow and row[depth + _KIND] == SYMLINK):
        view.keep(view.chain[-1], names, reading, row)
        return None
    chain = [*view.chain, *row[: depth - 1]]
    return _spot_of(view, view.parts + names, chain, row, depth, reading)


def _spot_of(
    view: View, parts: tuple[str, ...], chain: list[int], row: Row, base: int, reading: bool
) -> Spot:
    end = base + len(COLUMNS)
    node = view.node(row[base:end])
    return Spot(parts, chain, node, content=row[end:] if reading else ())


def _ask(view: View, start: int, names: tuple[str, ...], reading: bool) -> Row:
    asked = view.asked(start, names, reading)
    if asked is not None:
        return asked
    statement = (READ if reading else WALK)[len(names)]
    assert statement is not None
    row = view.tx.one(statement, view.space, start, *names)
    assert row is not None
    return row


def ask_ahead(view: View, path: VPath, *, reading: bool) -> None:
    """Sends the walk of a path before its answer is needed, where that saves a round trip."""
    names = path.parts[:STRIDE]
    statement = (READ if reading else WALK)[len(names)]
    if statement is not None:
        later = view.tx.later(statement, view.space, view.chain[-1], *names)
        view.expect_row(view.chain[-1], names, _first(later))


def _first(later: Callable[[], list[Row]]) -> Callable[[], Row]:
    return lambda: later()[0]


class _Walk:
    """One walk, link by link."""

    def __init__(self, view: View, names: tuple[str, ...], follow: bool, reading: bool) -> None:
        self.view = view
        self.follow = follow
        self.reading = reading
        self.todo: tuple[str, ...] = names
        self.chain = list(view.chain)
        self.parts = list(view.parts)
        self.hops = 0
        #: How many names of `todo` follow the link that was expanded last; -1 before any.
        self.after_link = -1

    def to_end(self) -> Spot:
        while self.todo:
            if self.todo[0] == "..":
                self._ascend()
                continue
            spot = self._stride()
            if spot is not None:
                return spot
        return self._here()

    def _ascend(self) -> None:
        if len(self.chain) > len(self.view.chain):
            self.chain.pop()
            self.parts.pop()
        self.todo = self.todo[1:]

    def _here(self) -> Spot:
        """The walk ended in a directory it stands in, such as the root."""
        row = self.view.tx.one(NODE, self.view.space, self.chain[-1])
        if row is None:
            raise NotFound
        if len(self.chain) > 1 and len(self.chain) > len(self.view.chain):
            return Spot(tuple(self.parts), self.chain[:-1], self.view.node(row))
        return Spot(tuple(self.parts), self.chain[:-1] or [ROOT], self.view.node(row))

    def _stride(self) -> Spot | None:
        """Walks up to 16 plain names; the answer, or None when there is more to walk."""
        run = self.todo[:STRIDE]
        if ".." in run:
            run = run[: run.index("..")]
        row, depth = _ask(self.view, self.chain[-1], run, self.reading), len(run)
        found = depth - row[:depth].count(None)
        if not found:
            return self._miss()
        for directory in row[: found - 1]:
            self._enter(directory)
        name, *rest = self.todo
        kind = row[depth + _KIND]
        if kind == SYMLINK and (rest or self.follow):
            self._expand(row[depth + _TARGET], tuple(rest))
            return None
        if not rest:
            parts = (*self.parts, name)
            return _spot_of(self.view, parts, self.chain, row, depth, self.reading)
        if kind != DIRECTORY:
            raise NotADirectory
        self._enter(row[found - 1])
        return None if found == depth else self._miss()

    def _enter(self, directory: int) -> None:
        self.chain.append(directory)
        self.parts.append(self.todo[0])
        self.todo = self.todo[1:]

    def _expand(self, target: str | None, rest: tuple[str, ...]) -> None:
        if target is None:
            raise Corrupt("a symbolic link has lost its target")
        self.hops += 1
        if self.hops > MAX_HOPS:
            raise LinkLoop
        if target.startswith("/"):
            self.chain = list(self.view.chain)
            self.parts = list(self.view.parts)
        names = tuple(name for name in target.split("/") if name not in {"", "."})
        self.todo = names + rest
        self.after_link = len(rest)

    def _miss(self) -> Spot:
        missing = self.todo
        if ".." in missing:
            raise NotFound
        dangling = 0 <= self.after_link < len(missing)
        return Spot((*self.parts, *missing), self.chain, None, missing=missing, dangling=dangling)


def stat_of(node: Node) -> Stat:
    """A node as callers see it."""
    kind = node.kind
    size = node.size
    if kind == SYMLINK:
        size = len((node.target or "").encode())
    return Stat(
        kind=kind_of(kind),
        id=node.uuid,
        size=size,
        revision=node.revision,
        mode=node.mode,
        uid=node.uid,
        gid=node.gid,
        nlink=node.nlink,
        atime_ns=node.atime_ns,
        mtime_ns=node.mtime_ns,
        ctime_ns=node.ctime_ns,
        created_ns=node.created_ns,
        sha256=None if node.sha256 is None else node.sha256.hex(),
        mime=node.mime,
        readonly=bool(node.readonly),
        target=node.target,
        rdev=node.rdev,
        xattrs={} if node.xattrs is None else msgpack.decode(node.xattrs, type=dict[str, bytes]),
    )


def climb(view: View, directory: int) -> tuple[list[int], tuple[str, ...]]:
    """The directories from the top to `directory`, and their names below the top."""
    rows = view.tx.all(CLIMB, view.space, directory)
    return [row[0] for row in rows], tuple(row[1] for row in rows[1:])


def names_of(view: View, node: Node) -> list[tuple[list[int], tuple[str, ...]]]:
    """Every name of a hard-linked node, as chain and canonical path."""
    found: list[tuple[list[int], tuple[str, ...]]] = []
    for parent, name in view.tx.all(NAMES, view.space, node.id):
        chain, parts = climb(view, parent)
        found.append((chain, (*parts, name)))
    return found
