"""A relay in front of PostgreSQL that counts round trips and cuts connections.

A round trip is a turn of the conversation: the client speaks until it waits, then the server. The
relay holds an answer back for a moment, and for longer while the client still speaks: what a client
sends without waiting for an answer is one turn, however the packets cross. The protocol is read
only as far as it takes to see where a message ends and which statement it carries.

Who calls: the test that counts what a verb costs, and those that lose an answer on its way back.
"""

from __future__ import annotations

import contextlib
import select
import socket
import struct
import threading
from collections.abc import Generator
from types import TracebackType
from typing import Final, Self
from urllib.parse import quote

from msgspec import Struct

#: How long the client must have been silent before an answer is passed on.
SILENCE_S: Final = 0.003
#: How often an idle connection looks whether the relay is closed.
_GLANCE_S: Final = 0.1
#: The first packet of a connection that asks for TLS, for GSS, or to cancel; a real one follows.
_REQUESTS: Final = {80877103, 80877104, 80877102}
#: The messages at which the server answers what came before: a query, a sync, a flush.
_COMPLETE: Final = {b"Q", b"S", b"H"}
#: How long a server may take to finish what the client will not hear of.
_ANSWER_S: Final = 30.0
#: The frame that ends every answer of the server.
_READY: Final = b"Z\x00\x00\x00\x05"
#: What a server says that is told to end a connection.
_LAST_TEXT: Final = b"SFATAL\0VFATAL\0C57P01\0Mterminating connection\0\0"
_LAST_WORDS: Final = b"E" + struct.pack("!i", len(_LAST_TEXT) + 4) + _LAST_TEXT


class Count(Struct):
    """What has passed; a difference once `Relay.counting` has ended."""

    round_trips: int = 0
    messages: int = 0
    connections: int = 0
    cuts: int = 0
    #: The statements that were sent, in order.
    statements: list[str] = []


class _Cut(Struct):
    """When to cut: at a statement that contains `text`, or at the last of `messages` messages."""

    text: str | None
    messages: int
    forward: bool
    #: Whether the client still hears what was done, and that the server ends the connection.
    last_words: bool = False


class Relay:
    """A relay to the server of `url`; connect to `relay.url` instead. A context manager."""

    def __init__(self, url: str) -> None:
        from psycopg import conninfo

        self._target = conninfo.conninfo_to_dict(url)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._threads: list[threading.Thread] = []
        self._cut: _Cut | None = None
        self.total = Count()

    def __enter__(self) -> Self:
        self._run(self._accept)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def url(self) -> str:
        """The URL of the same database through the relay."""
        user = quote(str(self._target.get("user", "postgres")))
        database = quote(str(self._target.get("dbname", "postgres")))
        port = self._listener.getsockname()[1]
        plain = "sslmode=disable&gssencmode=disable"
        return f"postgresql://{user}@127.0.0.1:{port}/{database}?{plain}"

    def close(self) -> None:
        """Cuts every connection and stops listening."""
        self._closed.set()
        self._listener.close()
        for thread in self._threads:
            thread.join()

    @contextlib.contextmanager
    def counting(self) -> Generator[Count]:
        """Counts what passes meanwhile; read the numbers after the block."""
        count = Count()
        with self._lock:
            before = Count(*self._numbers())
            first = len(self.total.statements)
        yield count
        with self._lock:
            for name, value in zip(Count.__struct_fields__, self._numbers(), strict=False):
                setattr(count, name, value - getattr(before, name))
            count.statements = self.total.statements[first:]

    def cut_at(self, text: str, *, forward: bool = True, last_words: bool = False) -> None:
        """Cuts the connection that next sends a statement containing `text`, in any case.

        With `forward` the server does what it was told and its answer is lost; without, the
        statement is lost. Either way the client cannot know. With `last_words` it hears the answer,
        but that the server shuts down instead of that it is ready, as `pg_terminate_backend` does.
        """
        with self._lock:
            self._cut = _Cut(text.lower(), 0, forward, last_words)

    def cut_after(self, messages: int, *, forward: bool = True) -> None:
        """Cuts at the last of so many messages from clients, counted from now."""
        with self._lock:
            self._cut = _Cut(None, messages, forward)

    def saw(self, text: str | None) -> _Cut | None:
        """Counts one message of a client; the cut to make if it is time."""
        with self._lock:
            self.total.messages += 1
            if text:
                self.total.statements.append(text)
            cut = self._cut
            if cut is None:
                return None
            cut.messages -= 1
            due = cut.messages == 0 if cut.text is None else cut.text in (text or "").lower()
            if not due:
                return None
            self._cut = None
            self.total.cuts += 1
            return cut

    def turned(self) -> None:
        """Counts one round trip."""
        with self._lock:
            self.total.round_trips += 1

    def _numbers(self) -> tuple[int, int, int, int]:
        total = self.total
        return (total.round_trips, total.messages, total.connections, total.cuts)

    def _run(self, work: object, *arguments: object) -> None:
        thread = threading.Thread(target=work, args=arguments, daemon=True)  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        self._listener.settimeout(_GLANCE_S)
        while not self._closed.is_set():
            try:
                client, _ = self._listener.accept()
            except TimeoutError:
                continue
            except OSError:
                return
            with self._lock:
                self.total.connections += 1
            self._run(self._serve, client)

    def _serve(self, client: socket.socket) -> None:
        with client:
            try:
                server = self._reach()
            except OSError:
                return
            with server, contextlib.suppress(OSError):
                _Conversation(self, client, server, self._closed).run()

    def _reach(self) -> socket.socket:
        host, port = (
            str(self._target.get("host", "127.0.0.1")),
            str(self._target.get("port") or 5432),
        )
        if host.startswith("/"):
            server = socket.socket(socket.AF_UNIX)
            server.connect(f"{host}/.s.PGSQL.{port}")
            return server
        return socket.create_connection((host, int(port)))


