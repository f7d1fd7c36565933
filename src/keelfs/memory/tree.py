"""The ground floor of the memory volume: where paths lead, what is expected, recorded and limited.

Always true: a path is resolved component by component inside the base that it was asked of; every
entry is made in one place, which records nothing but checks depth and directory size.

Who calls: the layers above, which are the verbs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, Concatenate, Final, ParamSpec, TypeVar, cast

from msgspec.structs import replace

from keelfs.errors import (
    Conflict,
    DanglingLink,
    InvalidArgument,
    IsADirectory,
    LinkLoop,
    NotADirectory,
    NotAFile,
    NotFound,
    QuotaExceeded,
    ReadOnly,
    TooLarge,
)
from keelfs.memory.records import Found, Node, digest
from keelfs.memory.state import State
from keelfs.model import (
    ABSENT,
    ANY,
    MAX_PAGE,
    Change,
    ChangeKind,
    Expect,
    Kind,
    Limits,
    Principal,
    Stat,
)
from keelfs.path import VPath

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S", bound="Tree")

#: As many links as Linux follows.
MAX_HOPS: Final = 40
#: What one file may hold in memory when no limit says less; a hole is filled with real zeros here.
MAX_FILE_BYTES: Final = 2**30
DIRECTORY_MODE: Final = 0o755
FILE_MODE: Final = 0o644
LINK_MODE: Final = 0o777
PERMISSIONS: Final = 0o7777


@dataclass(frozen=True, slots=True)
class Turn:
    """One transaction: who acts, when, and what was touched so far."""

    principal: Principal
    limits: Limits
    now: int
    #: The first seq of this transaction, if it records anything.
    batch: int
    ids: Callable[[int], bytes]
    touched: set[bytes] = field(default_factory=set[bytes])


def metered(verb: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R]:
    """Lets a verb do its work, then refuses it if the space has outgrown a limit through it.

    Judged on what the verb did as a whole, so that a change that frees more than it takes passes
    even where the limit is exceeded already.
    """

    @wraps(verb)
    def measured(self: S, *args: P.args, **kwargs: P.kwargs) -> R:
        before = self.charged()
        answer = verb(self, *args, **kwargs)
        self.check_room(before)
        return answer

    return cast(Callable[Concatenate[S, P], R], measured)


class Tree:
    """A space, or the part of it below `base`, during one transaction."""

    def __init__(self, state: State, turn: Turn, base: tuple[str, ...] = ()) -> None:
        self._state, self._turn, self._base = state, turn, base
        node = state.at(base)
        if node.kind is not Kind.DIRECTORY:
            raise NotADirectory
        self._top = node.id

    def charged(self) -> dict[str, int]:
        """What counts against the limits of the space: the tree and the trash."""
        totals = self._state.totals
        return {
            "bytes": totals["bytes"] + totals["trash_bytes"],
            "nodes": totals["nodes"] + totals["trash_nodes"],
        }

    def check_room(self, before: dict[str, int]) -> None:
        """Refuses growth beyond a limit."""
        for name, used in self.charged().items():
            limit: int | None = getattr(self._turn.limits, name)
            if limit is not None and used > limit and used > before[name]:
                raise QuotaExceeded(
                    f"the space may hold {limit} {name}; {before[name]} are in use and"
                    f" {used - before[name]} more are asked for",
                    limit=f"space.{name}", size=limit, used=before[name],
                )  # fmt: skip

    def check_size(self, limit_name: str, size: int, what: str) -> None:
        """Refuses one thing that is larger than its limit."""
        limit: int | None = getattr(self._turn.limits, limit_name)
        if limit is not None and size > limit:
            raise TooLarge(
                f"{what} may have {limit}, this one has {size}",
                limit=f"space.{limit_name}", size=limit, used=size,
            )  # fmt: skip

    def check_file_size(self, size: int, former: int = 0) -> None:
        """Refuses a file that is too large before its bytes are put together."""
        if size <= former:
            return
        self.check_size("file_bytes", size, "the bytes of one file")
        room = self._turn.limits.bytes
        used = self.charged()["bytes"]
        if room is not None and used + size - former > room:
            raise QuotaExceeded(
                f"the space may hold {room} bytes; {used} are in use",
                limit="space.bytes", size=room, used=used,
            )  # fmt: skip
        if size > MAX_FILE_BYTES:
            raise TooLarge(
                f"a file in memory may have {MAX_FILE_BYTES} bytes, this one has {size}",
                limit="space.file_bytes", size=MAX_FILE_BYTES, used=size,
            )  # fmt: skip

    def locate(self, path: VPath, follow: bool) -> Found:
        """Follows a path; with `follow`, a link at its end too."""
        state = self._state
        ids, names, hops = [self._top], list[str](), 0
        pending = [(name, False) for name in reversed(path.parts)]
        while pending:
            name, in_link = pending.pop()
            here = ids[-1]
            if here not in state.children:
                raise NotADirectory
            if name == "..":
                if names:
                    ids.pop()
                    names.pop()
                continue
            if name not in state.children[here]:
                rest = [(name, in_link), *reversed(pending)]
                missing = tuple(each for each, _ in rest)
                return Found(
                    tuple(ids), (*names, *missing), None, missing, in_link,
                    all(linked for _, linked in rest),
                )  # fmt: skip
            node = state.nodes[state.children[here][name]]
            if node.target is None or not (pending or follow):
                ids.append(node.id)
                names.append(name)
                continue
            hops += 1
            if hops > MAX_HOPS:
                raise LinkLoop
            if node.target.startswith("/"):
                ids, names = [self._top], []
            steps = [(step, True) for step in node.target.split("/") if step not in ("", ".")]
            pending.extend(reversed(steps))
        return Found(tuple(ids[:-1]), tuple(names), state.nodes[ids[-1]])

    def existing(self, path: VPath, follow: bool) -> tuple[Found, Node]:
        """What is at a path, which must be there."""
        found = self.locate(path, follow)
        if found.node is None:
            raise NotFound
        return found, found.node

    def file(self, path: VPath) -> tuple[Found, Node]:
        """The file at a path, links followed."""
        found, node = self.existing(path, follow=True)
        return found, a_file(node)

    def directory(self, path: VPath) -> Node:
        """The directory at a path, links followed."""
        _, node = self.existing(path, follow=True)
        if node.kind is not Kind.DIRECTORY:
            raise NotADirectory
        return node

    def make_way(self, found: Found, parents: bool) -> bytes:
        """The directory that will hold a missing entry, made if `parents` says so."""
        if found.dangling or (found.in_link and parents):
            raise DanglingLink
        if len(found.missing) > 1 and not parents:
            raise NotFound("the parent directory does not exist; pass parents=True to make it")
        directory = found.above[-1]
        for index in range(1, len(found.missing)):
            path = found.path[: len(found.path) - len(found.missing) + index]
            node = self.fresh(Kind.DIRECTORY, DIRECTORY_MODE)
            self.enter(directory, path, node.id)
            self.record(ChangeKind.CREATE, path, node=node)
            directory = node.id
        return directory

    def enter(self, directory: bytes, path: tuple[str, ...], node: bytes) -> None:
        """Gives a node the last name of `path` in a directory."""
        state, deep = self._state, len(self._base) + len(path) - 1
        height = max(len(below) for below, _ in state.walk(node))
        self.check_size("depth", deep + height, "the directories above an entry")
        self.check_size(
            "directory_entries", len(state.children[directory]) + 1, "the entries of one directory"
        )
        state.bind(directory, path[-1], node)
        self.touch_directory(directory)
        self._turn.touched.add(node)

    def leave(self, directory: bytes, name: str) -> bytes:
        """Takes a name out of a directory."""
        node = self._state.unbind(directory, name)
        self.touch_directory(directory)
        return node

    def touch_directory(self, directory: bytes) -> None:
        now = self._turn.now
        node = self._state.nodes[directory]
        self._state.replace(replace(node, mtime_ns=now, ctime_ns=now))

    def fresh(self, kind: Kind, mode: int, **fields: Any) -> Node:
        """A new node without a name."""
        now = self._turn.now
        node = Node(
            id=self._turn.ids(now), kind=kind, mode=mode & PERMISSIONS, written_ns=now,
            written_by=str(self._turn.principal), atime_ns=now, mtime_ns=now, ctime_ns=now,
            created_ns=now, **fields,
        )  # fmt: skip
        if kind is Kind.FILE and node.sha256 is None:
            node = replace(node, sha256=digest(node.data))
        self._state.adopt(node)
        return node

    def stamp(self, node: bytes) -> None:
        """Marks a node as changed in its place or attributes."""
        self._state.replace(replace(self._state.nodes[node], ctime_ns=self._turn.now))

    def answer(self, node: bytes) -> Stat:
        """The stat of a node as it is now."""
        found = self._state.nodes[node]
        alone = found.kind is Kind.DIRECTORY
        return found.stat(1 if alone else len(self._state.names[node]))

    def record(
        self, kind: ChangeKind, path: tuple[str, ...] | None,
        to: tuple[str, ...] | None = None, node: Node | None = None, detail: str | None = None,
    ) -> None:  # fmt: skip
        """Writes one change; paths are given as seen from the base, None for a place outside."""
        seq = self._state.totals["seq"] + 1
        self._state.add("seq", 1)
        change = Change(
            seq=seq, batch=self._turn.batch, kind=kind,
            path=None if path is None else self._base + path,
            to=None if to is None else self._base + to,
            node=Kind.DIRECTORY if node is None else node.kind,
            revision=1 if node is None else node.revision,
            by=str(self._turn.principal), at_ns=self._turn.now, detail=detail,
        )  # fmt: skip
        self._state.put(self._state.journal, seq, change)


def a_file(node: Node) -> Node:
    """The node itself, which must have bytes."""
    if node.kind is Kind.DIRECTORY:
        raise IsADirectory
    if node.kind is not Kind.FILE:
        raise NotAFile
    return node


def judge(expect: Expect, node: Node | None) -> None:
    """Compares what a caller expects with what is there."""
    if expect is ANY:
        return
    if expect is ABSENT:
        if node is not None:
            raise Conflict("there is an entry already", expected="absent", actual=node.revision)
        return
    wanted = expect.revision if isinstance(expect, Stat) else expect
    if node is None:
        raise Conflict("there is no file", expected=str(wanted))
    replaced = isinstance(expect, Stat) and expect.id != node.id
    if replaced or node.revision != wanted:
        raise Conflict(
            "the file was removed and made anew" if replaced else None,
            expected=str(wanted), actual=node.revision,
        )  # fmt: skip


def writable(node: Node) -> None:
    """Refuses a change of the bytes of a readonly file."""
    if node.kind is Kind.FILE and node.readonly:
        raise ReadOnly("the file is read-only")


def check_page(limit: int) -> None:
    """A page holds something, and not everything."""
    if not 1 <= limit <= MAX_PAGE:
        raise InvalidArgument(f"the limit of a page lies between 1 and {MAX_PAGE}")
