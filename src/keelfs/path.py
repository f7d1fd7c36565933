"""Where text becomes a path.

A `VPath` is a tuple of checked names below some root. It is parsed once, at the door; below the
door components are compared, never strings, and nothing else in the package knows what "/" and
".." mean. The dialect here is the POSIX one: `.` and repeated slashes vanish, `..` is resolved
lexically and stops at the root, NUL and names that are not UTF-8 are refused.

Stricter dialects (a surface that forbids dotfiles, say) check a `VPath` further; none is looser.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import count
from typing import Final

from keelfs.errors import InvalidPath, NameTooLong

#: What ext4, XFS and every POSIX suite expect of one name, in UTF-8 bytes.
MAX_NAME_BYTES: Final = 255
#: PATH_MAX of Linux, in UTF-8 bytes, counted on the path as it was written.
MAX_PATH_BYTES: Final = 4096


class VPath:
    """An absolute path inside one tree: a tuple of names, the root being the empty tuple."""

    __slots__ = ("_hash", "parts")

    parts: tuple[str, ...]

    def __init__(self, parts: tuple[str, ...] = ()) -> None:
        """Trusts its caller: text from outside goes through `parse` or `child`."""
        object.__setattr__(self, "parts", parts)
        object.__setattr__(self, "_hash", hash(parts))

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("a path does not change")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, VPath) and self.parts == other.parts

    def __hash__(self) -> int:
        return int(self._hash)  # type: ignore[attr-defined]

    def __str__(self) -> str:
        return "/" + "/".join(self.parts)

    def __repr__(self) -> str:
        return f"VPath({str(self)!r})"

    def __reduce__(self) -> tuple[type[VPath], tuple[tuple[str, ...]]]:
        return (VPath, (self.parts,))

    @property
    def name(self) -> str:
        """The last name, or "" for the root."""
        return self.parts[-1] if self.parts else ""

    @property
    def parent(self) -> VPath:
        """The directory that holds this path; the root holds itself."""
        return VPath(self.parts[:-1])

    @property
    def is_root(self) -> bool:
        return not self.parts

    def child(self, name: str) -> VPath:
        """The path of an entry below this one; `name` is checked."""
        check_name(name)
        return VPath((*self.parts, name))

    def names_beside(self) -> Iterator[str]:
        """The last name, then those that a copy beside it may take: `name (1).ext` and so on."""
        yield self.name
        stem, dot, ending = self.name.rpartition(".")
        if not stem:
            stem, dot, ending = self.name, "", ""
        for number in count(1):
            tail = f" ({number}){dot}{ending}"
            room = MAX_NAME_BYTES - len(tail.encode())
            if room < 1:
                return
            yield stem.encode()[:room].decode("utf-8", "ignore") + tail

    def join(self, other: VPath) -> VPath:
        """`other`, seen from this directory."""
        return VPath(self.parts + other.parts)

    def is_within(self, other: VPath) -> bool:
        """Whether this path is `other` or lies below it, by component."""
        return self.parts[: len(other.parts)] == other.parts

    def below(self, other: VPath) -> VPath:
        """This path as seen from `other`, which must contain it."""
        if not self.is_within(other):
            raise InvalidPath("the path does not lie below the given directory")
        return VPath(self.parts[len(other.parts) :])


ROOT: Final = VPath()


def check_name(name: str) -> None:
    """Refuses what can never be the name of an entry."""
    if name in {"", ".", ".."} or "/" in name or "\0" in name:
        raise InvalidPath(f"{name!r} cannot be the name of an entry")
    _check_encoding(name)


def _check_encoding(name: str) -> None:
    try:
        size = len(name) if name.isascii() else len(name.encode())
    except UnicodeEncodeError:
        raise InvalidPath("the name is not valid UTF-8") from None
    if size > MAX_NAME_BYTES:
        raise NameTooLong(f"a name may have {MAX_NAME_BYTES} bytes of UTF-8, this one has {size}")


@lru_cache(maxsize=8192)
def _parse(text: str) -> VPath:
    if "\0" in text:
        raise InvalidPath("a path cannot contain a NUL character")
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise InvalidPath("the path is not valid UTF-8") from None
    if size > MAX_PATH_BYTES:
        raise NameTooLong(f"a path may have {MAX_PATH_BYTES} bytes of UTF-8, this one has {size}")
    return VPath(normal_parts((), text.split("/")))


def normal_parts(base: tuple[str, ...], names: Iterable[str]) -> tuple[str, ...]:
    """`names` followed from `base`; `.` and `..` are resolved lexically and stop at the root."""
    parts = list(base)
    for name in names:
        if name in {"", "."}:
            continue
        if name == "..":
            if parts:
                parts.pop()
            continue
        _check_encoding(name)
        parts.append(name)
    return tuple(parts)


def parse(text: str | VPath) -> VPath:
    """Text from outside, as a path; the leading slash may be missing."""
    if isinstance(text, VPath):
        return text
    if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidPath(f"a path is text, not {type(text).__name__}")
    return _parse(text)


def sort_key(name: str) -> bytes:
    """The order of names everywhere: their UTF-8 bytes, as both databases compare them."""
    return name.encode()
