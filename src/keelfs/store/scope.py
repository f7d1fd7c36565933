"""One space inside one transaction: its counters, what it owes, what it has done.

A writing scope locks the space's row before it reads anything else of the space; every counter of
that row is then its own until the transaction ends. Changes to directories, references and the
ledger are gathered here and written once by `flush`, which the volume calls as the last act of the
work: a batch of a thousand writes updates its directory, its space and its tenant once.

What must always be true: when `flush` has returned, ledger, journal and tree agree.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import Struct

from keelfs.errors import NotFound, TooLarge
from keelfs.model import UNLIMITED, ChangeKind, Limits, Principal
from keelfs.store.database import BOUND, Row, Statement, Tx
from keelfs.store.tree import DIRECTORY, DOOMED, ROOT, TRASH, Node

if TYPE_CHECKING:
    from keelfs.store.content import Opener

#: A content or strand carries its space of birth in its upper bits, so that ids need no sequence
#: and what one space wrote lies together.
NUMBER_BITS: Final = 35
#: No file, and no sum over a space, is larger, whatever the limits say: holes cost nothing to make,
#: and a thousand such spaces still add up to an integer of both databases.
MOST_BYTES: Final = 2**50


class SpaceRow(Struct):
    """The counters of one space, in the order of `_SPACE`."""

    next_node: int
    next_content: int
    seq: int
    bytes: int
    nodes: int
    trash_bytes: int
    trash_nodes: int
    history_bytes: int
    snapshot_bytes: int
    granted_bytes: int | None
    granted_nodes: int | None
    limits: str
    deleted_ns: int | None


#: What the journal keeps for a place outside of the space; every path begins with a slash.
OUTSIDE: Final = ""

_FIELDS: Final = ", ".join(SpaceRow.__struct_fields__)
PEEK: Final = Statement(
    f"SELECT {_FIELDS} FROM spaces WHERE tenant = ?1 AND id = ?2",
    postgres=f"""SELECT s.* FROM {BOUND}
           CROSS JOIN LATERAL (SELECT {_FIELDS} FROM spaces WHERE tenant = o.tenant AND id = ?2
                               OFFSET 0) s""",
    binds=True,
)
#: The first statement of nearly every change, so it names the tenant by itself.
LOCK: Final = Statement(
    PEEK.sqlite,
    postgres=f"""SELECT s.* FROM {BOUND}
           CROSS JOIN LATERAL (SELECT {_FIELDS} FROM spaces WHERE tenant = o.tenant AND id = ?2
                                FOR NO KEY UPDATE) s""",
    binds=True,
)
SAVE: Final = Statement(
    """UPDATE spaces SET next_node = ?3, next_content = ?4, seq = ?5, bytes = ?6, nodes = ?7,
           trash_bytes = ?8, trash_nodes = ?9, history_bytes = ?10, snapshot_bytes = ?11,
           granted_bytes = ?12, granted_nodes = ?13
       WHERE tenant = ?1 AND id = ?2"""
)
UPDATE_DIRECTORY: Final = Statement(
    """UPDATE nodes SET children = children + ?4, below_bytes = below_bytes + ?5,
           below_nodes = below_nodes + ?6, mtime_ns = coalesce(?7, mtime_ns),
           ctime_ns = coalesce(?7, ctime_ns), height = max(height, ?8)
       WHERE tenant = ?1 AND space = ?2 AND id = ?3""",
    postgres="""UPDATE nodes SET children = children + ?4, below_bytes = below_bytes + ?5,
           below_nodes = below_nodes + ?6, mtime_ns = coalesce(?7, mtime_ns),
           ctime_ns = coalesce(?7, ctime_ns), height = greatest(height, ?8)
       WHERE tenant = ?1 AND space = ?2 AND id = ?3""",
)
REFER_CONTENT: Final = Statement(
    """UPDATE contents SET refs = refs + ?3,
           freed_ns = CASE WHEN refs + ?3 = 0 THEN ?4 ELSE NULL END
       WHERE tenant = ?1 AND id = ?2""",
    postgres="""UPDATE contents SET refs = refs + ?3,
           freed_ns = CASE WHEN refs + ?3 = 0 THEN ?4::bigint ELSE NULL END
       WHERE tenant = ?1 AND id = ?2""",
)
REFER_STRAND: Final = Statement(
    """UPDATE strands SET refs = refs + ?3,
           freed_ns = CASE WHEN refs + ?3 = 0 THEN ?4 ELSE NULL END
       WHERE tenant = ?1 AND id = ?2""",
    postgres="""UPDATE strands SET refs = refs + ?3,
           freed_ns = CASE WHEN refs + ?3 = 0 THEN ?4::bigint ELSE NULL END
       WHERE tenant = ?1 AND id = ?2""",
)
RECORD: Final = Statement(
    """INSERT INTO changes (tenant, space, seq, batch, kind, path, dest, node, revision, author,
                            at_ns, detail)
       VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)"""
)


@lru_cache(maxsize=1024)
def decoded_limits(text: str) -> Limits:
    """Limits as a space's row keeps them."""
    return msgspec.json.decode(text, type=Limits) if text != "{}" else UNLIMITED


