"""What conversations keep: artifacts by number, as JSON and as bytes."""

from __future__ import annotations

import hashlib
from typing import Any

from msgspec import UNSET

from keelfs.errors import InvalidArgument, InvalidPath
from keelfs.filing import Artifact, checked_mime
from keelfs.identity import Context
from keelfs.model import Page
from keelfs.surfaces.rest.answer import Answer, json
from keelfs.surfaces.rest.bodies import Deleted
from keelfs.surfaces.rest.keeping_bodies import (
    ArtifactBody,
    ArtifactPut,
    ConversationArtifacts,
    NewArtifact,
    TenantArtifacts,
)
from keelfs.surfaces.rest.raw import GUARDS
from keelfs.surfaces.rest.request import Request


def put_artifact(context: Context, request: Request) -> Answer:
    """Keeps a file of a conversation: a new one, or new bytes under the number it has."""
    body: NewArtifact = request.body
    kept = context.conversation(request.params["session"], "write")
    try:
        put = kept.put(body.path, body.content, mime=body.mime_type)
    except InvalidPath as error:
        raise InvalidPath(f"invalid path: {error.message}") from None
    answer = ArtifactPut(
        body_of(context, put.artifact), put.room.tenant_used_bytes,
        put.room.conversation_used_bytes, put.created,
    )  # fmt: skip
    return json(answer, 201 if put.created else 200)


def list_artifacts(context: Context, request: Request) -> Answer:
    """What a conversation keeps, what changed last first."""
    session = request.params["session"]
    kept = context.conversation(session, "list")
    page, room = kept.list(cursor=request.query.after, limit=request.query.limit), kept.usage()
    bodies = _bodies(context, page)
    return json(
        ConversationArtifacts(
            session, len(bodies), bodies, room.conversation_used_bytes, room.tenant_used_bytes,
            page.next or UNSET,
        )
    )  # fmt: skip


def show_artifact(context: Context, request: Request) -> Answer:
    """What is known of one artifact of a conversation."""
    return json(body_of(context, _own(context, request, "stat")))


def download_artifact(context: Context, request: Request) -> Answer:
    """The bytes of an artifact of a conversation."""
    found = _own(context, request, "read")
    return _sent(request, *context.conversation(found.conversation, "read").fetch(found.id))


def delete_artifact(context: Context, request: Request) -> Answer:
    """Removes an artifact of a conversation; links to it expire."""
    kept = context.conversation(request.params["session"], "remove")
    kept.delete(number(request))
    return json(Deleted(True))


def list_all_artifacts(context: Context, request: Request) -> Answer:
    """What all conversations keep that the token reaches, what changed last first."""
    kept = context.all_kept("list")
    page = kept.page(request.query.after, request.query.limit)
    bodies = _bodies(context, page)
    answer = TenantArtifacts(context.tenant, len(bodies), bodies, kept.used(), page.next or UNSET)
    return json(answer)


def show_any_artifact(context: Context, request: Request) -> Answer:
    """What is known of one artifact."""
    return json(body_of(context, context.all_kept("stat").get(number(request))))


def download_any_artifact(context: Context, request: Request) -> Answer:
    """The bytes of an artifact."""
    return _sent(request, *context.all_kept("read").fetch(number(request)))


def delete_any_artifact(context: Context, request: Request) -> Answer:
    """Removes an artifact; links to it expire."""
    context.all_kept("remove").delete(number(request))
    return json(Deleted(True))


def number(request: Request, name: str = "artifact") -> int:
    """The positive integer in the address."""
    text = request.params[name]
    if not (text.isascii() and text.isdigit() and len(text) < 19 and int(text)):
        raise InvalidArgument(f"bad {name} id")
    return int(text)


def _own(context: Context, request: Request, verb: str) -> Artifact:
    """An artifact of the conversation in the address, and of no other."""
    return context.conversation(request.params["session"], verb).find(number(request))


def body_of(context: Context, found: Artifact) -> ArtifactBody:
    return ArtifactBody(
        found.id, context.tenant, found.conversation, found.path, found.sha256, found.mime,
        found.size, found.created_ns // 10**9, found.updated_ns // 10**9,
    )  # fmt: skip


def _bodies(context: Context, page: Page[Artifact]) -> list[ArtifactBody]:
    return [body_of(context, each) for each in page.items]


def _sent(request: Request, found: Artifact, data: bytes) -> Answer:
    """Bytes that a browser saves and never runs, whatever their declared type."""
    tag = f'"{hashlib.sha256(data).hexdigest()}"'
    given = request.header(b"if-none-match")
    tags = [each.strip().removeprefix("W/") for each in (given or "").split(",")]
    if tag in tags or tags == ["*"]:
        return Answer(304, [(b"etag", tag.encode())])
    headers: list[Any] = [
        (b"etag", tag.encode()),
        *(each for each in GUARDS if each[0] != b"accept-ranges"),
        (b"content-type", _mime(found).encode()),
        (b"content-disposition", b"attachment"),
    ]
    return Answer(200, headers, data)


def _mime(found: Artifact) -> str:
    try:
        return checked_mime(found.mime)
    except InvalidArgument:
        return "application/octet-stream"
