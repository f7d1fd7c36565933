"""Memory entries, and the slash commands in what a model has written."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import UNSET

from keelfs.artifacts import Conversation
from keelfs.filing import MemoryEntry
from keelfs.identity import Context
from keelfs.model import Principal
from keelfs.surfaces.rest.answer import Answer, json
from keelfs.surfaces.rest.artifacts import body_of, number
from keelfs.surfaces.rest.bodies import Deleted
from keelfs.surfaces.rest.events import HEADERS
from keelfs.surfaces.rest.keeping_bodies import (
    CommandsBody,
    Entries,
    EntryBody,
    EntryChange,
    Invalidated,
    NewEntry,
)
from keelfs.surfaces.rest.request import Request


def add_entry(context: Context, request: Request) -> Answer:
    """A new memory entry; it may link to an artifact that the sender can read."""
    body: NewEntry = request.body
    made = context.memory(body.conversation_id, "write").add(
        body.type, body.title, body.content, source=body.source, tags=body.tags,
        artifact=body.artifact_id,
    )  # fmt: skip
    return json(_one(context, made), 201)


def list_entries(context: Context, request: Request) -> Answer:
    """The valid memory entries of the tenant, the newest first."""
    query = request.query
    page = context.memory(None, "list").list(
        type_=query.type or "", tag=query.tag, q=query.q,
        as_of_ns=None if query.as_of is None else _end_of(query.as_of),
        since_ns=min(query.since * 10**9, 2**63 - 1), cursor=query.after, limit=query.limit,
    )  # fmt: skip
    entries = [_entry(each) for each in page.items]
    return json(Entries(len(entries), entries, page.next or UNSET))


def show_entry(context: Context, request: Request) -> Answer:
    """One memory entry, with the artifact it links to."""
    return json(_one(context, context.memory(None, "read").get(number(request, "entry"))))


def change_entry(context: Context, request: Request) -> Answer:
    """Sets some fields of a memory entry; `artifact_id: null` clears the link."""
    body: EntryChange = request.body
    made = context.memory(None, "write").update(
        number(request, "entry"), type_=body.type, title=body.title, content=body.content,
        source=body.source, tags=body.tags, artifact=body.artifact_id,
    )  # fmt: skip
    return json(_one(context, made))


def delete_entry(context: Context, request: Request) -> Answer:
    """Removes a memory entry; it grants nothing any more."""
    context.memory(None, "remove").delete(number(request, "entry"))
    return json(Deleted(True))


def invalidate_entry(context: Context, request: Request) -> Answer:
    """Hides a memory entry from everybody; it is kept, and grants nothing."""
    id_ = number(request, "entry")
    context.memory(None, "write").invalidate(id_)
    return json(Invalidated(True, id_))


def run_commands(context: Context, request: Request) -> Answer:
    """Carries out the slash commands of a text: events `file` and `result`, and `done`."""
    body: CommandsBody = request.body
    session = request.params["session"]
    context.conversation(session, "write")
    kept = context.conversation(session, "read")
    agent = context.agent_of(session)
    who = Principal("agent", agent)
    talk = Conversation(
        kept.acting_as(who), context.memory(session, "write").acting_as(who), agent,
        stream_id=body.stream_id, depth=body.depth,
    )  # fmt: skip
    return Answer(200, HEADERS, blocks=_told(talk, body.text), slow=True)


def _told(talk: Conversation, text: str) -> Iterator[bytes]:
    for each in talk.stream([text]):
        if isinstance(each, str):
            yield _event("result", {"text": each})
        else:
            yield _event("file", each)
    yield _event("done", {})


def _event(name: str, body: Any) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (name.encode(), msgspec.json.encode(body))


def _end_of(second: int) -> int:
    return min(second * 10**9 + 10**9 - 1, 2**63 - 1)


def _entry(found: MemoryEntry) -> EntryBody:
    return EntryBody(
        found.id, found.type, found.title, found.content, found.source, found.tags,
        None if found.artifact is None else found.artifact.id, found.expired_artifact,
        found.conversation, found.author, found.created_ns // 10**9, found.updated_ns // 10**9,
    )  # fmt: skip


def _one(context: Context, found: MemoryEntry) -> EntryBody:
    body = _entry(found)
    body.artifact = None if found.artifact is None else body_of(context, found.artifact)
    return body
