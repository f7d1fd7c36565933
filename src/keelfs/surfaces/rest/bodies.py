"""The models of every body and query: what a client sends and gets, and nothing else.

Times are RFC 3339 in UTC. What a client sends may have no fields that are not here, because a
misspelled field would otherwise be ignored in silence.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated, Final, Generic, TypeVar
from uuid import UUID

from msgspec import UNSET, Meta, Struct, UnsetType

from keelfs.grant import Role

T = TypeVar("T")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

#: PostgreSQL keeps no NUL in a text.
_TEXT: Final = r"^[^\x00]*$"
Name = Annotated[str, Meta(min_length=1, max_length=255, pattern=_TEXT)]
Short = Annotated[str, Meta(max_length=1024, pattern=_TEXT)]
Long = Annotated[str, Meta(max_length=1_000_000, pattern=_TEXT)]
Tags = Annotated[tuple[Short, ...], Meta(max_length=100)]
Limit = Annotated[int, Meta(ge=1, le=10_000)]


def time_of(ns: int) -> datetime:
    return _EPOCH + timedelta(microseconds=ns // 1000)


class Sent(Struct, forbid_unknown_fields=True, kw_only=True):
    """What a client sends."""


class Listing(Struct, Generic[T]):
    """A list, and where it goes on."""

    data: list[T]
    next: str | UnsetType = UNSET


class PageQuery(Struct, kw_only=True):
    """Which page of a list."""

    limit: Limit = 100
    after: Short = ""


# -- agents and sessions


class NewAgent(Sent):
    name: Name
    description: Long | None = None
    system_prompt: Long = ""
    default_model_id: Short | None = None
    tags: Tags = ()
    capabilities: Tags = ()


class AgentBody(Struct):
    id: str
    name: str
    description: str | None
    system_prompt: str
    default_model_id: str | None
    tags: tuple[str, ...]
    capabilities: tuple[str, ...]
    status: str
    created_at: datetime
    updated_at: datetime


class NewSession(Sent):
    title: Short | None = None
    tags: Tags = ()
    model_id: Short | None = None
    #: Whose session it is; a user's is the user's own, whatever is said here.
    user: Name | None = None


class NewFork(NewSession):
    #: The name of a snapshot to begin with, instead of the present tree.
    snapshot: Short | None = None


class SessionBody(Struct):
    id: str
    agent_id: str
    title: str | None
    tags: tuple[str, ...]
    model_id: str | None
    status: str
    user: str | None
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None


# -- tokens


class NewToken(Sent):
    role: Role
    #: A user's name; an operator's, if it should not be "operator". Agents are named by `agent_id`.
    name: Name | None = None
    user: Name | None = None
    agent_id: Short | None = None
    session_id: Short | None = None
    paths: Annotated[tuple[Short, ...], Meta(max_length=100)] | None = None
    verbs: frozenset[str] | None = None
    expires_in_s: Annotated[int, Meta(ge=1, le=10 * 366 * 86_400)] | None = None
    label: Short = ""


class TokenBody(Struct):
    id: str
    tenant: str
    role: str
    name: str
    user: str | None
    agent_id: str | None
    session_id: str | None
    paths: list[str] | None
    verbs: list[str] | None
    expires_at: datetime | None
    label: str
    created_at: datetime
    #: The token itself; only the answer that makes it has this.
    token: str | UnsetType = UNSET


class Redeemed(Struct):
    token: str


# -- the session filesystem


class FileInfo(Struct):
    id: UUID
    session_id: str
    path: str
    name: str
    is_directory: bool
    is_readonly: bool
    size_bytes: int
    created_at: datetime
    updated_at: datetime


class SessionFile(Struct):
    id: UUID
    session_id: str
    path: str
    name: str
    #: Left out where there is none: of a directory, and of a file made without any.
    content: str | UnsetType
    encoding: str
    is_directory: bool
    is_readonly: bool
    size_bytes: int
    created_at: datetime
    updated_at: datetime


class FileStat(Struct):
    path: str
    name: str
    is_directory: bool
    is_readonly: bool
    size_bytes: int
    created_at: datetime
    updated_at: datetime


class NewFile(Sent):
    content: str | None = None
    encoding: str | None = None
    is_directory: bool | None = None
    is_readonly: bool | None = None


class FileUpdate(Sent):
    content: str | None = None
    encoding: str | None = None
    is_readonly: bool | None = None


class PathBody(Sent):
    path: str


class TwoPaths(Sent):
    src_path: str
    dst_path: str


class GrepBody(Sent):
    pattern: str
    path_pattern: str | None = None


class GrepLine(Struct):
    path: str
    line_number: int
    line: str


class GrepFile(Struct):
    path: str
    matches: list[GrepLine]


class GrepAnswer(Struct):
    data: list[GrepFile]
    #: True where more lines match than one answer may hold.
    truncated: bool | UnsetType = UNSET


class Deleted(Struct):
    deleted: bool


class ReadQuery(Struct, kw_only=True):
    recursive: bool = False
    limit: Limit | None = None
    after: str = ""
    revision: Annotated[int, Meta(ge=1)] | None = None


class DeleteQuery(Struct, kw_only=True):
    recursive: bool = False
