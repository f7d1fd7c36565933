"""What can come back: the trash of a session, and its snapshots."""

from __future__ import annotations

from msgspec import UNSET

from keelfs.identity import Context
from keelfs.model import Snapshot, Trashed
from keelfs.path import VPath
from keelfs.surfaces.rest.answer import Answer, json
from keelfs.surfaces.rest.bodies import Deleted, Listing, time_of
from keelfs.surfaces.rest.conditions import expected
from keelfs.surfaces.rest.dialect import creatable, place
from keelfs.surfaces.rest.more_bodies import SnapshotBody, TrashedBody
from keelfs.surfaces.rest.raw import written
from keelfs.surfaces.rest.reach import changing, files_of
from keelfs.surfaces.rest.request import Request


def trash(context: Context, request: Request) -> Answer:
    """Takes a file or a directory out of the tree; it can come back until it expires."""
    path, space = place(request.body.path), files_of(context, request)
    item = space.trash(path, expected(request, space, path), key=request.key)
    return json(_trashed(item))


def list_trash(context: Context, request: Request) -> Answer:
    """What lies in the trash, oldest first."""
    query = request.query
    page = files_of(context, request).trashed(query.after or None, query.limit)
    return json(Listing([_trashed(item) for item in page.items], page.next or UNSET))


def untrash(context: Context, request: Request) -> Answer:
    """Puts a thing out of the trash back where it was, or at `to`."""
    body, space = request.body, changing(context, request)
    to = None if body.to is None else creatable(place(body.to))
    stat = space.untrash(body.id, to, key=request.key)
    return written(stat, to, 200)


def purge(context: Context, request: Request) -> Answer:
    """Removes a thing in the trash for good."""
    files_of(context, request).purge(request.params["item"], key=request.key)
    return json(Deleted(True))


def snapshot(context: Context, request: Request) -> Answer:
    """Keeps the present tree under a name; it costs rows, not bytes."""
    made = files_of(context, request).snapshot(request.body.name, key=request.key)
    return json(_snapshot(made), 201)


def list_snapshots(context: Context, request: Request) -> Answer:
    """The snapshots of a session, oldest first."""
    return json(Listing([_snapshot(each) for each in files_of(context, request).snapshots()]))


def drop_snapshot(context: Context, request: Request) -> Answer:
    """Forgets a snapshot."""
    files_of(context, request).drop_snapshot(request.params["name"], key=request.key)
    return json(Deleted(True))


def rollback(context: Context, request: Request) -> Answer:
    """Makes the tree what a snapshot holds; the answer keeps what was there before."""
    made = files_of(context, request).rollback(request.body.name, key=request.key)
    return json(_snapshot(made))


def _trashed(item: Trashed) -> TrashedBody:
    return TrashedBody(
        item.id, str(VPath(item.path)), item.kind.value, item.bytes, item.by, time_of(item.at_ns),
        time_of(item.expires_ns),
    )  # fmt: skip


def _snapshot(kept: Snapshot) -> SnapshotBody:
    return SnapshotBody(kept.name, time_of(kept.at_ns), kept.by, kept.bytes, kept.nodes)
