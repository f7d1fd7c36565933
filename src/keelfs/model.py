"""Frozen values that cross rooms.

An answer is relative to the question: a `Stat` carries no path, an `Entry` carries a name, a
`Change` and a `Match` carry the names below the directory that was asked about. Nothing here does
anything; nothing here holds a connection.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from enum import Enum, StrEnum
from typing import Final, Generic, Protocol, TypeVar

from msgspec import Struct, field
from msgspec.structs import asdict

from keelfs.errors import InvalidArgument

T = TypeVar("T")

#: The most that one page of any listing may hold.
MAX_PAGE: Final = 10_000
#: The kind of the spaces that hold what a conversation keeps for its user.
ARTIFACTS: Final = "artifacts"
#: A cursor behind every change that there will ever be: the largest integer of both databases.
END_OF_JOURNAL: Final = 2**63 - 1


class Kind(StrEnum):
    """What a node is. Special kinds are stored for a mount's sake and never opened."""

    FILE = "file"
    DIRECTORY = "directory"
    SYMLINK = "symlink"
    FIFO = "fifo"
    SOCKET = "socket"
    CHAR_DEVICE = "char_device"
    BLOCK_DEVICE = "block_device"


class Expectation(Enum):
    """What a write may expect besides a revision."""

    ANY = "any"
    ABSENT = "absent"


ANY: Final = Expectation.ANY
ABSENT: Final = Expectation.ABSENT


class Stat(Struct, frozen=True, kw_only=True):
    """What is known about one node."""

    kind: Kind
    #: The node's own identity, a UUIDv7; it survives renames and is never used again.
    id: bytes
    size: int
    #: Counts the node's contents: 1 when it is created, one more at each change of its bytes.
    revision: int
    mode: int
    uid: int = 0
    gid: int = 0
    nlink: int = 1
    atime_ns: int = 0
    mtime_ns: int = 0
    ctime_ns: int = 0
    created_ns: int = 0
    #: Hexadecimal; None while nobody has asked since the last append or patch.
    sha256: str | None = None
    mime: str | None = None
    readonly: bool = False
    target: str | None = None
    rdev: int = 0
    xattrs: dict[str, bytes] = field(default_factory=lambda: dict[str, bytes]())
    #: True where a reader is shown a text that no file holds.
    synthetic: bool = False

    @property
    def uuid(self) -> uuid.UUID:
        return uuid.UUID(bytes=self.id)

    @property
    def is_file(self) -> bool:
        return self.kind is Kind.FILE

    @property
    def is_directory(self) -> bool:
        return self.kind is Kind.DIRECTORY


#: ANY; ABSENT (nothing may be there); a revision; or a whole `Stat`, which pins the identity of the
#: node as well, so that a file removed and made anew at the same revision does not pass.
Expect = Expectation | int | Stat


class Entry(Struct, frozen=True):
    """A name in a directory, and what it points to (links are not followed)."""

    name: str
    stat: Stat


class Page(Struct, Generic[T], frozen=True):
    """One page of a listing; `next` is where the following page starts, None at the end."""

    items: list[T]
    next: str | None = None


class Revision(Struct, frozen=True):
    """One kept content of a file."""

    revision: int
    size: int
    at_ns: int
    by: str
    sha256: str | None = None


class ChangeKind(StrEnum):
    """What happened. `COPY` and `LINK` name their source in `path` and the new entry in `to`."""

    CREATE = "create"
    WRITE = "write"
    ATTRS = "attrs"
    MOVE = "move"
    COPY = "copy"
    LINK = "link"
    REMOVE = "remove"
    TRASH = "trash"
    UNTRASH = "untrash"
    SNAPSHOT = "snapshot"
    ROLLBACK = "rollback"
    FORK = "fork"
    #: The check of the store has mended the tree; what is below any path may be another.
    REPAIR = "repair"


class Change(Struct, frozen=True, kw_only=True):
    """One committed fact in the journal of a space.

    Paths are tuples of names below the directory that was asked about. A move, copy or link of
    which only one end lies below it carries None for the other end.
    """

    seq: int
    #: The first `seq` of the transaction that committed it: equal for all changes of a batch.
    batch: int
    kind: ChangeKind
    path: tuple[str, ...] | None
    to: tuple[str, ...] | None = None
    node: Kind = Kind.FILE
    revision: int = 0
    by: str = ""
    at_ns: int = 0
    #: What `undo` needs besides: a trash id, the name of a snapshot, former attributes.
    detail: str | None = None


class Trashed(Struct, frozen=True, kw_only=True):
    """One thing in the trash."""

    id: str
    path: tuple[str, ...]
    kind: Kind
    bytes: int
    nodes: int
    by: str
    at_ns: int
    expires_ns: int


class Transferred(Struct, frozen=True, kw_only=True):
    """What has arrived, and whether it came and left in one transaction."""

    stat: Stat
    atomic: bool


class Snapshot(Struct, frozen=True, kw_only=True):
    """A named state of a whole space."""

    name: str
    at_ns: int
    by: str
    bytes: int
    nodes: int


