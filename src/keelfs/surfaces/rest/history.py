"""What a file was, what became of a session's tree, and the way back."""

from __future__ import annotations

from msgspec import UNSET

from keelfs.identity import Context
from keelfs.model import Change, Revision
from keelfs.path import VPath
from keelfs.surfaces.rest.answer import Answer, json
from keelfs.surfaces.rest.bodies import Listing, time_of
from keelfs.surfaces.rest.conditions import expected
from keelfs.surfaces.rest.dialect import place, unreserved
from keelfs.surfaces.rest.more_bodies import ChangeBody, RevisionBody, Undone
from keelfs.surfaces.rest.raw import GUARDS, written
from keelfs.surfaces.rest.reach import changing, files_of, url_place
from keelfs.surfaces.rest.request import Request


def history(context: Context, request: Request) -> Answer:
    """The kept revisions of a file, newest first."""
    query = request.query
    kept = files_of(context, request).history(url_place(request), query.before, query.limit)
    more = len(kept) == query.limit and kept[-1].revision > 1
    page = [_revision(each) for each in kept]
    return json(Listing(page, str(kept[-1].revision) if more else UNSET))


def restore(context: Context, request: Request) -> Answer:
    """Makes a kept revision the newest one."""
    path, space = unreserved(place(request.body.path)), changing(context, request)
    expect = expected(request, space, path)
    stat = space.restore(path, request.body.revision, expect, key=request.key)
    return written(stat, path, 200)


def diff(context: Context, request: Request) -> Answer:
    """A unified diff between two revisions of a text file."""
    query = request.query
    text = files_of(context, request).diff(
        url_place(request), query.from_, query.to, context=query.context
    )
    headers = [*GUARDS, (b"content-type", b"text/x-diff; charset=utf-8")]
    return Answer(200, headers, text.encode())


def changes(context: Context, request: Request) -> Answer:
    """One page of the journal; `next` is where to go on, at its end too."""
    query = request.query
    page = files_of(context, request).changes(place(query.path), query.after, query.limit)
    base = place(query.path)
    found = [change_body(each, base) for each in page.items]
    return json(Listing(found, page.next or str(query.after)))


def undo(context: Context, request: Request) -> Answer:
    """Reverses one change of the journal by new ones."""
    made = files_of(context, request).undo(request.body.seq, key=request.key)
    return json(Undone(list(made)))


def change_body(change: Change, base: VPath) -> ChangeBody:
    def spelled(names: tuple[str, ...] | None) -> str | None:
        return None if names is None else str(VPath(base.parts + names))

    return ChangeBody(
        change.seq, change.batch, change.kind.value, spelled(change.path), spelled(change.to),
        change.node.value, change.revision, change.by, time_of(change.at_ns),
    )  # fmt: skip


def _revision(kept: Revision) -> RevisionBody:
    return RevisionBody(kept.revision, kept.size, time_of(kept.at_ns), kept.by, kept.sha256)
