"""Frozen values about artifacts and memory: what is kept of a conversation, and what refers to it.

They cross rooms like those of `keelfs.model`, and do nothing.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from keelfs.errors import InvalidArgument

TYPES: Final = ("user", "feedback", "project", "reference", "learning", "context")
MAX_TITLE: Final = 200
MAX_CONTENT_BYTES: Final = 64 * 1024
MAX_SOURCE: Final = 200
MAX_TAGS: Final = 32
MAX_TAG: Final = 64


class Artifact(Struct, frozen=True, kw_only=True):
    """A file that a conversation keeps."""

    #: Of its tenant, and never given to another one.
    id: int
    conversation: str
    path: str
    size: int
    #: What its writer says it is; nobody has looked.
    mime: str
    #: Hexadecimal; None while nobody has asked since the last append or patch.
    sha256: str | None
    created_ns: int
    updated_ns: int


class Room(Struct, frozen=True, kw_only=True):
    """How much a conversation and its tenant keep, trash included, and how much they may."""

    conversation_used_bytes: int
    tenant_used_bytes: int
    conversation_limit_bytes: int | None
    tenant_limit_bytes: int | None


class Put(Struct, frozen=True, kw_only=True):
    """An artifact that was made, or got new bytes."""

    artifact: Artifact
    created: bool
    room: Room


class MemoryEntry(Struct, frozen=True, kw_only=True):
    """Something worth remembering in every conversation of a tenant."""

    id: int
    type: str
    title: str
    content: str
    source: str = ""
    tags: tuple[str, ...] = ()
    #: The artifact it links to, while that is there.
    artifact: Artifact | None = None
    #: The one that it linked to, once that is gone.
    expired_artifact: int | None = None
    conversation: str | None = None
    author: str = ""
    created_ns: int = 0
    updated_ns: int = 0


class Citation(Struct, frozen=True, kw_only=True):
    """An attempt to read an artifact of another conversation."""

    id: str
    at_ns: int
    author: str
    conversation: str
    artifact: int
    entry: int | None
    #: "granted", or why not.
    outcome: str


def checked_entry(type_: str, title: str, content: str, source: str, tags: tuple[str, ...]) -> None:
    """Refuses what no entry of memory may hold."""
    if type_ not in TYPES:
        raise InvalidArgument(f"the type of a memory entry is one of {', '.join(TYPES)}")
    _text("title", title, 1, MAX_TITLE)
    _text("source", source, 0, MAX_SOURCE)
    _text("content", content, 0, MAX_CONTENT_BYTES)
    if len(content.encode()) > MAX_CONTENT_BYTES:
        raise InvalidArgument(
            f"the content of a memory entry has at most {MAX_CONTENT_BYTES} bytes"
        )
    if len(tags) > MAX_TAGS:
        raise InvalidArgument(f"a memory entry has at most {MAX_TAGS} tags")
    for tag in tags:
        _text("tag", tag, 1, MAX_TAG)


def _text(what: str, value: str, least: int, most: int) -> None:
    if not isinstance(value, str) or not least <= len(value) <= most:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidArgument(f"the {what} of a memory entry has {least} to {most} characters")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise InvalidArgument(f"the {what} of a memory entry is not valid UTF-8") from None
    if "\0" in value:
        raise InvalidArgument(f"the {what} of a memory entry holds no NUL")


def checked_mime(mime: str) -> str:
    """A declared type that can stand in a header of HTTP."""
    printable = all(" " <= each <= "~" for each in mime)
    if not printable or "/" not in mime or len(mime) > 127:
        raise InvalidArgument("a MIME type is printable ASCII with a slash, of 127 letters at most")
    return mime