class _Directory:
    """What is still to be written about one directory."""

    __slots__ = ("bytes", "changed_ns", "children", "height", "nodes")

    def __init__(self) -> None:
        self.children = 0
        self.bytes = 0
        self.nodes = 0
        self.height = 0
        self.changed_ns: int | None = None


class Scope:
    """See the module."""

    def __init__(
        self,
        tx: Tx,
        space: int,
        principal: Principal,
        now_ns: int,
        *,
        limits: Limits,
        opener: Opener | None = None,
        settle: Callable[[Scope], None] | None = None,
    ) -> None:
        """`opener` is given to a reading scope, for contents that outlive it; `settle` to a writing
        one, to draw what it needs of the tenant's allowance.
        """
        self.tx = tx
        self.space = space
        self.principal = principal
        self.author = str(principal)
        self.now_ns = now_ns
        self.opener = opener
        self._settle = settle
        self._peeked_limits = limits
        self._row: SpaceRow | None = None
        self._asked = tx.later(LOCK, space) if settle is not None else None
        self._directories: dict[int, _Directory] = {}
        self._contents: dict[int, int] = {}
        self._strands: dict[int, int] = {}
        self._changes: list[Row] = []
        self._first_seq = 0
        self.touched: list[tuple[tuple[str, ...], int]] = []
        #: Whole trees that were put into the trash, or left to the sweep.
        self.gone: list[int] = []

    # -- the row

    @property
    def row(self) -> SpaceRow:
        """The space's own counters, locked."""
        if self._row is None:
            assert self._asked is not None, "a reading scope has no counters"
            rows = self._asked()
            if not rows or rows[0][-1] is not None:
                raise NotFound("this space has been deleted")
            self._row = SpaceRow(*rows[0])
            #: The counters as they were before this transaction.
            self.before = SpaceRow(*rows[0])
        return self._row

    @property
    def limits(self) -> Limits:
        """The limits in force; a reading scope goes by those its volume has seen last."""
        return self._peeked_limits if self._asked is None else decoded_limits(self.row.limits)

    def new_node(self, count: int = 1) -> int:
        """The first of `count` node ids."""
        row = self.row
        first = row.next_node
        row.next_node += count
        return first

    def new_content(self) -> int:
        """An id for a content or a strand."""
        row = self.row
        number = row.next_content
        row.next_content += 1
        return self.space << NUMBER_BITS | number

    # -- what is owed to directories, ledger and references

    def charge(self, chain: list[int], bytes_: int, nodes: int) -> None:
        """Charges what a name holds to all directories above it; may be negative."""
        if not bytes_ and not nodes:
            return
        row = self.row
        if chain[0] == ROOT:
            row.bytes += bytes_
            row.nodes += nodes
        elif chain[0] == TRASH:
            row.trash_bytes += bytes_
            row.trash_nodes += nodes
        else:
            assert chain[0] == DOOMED
        for directory in chain[1:]:
            owed = self._owed(directory)
            owed.bytes += bytes_
            owed.nodes += nodes

    def children_changed(self, directory: int, by: int) -> None:
        """A directory has gained or lost a name, or seen one replaced."""
        owed = self._owed(directory)
        owed.children += by
        owed.changed_ns = self.now_ns

    def raised(self, chain: list[int], height: int) -> None:
        """An entry of some levels has come to lie below these directories."""
        for directory in reversed(chain[1:]):
            height += 1
            owed = self._owed(directory)
            owed.height = max(owed.height, height)

    def _owed(self, directory: int) -> _Directory:
        owed = self._directories.get(directory)
        if owed is None:
            owed = self._directories[directory] = _Directory()
        return owed

    def node(self, row: Row) -> Node:
        """A node as this transaction sees it, with what is still owed to it."""
        node = Node(*row)
        if node.kind == DIRECTORY and self._directories:
            owed = self._directories.get(node.id)
            if owed is not None:
                node.children += owed.children
                node.below_bytes += owed.bytes
                node.below_nodes += owed.nodes
                node.height = max(node.height, owed.height)
                if owed.changed_ns is not None:
                    node.mtime_ns = node.ctime_ns = owed.changed_ns
        return node

    def forget(self, directory: int) -> None:
        """The directory's row is about to go, or has been written in full."""
        self._directories.pop(directory, None)

    def refer(self, content: int | None, by: int) -> None:
        """One more, or one fewer, node or revision holds a content."""
        if content is not None:
            self._contents[content] = self._contents.get(content, 0) + by

    def refer_strand(self, strand: int, by: int) -> None:
        """One more, or one fewer, content is made of a strand."""
        if strand:
            self._strands[strand] = self._strands.get(strand, 0) + by

    # -- the journal

    def record(
        self,
        kind: ChangeKind,
        path: tuple[str, ...] | None,
        node: Node | None,
        *,
        to: tuple[str, ...] | None = None,
        detail: str | None = None,
    ) -> int:
        """Writes one fact into the journal; its number. Without a path it came from outside."""
        row = self.row
        row.seq += 1
        if not self._first_seq:
            self._first_seq = row.seq
        self._changes.append(
            (
                self.space,
                row.seq,
                self._first_seq,
                kind.value,
                OUTSIDE if path is None else joined(path),
                None if to is None else joined(to),
                DIRECTORY if node is None else node.kind,
                1 if node is None else node.revision,
                self.author,
                self.now_ns,
                detail,
            )
        )
        return row.seq

    def touch(self, path: tuple[str, ...], node: Node) -> None:
        """The bytes or the place of what is at `path` have changed."""
        self.touched.append((path, node.id if node.nlink > 1 else 0))

    # -- the end

    def flush(self) -> None:
        """Writes what was gathered; the last act of a transaction's work."""
        if self._row is None:
            return
        self.flush_directories()
        if self._changes:
            self.tx.many(RECORD, self._changes)
        self.flush_references()
        assert self._settle is not None
        self._settle(self)
        row = self._row
        self.tx.do(
            SAVE, self.space, row.next_node, row.next_content, row.seq, row.bytes, row.nodes,
            row.trash_bytes, row.trash_nodes, row.history_bytes, row.snapshot_bytes,
            row.granted_bytes, row.granted_nodes,
        )  # fmt: skip
        self._changes = []

    @staticmethod
    def flush_together(scopes: Sequence[Scope]) -> None:
        """The same for several spaces in one transaction.

        Rows that they share are written once, in the order of ids.
        """
        first = scopes[0]
        for other in scopes[1:]:
            for content, by in other._contents.items():
                first.refer(content, by)
            for strand, by in other._strands.items():
                first.refer_strand(strand, by)
            other._contents, other._strands = {}, {}
        first.flush_references()
        for scope in scopes:
            scope.flush()

    def flush_references(self) -> None:
        """Writes who holds which bytes; rows that spaces share are locked in the order of ids."""
        now = self.now_ns
        contents = [(id_, by, now) for id_, by in sorted(self._contents.items()) if by]
        strands = [(id_, by, now) for id_, by in sorted(self._strands.items()) if by]
        if contents:
            self.tx.many(REFER_CONTENT, contents)
        if strands:
            self.tx.many(REFER_STRAND, strands)
        self._contents, self._strands = {}, {}

    def flush_directories(self) -> None:
        """Writes what is owed to directories, before a statement reads many of them at once."""
        if not self._directories:
            return
        rows = [
            (self.space, id_, owed.children, owed.bytes, owed.nodes, owed.changed_ns, owed.height)
            for id_, owed in sorted(self._directories.items())
            if id_ > DOOMED or id_ == ROOT
        ]
        self.tx.many(UPDATE_DIRECTORY, rows)
        self._directories = {}

    def refuse_many(self, nodes: int) -> None:
        """One transaction touches at most so many nodes."""
        limit = self.limits.transaction_nodes
        if limit is not None and nodes > limit:
            raise TooLarge(
                f"one change may touch {limit} nodes, this one touches {nodes}",
                limit="space.transaction_nodes",
                size=limit,
                used=nodes,
            )


def joined(path: tuple[str, ...]) -> str:
    """A path as the journal keeps it."""
    return "/" + "/".join(path)


def split(text: str) -> tuple[str, ...]:
    """The reverse of `joined`."""
    return tuple(text[1:].split("/")) if len(text) > 1 else ()
