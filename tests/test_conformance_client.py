"""The client keeps the whole contract, over a serving process on each database."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import keelfs
from keelfs.client import Server, Session
from keelfs.client.tree import Tree
from keelfs.model import Limits
from keelfs.ports import Handler
from keelfs.testing.cluster import PostgresCluster
from keelfs.testing.conformance import ConformanceSuite, Setting, Subject, register
from serving import serving

CANNOT = {
    "clock": "a server tells the time by its own clock",
    "principal": "a token says who acts, and an agent's name is the id that it was given",
    "outliving": "a server keeps nothing for a reader, who is told when the revision is gone",
    "judges": "a judge is a function of the asking process; validators run in the server",
}
_numbers = itertools.count(1)
_servers: dict[str, tuple[Server, str]] = {}
_sessions: dict[int, Session] = {}


def make(engine: str, setting: Setting) -> Handler:
    """The tree of a new session."""
    server, agent = _servers[engine]
    session = server.create_session(agent, f"session {next(_numbers)}")
    if setting.limits != Limits():
        session.set_limits(setting.limits)
    _sessions[id(session.handler)] = session
    return session.handler


def relimit(handler: Handler, limits: Limits) -> None:
    assert isinstance(handler, Tree)
    _sessions[id(handler)].set_limits(limits)


def _subject(engine: str) -> Subject:
    return Subject(f"client of {engine}", lambda setting: make(engine, setting), CANNOT, relimit)


SQLITE = register(_subject("sqlite"))
POSTGRES = _subject("postgres")


def connected(engine: str, url: str) -> Iterator[None]:
    """A serving process for all tests of a class, and a client of it."""
    with serving(url, "--no-log-requests") as served:
        token = served.token(served.tenant())
        with keelfs.connect(f"http://127.0.0.1:{served.port}", token=token) as server:
            _servers[engine] = server, server.create_agent("coder").id
            yield
    _sessions.clear()


class TestSqlite(ConformanceSuite):
    @pytest.fixture(scope="class", autouse=True)
    @classmethod
    def served_store(cls) -> Iterator[None]:
        with tempfile.TemporaryDirectory() as folder:
            yield from connected("sqlite", f"sqlite:///{Path(folder) / 'store.db'}")

    @pytest.fixture
    def subject(self) -> Subject:
        return SQLITE


@pytest.mark.torture
class TestPostgres(ConformanceSuite):
    @pytest.fixture(scope="class", autouse=True)
    @classmethod
    def served_store(cls, postgres_cluster: PostgresCluster) -> Iterator[None]:
        yield from connected("postgres", postgres_cluster.create_database())

    @pytest.fixture
    def subject(self) -> Subject:
        return POSTGRES
