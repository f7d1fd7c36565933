"""The difference of two contents as text, in bounded time.

The longest common subsequence of lines is computed exactly, bit-parallel, for all that people
write; contents that are larger are first split at lines that occur once in both. Either way the
same contents give the same text. Workspaces call.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from difflib import Match, SequenceMatcher
from typing import Final

from keelfs.errors import InvalidArgument, TooLarge

MAX_BYTES: Final = 16 * 2**20
MAX_LINES: Final = 100_000
#: A table of one bit for each pair of lines: 16 MiB.
_MAX_PAIRS: Final = 2**27
#: A NUL among the first bytes is how every diff tells that a content is not text.
_BINARY_PROBE: Final = 8192

Span = tuple[int, int, int, int]


def unified(
    before: bytes | None,
    after: bytes | None,
    before_name: str,
    after_name: str,
    context: int = 3,
) -> str:
    """What leads from one content to the other; "" if they are equal. None is no file at all.

    Lines end at newlines; bytes that are not UTF-8 are shown as `\\xff`.
    """
    if context < 0:
        raise InvalidArgument("the lines of context cannot be fewer than none")
    if before == after:
        return ""
    header = f"--- {_shown(before, before_name)}\n+++ {_shown(after, after_name)}\n"
    old, new = before or b"", after or b""
    if max(len(old), len(new)) > MAX_BYTES:
        raise TooLarge(f"contents of more than {MAX_BYTES} bytes are not compared as text")
    if b"\0" in old[:_BINARY_PROBE] or b"\0" in new[:_BINARY_PROBE]:
        return header + "Binary contents differ\n"
    old_lines, new_lines = _lines(old), _lines(new)
    if max(len(old_lines), len(new_lines)) > MAX_LINES:
        raise TooLarge(f"contents of more than {MAX_LINES} lines are not compared as text")
    return header + "".join(_hunks(old_lines, new_lines, context))


def _shown(content: bytes | None, name: str) -> str:
    """The name in a header, where it must stay on its line."""
    if content is None:
        return "/dev/null"
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in name)


def _lines(content: bytes) -> list[bytes]:
    lines = content.split(b"\n")
    last = lines.pop()
    return [line + b"\n" for line in lines] + ([last] if last else [])


def _hunks(old: list[bytes], new: list[bytes], context: int) -> Iterator[str]:
    for group in _Aligned(old, new).get_grouped_opcodes(context):
        yield f"@@ -{_range(group[0][1], group[-1][2])} +{_range(group[0][3], group[-1][4])} @@\n"
        for tag, old_start, old_stop, new_start, new_stop in group:
            if tag == "equal":
                yield from (_line(" ", line) for line in old[old_start:old_stop])
                continue
            yield from (_line("-", line) for line in old[old_start:old_stop])
            yield from (_line("+", line) for line in new[new_start:new_stop])


def _range(start: int, stop: int) -> str:
    """Lines are counted from 1, and an empty range names the line before it."""
    length = stop - start
    if length == 1:
        return str(start + 1)
    return f"{start + (length > 0)},{length}"


def _line(sign: str, line: bytes) -> str:
    text = line.decode("utf-8", "backslashreplace")
    return (
        f"{sign}{text}" if line.endswith(b"\n") else f"{sign}{text}\n\\ No newline at end of file\n"
    )


class _Aligned(SequenceMatcher[bytes]):
    """Groups our alignment into hunks; its own would take quadratic time on hostile input."""

    def __init__(self, old: list[bytes], new: list[bytes]) -> None:
        super().__init__(None, (), (), autojunk=False)
        self.a, self.b = old, new
        self._blocks = list(_merged(aligned(old, new), len(old), len(new)))

    def get_matching_blocks(self) -> list[Match]:
        return self._blocks


def _merged(pairs: Iterator[tuple[int, int]], old: int, new: int) -> Iterator[Match]:
    """Runs of pairs, and the empty run at the end that closes them."""
    start = size = 0
    other = 0
    for left, right in pairs:
        if size and left == start + size and right == other + size:
            size += 1
            continue
        if size:
            yield Match(start, other, size)
        start, other, size = left, right, 1
    if size:
        yield Match(start, other, size)
    yield Match(old, new, 0)


def aligned(old: Sequence[bytes], new: Sequence[bytes]) -> Iterator[tuple[int, int]]:
    """Which lines are the same, as pairs of places, both increasing."""
    numbers: dict[bytes, int] = {}
    left = [numbers.setdefault(line, len(numbers)) for line in old]
    right = [numbers.setdefault(line, len(numbers)) for line in new]
    waiting: list[tuple[Span, bool]] = [((0, len(left), 0, len(right)), False)]
    while waiting:
        (start, stop, other, end), same = waiting.pop()
        if same:
            yield from zip(range(start, stop), range(other, end), strict=True)
            continue
        head = _common(left, right, start, stop, other, end, 1)
        yield from zip(range(start, start + head), range(other, other + head), strict=True)
        start, other = start + head, other + head
        tail = _common(left, right, start, stop, other, end, -1)
        if tail:
            waiting.append(((stop - tail, stop, end - tail, end), True))
        span = start, stop - tail, other, end - tail
        if (span[1] - start) * (span[3] - other) <= _MAX_PAIRS:
            yield from _longest(left, right, span)
        else:
            waiting.extend((each, False) for each in reversed(_split(left, right, span)))


def _common(
    left: list[int], right: list[int], start: int, stop: int, other: int, end: int, step: int
) -> int:
    """How many lines are the same from the beginning, or with step -1 from the end."""
    most, count = min(stop - start, end - other), 0
    if step < 0:
        start, other = stop - 1, end - 1
    while count < most and left[start + count * step] == right[other + count * step]:
        count += 1
    return count


def _longest(left: list[int], right: list[int], span: Span) -> Iterator[tuple[int, int]]:
    """A longest common subsequence.

    Row `i` of the table is an integer: its bit `j` is cleared where the subsequence of the first
    `i` lines on the right grows with line `j` on the left (Hyyrö 2004).
    """
    start, stop, other, end = span
    width = stop - start
    if not width or other == end:
        return
    # Only lines of both sides, so that the masks take no more memory than the table.
    places = dict.fromkeys(right[other:end], 0)
    for at, line in enumerate(left[start:stop]):
        if line in places:
            places[line] |= 1 << at
    every = (1 << width) - 1
    row, rows = every, list[int]()
    for line in right[other:end]:
        met = row & places[line]
        row = ((row + met) | (row - met)) & every
        rows.append(row)
    pairs: list[tuple[int, int]] = []
    at, height = width, len(rows)
    while at and height:
        if rows[height - 1] >> (at - 1) & 1:
            at -= 1
            continue
        height -= 1
        if not height or rows[height - 1] >> (at - 1) & 1:
            at -= 1
            pairs.append((start + at, other + height))
    yield from reversed(pairs)


def _split(left: list[int], right: list[int], span: Span) -> list[Span]:
    """The spans between lines that occur once on both sides and keep their order.

    Where there is no such line, the answer is nothing: all of it is shown as replaced.
    """
    start, stop, other, end = span
    ours, theirs = Counter(left[start:stop]), Counter(right[other:end])
    where = {line: at for at, line in enumerate(right[other:end], other) if theirs[line] == 1}
    unique = [
        (at, where[line])
        for at, line in enumerate(left[start:stop], start)
        if ours[line] == 1 and line in where
    ]
    spans: list[Span] = []
    for at, there in _increasing(unique):
        spans.append((start, at, other, there))
        start, other = at, there
    return [*spans, (start, stop, other, end)] if spans else []


def _increasing(pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """A longest run of pairs whose second places increase; the first ones do already."""
    tops: list[int] = []
    piles: list[int] = []
    before: list[int] = []
    for index, (_, there) in enumerate(pairs):
        pile = bisect_left(tops, there)
        before.append(piles[pile - 1] if pile else -1)
        if pile == len(piles):
            tops.append(there)
            piles.append(index)
        else:
            tops[pile], piles[pile] = there, index
    chosen: list[tuple[int, int]] = []
    index = piles[-1] if piles else -1
    while index >= 0:
        chosen.append(pairs[index])
        index = before[index]
    return chosen[::-1]
