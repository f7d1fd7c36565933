"""Entity tags, and what a request expects by naming them.

A tag is made from a file's identity and its revision, so that no two states share one and a file
that was removed and made anew has another. In front of the revision race there is only a look: the
write itself carries what was seen, and is refused if that is no longer so.
"""

from __future__ import annotations

import re
from typing import Final

from keelfs.errors import Conflict, Missing
from keelfs.model import ABSENT, ANY, Expect, Kind, Stat
from keelfs.path import VPath
from keelfs.surfaces.rest.answer import Header
from keelfs.surfaces.rest.request import HttpRefusal, Request
from keelfs.workspace import Workspace

_TAG: Final = re.compile(r'(W/)?"([0-9a-f]{32})-([0-9]{1,18})(j[0-9a-f]*)?"')


def tag_of(stat: Stat, form: str = "") -> Header:
    """The `ETag`. As JSON a file has another one than as bytes, because attributes show in it."""
    suffix = f"j{stat.ctime_ns:x}" if form else ""
    return b"etag", f'"{stat.id.hex()}-{stat.revision}{suffix}"'.encode()


def is_known(request: Request, stat: Stat, form: str = "j") -> bool:
    """Whether `If-None-Match` of a reading request names what is there."""
    given = request.header(b"if-none-match")
    if given is None:
        return False
    return given.strip() == "*" or tag_of(stat, form)[1].decode() in given


def expected(request: Request, space: Workspace, path: VPath) -> Expect:
    """What the conditions of a changing request expect; raises `Conflict` if it is not so."""
    match, none_match = request.header(b"if-match"), request.header(b"if-none-match")
    if match is None and none_match is None:
        return ANY
    if match is None and none_match is not None and none_match.strip() == "*":
        return ABSENT
    if match is not None and (only := _TAG.fullmatch(match.strip())) and not only[1]:
        # Nothing is looked at, so that a repeat under the same key is the same request.
        return _pinned(only)
    stat = _present(space, path)
    if match is not None:
        return _matched(match, stat)
    if stat is not None and any(_is(stat, tag) for tag in _tags(none_match or "")):
        raise Conflict("the file is what it should not be", actual=stat.revision)
    return ABSENT if stat is None else stat


def _matched(given: str, stat: Stat | None) -> Stat:
    if stat is None:
        raise Conflict("there is nothing here", expected=given, actual=None)
    if given.strip() == "*" or any(_is(stat, tag) for tag in _tags(given)):
        return stat
    raise Conflict("the file is not what was expected", expected=given, actual=stat.revision)


def _pinned(tag: re.Match[str]) -> Stat:
    """As much of a file as its tag says, which is all that an expectation asks for."""
    return Stat(kind=Kind.FILE, id=bytes.fromhex(tag[2]), size=0, revision=int(tag[3]), mode=0)


def _present(space: Workspace, path: VPath) -> Stat | None:
    try:
        return space.stat(path)
    except Missing:
        return None


def _tags(given: str) -> list[re.Match[str]]:
    tags = [_TAG.fullmatch(each.strip()) for each in given.split(",")]
    if not all(tag is not None or each.strip().startswith(('"', 'W/"'))
               for tag, each in zip(tags, given.split(","), strict=True)):  # fmt: skip
        raise HttpRefusal(400, 'entity tags are written in quotes: "..."')
    return [tag for tag in tags if tag is not None and not tag[1]]


def _is(stat: Stat, tag: re.Match[str]) -> bool:
    return stat.id.hex() == tag[2] and stat.revision == int(tag[3])
