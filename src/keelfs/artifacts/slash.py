"""Slash commands in what a model writes, found while it is written.

Text arrives in pieces of any size. A command stands on a line of its own, at its beginning, outside
of code fences; what looks like one and is malformed is text like any other. A block (`/write`,
`/mem add entry`) holds the lines up to the one that ends it, whatever they look like.

Memory is bounded by the largest body; the time is that of reading the text once. What a command
does is not known here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final

from msgspec import Struct

#: A longer line is no command; it need not be kept to know that.
MAX_LINE: Final = 4096
#: A body is cut here and reported as too large; it is larger than any answer may carry.
MAX_BODY: Final = 10 * 2**20

_FENCE: Final = re.compile(r" {0,3}(`{3,}|~{3,})(.*)\Z")
_WRITE: Final = re.compile(r"/write(?: +(--persist))? +(?!--persist\Z)(\S.*)\Z")
_READ: Final = re.compile(r"/read(?: +(\S.*))?\Z")
_LIST: Final = re.compile(r"/list\Z")
_MEM_ADD: Final = re.compile(r"/mem +add +entry +(\S+) +(\S.*)\Z")
_MEM_ENTRY: Final = re.compile(r"/mem +entry +(\S.*)\Z")


class Write(Struct, frozen=True):
    """A file in the text; kept with `persist`."""

    path: str
    body: str
    persist: bool = False
    #: The text ended before the block did.
    truncated: bool = False
    #: The body is longer than `MAX_BODY`, and what is here is not all of it.
    cut: bool = False


class Read(Struct, frozen=True):
    """A wish to see an artifact; `args` is what stands behind the verb."""

    args: str


class List(Struct, frozen=True):
    """A wish to see which artifacts there are."""


class AddEntry(Struct, frozen=True):
    """A memory entry in the text; `rest` holds its title, and what it may link to."""

    type: str
    rest: str
    body: str
    truncated: bool = False
    cut: bool = False


class ShowEntry(Struct, frozen=True):
    """A wish to see a memory entry."""

    args: str


Command = Write | Read | List | AddEntry | ShowEntry


class _Block:
    """A body on its way, up to the line that ends it."""

    def __init__(self, end: str, make: Callable[[str, bool, bool], Command]) -> None:
        self.end = end
        self._make = make
        self._pieces: list[str] = []
        self._size = 0
        self._cut = False

    def take(self, text: str) -> None:
        room = MAX_BODY - self._size
        self._cut = self._cut or len(text) > room
        if room > 0:
            self._pieces.append(text[:room])
            self._size += len(text)

    def made(self, *, truncated: bool) -> Command:
        body = "".join(self._pieces)
        if not truncated and not self._cut:
            # The last line break belongs to the line that ends the block.
            body = body.removesuffix("\n").removesuffix("\r")
        return self._make(body, truncated, self._cut)


class SlashParser:
    """Finds the commands of one text."""

    def __init__(self) -> None:
        self._line: list[str] = []
        self._length = 0
        #: The marker that closes the code fence that is open.
        self._fence = ""
        self._block: _Block | None = None

    def feed(self, text: str) -> Iterator[Command]:
        """The commands that this piece of text completes."""
        start = 0
        while True:
            end = text.find("\n", start)
            if end < 0:
                self._keep(text[start:])
                return
            self._keep(text[start : end + 1])
            yield from self._end_of_line()
            start = end + 1

    def finish(self) -> Iterator[Command]:
        """What is still open when the text has ended."""
        if self._length:
            yield from self._end_of_line()
        if self._block is not None:
            yield self._block.made(truncated=True)
            self._block = None

    def _keep(self, text: str) -> None:
        """Part of a line: kept while it may yet be a command, or the end of a block."""
        if not text:
            return
        self._length += len(text)
        if self._length <= MAX_LINE:
            self._line.append(text)
        elif self._block is not None:
            self._pass_on()
            self._block.take(text)
        else:
            self._line = []

    def _pass_on(self) -> None:
        if self._block is not None and self._line:
            self._block.take("".join(self._line))
        self._line = []

    def _end_of_line(self) -> Iterator[Command]:
        whole = self._length <= MAX_LINE
        line = "".join(self._line).rstrip(" \t\r\n") if whole else ""
        if self._block is not None:
            if whole and line == self._block.end:
                yield self._block.made(truncated=False)
                self._block = None
            else:
                self._pass_on()
        elif whole and not self._fenced(line):
            yield from self._command(line)
        self._line, self._length = [], 0

    def _fenced(self, line: str) -> bool:
        """Whether the line is part of a code fence, its first and last line included."""
        found = _FENCE.match(line)
        if self._fence:
            closes = found is not None and not found[2].strip() and found[1][0] == self._fence[0]
            if closes and found is not None and len(found[1]) >= len(self._fence):
                self._fence = ""
            return True
        if found is None or (found[1][0] == "`" and "`" in found[2]):
            return False
        self._fence = found[1]
        return True

    def _command(self, line: str) -> Iterator[Command]:
        if not line.startswith("/"):
            return
        if found := _WRITE.match(line):
            self._block = _Block("/endwrite", _written(found[2], found[1] is not None))
        elif found := _MEM_ADD.match(line):
            self._block = _Block("/endmem", _entered(found[1], found[2]))
        elif found := _MEM_ENTRY.match(line):
            yield ShowEntry(found[1])
        elif found := _READ.match(line):
            yield Read(found[1] or "")
        elif _LIST.match(line):
            yield List()


def _written(path: str, persist: bool) -> Callable[[str, bool, bool], Command]:
    return lambda body, truncated, cut: Write(path, body, persist, truncated, cut)


def _entered(type_: str, rest: str) -> Callable[[str, bool, bool], Command]:
    return lambda body, truncated, cut: AddEntry(type_, rest, body, truncated, cut)
