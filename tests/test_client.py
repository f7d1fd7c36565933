"""The client against a serving process: large data, keys, waking, errors, a server that goes."""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import io
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

import keelfs
from keelfs import aio, client, errors, ops
from keelfs.client import Server, Session
from keelfs.client.channel import Call, Channel
from keelfs.client.refusal import error_of
from keelfs.grant import Role
from keelfs.model import Limits
from keelfs.surfaces.outcomes import OUTCOMES
from keelfs.surfaces.rest.problems import problem
from serving import Served, serving

MIB = 2**20


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server that logs no requests: nobody reads its log while it runs."""
    folder = tmp_path_factory.mktemp("client")
    with serving(f"sqlite:///{folder / 'keelfs.db'}", "--no-log-requests") as served:
        yield served


def url_of(served: Served) -> str:
    return f"http://127.0.0.1:{served.port}"


@pytest.fixture
def server(served: Served) -> Iterator[Server]:
    with keelfs.connect(url_of(served), token=served.token(served.tenant())) as server:
        yield server


@pytest.fixture
def session(server: Server) -> Session:
    return server.create_session(server.create_agent("coder").id, "a session")


# --- management


def test_agents_and_sessions(server: Server) -> None:
    agent = server.create_agent("coder", "writes code")
    assert [(each.name, each.description) for each in server.agents()] == [("coder", "writes code")]
    made = server.create_session(agent.id, "one")
    made.write("/a", "x")
    assert [each.id for each in server.sessions(agent.id)] == [made.id]
    assert server.session(agent.id, made.id).read_text("/a") == "x"
    with pytest.raises(errors.NotFound):
        server.session(agent.id, "no such session")
    fork = made.fork("two")
    made.write("/a", "y")
    assert fork.read_text("/a") == "x"
    fork.delete()
    with pytest.raises(errors.NotFound):
        fork.read("/a")
    server.delete_agent(agent.id)
    assert list(server.agents()) == []


def test_limits_are_narrowed(session: Session) -> None:
    assert session.set_limits(Limits(bytes=10)).bytes == session.limits().bytes == 10
    with pytest.raises(errors.QuotaExceeded) as caught:
        session.write("/a", b"x" * 11)
    assert (caught.value.limit, caught.value.size, caught.value.path) == ("space.bytes", 10, "/a")


def test_what_a_token_does_not_allow(served: Served, server: Server, session: Session) -> None:
    session.write("/open/a", "x")
    session.write("/shut/a", "x")
    name = next(iter(server.agents())).id
    agent = session.agent
    tenant = server._channel.ask(Call(method="GET", path="/v1/token"))
    narrow = served.token(
        msgspec.json.decode(tenant)["tenant"], role=Role.AGENT, name=name, agent=agent,
        paths=(("open",),),
    )  # fmt: skip
    with keelfs.connect(url_of(served), token=narrow) as theirs:
        tree = theirs.session(agent, session.id)
        assert tree.read_text("/open/a") == "x"
        for path in ("/shut/a", "/nothing"):
            with pytest.raises(errors.KeelError):
                tree.read(path)
        with pytest.raises(errors.PermissionDenied):
            tree.remove("/open/a")
    with keelfs.connect(url_of(served), token="keel_1_nothing") as nobody:
        with pytest.raises(errors.NotAuthenticated):
            list(nobody.agents())


# --- large data


def blocks(count: int) -> Iterator[bytes]:
    for number in range(count):
        yield hashlib.sha256(b"%d" % number).digest() * (MIB // 32)


def test_large_files_go_and_come_in_blocks(session: Session) -> None:
    size = 24
    stat = session.write("/big", blocks(size))
    digest = hashlib.sha256(b"".join(blocks(size))).hexdigest()
    assert (stat.size, stat.sha256) == (size * MIB, digest)
    got = hashlib.sha256()
    for block in session.stream("/big"):
        got.update(block)
    assert got.hexdigest() == digest
    assert hashlib.sha256(session.read("/big")).hexdigest() == digest
    assert (
        session.read("/big", 5 * MIB - 3, 7 * MIB)
        == b"".join(blocks(size))[5 * MIB - 3 :][: 7 * MIB]
    )
    with session.open("/big", "rb") as file:
        file.seek(-10, io.SEEK_END)
        assert file.read() == b"".join(blocks(size))[-10:]


def test_large_bytes_under_a_key_are_written_once(session: Session) -> None:
    data = b"".join(blocks(2))
    first = session.append("/big", data, key="k")
    assert session.append("/big", data, key="k") == first
    assert session.stat("/big").size == 2 * MIB


def test_a_stream_that_breaks_off_leaves_nothing(session: Session) -> None:
    def broken() -> Iterator[bytes]:
        yield b"x" * MIB
        raise RuntimeError("no more")

    with pytest.raises(RuntimeError, match="no more"):
        session.write("/a", broken())
    assert not session.exists("/a")
    session.write("/a", "still served")


def test_a_stream_shows_one_revision_to_its_end(session: Session) -> None:
    data = b"".join(blocks(12))
    session.write("/a", data)
    stream = session.stream("/a")
    parts = [next(stream)]
    session.write("/a", "new")
    session.remove("/a")
    assert b"".join([*parts, *stream]) == data


def test_what_was_opened_is_never_another_file(session: Session) -> None:
    session.write("/a", "one")
    content = session.pin("/a")
    session.write("/a", "two")
    assert content.read(0, 9) == b"one"
    session.remove("/a")
    session.write("/a", "six")
    with pytest.raises(errors.RevisionNotFound):
        content.read(0, 9)


def test_large_files_in_a_batch_are_refused_with_a_reason(session: Session) -> None:
    session.write("/big", blocks(5))
    with pytest.raises(errors.TooLarge):
        session.batch([ops.Read("/big")])
    with pytest.raises(errors.TooLarge):
        session.batch([ops.Write("/b", io.BytesIO(bytes(5 * MIB)))])  # type: ignore[arg-type]


# --- waking


def test_a_watcher_is_woken(session: Session) -> None:
    watch = session.watch(timeout=20)
    threading.Timer(0.3, lambda: session.write("/a", "x")).start()
    began = time.monotonic()
    assert next(watch).path == ("a",)
    assert time.monotonic() - began < 20


# --- errors


@pytest.mark.parametrize("kind", OUTCOMES, ids=lambda kind: kind.__name__)
def test_every_error_comes_back_as_it_was(kind: type[errors.KeelError]) -> None:
    error = kind("what is wrong")
    facts = {"limit": "space.bytes", "size": 3, "used": 2, "expected": "4", "actual": 5,
             "problems": (errors.Problem(1, "fact", "text", "a text"),)}  # fmt: skip
    for name, value in facts.items():
        if hasattr(error, name):
            setattr(error, name, value)
    error.operation = 7
    answer = problem(error, "id", "batch")
    headers = {name.decode(): value.decode() for name, value in answer.headers}
    back = error_of(answer.status, answer.body, headers.get("retry-after"))
    assert type(back) is kind
    if not isinstance(error, errors.UnknownFailure):
        assert (back.message, back.remedy, back.operation) == (error.message, error.remedy, 7)
    for name in facts:
        assert getattr(back, name, None) == getattr(error, name, None)
    assert back.path is None


@pytest.mark.parametrize(
    ("status", "kind"),
    [(404, errors.NotFound), (413, errors.TooLarge), (502, errors.Unavailable),
     (418, errors.Invalid), (500, errors.UnknownFailure)],
)  # fmt: skip
def test_answers_of_somebody_in_between(status: int, kind: type[errors.KeelError]) -> None:
    assert type(error_of(status, b"<html>", None)) is kind


@pytest.mark.parametrize("url", ["", "nowhere", "ftp://x", "sqlite:///x.db", "http://"])
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(errors.InvalidArgument):
        keelfs.connect(url)


def test_errors_name_paths_as_they_were_spelled(session: Session) -> None:
    with pytest.raises(errors.NotFound) as caught:
        session.move("/a//b/", "/c")
    assert (caught.value.path, caught.value.to) == ("/a//b/", "/c")
    with pytest.raises(errors.NotFound) as caught:
        session.batch([ops.Mkdir("/d"), ops.Remove("/x")])
    assert (caught.value.operation, caught.value.path) == (1, "/x")


# --- a server that goes, and comes back


def test_what_changes_nothing_is_asked_again(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'k.db'}"
    with serving(url, "--no-log-requests") as served:
        token = served.token("t")
        with keelfs.connect(url_of(served), token=token) as server:
            session = server.create_session(server.create_agent("a").id)
            session.write("/a", "x")
        port = served.port
    with keelfs.connect(f"http://127.0.0.1:{port}", token=token) as server:
        gone = Session(server._channel, session.agent, session.id)
        with pytest.raises(errors.Unavailable) as caught:
            gone.read("/a")
        # Nothing was sent, so nobody needs to doubt.
        assert not isinstance(caught.value, errors.InDoubt)
        with pytest.raises(errors.Unavailable) as caught:
            gone.write("/b", "x")
        assert not isinstance(caught.value, errors.InDoubt)
        with serving(url, "--no-log-requests", "--port", str(port)):
            assert gone.read_text("/a") == "x"


class Lossy:
    """A listener that takes each request in, and hangs up on it."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        self.taken = 0
        threading.Thread(target=self._work, daemon=True).start()

    def _work(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            connection.recv(65536)
            self.taken += 1
            connection.close()

    def close(self) -> None:
        self._socket.close()


def test_only_what_is_safe_is_sent_again() -> None:
    lossy = Lossy()
    channel = Channel(f"http://127.0.0.1:{lossy.port}", None, 5)
    with pytest.raises(errors.InDoubt):
        channel.ask(Call(method="POST", path="/", body=b"x"))
    assert lossy.taken == 1
    with pytest.raises(errors.Unavailable) as caught:
        channel.ask(Call(method="POST", path="/", body=b"x", safe=True))
    assert not isinstance(caught.value, errors.InDoubt)
    assert lossy.taken == 5
    lossy.close()


# --- for the event loop


def test_the_same_verbs_for_the_event_loop(served: Served) -> None:
    async def check() -> None:
        token = served.token(served.tenant())
        async with await aio.connect(url_of(served), token=token) as server:
            agent = await server.create_agent("coder")
            session = await server.create_session(agent.id)
            await session.write("/a", "x")
            assert await session.read_text("/a") == "x"
            assert [block async for block in session.stream("/a")] == [b"x"]
            assert [each.id async for each in server.sessions(agent.id)] == [session.id]
            assert [each.id async for each in server.agents()] == [agent.id]
            assert (await server.session(agent.id, session.id)).id == session.id
            fork = await session.fork()
            assert await fork.exists("/a")
            await fork.delete()
            assert (await session.set_limits(Limits(bytes=5))) == await session.limits()
            with pytest.raises(errors.QuotaExceeded):
                await session.write("/b", "xxxxxx")
            changes = [change async for change in session.watch(after=0, timeout=0)]
            assert len(changes) == 1
            await server.delete_agent(agent.id)

    asyncio.run(check())


def test_every_verb_of_servers_is_there_with_the_same_arguments() -> None:
    for blocking, awaitable in ((client.Server, aio.Server), (client.Session, aio.Session)):
        for name, verb in vars(blocking).items():
            if name[0] != "_" and inspect.isfunction(verb):
                ours = inspect.signature(getattr(awaitable, name))
                theirs = inspect.signature(verb)
                assert list(ours.parameters.values()) == list(theirs.parameters.values()), name
