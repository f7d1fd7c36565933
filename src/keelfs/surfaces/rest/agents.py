"""Agents and their sessions."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET

from keelfs.grant import Agent, Session
from keelfs.identity import Context
from keelfs.surfaces.rest.answer import Answer, json
from keelfs.surfaces.rest.bodies import (
    AgentBody,
    Deleted,
    Listing,
    NewAgent,
    NewSession,
    SessionBody,
    time_of,
)
from keelfs.surfaces.rest.request import Request


def list_agents(context: Context, request: Request) -> Answer:
    """The agents of the tenant, oldest first."""
    query = request.query
    found = context.agents(query.after, query.limit + 1)
    return json(_page([_agent(each) for each in found], query.limit))


def create_agent(context: Context, request: Request) -> Answer:
    """Registers an agent."""
    body: NewAgent = request.body
    agent = Agent(
        id="", name=body.name, description=body.description, system_prompt=body.system_prompt,
        default_model_id=body.default_model_id, tags=body.tags, capabilities=body.capabilities,
    )  # fmt: skip
    return json(_agent(context.create_agent(agent)), 201)


def show_agent(context: Context, request: Request) -> Answer:
    """One agent."""
    return json(_agent(context.agent(request.params["agent"])))


def delete_agent(context: Context, request: Request) -> Answer:
    """Deletes an agent with its sessions and all they hold."""
    context.delete_agent(request.params["agent"])
    return json(Deleted(True))


def list_sessions(context: Context, request: Request) -> Answer:
    """The sessions of an agent, oldest first."""
    query = request.query
    found = context.sessions(request.params["agent"], query.after, query.limit + 1)
    return json(_page([_session(each) for each in found], query.limit))


def create_session(context: Context, request: Request) -> Answer:
    """Begins a session, with an empty tree of its own."""
    return json(_session(context.create_session(_new_session(request))), 201)


def show_session(context: Context, request: Request) -> Answer:
    """One session."""
    return json(_session(context.session(request.params["agent"], request.params["session"])))


def delete_session(context: Context, request: Request) -> Answer:
    """Deletes a session with its files, their history, trash and snapshots."""
    context.delete_session(request.params["agent"], request.params["session"])
    return json(Deleted(True))


def fork_session(context: Context, request: Request) -> Answer:
    """A new session that begins with the files of this one; it costs rows, not bytes."""
    forked = context.fork(request.params["session"], _new_session(request), request.body.snapshot)
    return json(_session(forked), 201)


def _new_session(request: Request) -> Session:
    body: NewSession = request.body
    return Session(
        id="", agent=request.params["agent"], owner=body.user or "", title=body.title,
        tags=body.tags, model_id=body.model_id,
    )  # fmt: skip


def _agent(agent: Agent) -> AgentBody:
    return AgentBody(
        agent.id, agent.name, agent.description, agent.system_prompt, agent.default_model_id,
        agent.tags, agent.capabilities, agent.status, time_of(agent.created_ns),
        time_of(agent.updated_ns),
    )  # fmt: skip


def _session(session: Session) -> SessionBody:
    started, finished = session.started_ns, session.finished_ns
    return SessionBody(
        session.id, session.agent, session.title, session.tags, session.model_id, session.status,
        session.owner or None, time_of(session.created_ns),
        None if started is None else time_of(started),
        None if finished is None else time_of(finished),
    )  # fmt: skip


def _page(found: list[Any], limit: int) -> Listing[Any]:
    page = found[:limit]
    return Listing(page, page[-1].id if len(found) > limit else UNSET)
