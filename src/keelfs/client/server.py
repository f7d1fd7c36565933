"""What a server holds for whoever bears a token: agents, their sessions, and the trees of these."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from types import TracebackType
from typing import Any, Final, TypeVar
from urllib.parse import quote, urlencode

import msgspec
from msgspec import Struct

from keelfs.arguments import text
from keelfs.client.channel import Call, Channel
from keelfs.client.tree import Tree
from keelfs.model import Limits
from keelfs.workspace import Workspace

T = TypeVar("T")
_JSON: Final = {"content-type": "application/json"}


class Agent(Struct, frozen=True):
    """An agent of the tenant."""

    id: str
    name: str
    description: str | None
    tags: tuple[str, ...]
    created_at: datetime


class _Named(Struct):
    id: str


class Session(Workspace):
    """The files of one session, with every verb of a workspace."""

    def __init__(self, channel: Channel, agent: str, id: str) -> None:
        self._url = f"{_sessions(agent)}/{_quoted(id)}"
        tree = Tree(channel, self._url)
        super().__init__(tree, wait=tree)
        self._channel, self.agent, self.id = channel, agent, id

    def fork(self, title: str | None = None, snapshot: str | None = None) -> Session:
        """A new session that begins with these files, or a snapshot's; it costs rows, not bytes."""
        body = {"title": title, "snapshot": snapshot}
        made = _asked(self._channel, "POST", f"{self._url}/fork", _Named, body)
        return Session(self._channel, self.agent, made.id)

    def limits(self) -> Limits:
        """What this session may use."""
        return _asked(self._channel, "GET", f"{self._url}/limits", Limits)

    def set_limits(self, limits: Limits) -> Limits:
        """Narrows what this session may use; answers what is in force."""
        body = msgspec.structs.asdict(limits)
        return _asked(self._channel, "PUT", f"{self._url}/limits", Limits, body)

    def delete(self) -> None:
        """Deletes the session with its files, their history and trash."""
        self._channel.ask(Call(method="DELETE", path=self._url))


class Server:
    """A server, as the bearer of one token sees it. Leaving a `with` block ends the connections."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    def agents(self) -> Iterator[Agent]:
        """The agents of the tenant, oldest first."""
        return self._pages("/v1/agents", Agent)

    def create_agent(self, name: str, description: str | None = None) -> Agent:
        """Registers an agent."""
        body = {"name": name, "description": description}
        return _asked(self._channel, "POST", "/v1/agents", Agent, body)

    def delete_agent(self, agent: str) -> None:
        """Deletes an agent with its sessions and all they hold."""
        self._channel.ask(Call(method="DELETE", path=f"/v1/agents/{_quoted(agent)}"))

    def sessions(self, agent: str) -> Iterator[Session]:
        """The sessions of an agent, oldest first."""
        for found in self._pages(_sessions(agent), _Named):
            yield Session(self._channel, agent, found.id)

    def create_session(
        self, agent: str, title: str | None = None, user: str | None = None
    ) -> Session:
        """Begins a session with an empty tree."""
        body = {"title": title, "user": user}
        made = _asked(self._channel, "POST", _sessions(agent), _Named, body)
        return Session(self._channel, agent, made.id)

    def session(self, agent: str, id: str) -> Session:
        """A session that is there."""
        session = Session(self._channel, agent, id)
        _asked(self._channel, "GET", f"{_sessions(agent)}/{_quoted(id)}", _Named)
        return session

    def close(self) -> None:
        """Ends the connections."""
        self._channel.close()

    def _pages(self, path: str, model: type[T]) -> Iterator[T]:
        after: str | None = ""
        while after is not None:
            query = urlencode({"limit": 1000, "after": after})
            page = _asked(self._channel, "GET", f"{path}?{query}", _Page)
            yield from msgspec.convert(page.data, list[model])  # type: ignore[valid-type]
            after = page.next

    def __enter__(self) -> Server:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        self.close()


class _Page(Struct):
    data: list[Any]
    next: str | None = None


def connect(url: str, *, token: str | None = None, timeout: float = 90.0) -> Server:
    """A server at an address such as `http://127.0.0.1:8420`, for the bearer of a token.

    `timeout` is how many seconds an answer, or the next block of one, may take.
    """
    return Server(Channel(url, token, timeout))


def _asked(channel: Channel, method: str, path: str, model: type[T], body: Any = None) -> T:
    sent = None if body is None else msgspec.json.encode(body)
    call = Call(method=method, path=path, body=sent, headers=_JSON if sent else {})
    return msgspec.json.decode(channel.ask(call), type=model)


def _sessions(agent: str) -> str:
    return f"/v1/agents/{_quoted(agent)}/sessions"


def _quoted(name: str) -> str:
    text("the id", name)
    return quote(name, safe="")
