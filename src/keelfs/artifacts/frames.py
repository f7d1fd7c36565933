"""How results are shown to a model: in frames that no text inside can imitate.

A frame is a line that names the command, what came of it, and a line that ends it. A line of
somebody else's text that could be taken for either gets a backslash before it; one that begins with
backslashes before such a line gets one more, so that what stood there can be told.
"""

from __future__ import annotations

import re
from typing import Final

END_OF_TURN: Final = "[END TOOL RESULTS]"

#: What ends a line for any reader, not only for those who know "\n" alone.
_BREAK: Final = "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"
_FRAME_LIKE: Final = re.compile(
    rf"(^|[{_BREAK}])([ \t\u00a0\ufeff]*\\*)(?=\[[ \t]*(?:/|END\b))", re.I
)
_ONE_LINE: Final = re.compile(rf"[\x00-\x1f\x7f-\x9f{_BREAK}]")


def framed(command: str, lines: str, end: str) -> str:
    """One result: `[/command]`, the lines, `[END ...]`, and an empty line."""
    body = lines if not lines or lines.endswith("\n") else f"{lines}\n"
    return f"[{one_line(command)}]\n{body}[END {end}]\n\n"


def inert(text: str) -> str:
    """Text from a file or a memory entry, in which no line looks like a frame."""
    return _FRAME_LIKE.sub(r"\1\2\\", text)


def one_line(text: str) -> str:
    """Text that was part of a command's line, without anything that could end the line."""
    return _ONE_LINE.sub(lambda found: found[0].encode("unicode_escape").decode(), text)
