"""The paths of the session filesystem: stricter than the tree's own.

A path is absolute and plain: no `.`, no `..`, no empty name, no NUL. Names beginning with `_` at
the top of a tree are the server's own: nothing is made or changed there, on any way in, because
`_/stat` and its like live there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from keelfs import ops
from keelfs.errors import InvalidPath
from keelfs.gates.policy import Policy
from keelfs.ops import Op
from keelfs.path import VPath, parse
from keelfs.ports import Handler

RESERVED: Final = "Paths starting with '_' are reserved for system actions"
AT_ROOT: Final = "Cannot create at root path, specify a path"

#: Which field of an operation names the place where something comes into being or changes.
_MADE_AT: Final[Mapping[type[Op[Any]], str]] = {
    ops.Write: "path", ops.Append: "path", ops.Patch: "path", ops.Truncate: "path",
    ops.Mkdir: "path", ops.Mknod: "path", ops.Symlink: "path", ops.SetAttrs: "path",
    ops.Restore: "path", ops.Move: "to", ops.Copy: "to", ops.Link: "to", ops.Untrash: "to",
}  # fmt: skip


def place(text: str) -> VPath:
    """A path out of a body or a query."""
    if not text.startswith("/"):
        raise InvalidPath("Path must start with '/'")
    names = [] if text == "/" else text[1:].split("/")
    if len(names) > 1 and names[-1] == "":
        # One slash at the end means the same entry.
        names.pop()
    for name in names:
        if name == "":
            raise InvalidPath("Path cannot contain '//'")
        if name in {".", ".."}:
            raise InvalidPath(f"Path cannot contain '{name}' segments")
    if "\0" in text:
        raise InvalidPath("Path cannot contain null bytes")
    return parse(text)


def place_of_url(tail: str) -> VPath:
    """A path out of a URL, where the first slash belongs to the URL."""
    return place("/" + tail)


def creatable(path: VPath) -> VPath:
    """A place where something may be made."""
    if path.is_root:
        raise InvalidPath(AT_ROOT)
    return unreserved(path)


def unreserved(path: VPath) -> VPath:
    if path.parts and path.parts[0].startswith("_"):
        raise InvalidPath(RESERVED)
    return path


def keeping_reserved(handler: Handler) -> Handler:
    """A gate that refuses to make or change anything under a reserved name."""
    return Policy(handler, _refuse_reserved)


def _refuse_reserved(op: Op[Any]) -> None:
    field = _MADE_AT.get(type(op))
    given = None if field is None else getattr(op, field)
    if given is not None:
        unreserved(parse(given))
