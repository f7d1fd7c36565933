"""A gate through which one missing file reads as a text that says what it is for.

The gate answers nothing by itself. It turns a read of that one path into a read that brings the
text with it: whoever performs it, in whatever transaction, gives the bytes of the file if something
is there, and the text if nothing is. Every other question, `stat` first of all, goes on as it is
and hears the truth; nothing is ever stored.

A content that is such a text has revision 0 and a stat that says `synthetic`. Whoever has seen it
and writes with that stat, or with revision 0, expects that there is still no file.
"""

from __future__ import annotations

import uuid
from typing import Any, Final, TypeVar, cast

from msgspec.structs import replace as with_fields

from keelfs import ops
from keelfs.errors import InvalidArgument, Missing
from keelfs.model import ABSENT, Content, Kind, Stat
from keelfs.ops import Op
from keelfs.path import VPath, parse
from keelfs.ports import Handler, Volume

T = TypeVar("T")

#: Where the memory tools of agents begin to read.
MEMORY: Final = VPath((".user", "memory", "MEMORY.md"))

TEXT: Final = b"""\
# Memory

Nothing has been written here yet: this text is not stored, and no such file exists.

Write to this file what should be remembered about this user in later conversations:

- one line for each thing worth keeping, the most important ones first;
- what the user prefers, has decided or has corrected, not what can be looked up again;
- longer notes as files of their own in this directory, named here in one line each.

Correct or remove what is no longer true. What is written here lasts, and is read again at the
beginning of each conversation with this user.
"""


class Primer:
    """See the module."""

    def __init__(self, below: Handler, path: VPath = MEMORY, text: bytes = TEXT) -> None:
        self.below = below
        self._path, self._text = path, text

    def perform(self, op: Op[T], /) -> T:
        return self.below.perform(cast(Op[T], self._primed(op, self._path)))

    def _primed(self, op: Op[Any], path: VPath) -> Op[Any]:
        """The operation, its reads of the path made to bring the text."""
        match op:
            case ops.Read(revision=None) if parse(op.path) == path:
                return PrimedRead(op.path, op.offset, op.length, text=self._text)
            case ops.Open(revision=None) if parse(op.path) == path:
                return PrimedOpen(op.path, text=self._text)
            case ops.Batch():
                return with_fields(op, ops=tuple(self._primed(each, path) for each in op.ops))
            case ops.Within():
                inside = path.is_within(op.base)
                return self._wrapped(op, path.below(op.base)) if inside else op
            case ops.Judged() | ops.Once():
                return self._wrapped(op, path)
            case _:
                return _truthful(op, path) if op.mutates else op

    def _wrapped(self, op: Any, path: VPath) -> Op[Any]:
        inner = self._primed(op.op, path)
        return op if inner is op.op else with_fields(op, op=inner)


def _truthful(op: Any, path: VPath) -> Op[Any]:
    """Whoever expects the text to be there still expects in truth that no file is."""
    expect = getattr(op, "expect", None)
    told = expect == 0 or (isinstance(expect, Stat) and expect.synthetic)
    return with_fields(op, expect=ABSENT) if told and parse(op.path) == path else op


class PrimedRead(ops.Read, frozen=True, kw_only=True):
    """A read that gives a text where nothing is."""

    text: bytes

    @property
    def verb(self) -> str:
        return "read"

    def run(self, volume: Volume) -> bytes:
        try:
            return ops.Read.run(self, volume)
        except Missing:
            if _something_is_there(volume, parse(self.path)):
                raise
        if self.offset < 0 or (self.length or 0) < 0:
            raise InvalidArgument("offset and length cannot be negative")
        end = None if self.length is None else self.offset + self.length
        return self.text[self.offset : end]


class PrimedOpen(ops.Open, frozen=True, kw_only=True):
    """An opened content that is a text where nothing is."""

    text: bytes

    @property
    def verb(self) -> str:
        return "open"

    def run(self, volume: Volume) -> Content:
        try:
            return ops.Open.run(self, volume)
        except Missing:
            if _something_is_there(volume, parse(self.path)):
                raise
        return Text(self.text)


def _something_is_there(volume: Volume, path: VPath) -> bool:
    """A link to nothing, for example, is no reason to show a text."""
    try:
        volume.stat(path, False)
    except Missing:
        return False
    return True


class Text:
    """A content that no file holds."""

    def __init__(self, text: bytes) -> None:
        self._text = text
        identity = uuid.uuid5(uuid.NAMESPACE_URL, "keelfs:primer").bytes
        self.stat = Stat(
            kind=Kind.FILE, id=identity, size=len(text), revision=0, mode=0o644, synthetic=True
        )

    def read(self, offset: int, length: int) -> bytes:
        if offset < 0 or length < 0:
            raise InvalidArgument("offset and length cannot be negative")
        return self._text[offset : offset + length]
