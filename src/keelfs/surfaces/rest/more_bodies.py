"""The models beyond the document of the session filesystem, in its style."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

import msgspec
from msgspec import Meta, Struct, field

from keelfs.model import Limits
from keelfs.surfaces.rest.bodies import Limit, Sent, Short

Natural = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Positive = Annotated[int, Meta(ge=1, le=2**63 - 1)]


class FilePatch(Sent):
    content: str
    #: A number of bytes from the beginning, or "end".
    offset: Annotated[int, Meta(ge=0)] | Literal["end"]
    encoding: str | None = None


class PatchQuery(Struct, kw_only=True):
    offset: Annotated[str, Meta(pattern="^([0-9]{1,18}|end)$")] | None = None


class Written(Struct):
    """What is there after bytes were taken in."""

    #: None where it was put back to where it had been.
    path: str | None
    size_bytes: int
    revision: int
    #: None where only a part of the bytes is new: ask for the checksum if you need it.
    sha256: str | None


# -- history


class HistoryQuery(Struct, kw_only=True):
    before: Positive | None = None
    limit: Limit = 100


class RevisionBody(Struct):
    revision: int
    size_bytes: int
    at: datetime
    by: str
    sha256: str | None


class RestoreBody(Sent):
    path: str
    revision: Positive


class DiffQuery(Struct, kw_only=True):
    from_: Positive = field(name="from")
    #: The current one, if it is left out.
    to: Positive | None = None
    context: Annotated[int, Meta(ge=0, le=1000)] = 3


class ChangesQuery(Struct, kw_only=True):
    path: str = "/"
    after: Natural = 0
    limit: Limit = 100


class ChangeBody(Struct):
    seq: int
    batch: int
    kind: str
    #: None for the end of a move that lies outside of what was asked about.
    path: str | None
    to: str | None
    node: str
    revision: int
    by: str
    at: datetime


class EventsQuery(Struct, kw_only=True):
    path: str = "/"
    #: The cursor behind which to begin; now, if it is left out.
    after: Natural | None = None
    recursive: bool = True
    #: Names of kinds, with commas between them; all of them, if it is left out.
    kinds: Short | None = None
    glob: Short | None = None
    #: Seconds that a question waits where nothing has changed yet.
    wait: Annotated[float, Meta(ge=0, le=55)] = 0.0


class UndoBody(Sent):
    seq: Positive


class Undone(Struct):
    #: The changes that reversed it.
    changes: list[int]


# -- trash and snapshots


class TrashedBody(Struct):
    id: str
    path: str
    kind: str
    size_bytes: int
    by: str
    at: datetime
    expires_at: datetime


class UntrashBody(Sent):
    id: Short
    to: str | None = None


class SnapshotName(Sent):
    name: Short


class SnapshotBody(Struct):
    name: str
    at: datetime
    by: str
    size_bytes: int
    nodes: int


# -- many at once


class BatchStep(Sent):
    """One operation; which fields it needs depends on `op`."""

    op: Literal[
        "write", "append", "patch", "mkdir", "remove", "trash", "move", "copy", "set_readonly",
        "restore", "stat",
    ]  # fmt: skip
    path: str
    to: str = ""
    content: str = ""
    encoding: str = "text"
    offset: Natural = 0
    recursive: bool = False
    replace: bool = False
    readonly: bool = True
    revision: Natural = 0
    #: What must be there: a revision, or nothing. Left out, anything may be.
    expect: Positive | Literal["absent"] | None = None


class BatchBody(Sent):
    operations: Annotated[list[BatchStep], Meta(min_length=1, max_length=10_000)]


class BatchDone(Struct):
    id: UUID
    kind: str
    size_bytes: int
    revision: int


class BatchAnswer(Struct):
    #: In the order of the operations; null for what leaves nothing behind.
    data: list[BatchDone | None]


class OperationQuery(Struct, kw_only=True):
    #: The operation, where the body is its data.
    op: Annotated[str, Meta(max_length=16_384)] | None = None


#: What an operation answers, as JSON: a stat, a page, a list of answers, or nothing.
Answered = dict[str, Any] | list[Any] | str | None


# -- room


class PathQuery(Struct, kw_only=True):
    path: str = "/"


#: Every limit that there is; what is left out or null is not narrowed.
NewLimits = msgspec.defstruct(
    "NewLimits",
    [(name, Natural | None, None) for name in Limits.__struct_fields__],
    bases=(Sent,),
    module=__name__,
    kw_only=True,
)


# -- archives


class ArchiveQuery(Struct, kw_only=True):
    format: Literal["zip", "tar", "tar.gz"] = "tar"


class ImportQuery(Struct, kw_only=True):
    #: A packed tar is known by its first bytes.
    format: Literal["zip", "tar"] = "tar"
    replace: bool = False


class ImportAnswer(Struct):
    files: int
    directories: int
    links: int
    bytes: int
