"""Files as they are: bytes that stream in both directions, ranges, and safe headers.

Nothing here knows how large a file is: what is read is pinned and sent block by block, what arrives
is handed on as it arrives. A browser that opens a file may neither guess its type nor run anything
in it.
"""

from __future__ import annotations

import mimetypes
import re
from typing import Any, Final
from urllib.parse import quote

from keelfs import ops
from keelfs.door import Pinned
from keelfs.identity import Context
from keelfs.model import ABSENT, Attrs, Data, Stat
from keelfs.path import VPath
from keelfs.surfaces.rest.answer import Answer, Header, json
from keelfs.surfaces.rest.conditions import expected, is_known, tag_of
from keelfs.surfaces.rest.dialect import creatable, unreserved
from keelfs.surfaces.rest.encoding import decoded
from keelfs.surfaces.rest.more_bodies import FilePatch, Written
from keelfs.surfaces.rest.reach import changing, files_of, url_place
from keelfs.surfaces.rest.request import HttpRefusal, Request
from keelfs.workspace import Workspace

BLOCK: Final = 256 * 1024
#: Sent in one piece, without asking for blocks.
AT_ONCE: Final = 64 * 1024

readonly: Final = Attrs(readonly=True)
writable: Final = Attrs(readonly=False)

#: What a browser may show by itself. Everything else is saved, because it might be a program.
_SHOWN: Final = frozenset({
    "text/plain", "text/markdown", "text/csv", "application/json", "image/png", "image/jpeg",
    "image/gif", "image/webp", "image/avif",
})  # fmt: skip
_SHOWN_FAMILIES: Final = ("audio/", "video/")
_RANGE: Final = re.compile(r"bytes=\s*([0-9]{0,18})-([0-9]{0,18})\s*")
_MIME: Final = re.compile(r"[a-z0-9][a-z0-9!#$&^_.+-]{0,126}/[a-z0-9][a-z0-9!#$&^_.+-]{0,126}")
#: Headers of every answer that carries what somebody has stored.
GUARDS: Final[list[Header]] = [
    (b"content-security-policy", b"sandbox; default-src 'none'"),
    (b"cache-control", b"private, no-cache"),
    (b"accept-ranges", b"bytes"),
    (b"vary", b"accept, authorization"),
]


# -- out


def raw(context: Context, request: Request) -> Answer:
    """The bytes of a file, or the range of them that is asked for."""
    path = url_place(request)
    content = files_of(context, request).pin(path, request.query.revision)
    return download(content, path, request)


def download(content: Pinned, path: VPath, request: Request) -> Answer:
    stat = content.stat
    tag = tag_of(stat)
    if is_known(request, stat, ""):
        return Answer(304, [tag])
    headers = [tag, *GUARDS, *_naming(stat, path.name)]
    wanted = _range(request, stat, tag[1])
    if wanted is None:
        return _sent(content, 200, headers, 0, stat.size)
    first, last = wanted
    place = f"bytes {first}-{last}/{stat.size}".encode()
    headers.append((b"content-range", place))
    return _sent(content, 206, headers, first, last - first + 1)


def _sent(content: Pinned, status: int, headers: list[Header], offset: int, length: int) -> Answer:
    if length <= AT_ONCE:
        return Answer(status, headers, content.read(offset, length) if length else b"")
    end = offset + length
    blocks = (content.read(at, min(BLOCK, end - at)) for at in range(offset, end, BLOCK))
    return Answer(status, headers, blocks=blocks, size=length)


def _range(request: Request, stat: Stat, tag: bytes) -> tuple[int, int] | None:
    """First and last byte; None for all of them, also where the header means nothing to us."""
    given = request.header(b"range")
    found = None if given is None else _RANGE.fullmatch(given)
    condition = request.header(b"if-range")
    if found is None or (condition is not None and condition.encode() != tag):
        return None
    begin, end = found.groups()
    if begin:
        first, last = int(begin), min(int(end), stat.size - 1) if end else stat.size - 1
        if end and int(end) < first:
            return None
    elif end:
        first, last = max(0, stat.size - int(end)), stat.size - 1
    else:
        return None
    if first > last or first >= stat.size:
        raise HttpRefusal(
            416, "the file has no such bytes",
            ((b"content-range", f"bytes */{stat.size}".encode()),),
        )  # fmt: skip
    return first, last


def _naming(stat: Stat, name: str) -> list[Header]:
    kind = _kind(stat, name)
    shown = kind in _SHOWN or kind.startswith(_SHOWN_FAMILIES)
    plain = "".join(
        char if char.isascii() and char.isprintable() and char not in '"\\%;' else "_"
        for char in name
    )
    disposition = (
        f'{"inline" if shown else "attachment"}; filename="{plain or "file"}"; '
        f"filename*=UTF-8''{quote(name, safe='')}"
    )
    charset = "; charset=utf-8" if kind.startswith("text/") else ""
    return [
        (b"content-type", (kind + charset).encode()),
        (b"content-disposition", disposition.encode()),
    ]


def _kind(stat: Stat, name: str) -> str:
    kind = (stat.mime or mimetypes.guess_type(name)[0] or "").partition(";")[0].strip().lower()
    return kind if _MIME.fullmatch(kind) else "application/octet-stream"


# -- in


def create(space: Workspace, path: VPath, request: Request) -> Answer:
    """A new file out of the bytes of the body."""
    stat = space.write(path, request.source, ABSENT, key=request.key)
    return written(stat, path, 201)


def update(space: Workspace, path: VPath, request: Request) -> Answer:
    """New bytes for a file that exists."""
    if not space.lexists(path):
        # Said before the bytes are taken in; the batch says it again if the file goes meanwhile.
        space.stat(path)
    expect = expected(request, space, path)
    data: Any = request.source
    work = (ops.Read(path, 0, 0), ops.Write(path, data, expect, parents=False))
    return written(_done(space, request, *work), path, 200)


def put_raw(context: Context, request: Request) -> Answer:
    """The bytes of the body as a file, new or not, with all directories above it."""
    path, space = creatable(url_place(request)), changing(context, request)
    expect = expected(request, space, path)
    kind = (request.header(b"content-type") or "").partition(";")[0].strip().lower()
    mime = kind if _MIME.fullmatch(kind) and kind != "application/octet-stream" else None
    stat = space.write(path, request.source, expect, mime=mime, key=request.key)
    return written(stat, path, 201 if stat.revision == 1 else 200)


def patch(context: Context, request: Request) -> Answer:
    """Bytes put over those from `offset` on, or at the end."""
    path, space, body = unreserved(url_place(request)), changing(context, request), request.body
    at: Any = request.query.offset
    data: Data | str | Any = request.source
    if isinstance(body, FilePatch):
        data, at = decoded(body.content, body.encoding or "text"), body.offset
    expect = expected(request, space, path)
    if at == "end":
        work = (ops.Read(path, 0, 0), ops.Append(path, data, expect, parents=False))
        return written(_done(space, request, *work), path, 200)
    if at is None:
        raise HttpRefusal(400, "say where the bytes belong: offset=0, or offset=end")
    return written(space.patch(path, int(at), data, expect, key=request.key), path, 200)


def _done(space: Workspace, request: Request, *work: ops.Op[Any]) -> Stat:
    """The answer of the last of some operations, done all or none."""
    stat: Stat = space.batch(work, key=request.key)[-1]
    return stat


def written(stat: Stat, path: VPath | None, status: int) -> Answer:
    """What is there now; without a path where only the store knows it."""
    body = Written(None if path is None else str(path), stat.size, stat.revision, stat.sha256)
    return json(body, status, tag_of(stat))
