"""The session filesystem: reading, creating, updating and deleting by path."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from msgspec import UNSET

from keelfs import ops, search
from keelfs.door import Pinned
from keelfs.errors import IsADirectory, NotADirectory, NotFound, TooLarge
from keelfs.identity import Context
from keelfs.model import ABSENT, Stat
from keelfs.path import VPath
from keelfs.surfaces.rest import raw
from keelfs.surfaces.rest.answer import Answer, Later, json
from keelfs.surfaces.rest.bodies import (
    Deleted,
    FileInfo,
    FileUpdate,
    Listing,
    NewFile,
    ReadQuery,
    SessionFile,
    time_of,
)
from keelfs.surfaces.rest.conditions import expected, is_known, tag_of
from keelfs.surfaces.rest.dialect import creatable, unreserved
from keelfs.surfaces.rest.encoding import decoded, encoded
from keelfs.surfaces.rest.reach import changing, files_of, url_place
from keelfs.surfaces.rest.request import Request
from keelfs.workspace import Workspace

#: Files up to this size travel inside JSON; larger ones are read and written as they are.
JSON_BYTES: Final = 10 * 2**20
#: Answered on the event loop where the store reads locally.
BRISK_BYTES: Final = 64 * 1024
#: What one listing shows where nobody asks for pages.
WHOLE: Final = 10_000


# -- reading


def read(context: Context, request: Request) -> Answer | Later:
    """A file or the entries of a directory."""
    path, space = url_place(request), files_of(context, request)
    try:
        content = space.pin(path, request.query.revision)
    except IsADirectory:
        return Later(lambda: _listed(space, path, request))
    if request.accepts("application/octet-stream"):
        return raw.download(content, path, request)
    if content.stat.size > BRISK_BYTES:
        return Later(lambda: _read_file(content, path, request))
    return _read_file(content, path, request)


def _read_file(content: Pinned, path: VPath, request: Request) -> Answer:
    tag = tag_of(content.stat, "j")
    if is_known(request, content.stat):
        return Answer(304, [tag])
    return json(_file(content, path, request.params["session"]), 200, tag)


def _file(content: Pinned, path: VPath, session: str) -> SessionFile:
    stat = content.stat
    if stat.size > JSON_BYTES:
        raise TooLarge(
            "the file is too large for JSON; read it with Accept: application/octet-stream",
            limit="request.json_bytes",
            size=JSON_BYTES,
            used=stat.size,
        )
    return file_body(stat, path, session, content.read(0, stat.size))


def file_body(stat: Stat, path: VPath, session: str, data: bytes | None) -> SessionFile:
    """A file with its content, or what is known of it without."""
    content, encoding = (UNSET, "text") if data is None else encoded(data)
    return SessionFile(
        stat.uuid, session, str(path), path.name or "/", content, encoding, stat.is_directory,
        stat.readonly, stat.size if stat.is_file else 0, time_of(stat.created_ns),
        time_of(stat.mtime_ns),
    )  # fmt: skip


def current(space: Workspace, path: VPath, stat: Stat, session: str) -> SessionFile:
    """What lies at a path now, with its content if that fits into JSON."""
    if not stat.is_file or stat.size > JSON_BYTES:
        return file_body(stat, path, session, None)
    content = space.pin(path)
    return file_body(content.stat, path, session, content.read(0, JSON_BYTES))


# -- listing


def _listed(space: Workspace, path: VPath, request: Request) -> Answer:
    query: ReadQuery = request.query
    limit = query.limit or WHOLE
    found = _below(space, path, query.after) if query.recursive else _in(space, path, query.after)
    page: list[tuple[tuple[str, ...], Stat]] = []
    more = False
    for parts, stat in found:
        more = len(page) == limit
        if more:
            break
        page.append((parts, stat))
    after = "/".join(page[-1][0]) if more else UNSET
    if not query.recursive:
        page.sort(key=lambda each: not each[1].is_directory)
    session = request.params["session"]
    return json(Listing([_info(path, parts, stat, session) for parts, stat in page], after))


def _in(space: Workspace, path: VPath, after: str) -> Iterable[tuple[tuple[str, ...], Stat]]:
    start: str | None = after or None
    while True:
        page = space.list(path, start, 1000)
        for entry in page.items:
            yield (entry.name,), entry.stat
        start = page.next
        if start is None:
            return


def _below(space: Workspace, path: VPath, after: str) -> Iterable[tuple[tuple[str, ...], Stat]]:
    return search.walk(space.handler, path, after=tuple(after.split("/")) if after else ())


def _info(base: VPath, parts: tuple[str, ...], stat: Stat, session: str) -> FileInfo:
    return FileInfo(
        stat.uuid, session, str(VPath(base.parts + parts)), parts[-1], stat.is_directory,
        stat.readonly, stat.size if stat.is_file else 0, time_of(stat.created_ns),
        time_of(stat.mtime_ns),
    )  # fmt: skip


# -- changing


def create(context: Context, request: Request) -> Answer:
    """A new file, or a directory, with all directories above it."""
    path, space, body = creatable(url_place(request)), changing(context, request), request.body
    session = request.params["session"]
    if not isinstance(body, NewFile):
        return raw.create(space, path, request)
    if body.is_directory:
        stat = space.mkdir(path, parents=True, exist_ok=True, key=request.key)
        return json(file_body(stat, path, session, None), 201)
    data = decoded(body.content or "", body.encoding or "text")
    work: list[ops.Op[Any]] = [ops.Write(path, data, ABSENT)]
    stat = space.batch(_attributes(work, path, body.is_readonly), key=request.key)[-1]
    shown = None if body.content is None else data
    return json(file_body(stat, path, session, shown), 201, tag_of(stat, "j"))


def update(context: Context, request: Request) -> Answer:
    """New content for a file that exists, or another readonly flag."""
    path, space, body = unreserved(url_place(request)), changing(context, request), request.body
    if not isinstance(body, FileUpdate):
        return raw.update(space, path, request)
    # Reading nothing refuses what is not there, and what is no file, in the same transaction.
    work: list[ops.Op[Any]] = [ops.Read(path, 0, 0), ops.GetStat(path)]
    if body.is_readonly is False:
        work.append(ops.SetAttrs(path, raw.writable))
    if body.content is not None:
        data = decoded(body.content, body.encoding or "text")
        work.append(ops.Write(path, data, expected(request, space, path), parents=False))
    stat = space.batch(_attributes(work, path, body.is_readonly), key=request.key)[-1]
    answer = current(space, path, stat, request.params["session"])
    return json(answer, 200, tag_of(stat, "j"))


def _attributes(work: list[ops.Op[Any]], path: VPath, readonly: bool | None) -> list[ops.Op[Any]]:
    return [*work, ops.SetAttrs(path, raw.readonly)] if readonly else work


def delete(context: Context, request: Request) -> Answer:
    """Deletes a file or an empty directory; with `recursive`, all it holds."""
    path, space = url_place(request), files_of(context, request)
    try:
        expect = expected(request, space, path)
        space.remove(path, request.query.recursive, expect, key=request.key)
    except (NotFound, NotADirectory):
        return json(Deleted(False))
    return json(Deleted(True))
