"""Changes as they come: each of them, in order, to whoever may see them, on both databases."""

from __future__ import annotations

import socket
import threading
from typing import Any

import msgspec
import pytest

from serving import Client, Served, serving, wait_until

Fs = tuple[Client, str]


@pytest.fixture
def fs(served: Served) -> Fs:
    return served.session()


class Stream:
    """A reader of server-sent events that takes them as they come."""

    def __init__(self, client: Client, path: str, *, buffer: int = 0, **headers: str) -> None:
        self.socket = socket.socket()
        if buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        self.socket.settimeout(30)
        self.socket.connect(("127.0.0.1", client.port))
        lines = [
            f"GET {path} HTTP/1.1", "Host: localhost", "Accept: text/event-stream",
            f"Authorization: Bearer {client.token}",
            *(f"{name.replace('_', '-')}: {value}" for name, value in headers.items()),
        ]  # fmt: skip
        self.socket.sendall(("\r\n".join(lines) + "\r\n\r\n").encode())
        self._file = self.socket.makefile("rb")
        self.status = int(self._file.readline().split()[1])
        self.headers = {}
        while (line := self._file.readline().strip()) != b"":
            name, _, value = line.decode().partition(": ")
            self.headers[name.lower()] = value
        self._text = b""

    def next(self) -> tuple[int, str, Any]:
        """Number, name and body of the next event that has a body."""
        while True:
            while b"\n\n" not in self._text:
                size = int(self._file.readline(), 16)
                if size == 0:
                    raise EOFError
                self._text += self._file.read(size)
                self._file.readline()
            block, _, self._text = self._text.partition(b"\n\n")
            fields = dict(line.split(b": ", 1) for line in block.split(b"\n") if b": " in line)
            if b"data" in fields:
                body = msgspec.json.decode(fields[b"data"])
                return int(fields[b"id"]), fields[b"event"].decode(), body

    def close(self) -> None:
        self._file.close()
        self.socket.close()


def events_of(url: str) -> str:
    return url.removesuffix("/fs") + "/events"


def test_a_stream_tells_each_change_once_and_in_order(fs: Fs) -> None:
    client, url = fs
    client.post(f"{url}/before", {"content": ""})
    stream = Stream(client, events_of(url))
    assert stream.status == 200
    assert stream.headers["content-type"] == "text/event-stream"
    cursor, name, body = stream.next()
    assert (name, body) == ("ready", {"cursor": cursor})
    client.post(f"{url}/d/f", {"content": "x"})
    client.put(f"{url}/d/f", {"content": "y"})
    client.post(f"{url}/_/move", {"src_path": "/d/f", "dst_path": "/g"})
    client.delete(f"{url}/g")
    told = [stream.next() for _ in range(5)]
    assert [number for number, _, _ in told] == list(range(cursor + 1, cursor + 6))
    assert [name for _, name, _ in told] == ["create", "create", "write", "move", "remove"]
    assert told[3][2] == {**told[3][2], "path": "/d/f", "to": "/g", "by": "operator:operator"}
    stream.close()


def test_a_stream_goes_on_where_another_one_broke_off(fs: Fs) -> None:
    client, url = fs
    for number in range(5):
        client.post(f"{url}/f{number}", {"content": ""})
    stream = Stream(client, f"{events_of(url)}?after=0")
    stream.next()
    first = [stream.next() for _ in range(2)]
    stream.close()
    client.post(f"{url}/later", {"content": ""})
    again = Stream(client, f"{events_of(url)}?after=0", last_event_id=str(first[-1][0]))
    again.next()
    rest = [again.next() for _ in range(4)]
    paths = [body["path"] for _, _, body in first + rest]
    assert paths == ["/f0", "/f1", "/f2", "/f3", "/f4", "/later"]
    again.close()
    for wrong in ("x", "-1", "9" * 19, "1e3"):
        reply = client.get(events_of(url), accept="text/event-stream", last_event_id=wrong)
        assert reply.status == 400


def test_a_stream_tells_what_another_process_changes(served: Served, fs: Fs) -> None:
    client, url = fs
    tenant, session = client.get("/v1/token").json["tenant"], url.split("/")[5]
    stream = Stream(client, events_of(url))
    stream.next()
    served.store.tenant(tenant).space("session", session, create=False).write("/x", "x")
    assert stream.next()[2]["path"] == "/x"
    stream.close()


