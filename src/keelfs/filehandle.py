"""File objects over a workspace, for code that wants `read`, `seek` and `write`.

Reading is pinned: the object shows one revision, whatever is written meanwhile. Writing goes to a
spooled temporary file and becomes one operation when the object is closed, so that others see the
old bytes or the new ones. Nothing is committed by `discard()`, by an exception that leaves the
`with` block, or by forgetting the object without closing it.

Who calls: `Workspace.open`.
"""

from __future__ import annotations

import codecs
import io
import warnings
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias, cast

from keelfs.arguments import BLOCK
from keelfs.door import Place, spell
from keelfs.errors import Conflict, InvalidArgument, IsADirectory, KeelError, Missing
from keelfs.model import ABSENT, ANY, Data, Expect, Stat

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer, WriteableBuffer

#: A spool keeps this much in memory and the rest on the disk of the process.
SPOOL: Final = 2**20


class Readable(Protocol):
    """What is read from: the pinned content of one revision."""

    stat: Stat

    def read(self, offset: int, length: int, /) -> bytes: ...


class Mode:
    """What the letters of `open` ask for."""

    def __init__(self, letters: str) -> None:
        given = list(letters) if isinstance(letters, str) else []  # pyright: ignore[reportUnnecessaryIsInstance]
        action = [letter for letter in given if letter in "rwax"]
        letters_fit = len(set(given)) == len(given) and set(given) <= set("rwaxbt+")
        if (
            not letters_fit
            or len(action) != 1
            or any(pair <= set(given) for pair in ({"b", "t"}, {"a", "+"}))
        ):
            raise InvalidArgument(
                'the mode is one of "r", "w", "a" and "x", then "+" to read and write, then "b" '
                f"for bytes; not {letters!r:.20}"
            )
        self.letters, self.action = letters, action[0]
        self.binary, self.both = "b" in given, "+" in given

    @property
    def writes(self) -> bool:
        return self.both or self.action != "r"


class PinnedFile(io.RawIOBase):
    """One revision, read only."""

    def __init__(self, content: Readable, name: str) -> None:
        self._content, self._at = content, 0
        self.stat = content.stat
        self.name, self.mode = name, "rb"

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        self._check_open()
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        self._check_open()
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self.stat.size}.get(whence)
        if base is None or base + offset < 0:
            raise InvalidArgument("seek to 0 or more, from the start, from here or from the end")
        self._at = base + offset
        return self._at

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        self._check_open()
        room = memoryview(buffer).cast("B")
        data = self._content.read(self._at, len(room)) if len(room) else b""
        room[: len(data)] = data
        self._at += len(data)
        return len(data)

    def readall(self) -> bytes:
        self._check_open()
        parts: list[bytes] = []
        while block := self._content.read(self._at, BLOCK):
            parts.append(block)
            self._at += len(block)
        return b"".join(parts)

    def _check_open(self) -> None:
        if self.closed:
            raise ValueError("I/O operation on closed file.")


class SpooledWrite(io.RawIOBase):
    """Bytes on their way into one operation, which `commit` performs on closing.

    With `seekable`, the spool holds the whole file and may be read and changed anywhere; without
    it, bytes can only be added.
    """

    def __init__(
        self, commit: Callable[[Data], Stat], name: str, *, seekable: bool, readable: bool
    ) -> None:
        from tempfile import SpooledTemporaryFile

        self._spool = SpooledTemporaryFile[bytes](max_size=SPOOL)
        self._commit, self._seekable, self._readable = commit, seekable, readable
        self._kept = True
        #: Whether closing has anything to commit.
        self.changed = True
        #: The file as it was opened; after closing, as it was committed.
        self.stat: Stat | None = None
        self.name, self.mode = name, "wb"

    def load(self, content: Readable) -> None:
        """Starts from what the file holds."""
        offset = 0
        while block := content.read(offset, BLOCK):
            self._spool.write(block)
            offset += len(block)
        self._spool.seek(0)
        self.stat, self.changed = content.stat, False

    def readable(self) -> bool:
        return self._readable

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return self._seekable

    def write(self, data: ReadableBuffer, /) -> int:
        size = memoryview(data).nbytes
        if self._kept:
            self._spool.write(cast(bytes, data))
            self.changed = True
        return size

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        if not self._readable:
            raise io.UnsupportedOperation("the file is open for writing only")
        room = memoryview(buffer).cast("B")
        data = self._spool.read(len(room))
        room[: len(data)] = data
        return len(data)

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        if not self._seekable:
            raise io.UnsupportedOperation("bytes can only be added at the end")
        self._spool.seek(offset, whence)
        return self._spool.tell()

    def tell(self) -> int:
        if not self._seekable:
            raise io.UnsupportedOperation("bytes can only be added at the end")
        return self._spool.tell()

    def truncate(self, size: int | None = None, /) -> int:
        wanted = self.tell() if size is None else size
        here = self._spool.tell()
        end = self._spool.seek(0, io.SEEK_END)
        # A spool that is still in memory does not grow by truncating; one on disk does, as a hole.
        if end < wanted <= SPOOL:
            self._spool.write(b"\0" * (wanted - end))
        self._spool.truncate(wanted)
        self._spool.seek(here)
        self.changed = True
        return wanted

    def discard(self) -> None:
        """Commits nothing, and frees the spool."""
        self._kept = False
        self.close()

    def close(self) -> None:
        if self.closed:
            return
        try:
            super().close()
            if self._kept and self.changed:
                self.stat = self._commit(self._data())
        finally:
            self._spool.close()

    def _data(self) -> Data:
        """Small data as bytes, which a store may keep in place; larger data in blocks."""
        self._spool.seek(0, io.SEEK_END)
        size = self._spool.tell()
        self._spool.seek(0)
        return self._spool.read() if size <= SPOOL else _Spooled(self._spool)

    def __del__(self) -> None:
        self._kept = False
        self._spool.close()


