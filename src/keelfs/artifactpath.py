"""The paths of artifacts: relative, without hidden names, safe to save on any system.

Every way in uses this one function, whoever calls: REST, slash commands, and whatever writes below
`/artifacts` in an agent's tree. Two spellings of one place have one canonical form; that form is
what an artifact is known by.
"""

from __future__ import annotations

from typing import Final

from keelfs.errors import InvalidPath
from keelfs.path import VPath

#: Counted in bytes, on the path as it was written.
MAX_BYTES: Final = 256
MAX_COMPONENT_BYTES: Final = 128

_RESERVED: Final = frozenset(
    ["con", "prn", "aux", "nul"]
    + [f"{device}{number}" for device in ("com", "lpt") for number in range(1, 10)]
)


def artifact_path(text: str) -> VPath:
    """The canonical path, from the root of a conversation's artifacts.

    Backslashes are separators, repeated separators are one, and one at the end is none.
    """
    if not text:
        raise InvalidPath("empty path")
    if _size(text) > MAX_BYTES:
        raise InvalidPath(f"path > {MAX_BYTES} chars")
    slashed = text.replace("\\", "/")
    if slashed.startswith("/"):
        raise InvalidPath("absolute paths not allowed")
    parts = tuple(part for part in slashed.split("/") if part)
    for part in parts:
        check_component(part)
    if parts[0].startswith("#"):
        raise InvalidPath("a path cannot begin with '#', which addresses an artifact by its id")
    return VPath(parts)


def check_component(part: str) -> None:
    """Refuses a name that no artifact, and no directory of artifacts, may have."""
    if _size(part) > MAX_COMPONENT_BYTES:
        raise InvalidPath(f"path component '{part[:16]}...' > {MAX_COMPONENT_BYTES} chars")
    if part in {".", ".."}:
        raise InvalidPath(f"traversal component '{part}' not allowed")
    if part.startswith("."):
        raise InvalidPath(f"hidden / dotfile components not allowed: '{part}'")
    for character in part:
        _check_character(character)
    if part.partition(".")[0].lower() in _RESERVED:
        raise InvalidPath(f"'{part}' is a Windows-reserved name")
    if part[-1] in " .":
        # Windows drops these, so that two artifacts would become one file.
        raise InvalidPath("a path component cannot end with a space or a dot")


def _check_character(character: str) -> None:
    if character == "\0":
        raise InvalidPath("null byte in path")
    if character < " " or character == "\x7f":
        raise InvalidPath("control character in path")
    if character == ":":
        raise InvalidPath("':' not allowed in path components (Windows alt-stream)")


def _size(text: str) -> int:
    try:
        return len(text.encode())
    except UnicodeEncodeError:
        raise InvalidPath("the path is not valid UTF-8") from None
