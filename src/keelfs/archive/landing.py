"""Where an import lands: beside its destination first, in place at the end, all or nothing.

Everything is written into a fresh hidden directory, as seen from within it, so that no link of the
archive can make a later member land elsewhere. At the end it is moved into place in one
transaction; after an error it is removed, and all that shows is in the journal and in the time of
the directory around it. Only a process that dies leaves the directory behind, named `.import-` and
a random number.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import Any, Final, Self

from msgspec import Struct

from keelfs import ops
from keelfs.errors import (
    AlreadyExists,
    InvalidArgument,
    InvalidPath,
    Missing,
    NameTooLong,
    NotADirectory,
    NotFound,
    TooLarge,
    Unsupported,
)
from keelfs.model import Attrs, Page, Stat
from keelfs.ops import Op
from keelfs.path import MAX_PATH_BYTES, ROOT, VPath, check_name
from keelfs.ports import Handler

#: One transaction's worth of small members.
_BATCH_OPERATIONS: Final = 1000
_BATCH_BYTES: Final = 8 * 2**20
#: A larger member is streamed in a transaction of its own.
SMALL: Final = 256 * 1024
#: Names that one import may move into directories that exist already.
_MAX_MOVES: Final = 50_000
#: No archive is suspected of being a bomb before it has grown to this.
_INNOCENT_BYTES: Final = 64 * 2**20


class Bounds(Struct, frozen=True, kw_only=True):
    """What an archive may unfold to; beyond, the import is refused with `TooLarge`."""

    max_bytes: int | None = 16 * 2**30
    max_entries: int = 1_000_000
    #: Bytes out for each byte in, judged once more than 64 MiB are out.
    max_ratio: int | None = 200


def member_path(name: str, number: int) -> VPath:
    """The path of a member below the destination; the root for the archive's own directory."""
    if name.startswith("/"):
        raise InvalidPath(f"member {number} of the archive has an absolute name")
    parts = [part for part in name.split("/") if part not in {"", "."}]
    if ".." in parts:
        raise InvalidPath(f'member {number} of the archive has ".." in its name')
    for part in parts:
        try:
            check_name(part)
        except InvalidPath as error:
            raise type(error)(f"member {number} of the archive: {error.message}") from None
    if len(name.encode()) > MAX_PATH_BYTES:
        raise NameTooLong(f"member {number} of the archive has a name of {len(name)} characters")
    return VPath(tuple(parts))