class Limits(Struct, frozen=True, kw_only=True):
    """What may not be passed. None means no limit.

    The store's limits bound each space; a tenant's narrow them for its spaces, a space's narrow
    them further. `bytes` and `nodes` of a tenant bound the sum over its spaces.
    """

    #: Sizes of all files, each name charging the full size, in the tree and in the trash.
    bytes: int | None = None
    #: Names of any kind, in the tree and in the trash.
    nodes: int | None = None
    file_bytes: int | None = None
    #: Directories above an entry; 4,096 bytes of path cannot hold more than 2,048.
    depth: int | None = 256
    directory_entries: int | None = None
    #: One `read()` returns at most this much; larger files are streamed.
    read_bytes: int | None = 256 * 2**20
    #: Revisions kept of one file besides the current one.
    history_count: int | None = 100
    history_age_s: int | None = None
    #: Sizes of all kept revisions of a space; the oldest of a file go first, no write is refused.
    history_bytes: int | None = None
    trash_user_s: int | None = 168 * 3600
    trash_agent_s: int | None = 24 * 3600
    #: Snapshots of one space, and the sizes of the trees they hold.
    snapshots: int | None = 1000
    snapshot_bytes: int | None = None
    xattr_bytes: int | None = 65_536
    #: Operations of one batch.
    batch_operations: int | None = 100_000
    #: Nodes that one copy, fork, snapshot or rollback may touch in its transaction.
    transaction_nodes: int | None = 1_000_000
    #: The journal keeps changes for this long; watchers behind it are told to start anew.
    journal_age_s: int | None = None
    #: One artifact, and all of a conversation: what narrows spaces of kind `artifacts`.
    artifact_file_bytes: int | None = 2**20
    artifact_space_bytes: int | None = 50 * 2**20
    #: All artifacts of a tenant together, in the tree and in the trash.
    artifact_bytes: int | None = 500 * 2**20

    def for_kind(self, kind: str) -> Limits:
        """The limits of a space of this kind."""
        if kind != ARTIFACTS:
            return self
        own = Limits(
            **{
                **dict.fromkeys(Limits.__struct_fields__),
                "bytes": self.artifact_space_bytes,
                "file_bytes": self.artifact_file_bytes,
            }
        )
        return self.narrowed(own)

    def narrowed(self, other: Limits) -> Limits:
        """The stricter of both, field by field."""
        mine, theirs = asdict(self), asdict(other)
        stricter = {
            name: theirs[name] if value is None else value if theirs[name] is None
            else min(value, theirs[name])
            for name, value in mine.items()
        }  # fmt: skip
        return Limits(**stricter)


#: A `Limits` that narrows nothing.
UNLIMITED: Final = Limits(**dict.fromkeys(Limits.__struct_fields__))


class Usage(Struct, frozen=True, kw_only=True):
    """What is used, and what may be. The counters equal a recount at all times."""

    #: In the tree: sizes by name, and names (the root is not counted).
    bytes: int = 0
    nodes: int = 0
    trash_bytes: int = 0
    trash_nodes: int = 0
    history_bytes: int = 0
    snapshot_bytes: int = 0
    limits: Limits = UNLIMITED


class Principal(Struct, frozen=True):
    """On whose behalf an operation is done: written into the journal, decides trash retention."""

    #: "operator", "user" or "agent".
    kind: str = "operator"
    name: str = "local"

    def __post_init__(self) -> None:
        if self.kind not in {"operator", "user", "agent"}:
            raise InvalidArgument('the kind of a principal is "operator", "user" or "agent"')
        if not self.name or len(self.name.encode("utf-8", "replace")) > 255:
            raise InvalidArgument("the name of a principal has 1 to 255 bytes")

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"


class Attrs(Struct, frozen=True, kw_only=True):
    """Attributes to set; None leaves one as it is. An xattr set to None is removed."""

    mode: int | None = None
    uid: int | None = None
    gid: int | None = None
    atime_ns: int | None = None
    mtime_ns: int | None = None
    readonly: bool | None = None
    #: "" clears it.
    mime: str | None = None
    xattrs: dict[str, bytes | None] | None = None


class Source(Protocol):
    """Bytes that arrive in blocks and are read once."""

    def blocks(self) -> Iterator[bytes]:
        """Blocks of any size; they are consumed outside of any transaction."""
        ...


#: What a write may carry inside. Text is encoded at the door.
Data = bytes | Source


class Content(Protocol):
    """The bytes of one revision, pinned: later writes to the file do not show through."""

    @property
    def stat(self) -> Stat: ...

    def read(self, offset: int, length: int) -> bytes:
        """At most `length` bytes from `offset`; fewer only at the end."""
        ...


class Match(Struct, frozen=True):
    """One line that a pattern found; `path` is relative to the directory that was searched."""

    path: tuple[str, ...]
    #: Counted from 1.
    line_number: int
    line: str
    #: The line is longer; only what is shown here was searched.
    cut: bool = False


class Finding(Struct, frozen=True):
    """One violation of an invariant."""

    invariant: str
    tenant: str
    message: str
    repaired: bool = False


class Report(Struct, frozen=True):
    """What `check` found; empty findings mean a sound store."""

    findings: list[Finding]
    spaces: int
    nodes: int
    contents: int

    @property
    def ok(self) -> bool:
        return not self.findings


class Swept(Struct, frozen=True, kw_only=True):
    """What one `sweep` reclaimed; `more` says that another step has work."""

    nodes: int = 0
    contents: int = 0
    chunks: int = 0
    expired_trash: int = 0
    expired_revisions: int = 0
    expired_changes: int = 0
    more: bool = False


#: Judges a tree after an operation and before its commit; raises to refuse.
Judge = Callable[[object, list[tuple[str, ...]]], None]
