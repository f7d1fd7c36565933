"""Finding files by name and by content: walks over whatever performs operations.

Links are not followed, neither in the tree nor at the end of a path, except by the directory that
is searched. Entries that vanish while a walk is under way are passed over. Memory is bounded by
pages and blocks. Names that begin with a dot are found like others; who wants to hide them filters.

Answers are relative to the directory that is searched. Workspaces call.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from importlib import import_module
from typing import Any, Final

from keelfs import ops
from keelfs.errors import InvalidArgument, InvalidPattern, Missing, WrongKind
from keelfs.glob import GlobPattern
from keelfs.model import Entry, Kind, Match, Stat
from keelfs.path import ROOT, VPath
from keelfs.ports import Handler
from keelfs.reading import BLOCK, read_blocks

__all__ = ["GlobPattern", "glob", "grep", "walk"]

Found = tuple[tuple[str, ...], Stat]

#: Entries that a walk keeps at hand; beyond, outer directories are listed again later.
_MAX_WAITING: Final = 10_000
#: A NUL among the first bytes is how every grep tells that a file is not text.
_BINARY_PROBE: Final = 8192
_MAX_PATTERN: Final = 65_536
#: What RE2 may use for one compiled pattern; a larger program is refused.
_PATTERN_MEMORY: Final = 8 * 2**20
#: Constructs by which a pattern tells the lines of a block from a line on its own.
_NEEDS_LINES: Final = re.compile(r"\\[AzC]|\(\?[A-Za-z]*-")


class _Level:
    """One directory under way: the entries at hand, and where to list on."""

    __slots__ = ("after", "more", "parts", "waiting")

    def __init__(self, parts: tuple[str, ...]) -> None:
        self.parts = parts
        self.waiting: list[Entry] = []
        self.after: str | None = None
        self.more = True

    def forget(self) -> int:
        """Lets go of the entries at hand; they are listed again when their turn comes."""
        forgotten = len(self.waiting)
        if forgotten:
            self.waiting, self.more = [], True
        return forgotten

    def next(self, handler: Handler, path: VPath, page: int) -> Entry | None:
        if not self.waiting and self.more:
            answer = handler.perform(ops.List(VPath(path.parts + self.parts), self.after, page))
            self.waiting = answer.items[::-1]
            self.more = answer.next is not None
        if not self.waiting:
            return None
        entry = self.waiting.pop()
        self.after = entry.name
        return entry


def walk(
    handler: Handler, path: VPath = ROOT, *, page: int = 1000, after: tuple[str, ...] = ()
) -> Iterator[Found]:
    """Everything below `path`: a directory before what it holds, names by their bytes.

    With `after` it goes on behind the entry of these names, also if that is gone by now.
    """
    return _walk(handler, path, lambda _: True, page, after)


def _walk(
    handler: Handler,
    path: VPath,
    enters: Callable[[tuple[str, ...]], bool],
    page: int = 1000,
    start: tuple[str, ...] = (),
) -> Iterator[Found]:
    levels = [_Level(start[:depth]) for depth in range(len(start) + 1)]
    for level, name in zip(levels, start, strict=False):
        level.after = name
    while levels:
        level = levels[-1]
        try:
            entry = level.next(handler, path, page)
        except (Missing, WrongKind):
            if len(levels) == 1 and (level.after is None or start):
                raise
            entry = None
        if entry is None:
            levels.pop()
            continue
        parts = (*level.parts, entry.name)
        yield parts, entry.stat
        if entry.stat.kind is Kind.DIRECTORY and enters(parts):
            levels.append(_Level(parts))
            waiting = sum(len(each.waiting) for each in levels)
            for outer in levels:
                if waiting <= _MAX_WAITING:
                    break
                waiting -= outer.forget()


def glob(handler: Handler, pattern: str | GlobPattern, path: VPath = ROOT) -> Iterator[Found]:
    """What matches the pattern, in the order of a walk."""
    compiled = pattern if isinstance(pattern, GlobPattern) else GlobPattern(pattern)
    return _glob(handler, compiled, path)


def _glob(handler: Handler, pattern: GlobPattern, path: VPath) -> Iterator[Found]:
    prefix = pattern.literal_prefix
    for depth in range(1, len(prefix) + 1):
        try:
            stat = handler.perform(ops.GetStat(VPath(path.parts + prefix[:depth]), follow=False))
        except (Missing, WrongKind):
            return
        if stat.kind is not Kind.DIRECTORY:
            return

    def enters(parts: tuple[str, ...]) -> bool:
        return pattern.may_match_below(prefix + parts)

    try:
        for parts, stat in _walk(handler, VPath(path.parts + prefix), enters):
            if pattern.matches(prefix + parts):
                yield prefix + parts, stat
    except (Missing, WrongKind):
        if not prefix:
            raise


def grep(
    handler: Handler,
    pattern: str,
    path: VPath = ROOT,
    glob: str | GlobPattern | None = None,
    *,
    fixed: bool = False,
    case_sensitive: bool = True,
    limit: int | None = None,
    max_line_bytes: int = 2**20,
) -> Iterator[Match]:
    """The lines in which an RE2 pattern (or, with `fixed`, a text) is found, in order.

    A line ends before its newline and is judged on its own: no pattern sees two of them. Bytes
    that are not UTF-8 read as U+FFFD. Files with a NUL near their beginning are passed over.
    Of a longer line only the first `max_line_bytes` are searched and shown, and marked as cut.
    """
    if max_line_bytes < 1 or (limit is not None and limit < 0):
        raise InvalidArgument("a limit of a search is a positive number")
    finder = _Finder(pattern, fixed, case_sensitive)
    compiled = GlobPattern(glob) if isinstance(glob, str) else glob
    found = _grep(handler, finder, path, compiled, max_line_bytes)
    return found if limit is None else (each for _, each in zip(range(limit), found, strict=False))


def _grep(
    handler: Handler, finder: _Finder, path: VPath, glob: GlobPattern | None, longest: int
) -> Iterator[Match]:
    for parts, stat in _files(handler, path, glob):
        try:
            _, blocks = read_blocks(
                handler, VPath(path.parts + parts), stat.size, min(BLOCK, longest)
            )
            for number, line, cut in _found_lines(finder, blocks, longest):
                yield Match(parts, number, line, cut)
        except (Missing, WrongKind):
            continue


def _files(handler: Handler, path: VPath, glob: GlobPattern | None) -> Iterator[Found]:
    stat = handler.perform(ops.GetStat(path))
    if stat.kind is not Kind.DIRECTORY:
        if stat.kind is Kind.FILE and (glob is None or glob.matches((path.name,))):
            yield (), stat
        return
    for found in walk(handler, path) if glob is None else _glob(handler, glob, path):
        if found[1].kind is Kind.FILE:
            yield found


class _Finder:
    """A pattern, ready to find the lines it matches in a block of whole lines.

    The block is searched as a whole, which is many times faster than line by line. That finds the
    same lines, because in `(?m)` the ends of a line are ends of text and `never_nl` lets nothing
    match a newline. Patterns that could tell the difference are run on each line.
    """

    def __init__(self, pattern: str, fixed: bool, case_sensitive: bool) -> None:
        self._impossible = fixed and "\n" in pattern
        self._by_line = not fixed and _NEEDS_LINES.search(pattern) is not None
        self._search = _compiled(pattern, fixed, case_sensitive, self._by_line).search

    def hits(self, block: bytes) -> Iterator[tuple[int, int]]:
        """Where the lines that match begin and end, newline excluded."""
        if self._impossible:
            return
        for at in self._hits_by_line(block) if self._by_line else self._hits_in_block(block):
            yield block.rfind(b"\n", 0, at) + 1, _line_end(block, at)

    def _hits_in_block(self, block: bytes) -> Iterator[int]:
        start = 0
        while start < len(block):
            hit = self._search(block, start)
            # What is found after the last newline is no line any more.
            if hit is None or (hit.start() == len(block) and block.endswith(b"\n")):
                return
            yield hit.start()
            start = _line_end(block, hit.start()) + 1

    def _hits_by_line(self, block: bytes) -> Iterator[int]:
        start = 0
        while start < len(block):
            end = _line_end(block, start)
            if self._search(block[start:end]):
                yield start
            start = end + 1


def _line_end(block: bytes, at: int) -> int:
    end = block.find(b"\n", at)
    return len(block) if end < 0 else end


@lru_cache(maxsize=64)
def _compiled(pattern: str, fixed: bool, case_sensitive: bool, by_line: bool) -> Any:
    """An RE2 program; the library is loaded by the first search, not by the package."""
    re2: Any = import_module("re2")
    options = re2.Options()
    options.max_mem = _PATTERN_MEMORY
    options.log_errors = False
    options.literal = fixed
    options.case_sensitive = case_sensitive
    try:
        encoded = pattern.encode()
    except UnicodeEncodeError:
        raise InvalidPattern("the pattern is not valid UTF-8") from None
    if len(encoded) > _MAX_PATTERN:
        raise InvalidPattern(f"a pattern may have {_MAX_PATTERN} bytes")
    try:
        program = re2.compile(encoded, options)
        if not fixed and not by_line:
            options.never_nl = True
            program = re2.compile(b"(?m)" + encoded, options)
    except re2.error as error:
        reason = b"".join(each for each in error.args if isinstance(each, bytes))
        text = reason.decode("utf-8", "replace")
        raise InvalidPattern(f"the pattern cannot be compiled: {text}") from None
    return program


def _found_lines(
    finder: _Finder, blocks: Iterator[bytes], longest: int
) -> Iterator[tuple[int, str, bool]]:
    """Number, text and whether it is cut, of each line that matches."""
    number = 1
    for lines, cut in _whole_lines(blocks, longest):
        text = lines
        if not lines.isascii():
            text = lines.decode("utf-8", "replace").encode()
        counted = 0
        for start, stop in finder.hits(text):
            number += text.count(b"\n", counted, start)
            counted = start
            yield number, text[start:stop].decode(), cut
        number += text.count(b"\n", counted)


def _whole_lines(blocks: Iterator[bytes], longest: int) -> Iterator[tuple[bytes, bool]]:
    """Runs of whole lines, each line no longer than `longest`, or else one line that is cut.

    Blocks must not be longer than `longest`, so that only the first line of a run can be.
    """
    carried, skipping, first = b"", False, True
    for block in blocks:
        if first and b"\0" in block[:_BINARY_PROBE]:
            return
        first = False
        if skipping:
            end = block.find(b"\n")
            if end < 0:
                continue
            block, skipping = block[end + 1 :], False
        end = block.find(b"\n")
        data = carried + block
        carried_size, carried = len(carried), b""
        if (len(data) if end < 0 else carried_size + end) > longest:
            yield _cut(data, longest) + b"\n", True
            skipping = end < 0
            data = b"" if skipping else data[carried_size + end + 1 :]
        last = data.rfind(b"\n") + 1
        if last:
            yield data[:last], False
        carried = data[last:]
    if carried:
        yield carried, False


def _cut(data: bytes, size: int) -> bytes:
    """The first bytes, less what would be part of a character."""
    whole = size
    while whole > max(0, size - 3) and data[whole] & 0xC0 == 0x80:
        whole -= 1
    return data[:whole]
