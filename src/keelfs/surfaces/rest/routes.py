"""The one table: every route of the REST surface, in the order of a reader's interest."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

import msgspec

from keelfs import wire
from keelfs.identity import Context
from keelfs.model import Limits, Usage
from keelfs.surfaces.rest import (
    actions,
    agents,
    archives,
    artifacts,
    batch,
    description,
    events,
    files,
    history,
    memory,
    operations,
    raw,
    recovery,
    room,
    tokens,
)
from keelfs.surfaces.rest.answer import Answer
from keelfs.surfaces.rest.bodies import (
    AgentBody,
    Deleted,
    DeleteQuery,
    FileInfo,
    FileStat,
    FileUpdate,
    GrepAnswer,
    GrepBody,
    Listing,
    NewAgent,
    NewFile,
    NewFork,
    NewSession,
    NewToken,
    PageQuery,
    PathBody,
    ReadQuery,
    Redeemed,
    SessionBody,
    SessionFile,
    TokenBody,
    TwoPaths,
)
from keelfs.surfaces.rest.keeping_bodies import (
    ArtifactBody,
    ArtifactPut,
    ArtifactsQuery,
    CommandsBody,
    ConversationArtifacts,
    Entries,
    EntriesQuery,
    EntryBody,
    EntryChange,
    Invalidated,
    NewArtifact,
    NewEntry,
    TenantArtifacts,
)
from keelfs.surfaces.rest.more_bodies import (
    Answered,
    ArchiveQuery,
    BatchAnswer,
    BatchBody,
    ChangeBody,
    ChangesQuery,
    DiffQuery,
    EventsQuery,
    FilePatch,
    HistoryQuery,
    ImportAnswer,
    ImportQuery,
    NewLimits,
    OperationQuery,
    PatchQuery,
    PathQuery,
    RestoreBody,
    RevisionBody,
    SnapshotBody,
    SnapshotName,
    TrashedBody,
    UndoBody,
    Undone,
    UntrashBody,
    Written,
)
from keelfs.surfaces.rest.request import Request
from keelfs.surfaces.rest.table import Handler, Route

AGENTS: Final = "/v1/agents"
AGENT: Final = f"{AGENTS}/{{agent}}"
SESSIONS: Final = f"{AGENT}/sessions"
SESSION: Final = f"{SESSIONS}/{{session}}"
FS: Final = f"{SESSION}/fs"
#: A conversation is a session.
CONVERSATION: Final = "/v1/conversations/{session}"
KEPT: Final = f"{CONVERSATION}/artifacts"
ENTRIES: Final = "/v1/memory/entries"

# Headers that routes heed.
_KEY: Final = ("idempotency-key",)
_CHANGE: Final = (*_KEY, "if-match", "if-none-match")
_READ: Final = ("accept", "if-none-match", "range", "if-range")
#: A file is sent as what it is.
_ANY: Final = ("*/*",)


def _route(method: str, template: str, handler: Handler, **fields: Any) -> Route:
    says = (handler.__doc__ or "").strip().splitlines()[0]
    if "body" in fields:
        fields.setdefault("intake", "whole")
    return Route(method=method, template=template, handler=handler, says=says, **fields)


def _files() -> list[Route]:
    found = [
        _route("GET", FS, files.read, query=ReadQuery, answer=Listing[FileInfo], brisk=True,
               says_as="read"),
    ]  # fmt: skip
    for template in (f"{FS}/{{path...}}", FS):
        found += [
            _route("POST", template, files.create, body=NewFile, intake="either",
                   answer=(SessionFile, Written), status=201, heeds=_KEY, says_as="create"),
            _route("PUT", template, files.update, body=FileUpdate, intake="either",
                   answer=(SessionFile, Written), heeds=_CHANGE, says_as="update"),
            _route("PATCH", template, raw.patch, body=FilePatch, intake="either",
                   query=PatchQuery, answer=Written, heeds=_CHANGE, says_as="update"),
            _route("DELETE", template, files.delete, query=DeleteQuery, answer=Deleted,
                   heeds=_CHANGE, says_as="delete"),
        ]  # fmt: skip
    found.append(
        _route("GET", f"{FS}/{{path...}}", files.read, query=ReadQuery, brisk=True,
               answer=(SessionFile, Listing[FileInfo]), media=_ANY, also=(206, 304), heeds=_READ,
               says_as="read")
    )  # fmt: skip
    return found


def _actions() -> list[Route]:
    found: list[Route] = []
    for folder in ("_", "_actions"):
        found += [
            _route("POST", f"{FS}/{folder}/stat", actions.stat, body=PathBody, answer=FileStat,
                   says_as="stat"),
            _route("POST", f"{FS}/{folder}/move", actions.move, body=TwoPaths,
                   answer=SessionFile, heeds=_KEY, says_as="move"),
            _route("POST", f"{FS}/{folder}/copy", actions.copy, body=TwoPaths,
                   answer=SessionFile, status=201, heeds=_KEY, says_as="copy"),
            _route("POST", f"{FS}/{folder}/grep", actions.grep, body=GrepBody,
                   answer=GrepAnswer, says_as="grep"),
        ]  # fmt: skip
    return found


def _raw() -> list[Route]:
    return [
        _route("GET", f"{FS}/_/raw/{{path...}}", raw.raw, query=ReadQuery, media=_ANY,
               also=(206, 304), heeds=_READ, brisk=True),
        _route("GET", f"{FS}/_/download/{{path...}}", raw.raw, query=ReadQuery, media=_ANY,
               also=(206, 304), heeds=_READ, brisk=True),
        _route("PUT", f"{FS}/_/raw/{{path...}}", raw.put_raw, intake="stream", answer=Written,
               also=(201,), heeds=_CHANGE),
    ]  # fmt: skip


def _time() -> list[Route]:
    return [
        _route("GET", f"{FS}/_/history/{{path...}}", history.history, query=HistoryQuery,
               answer=Listing[RevisionBody], says_as="read"),
        _route("POST", f"{FS}/_/restore", history.restore, body=RestoreBody, answer=Written,
               heeds=_CHANGE, says_as="update"),
        _route("GET", f"{FS}/_/diff/{{path...}}", history.diff, query=DiffQuery,
               media=("text/x-diff",), says_as="read"),
        _route("GET", f"{FS}/_/changes", history.changes, query=ChangesQuery,
               answer=Listing[ChangeBody]),
        _route("GET", f"{SESSION}/events", events.events, query=EventsQuery,
               answer=Listing[ChangeBody], media=("text/event-stream",),
               heeds=("last-event-id",)),
        _route("POST", f"{FS}/_/undo", history.undo, body=UndoBody, answer=Undone, heeds=_KEY),
        _route("GET", f"{FS}/_/trash", recovery.list_trash, query=PageQuery,
               answer=Listing[TrashedBody]),
        _route("POST", f"{FS}/_/trash", recovery.trash, body=PathBody, answer=TrashedBody,
               heeds=_CHANGE),
        _route("POST", f"{FS}/_/untrash", recovery.untrash, body=UntrashBody, answer=Written,
               heeds=_KEY),
        _route("DELETE", f"{FS}/_/trash/{{item}}", recovery.purge, answer=Deleted, heeds=_KEY),
        _route("GET", f"{FS}/_/snapshots", recovery.list_snapshots,
               answer=Listing[SnapshotBody]),
        _route("POST", f"{FS}/_/snapshots", recovery.snapshot, body=SnapshotName,
               answer=SnapshotBody, status=201, heeds=_KEY),
        _route("DELETE", f"{FS}/_/snapshots/{{name}}", recovery.drop_snapshot, answer=Deleted,
               heeds=_KEY),
        _route("POST", f"{FS}/_/rollback", recovery.rollback, body=SnapshotName,
               answer=SnapshotBody, heeds=_KEY),
    ]  # fmt: skip


def _whole() -> list[Route]:
    return [
        _route("POST", f"{FS}/_/batch", batch.batch, body=BatchBody, answer=BatchAnswer,
               heeds=_KEY, says_as="batch"),
        _route("POST", f"{FS}/_/operations", operations.perform, body=wire.AnyShape,
               intake="either", query=OperationQuery, answer=Answered, media=("*/*",),
               heeds=_KEY, says_as="batch"),
        _route("GET", f"{FS}/_/usage", room.usage, query=PathQuery, answer=Usage),
        _route("GET", f"{SESSION}/limits", room.show_limits, answer=Limits),
        _route("PUT", f"{SESSION}/limits", room.set_limits, body=NewLimits, answer=Limits),
        _route("GET", "/v1/tenant/usage", room.tenant_usage, answer=Usage),
        _route("GET", f"{FS}/_/archive/{{path...}}", archives.download_archive,
               query=ArchiveQuery,
               media=("application/zip", "application/x-tar", "application/gzip")),
        _route("POST", f"{FS}/_/import/{{path...}}", archives.import_archive, intake="stream",
               query=ImportQuery, answer=ImportAnswer, status=201),
    ]  # fmt: skip


def _management() -> list[Route]:
    return [
        _route("GET", AGENTS, agents.list_agents, query=PageQuery,
               answer=Listing[AgentBody]),
        _route("POST", AGENTS, agents.create_agent, body=NewAgent, answer=AgentBody, status=201),
        _route("GET", AGENT, agents.show_agent, answer=AgentBody),
        _route("DELETE", AGENT, agents.delete_agent, answer=Deleted, patient=True),
        _route("GET", SESSIONS, agents.list_sessions, query=PageQuery,
               answer=Listing[SessionBody]),
        _route("POST", SESSIONS, agents.create_session, body=NewSession, answer=SessionBody,
               status=201),
        _route("GET", SESSION, agents.show_session, answer=SessionBody),
        _route("DELETE", SESSION, agents.delete_session, answer=Deleted),
        _route("POST", f"{SESSION}/fork", agents.fork_session, body=NewFork, answer=SessionBody,
               status=201),
        _route("GET", "/v1/token", tokens.show_token, answer=TokenBody),
        _route("POST", "/v1/redeem", tokens.redeem, answer=Redeemed, status=201),
        _route("GET", "/v1/tokens", tokens.list_tokens, query=PageQuery,
               answer=Listing[TokenBody]),
        _route("POST", "/v1/tokens", tokens.create_token, body=NewToken, answer=TokenBody,
               status=201),
        _route("DELETE", "/v1/tokens/{token}", tokens.delete_token, answer=Deleted),
    ]  # fmt: skip


def openapi(context: Context, request: Request) -> Answer:
    """This description: every route, with its models and examples, as OpenAPI 3.1."""
    del context, request
    return Answer(200, [(b"content-type", b"application/json")], _described())


@cache
def _described() -> bytes:
    return msgspec.json.encode(description.of(ROUTES))


def _keeping() -> list[Route]:
    kept, every, entry = f"{KEPT}/{{artifact}}", "/v1/artifacts/{artifact}", f"{ENTRIES}/{{entry}}"
    return [
        _route("POST", KEPT, artifacts.put_artifact, body=NewArtifact, answer=ArtifactPut,
               status=201, also=(200,)),
        _route("GET", KEPT, artifacts.list_artifacts, query=ArtifactsQuery,
               answer=ConversationArtifacts),
        _route("GET", kept, artifacts.show_artifact, answer=ArtifactBody),
        _route("GET", f"{kept}/raw", artifacts.download_artifact, media=_ANY, also=(304,),
               heeds=("if-none-match",)),
        _route("DELETE", kept, artifacts.delete_artifact, answer=Deleted),
        _route("GET", "/v1/artifacts", artifacts.list_all_artifacts, query=ArtifactsQuery,
               answer=TenantArtifacts),
        _route("GET", every, artifacts.show_any_artifact, answer=ArtifactBody),
        _route("GET", f"{every}/raw", artifacts.download_any_artifact, media=_ANY, also=(304,),
               heeds=("if-none-match",)),
        _route("DELETE", every, artifacts.delete_any_artifact, answer=Deleted),
        _route("POST", ENTRIES, memory.add_entry, body=NewEntry, answer=EntryBody, status=201),
        _route("GET", ENTRIES, memory.list_entries, query=EntriesQuery, answer=Entries),
        _route("GET", entry, memory.show_entry, answer=EntryBody),
        _route("PATCH", entry, memory.change_entry, body=EntryChange, answer=EntryBody),
        _route("DELETE", entry, memory.delete_entry, answer=Deleted),
        _route("POST", f"{entry}/invalidate", memory.invalidate_entry, answer=Invalidated),
        _route("POST", f"{CONVERSATION}/commands", memory.run_commands, body=CommandsBody,
               media=("text/event-stream",)),
    ]  # fmt: skip


ROUTES: Final = (
    *_files(), *_actions(), *_raw(), *_time(), *_whole(), *_management(), *_keeping(),
    _route("GET", "/v1/openapi.json", openapi, public=True, media=("application/json",)),
)  # fmt: skip
