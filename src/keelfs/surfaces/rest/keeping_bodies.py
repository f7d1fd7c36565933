"""The models of artifacts, memory entries and commands, as their document has them.

Times are whole seconds since 1970.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from keelfs.surfaces.rest.bodies import Sent, Short
from keelfs.surfaces.rest.more_bodies import Natural

Type = Literal["user", "feedback", "project", "reference", "learning", "context"]
Title = Annotated[str, Meta(min_length=1, max_length=200)]
Page = Annotated[int, Meta(ge=1, le=200)]


class NewArtifact(Sent):
    path: str
    #: Kept as it is written; bytes that are no text are the sender's to encode.
    content: str
    mime_type: str | None = None


class ArtifactBody(Struct):
    id: int
    tenant_id: str
    conversation_id: str
    path: str
    #: None while nobody has asked since the last append or patch.
    sha256: str | None
    mime_type: str
    size: int
    created_at: int
    updated_at: int


class ArtifactPut(Struct):
    artifact: ArtifactBody
    tenant_used_bytes: int
    conversation_used_bytes: int
    created: bool


class ArtifactsQuery(Struct, kw_only=True):
    limit: Page = 200
    #: The `next` of the page before.
    after: Short | None = None


class ConversationArtifacts(Struct):
    conversation_id: str
    count: int
    artifacts: list[ArtifactBody]
    bytes_used: int
    tenant_bytes_used: int
    next: str | UnsetType = UNSET


class TenantArtifacts(Struct):
    tenant_id: str
    count: int
    artifacts: list[ArtifactBody]
    bytes_used: int
    next: str | UnsetType = UNSET


class NewEntry(Sent):
    type: Type
    title: Title
    content: str = ""
    source: str = ""
    tags: tuple[str, ...] = ()
    artifact_id: int | None = None
    conversation_id: str | None = None


class EntryChange(Sent):
    type: Type | UnsetType = UNSET
    title: Title | UnsetType = UNSET
    content: str | UnsetType = UNSET
    source: str | UnsetType = UNSET
    tags: tuple[str, ...] | UnsetType = UNSET
    #: None clears the link.
    artifact_id: int | UnsetType | None = UNSET


class EntriesQuery(Struct, kw_only=True):
    type: Type | None = None
    tag: Short = ""
    #: Text in title, content or tags, whatever its case.
    q: Short = ""
    #: Seconds: what was valid then, and what has changed since.
    as_of: Natural | None = None
    since: Natural = 0
    limit: Page = 200
    after: Short | None = None


class EntryBody(Struct):
    id: int
    type: str
    title: str
    content: str
    source: str
    tags: tuple[str, ...]
    artifact_id: int | None
    #: The artifact that it linked to, once that is gone.
    expired_artifact_id: int | None
    conversation_id: str | None
    author: str
    created_at: int
    updated_at: int
    #: Told of a single entry.
    artifact: ArtifactBody | UnsetType | None = UNSET


class Entries(Struct):
    count: int
    entries: list[EntryBody]
    next: str | UnsetType = UNSET


class Invalidated(Struct):
    invalidated: bool
    id: int


class CommandsBody(Sent):
    #: What a model has written.
    text: str
    stream_id: Short = ""
    depth: Natural = 0