class _Spooled:
    def __init__(self, spool: Any) -> None:
        self._spool = spool

    def blocks(self) -> Iterator[bytes]:
        while block := self._spool.read(BLOCK):
            yield block


class _Discardable:
    """What the file objects for writing add to those of the standard library."""

    def discard(self) -> None:
        """Closes the object and commits nothing.

        The layers above a closed file drop what they still buffer.
        """
        self._spooled().discard()

    @property
    def stat(self) -> Stat | None:
        """The file as it was opened; after closing, as it was committed; None when new."""
        return self._spooled().stat

    def _spooled(self) -> SpooledWrite:
        layer: Any = self
        while not isinstance(layer, SpooledWrite):
            layer = layer.raw if hasattr(layer, "raw") else layer.buffer
        return layer

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            cast(Any, self).close()
        else:
            self.discard()

    def __del__(self) -> None:
        try:
            spooled = self._spooled()
        except (AttributeError, ValueError):
            # The object was never completed, or its layers were taken apart.
            return
        if not spooled.closed:
            spooled.discard()
            warnings.warn(
                "a file was not closed; nothing was committed", ResourceWarning, 2, source=self
            )


class WrittenFile(_Discardable, io.BufferedWriter):
    """Bytes that become one operation on closing."""


class RandomFile(_Discardable, io.BufferedRandom):
    """A file read and changed anywhere; the whole of it becomes one write on closing."""


class WrittenText(_Discardable, io.TextIOWrapper):
    """Text that becomes one operation on closing."""


class Verbs(Protocol):
    """What an open file needs of its workspace."""

    def stat(self, path: Place, /) -> Stat: ...

    def pin(self, path: Place, /) -> Readable: ...

    def write(self, path: Place, data: Data, /, *, expect: Expect) -> Stat: ...

    def append(self, path: Place, data: Data, /, *, expect: Expect) -> Stat: ...


OpenFile: TypeAlias = "io.BufferedReader[Any] | io.TextIOWrapper | WrittenFile | RandomFile"


def opened(
    verbs: Verbs, path: Place, letters: str, expect: Expect | None, encoding: str, errors: str,
    newline: str | None,
) -> OpenFile:  # fmt: skip
    """The file object that a mode asks for. Text wears a wrapper around bytes."""
    mode = Mode(letters)
    if not mode.binary:
        known_encoding(encoding)
    if not mode.writes:
        reader = io.BufferedReader(PinnedFile(verbs.pin(path), str(path)), BLOCK)
        return reader if mode.binary else io.TextIOWrapper(reader, encoding, errors, newline)
    spooled = _spooled(verbs, path, mode, expect)
    binary = RandomFile(spooled, BLOCK) if mode.both else WrittenFile(spooled, BLOCK)
    return binary if mode.binary else WrittenText(binary, encoding, errors, newline)


def _spooled(verbs: Verbs, path: Place, mode: Mode, expect: Expect | None) -> SpooledWrite:
    content = verbs.pin(path) if mode.action == "r" else None
    wanted: Expect = ANY if expect is None else expect
    if mode.action == "x":
        wanted = ABSENT
    elif content is not None and expect is None:
        # What was read decides what is written, so a change in between is a conflict.
        wanted = content.stat
    if mode.action in {"w", "x"}:
        _refuse_early(verbs, path, mode)

    def commit(data: Data) -> Stat:
        verb = verbs.append if mode.action == "a" else verbs.write
        return verb(path, data, expect=wanted)

    spooled = SpooledWrite(commit, str(path), seekable=mode.action != "a", readable=mode.both)
    if content is not None:
        spooled.load(content)
    return spooled


def _refuse_early(verbs: Verbs, path: Place, mode: Mode) -> None:
    """Tells before the first byte what one look shows; committing judges again."""
    try:
        found = verbs.stat(path)
    except Missing:
        return
    error: KeelError | None = None
    if mode.action == "x":
        error = Conflict("the file exists already", expected="absent", actual=found.revision)
    elif found.is_directory:
        error = IsADirectory()
    if error is not None:
        spell(error, path)
        raise error


def known_encoding(encoding: str) -> None:
    try:
        codecs.lookup(encoding)
    except (LookupError, TypeError, ValueError):
        raise InvalidArgument(
            f'there is no text encoding {encoding!r:.40}; "utf-8" is the usual one'
        ) from None