class _Conversation:
    """One connection, until either side ends it or it is cut."""

    def __init__(
        self, relay: Relay, client: socket.socket, server: socket.socket, closed: threading.Event
    ) -> None:
        self.relay, self.client, self.server, self.closed = relay, client, server, closed
        self.reader = _Reader()
        self.to_server, self.to_client, self.held = bytearray(), bytearray(), bytearray()
        #: Whether the client has spoken and was not answered yet.
        self.asked = False
        #: The cut whose message has passed: the server finishes, the client hears nothing.
        self.cutting: _Cut | None = None
        for side in (client, server):
            side.setblocking(False)

    def run(self) -> None:
        while not self.closed.is_set():
            writing = [
                side
                for side, data in ((self.server, self.to_server), (self.client, self.to_client))
                if data
            ]
            patience = SILENCE_S if self.held else _GLANCE_S
            readable, writable, _ = select.select([self.client, self.server], writing, [], patience)
            if self.client in readable and not self._hear_client():
                return
            if self.server in readable and not self._hear_server():
                break
            if self.held and self.client not in readable and self.server not in readable:
                self._pass_on()
            if self.server in writable:
                del self.to_server[: self.server.send(self.to_server)]
            if self.client in writable:
                del self.to_client[: self.client.send(self.to_client)]
        # The server's last words, such as why it ends the connection, still reach the client.
        self._pass_on()
        self.client.settimeout(1)
        self.client.sendall(self.to_client)

    def _hear_client(self) -> bool:
        data = self.client.recv(65536)
        if not data:
            return False
        self.asked = True
        for kind, frame, text in self.reader.frames(data):
            cut = None if self.cutting else self.relay.saw(text)
            if cut is not None and not cut.forward:
                self._reset()
                return False
            self.cutting = self.cutting or cut
            self.to_server += frame
            if self.cutting and kind in _COMPLETE:
                self._finish(flushed=kind == b"H", last_words=self.cutting.last_words)
                return False
        return True

    def _hear_server(self) -> bool:
        data = self.server.recv(65536)
        self.held += data
        return bool(data)

    def _pass_on(self) -> None:
        if self.cutting:
            return
        if self.held and self.asked:
            self.asked = False
            self.relay.turned()
        self.to_client += self.held
        self.held.clear()

    def _finish(self, *, flushed: bool, last_words: bool) -> None:
        """Lets the server do what it was told, then cuts."""
        self.server.settimeout(_ANSWER_S)
        self.server.sendall(self.to_server)
        answer = self.held
        while not flushed and _READY not in answer[-len(_READY) - 1 :]:
            more = self.server.recv(65536)
            if not more:
                break
            answer += more
        if last_words:
            self.client.settimeout(1)
            self.client.sendall(answer[: answer.rfind(_READY)] + _LAST_WORDS)
            # The end of the connection comes a moment later than the words.
            select.select([self.client], [], [], _GLANCE_S)
        self._reset()

    def _reset(self) -> None:
        # Closing with this option set sends a reset instead of an orderly end.
        self.client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


class _Reader:
    """Splits what a client sends into messages and knows the statements that they stand for."""

    def __init__(self) -> None:
        self._rest = b""
        self._greeted = False
        self._prepared: dict[bytes, str] = {}

    def frames(self, data: bytes) -> Generator[tuple[bytes, bytes, str | None]]:
        """Each whole message: its kind, its bytes, and the statement that it sends or binds."""
        self._rest += data
        while True:
            tag = 1 if self._greeted else 0
            if len(self._rest) < tag + 4:
                return
            end = tag + int.from_bytes(self._rest[tag : tag + 4])
            if len(self._rest) < end:
                return
            frame, self._rest = self._rest[:end], self._rest[end:]
            if self._greeted:
                yield frame[:1], frame, self._statement(frame[:1], frame[5:])
            else:
                self._greeted = int.from_bytes(frame[4:8]) not in _REQUESTS
                yield b"", frame, None

    def _statement(self, kind: bytes, body: bytes) -> str | None:
        if kind == b"Q":
            return body.rstrip(b"\0").decode(errors="replace")
        if kind == b"P":
            name, text, _ = body.split(b"\0", 2)
            self._prepared[name] = text.decode(errors="replace")
            return None
        if kind == b"B":
            return self._prepared.get(body.split(b"\0", 2)[1])
        return None
