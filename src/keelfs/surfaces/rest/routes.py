"""The one table: every route of the REST surface, in the order of a reader's interest."""

from __future__ import annotations

from typing import Any, Final

from keelfs.surfaces.rest import actions, agents, files, raw, tokens
from keelfs.surfaces.rest.bodies import (
    AgentBody,
    Deleted,
    DeleteQuery,
    FilePatch,
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
    PatchQuery,
    PathBody,
    ReadQuery,
    SessionBody,
    SessionFile,
    TokenBody,
    TwoPaths,
    Written,
)
from keelfs.surfaces.rest.table import Handler, Route

AGENTS: Final = "/v1/agents"
AGENT: Final = f"{AGENTS}/{{agent}}"
SESSIONS: Final = f"{AGENT}/sessions"
SESSION: Final = f"{SESSIONS}/{{session}}"
FS: Final = f"{SESSION}/fs"


def _route(method: str, template: str, handler: Handler, **fields: Any) -> Route:
    says = (handler.__doc__ or "").strip().splitlines()[0]
    if "body" in fields:
        fields.setdefault("intake", "whole")
    return Route(method=method, template=template, handler=handler, says=says, **fields)


def _files() -> list[Route]:
    found = [
        _route("GET", FS, files.read, query=ReadQuery, answer=Listing, brisk=True, says_as="read"),
    ]
    for template in (f"{FS}/{{path...}}", FS):
        found += [
            _route("POST", template, files.create, body=NewFile, intake="either",
                   answer=SessionFile, status=201, says_as="create"),
            _route("PUT", template, files.update, body=FileUpdate, intake="either",
                   answer=SessionFile, says_as="update"),
            _route("PATCH", template, raw.patch, body=FilePatch, intake="either",
                   query=PatchQuery, answer=Written, says_as="update"),
            _route("DELETE", template, files.delete, query=DeleteQuery, answer=Deleted,
                   says_as="delete"),
        ]  # fmt: skip
    found.append(
        _route("GET", f"{FS}/{{path...}}", files.read, query=ReadQuery, answer=SessionFile,
               brisk=True, says_as="read")
    )  # fmt: skip
    return found


def _actions() -> list[Route]:
    found: list[Route] = []
    for folder in ("_", "_actions"):
        found += [
            _route("POST", f"{FS}/{folder}/stat", actions.stat, body=PathBody, answer=FileStat,
                   says_as="stat"),
            _route("POST", f"{FS}/{folder}/move", actions.move, body=TwoPaths,
                   answer=SessionFile, says_as="move"),
            _route("POST", f"{FS}/{folder}/copy", actions.copy, body=TwoPaths,
                   answer=SessionFile, status=201, says_as="copy"),
            _route("POST", f"{FS}/{folder}/grep", actions.grep, body=GrepBody,
                   answer=GrepAnswer, says_as="grep"),
        ]  # fmt: skip
    return found


def _raw() -> list[Route]:
    return [
        _route("GET", f"{FS}/_/raw/{{path...}}", raw.raw, query=ReadQuery, brisk=True),
        _route("GET", f"{FS}/_/download/{{path...}}", raw.raw, query=ReadQuery, brisk=True),
        _route("PUT", f"{FS}/_/raw/{{path...}}", raw.put_raw, intake="stream", answer=Written),
    ]


def _management() -> list[Route]:
    return [
        _route("GET", AGENTS, agents.list_agents, query=PageQuery, answer=Listing),
        _route("POST", AGENTS, agents.create_agent, body=NewAgent, answer=AgentBody, status=201),
        _route("GET", AGENT, agents.show_agent, answer=AgentBody),
        _route("DELETE", AGENT, agents.delete_agent, answer=Deleted, patient=True),
        _route("GET", SESSIONS, agents.list_sessions, query=PageQuery, answer=Listing),
        _route("POST", SESSIONS, agents.create_session, body=NewSession, answer=SessionBody,
               status=201),
        _route("GET", SESSION, agents.show_session, answer=SessionBody),
        _route("DELETE", SESSION, agents.delete_session, answer=Deleted),
        _route("POST", f"{SESSION}/fork", agents.fork_session, body=NewFork, answer=SessionBody,
               status=201),
        _route("GET", "/v1/token", tokens.show_token, answer=TokenBody),
        _route("GET", "/v1/tokens", tokens.list_tokens, query=PageQuery, answer=Listing),
        _route("POST", "/v1/tokens", tokens.create_token, body=NewToken, answer=TokenBody,
               status=201),
        _route("DELETE", "/v1/tokens/{token}", tokens.delete_token, answer=Deleted),
    ]  # fmt: skip


ROUTES: Final = (*_files(), *_actions(), *_raw(), *_management())