def test_streams_are_filtered(fs: Fs) -> None:
    client, url = fs
    questions = {
        "path=/d": ["/d/a.py", "/d/e", "/d/e/b.txt"],
        "path=/d&recursive=false": ["/d/a.py", "/d/e"],
        "glob=*.py": ["/d/a.py", "/c.py"],
        "kinds=remove": ["/c.py"],
        "kinds=remove,write": ["/c.py", "/c.py"],
    }
    client.post(f"{url}/d", {"is_directory": True})
    start = client.get(f"{url}/_/changes").json["next"]
    client.post(f"{url}/d/a.py", {"content": ""})
    client.post(f"{url}/d/e/b.txt", {"content": ""})
    client.post(f"{url}/c.py", {"content": ""})
    client.put(f"{url}/c.py", {"content": "x"})
    client.delete(f"{url}/c.py")
    for question, wanted in questions.items():
        page = client.get(f"{events_of(url)}?after={start}&{question}").json
        created = [each["path"] for each in page["data"]]
        if "glob" in question:
            created = list(dict.fromkeys(created))
        assert created == wanted, question
    for wrong in ("kinds=fly", "glob=[", "path=x", "recursive=maybe", "wait=-1", "wait=56"):
        assert client.get(f"{events_of(url)}?{wrong}").status == 400, wrong


def test_a_question_waits_for_what_it_is_about(served: Served, fs: Fs) -> None:
    client, url = fs
    nothing = client.get(events_of(url)).json
    assert nothing["data"] == []
    answers: list[Any] = []
    asking = served.client(client.token)
    question = f"{events_of(url)}?wait=30&path=/d&after={nothing['next']}"
    thread = threading.Thread(target=lambda: answers.append(asking.get(question).json))
    thread.start()
    client.post(f"{url}/other", {"content": ""})
    assert not answers
    client.post(f"{url}/d/f", {"content": ""})
    thread.join(30)
    assert [each["path"] for each in answers[0]["data"]][-1].startswith("/d")
    assert client.get(f"{events_of(url)}?wait=0.05&after={2**40}").json["data"] == []


def test_a_stream_ends_with_its_token_and_its_session(served: Served, fs: Fs) -> None:
    client, url = fs
    agent = url.split("/")[3]
    made = client.post("/v1/tokens", {"role": "agent", "agent_id": agent}).json
    mine = served.client(made["token"])
    stream, other = Stream(mine, events_of(url)), Stream(client, events_of(url))
    stream.next()
    other.next()
    client.delete(f"/v1/tokens/{made['id']}")
    client.post(f"{url}/f", {"content": "x"})
    _, name, body = stream.next()
    assert (name, body["code"]) == ("end", "not_authenticated")
    with pytest.raises(EOFError):
        stream.next()
    assert other.next()[2]["path"] == "/f"
    client.delete(url.removesuffix("/fs"))
    assert other.next()[1:] == ("end", {"code": "not_found", "error": "there is no such session"})
    for each in (stream, other):
        each.close()


def test_nobody_hears_of_other_sessions(served: Served, fs: Fs) -> None:
    client, url = fs
    stranger, own = served.session()
    assert Stream(stranger, events_of(url)).status == 404
    stream = Stream(stranger, events_of(own))
    stream.next()
    client.post(f"{url}/secret", {"content": ""})
    stranger.post(f"{own}/mine", {"content": ""})
    assert stream.next()[2]["path"] == "/mine"
    stream.close()
    part = client.post("/v1/tokens", {"role": "operator", "paths": ["/d"]}).json["token"]
    confined = served.client(part)
    assert confined.get(events_of(url)).status == 403
    client.post(f"{url}/d/f", {"content": ""})
    client.post(f"{url}/_/move", {"src_path": "/d/f", "dst_path": "/away"})
    told = confined.get(f"{events_of(url)}?path=/d&after=0").json["data"]
    assert told[-1] == {**told[-1], "kind": "move", "path": "/d/f", "to": None}


def test_a_slow_reader_misses_nothing(fs: Fs) -> None:
    """It takes nothing while more comes than any buffer between it and the server holds."""
    client, url = fs
    slow = Stream(client, f"{events_of(url)}?after=0", buffer=4096)
    path = "/" + "/".join(["d" * 250] * 12)
    steps = [{"op": "append", "path": path, "content": "x"} for _ in range(300)]
    for _ in range(2):
        assert client.post(f"{url}/_/batch", {"operations": steps}).status == 200
    slow.next()
    numbers = [slow.next()[0] for _ in range(611)]
    assert numbers == list(range(1, 612))
    slow.close()


def test_many_streams_hear_of_one_change(served: Served, fs: Fs) -> None:
    client, url = fs
    streams = [Stream(client, events_of(url)) for _ in range(100)]
    for stream in streams:
        stream.next()
    client.post(f"{url}/f", {"content": ""})
    assert {stream.next()[2]["path"] for stream in streams} == {"/f"}
    for stream in streams:
        stream.close()


def test_a_process_that_stops_says_goodbye(sqlite_url: str) -> None:
    with serving(sqlite_url) as server:
        client, url = server.session()
        stream = Stream(client, events_of(url))
        stream.next()
        server.process.terminate()
        assert stream.next()[1] == "stop"
        with pytest.raises(EOFError):
            stream.next()
        wait_until(lambda: server.process.poll() is not None)
        stream.close()