class Landing:
    """An import under way; a context, and only `settle` keeps what was written."""

    def __init__(self, handler: Handler, path: VPath, replace: bool, bounds: Bounds) -> None:
        self._handler, self._path = handler, path
        self._replace, self._bounds = replace, bounds
        try:
            stat = handler.perform(ops.GetStat(path))
        except Missing:
            self._exists, home = False, _nearest_directory(handler, path.parent)
        else:
            if not stat.is_directory:
                raise NotADirectory("an archive is imported into a directory")
            # Inside, so that it lies in the same volume even if the destination is a mount.
            self._exists, home = True, path
        self._stage = home.child(f".import-{secrets.token_hex(8)}")
        self._waiting: list[Op[Any]] = []
        self._waiting_bytes = 0
        self._entries = 0
        self._bytes = 0
        #: Directories whose times are set once nothing more is put into them.
        self._open: list[tuple[VPath, Attrs]] = []

    def __enter__(self) -> Self:
        self._handler.perform(ops.Mkdir(self._stage))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self._handler.perform(ops.Remove(self._stage, recursive=True))
        except NotFound:
            pass
        except Exception:
            # Whatever made the import fail is what its caller has to know.
            if error is None:
                raise

    def entry(self) -> None:
        """Counts a member before anything of it is read."""
        self._entries += 1
        if self._entries > self._bounds.max_entries:
            raise TooLarge(f"the archive has more than {self._bounds.max_entries} members")

    def bounded(self, blocks: Iterable[bytes]) -> Iterator[bytes]:
        """The same blocks, as long as all members together stay within bounds."""
        most = self._bounds.max_bytes
        for block in blocks:
            self._bytes += len(block)
            if most is not None and self._bytes > most:
                raise TooLarge(f"the archive unfolds to more than {most} bytes")
            yield block

    def check_ratio(self, unfolded: int, consumed: int) -> None:
        """Refuses what has grown out of all proportion to the bytes it came from."""
        most = self._bounds.max_ratio
        if most is not None and unfolded > max(_INNOCENT_BYTES, consumed * most):
            raise TooLarge(f"the archive unfolds to more than {most} times its size")

    def directory(self, path: VPath, mode: int, attrs: Attrs) -> None:
        if path.is_root:
            return
        self._leave(path)
        self._add(ops.Mkdir(path, parents=True, exist_ok=True, mode=mode))
        self._open.append((path, attrs))

    def file(
        self, path: VPath, blocks: Iterator[bytes], size: int, mode: int, mime: str | None,
        attrs: Attrs,
    ) -> None:  # fmt: skip
        self._leave(path)
        if size <= SMALL:
            self._add(ops.Write(path, b"".join(blocks), mode=mode, mime=mime), size)
        else:
            self._flush()
            self._perform(ops.Write(path, _Blocks(blocks), mode=mode, mime=mime))
        self._add(ops.SetAttrs(path, attrs, follow=False))

    def symlink(self, target: str, path: VPath, attrs: Attrs) -> None:
        self._leave(path)
        self._add(ops.Symlink(target, path, parents=True))
        self._add(ops.SetAttrs(path, attrs, follow=False))

    def link(self, path: VPath, to: VPath) -> None:
        """Another name for a file that has landed before."""
        self._leave(to)
        self._flush()
        try:
            self._perform(ops.Link(path, to, parents=True))
        except NotFound:
            raise InvalidArgument("a hard link of the archive names no earlier member") from None

    def settle(self) -> None:
        """Moves everything into place, in one transaction."""
        self._leave(ROOT)
        self._flush()
        if not self._exists:
            self._handler.perform(ops.Move(self._stage, self._path, parents=True))
            return
        moves = self._moves()
        if len(moves) == 1:
            self._handler.perform(moves[0])
        elif moves:
            self._move_all(moves)

    def _move_all(self, moves: list[Op[Any]]) -> None:
        try:
            self._handler.perform(ops.Batch(tuple(moves)))
        except Unsupported:
            raise Unsupported(
                "this volume takes one change at a time, so not all names can be put in place at "
                "once; import into a new directory"
            ) from None

    def _leave(self, path: VPath) -> None:
        """Sets the attributes of directories that `path` does not lie in; times move no more."""
        while self._open and not (path != ROOT and path.is_within(self._open[-1][0])):
            left, attrs = self._open.pop()
            self._add(ops.SetAttrs(left, attrs))

    def _add(self, op: Op[Any], size: int = 0) -> None:
        self._waiting.append(op)
        self._waiting_bytes += size
        if len(self._waiting) >= _BATCH_OPERATIONS or self._waiting_bytes >= _BATCH_BYTES:
            self._flush()

    def _flush(self) -> None:
        waiting, self._waiting, self._waiting_bytes = self._waiting, [], 0
        if not waiting:
            return
        try:
            self._perform(ops.Batch(tuple(waiting)))
        except Unsupported:
            # A host folder takes one change at a time; beside the destination that is as good.
            for op in waiting:
                self._perform(op)

    def _perform(self, op: Op[Any]) -> None:
        self._handler.perform(ops.Within(op, self._stage))

    def _moves(self) -> list[Op[Any]]:
        """What puts the stage into the destination: directories that exist on both sides merge."""
        moves: list[Op[Any]] = []
        waiting = [ROOT]
        while waiting:
            below = waiting.pop()
            for name, stat in self._children(self._stage.join(below)):
                path = below.child(name)
                there = self._there(path)
                if there is not None and there.is_directory and stat.is_directory:
                    waiting.append(path)
                    continue
                if there is not None and not self._replace:
                    raise AlreadyExists(
                        "the archive holds a name that exists at its destination; "
                        "pass replace=True to replace files"
                    )
                moves.append(
                    ops.Move(self._stage.join(path), self._path.join(path), replace=self._replace)
                )
                if len(moves) > _MAX_MOVES:
                    raise TooLarge(
                        f"more than {_MAX_MOVES} names go into directories that exist already; "
                        "import into a new directory, or in parts"
                    )
        return moves

    def _children(self, path: VPath) -> Iterator[tuple[str, Stat]]:
        after: str | None = None
        while True:
            page: Page[Any] = self._handler.perform(ops.List(path, after))
            yield from ((entry.name, entry.stat) for entry in page.items)
            if page.next is None:
                return
            after = page.next

    def _there(self, path: VPath) -> Stat | None:
        """What a member would meet at its destination; a link counts as itself."""
        try:
            return self._handler.perform(ops.GetStat(self._path.join(path), follow=False))
        except Missing:
            return None


def _nearest_directory(handler: Handler, path: VPath) -> VPath:
    """The deepest directory on the way to `path` that exists already."""
    while not path.is_root:
        try:
            handler.perform(ops.GetStat(path))
        except Missing:
            path = path.parent
        else:
            break
    return path


class _Blocks:
    """Blocks as a source that a write can carry."""

    def __init__(self, blocks: Iterator[bytes]) -> None:
        self._blocks = blocks

    def blocks(self) -> Iterator[bytes]:
        return self._blocks


def kept_mode(mode: int) -> int:
    """Permissions of an archive, without set-user-id and set-group-id: nobody vouches for them."""
    return mode & 0o1777
