"""What a server refuses before it looks at anything, and how the process itself behaves."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from keelfs.grant import Role
from keelfs.server.log import MOST, Log
from serving import JSON, OCTETS, Client, Served, serving, wait_until

Fs = tuple[Client, str]


@pytest.fixture
def fs(served: Served) -> Fs:
    return served.session()


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server with little patience, which is stopped with a sound store like all others."""
    url = f"sqlite:///{tmp_path_factory.mktemp('strict') / 'keelfs.db'}"
    options = ("--head-seconds", "0.4", "--patience-seconds", "0.4", "--rate", "5",
               "--allow-host", "Files.Example", "--sweep-seconds", "0.3")  # fmt: skip
    with serving(url, *options) as server:
        yield server


def said(port: int, *pieces: bytes) -> bytes:
    """What a server says to these bytes until it closes the connection."""
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        for piece in pieces:
            connection.sendall(piece)
        answer = b""
        try:
            while piece := connection.recv(65536):
                answer += piece
        except ConnectionResetError:
            pass
        return answer


def status(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1]) if answer else 0


# -- by which name, from which page


def test_only_known_names_are_answered(served: Served, strict: Served, fs: Fs) -> None:
    client, url = fs
    for host in ("evil.example", "localhost.evil.example", "127.0.0.1.evil:80", "", "[::2]:1"):
        assert client.get(url, host=host).status == 421, host
    for host in ("localhost", "LOCALHOST:99", f"127.0.0.1:{client.port}", "[::1]:1", "[::1]"):
        assert client.get(url, host=host).status == 200, host
    assert strict.client().get("/v1/token", host="files.example:443").status == 401
    assert strict.client().get("/v1/token", host="other.example").status == 421
    assert status(said(served.port, b"GET /v1/token HTTP/1.0\r\n\r\n")) == 421


def test_pages_of_others_get_nothing(fs: Fs) -> None:
    client, url = fs
    own = f"127.0.0.1:{client.port}"
    for origin in ("https://evil.example", "null", "", f"http://{own}.evil.example", "http://"):
        for method, body in (("GET", None), ("POST", {"content": ""}), ("OPTIONS", None)):
            reply = client.call(method, f"{url}/x", body, {"origin": origin})
            assert reply.status == 403, origin
            assert not [name for name in reply.headers if name.startswith("access-control")]
    assert client.get(url, origin=f"http://{own}").status == 200
    preflight = client.call("OPTIONS", url, headers={
        "origin": f"http://{own}", "access-control-request-method": "PUT"})  # fmt: skip
    assert preflight.status == 405
    assert not [name for name in preflight.headers if name.startswith("access-control")]


# -- one parser, one length


def head(served: Served, *lines: str, method: str = "POST") -> bytes:
    first = (f"{method} /v1/agents HTTP/1.1", f"Host: localhost:{served.port}")
    token = served.token("smuggler")
    return "\r\n".join(
        (*first, f"Authorization: Bearer {token}", "Connection: close", *lines, "", "")
    ).encode()


def test_a_request_has_one_length(served: Served) -> None:
    body = b'{"name":"x"}'
    chunked = b"c\r\n" + body + b"\r\n0\r\n\r\n"
    good = head(served, "Content-Type: application/json", f"Content-Length: {len(body)}")
    assert status(said(served.port, good, body)) == 201
    for lines in (
        ("Content-Length: 12", "Transfer-Encoding: chunked"),
        ("Transfer-Encoding: chunked", "Content-Length: 12"),
        ("Content-Length: 12", "Content-Length: 13"),
        ("Content-Length: 12", "Content-Length: 12"),
        ("Content-Length: +12",), ("Content-Length: 0x0c",), ("Content-Length: 12, 12",),
        ("Transfer-Encoding: chunked", "Transfer-Encoding: identity"),
        ("Transfer-Encoding: xchunked",), ("Transfer-Encoding : chunked",),
        ("Content-Length: " + "9" * 30,), ("Content-Encoding: gzip", "Content-Length: 12"),
    ):  # fmt: skip
        sent = head(served, "Content-Type: application/json", *lines)
        answer = said(served.port, sent, body if "Content-Length" in lines[0] else chunked)
        assert status(answer) in {400, 413, 415}, (lines, answer)
        assert b"201 Created" not in answer
        assert answer.count(b"HTTP/1.1 ") == 1, (lines, answer)
    client = served.client(served.token("smuggler"))
    assert len(client.get("/v1/agents").json["data"]) == 1


def test_heads_that_are_too_large_are_refused(served: Served, fs: Fs) -> None:
    client, url = fs
    assert client.get(url, x_long="x" * 40_000).status == 431
    many = client.call("GET", url, headers={f"x-{number}": "1" for number in range(120)})
    assert many.status == 431
    assert client.get(f"{url}?{'x' * 20_000}=1").status == 414
    endless = said(served.port, b"GET / HTTP/1.1\r\n", b"x: " + b"y" * 200_000)
    assert status(endless) == 400
    assert status(said(served.port, b"NONSENSE\r\n\r\n")) == 400
    assert status(said(served.port, b"GET \xff HTTP/1.1\r\nHost: localhost\r\n\r\n")) == 400
    assert status(said(served.port, b"GET /%ff HTTP/1.1\r\nHost: localhost\r\n"
                       b"Connection: close\r\n\r\n")) == 400  # fmt: skip


def test_headers_that_contradict_each_other_are_refused(served: Served) -> None:
    for name in ("Authorization", "Host", "If-Match", "Range", "Idempotency-Key", "Origin"):
        sent = head(served, f"{name}: a", f"{name}: b", method="GET")
        assert status(said(served.port, sent)) == 400, name


# -- slow clients


def test_slow_heads_and_bodies_do_not_hold_the_server(strict: Served) -> None:
    """They are let go while others are served."""
    client, url = strict.session()
    slow_head = socket.create_connection(("127.0.0.1", strict.port), timeout=30)
    slow_head.sendall(b"GET / HTTP/1.1\r\nHost: local")
    silent = socket.create_connection(("127.0.0.1", strict.port), timeout=30)
    slow_body = socket.create_connection(("127.0.0.1", strict.port), timeout=30)
    slow_body.sendall(
        f"POST {url}/x HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {client.token}\r\n"
        "Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n{".encode()
    )
    slow_upload = socket.create_connection(("127.0.0.1", strict.port), timeout=30)
    slow_upload.sendall(
        f"PUT {url}/_/raw/x HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {client.token}"
        "\r\nContent-Length: 1000\r\n\r\nx".encode()
    )
    assert client.get(url).status == 200
    assert slow_head.recv(100) == b""
    assert silent.recv(100) == b""
    assert b" 408 " in slow_body.recv(1000)
    assert b" 408 " in slow_upload.recv(1000)
    for each in (slow_head, silent, slow_body, slow_upload):
        each.close()
    assert client.get(f"{url}/x").status == 404


def test_many_slow_clients_keep_nobody_waiting(served: Served, fs: Fs) -> None:
    client, url = fs
    slow = [socket.create_connection(("127.0.0.1", served.port)) for _ in range(200)]
    for each in slow:
        each.sendall(b"GET / HTTP/1.1\r\nHo")
    for number in range(20):
        assert client.post(f"{url}/f{number}", {"content": "x"}).status == 201
    for each in slow:
        each.close()


def test_a_principal_has_a_rate(strict: Served) -> None:
    client, url = strict.session()
    agent = url.split("/")[3]
    made = client.post("/v1/tokens", {"role": "agent", "agent_id": agent}).json
    eager = strict.client(made["token"])
    replies = [eager.get(url) for _ in range(60)]
    limited = [reply for reply in replies if reply.status == 429]
    assert limited
    assert {reply.status for reply in replies} == {200, 429}
    assert int(limited[0].headers["retry-after"]) >= 1
    assert limited[0].json["code"] == "rate_limited"
    assert {client.get(url).status for _ in range(60)} == {200}


# -- nothing a client sends is the server's fault


TEXTS = st.text(max_size=20) | st.sampled_from(["..", "/", "//", "\0", "_", "%", "x" * 300])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)
FIELDS = ["content", "encoding", "is_directory", "is_readonly", "path", "src_path", "dst_path",
          "pattern", "path_pattern", "name", "revision", "seq", "id", "to", "operations", "offset",
          "role", "paths", "verbs", "title", "tags", "snapshot", "bytes"]  # fmt: skip
BODIES = st.dictionaries(st.sampled_from(FIELDS), VALUES, max_size=4) | VALUES
ENDS = ["", "/f", "/d/f", "/_/stat", "/_/move", "/_/copy", "/_/grep", "/_/raw/f", "/_/history/f",
        "/_/restore", "/_/diff/f", "/_/changes", "/_/undo", "/_/trash", "/_/untrash", "/_/trash/x",
        "/_/snapshots", "/_/snapshots/s", "/_/rollback", "/_/batch", "/_/usage", "/_/archive/f",
        "/_/import/f", "/../events", "/../limits", "/../fork", "/../../../..", "/../../..",
        "/../../../../tokens"]  # fmt: skip
QUESTIONS = st.dictionaries(
    st.sampled_from(["limit", "after", "recursive", "revision", "offset", "path", "from", "to",
                     "kinds", "glob", "format", "before", "wait"]),
    TEXTS | st.integers(-(2**65), 2**65).map(str), max_size=3,
)  # fmt: skip
HEADERS = st.dictionaries(
    st.sampled_from(["range", "if-match", "if-none-match", "idempotency-key", "last-event-id",
                     "accept", "if-range", "content-encoding"]),
    st.text(st.characters(min_codepoint=32, max_codepoint=255, exclude_characters="\x7f"),
            max_size=30), max_size=2,
)  # fmt: skip


@settings(max_examples=150, deadline=None,
          suppress_health_check=[HealthCheck.function_scoped_fixture])  # fmt: skip
@given(data=st.data())
def test_nothing_a_client_sends_is_the_server_s_fault(served: Served, fs: Fs, data: Any) -> None:
    from urllib.parse import quote, urlencode

    client, url = fs
    end = data.draw(st.sampled_from(ENDS))
    for up in re.findall(r"/\.\.", end):
        url, end = url.rpartition("/")[0], end.removeprefix(up)
    end += data.draw(st.sampled_from(["", "", "/" + quote(data.draw(TEXTS), safe="")]))
    question = data.draw(QUESTIONS)
    body = data.draw(BODIES)
    method = data.draw(st.sampled_from(["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD"]))
    kind = data.draw(st.sampled_from([JSON, JSON, OCTETS, {}]))
    try:
        sent = msgspec.json.encode(body) if method in {"POST", "PUT", "PATCH"} else None
    except (msgspec.MsgspecError, UnicodeEncodeError, OverflowError):
        sent = b"{"
    asked = f"{url}{end}?{urlencode(question, errors='replace')}"
    if method == "DELETE" and not end.startswith(("/f", "/d", "/_")):
        return
    reply = client.call(method, asked, sent, {**kind, **data.draw(HEADERS)})
    assert reply.status < 500, reply
    if reply.status >= 400 and method != "HEAD":
        assert {"status", "error", "code", "remedy", "request_id"} <= set(reply.json)


# -- the process


def test_health_is_told(served: Served) -> None:
    nobody = served.client()
    assert (nobody.get("/healthz").status, nobody.get("/readyz").status) == (200, 200)
    figures = nobody.get("/metrics").body.decode()
    assert "keelfs_requests_total" in figures
    assert "process_resident_memory_bytes" in figures
    for proxied in ("x_forwarded_for", "via", "forwarded"):
        assert nobody.get("/metrics", **{proxied: "1.2.3.4"}).status in {404, 421}


def test_figures_count_routes_and_name_nobody(fs: Fs) -> None:
    client, url = fs
    client.get(f"{url}/secret-name")
    client.call("BREW", url)
    figures = client.get("/metrics").body.decode()
    assert re.search(r'keelfs_requests_total\{method="GET",route="read",status="404"\} \d', figures)
    tenant = client.get("/v1/token").json["tenant"]
    for told in ("secret-name", "BREW", tenant, client.token, *url.split("/")[3:6:2]):
        assert told not in figures


def test_the_log_tells_who_and_what_but_nothing_secret(sqlite_url: str) -> None:
    server = Served(sqlite_url)
    client, url = server.session()
    reply = client.post(f"{url}/secret-name", {"content": "secret content"})
    client.get(f"{url}/secret-name?after=secret-question")
    client.get(f"{url}/none")
    log = server.stop()
    server.store.close()
    lines = [msgspec.json.decode(line) for line in log.splitlines()]
    events = [line["event"] for line in lines]
    assert events[0] == "started"
    assert events[-2:] == ["stopping", "stopped"]
    made = next(line for line in lines if line.get("id") == reply.headers["x-request-id"])
    assert made == {
        **made, "level": "info", "event": "request", "route": "create", "method": "POST",
        "status": 201,
    }  # fmt: skip
    assert made["who"].endswith("/operator:operator")
    assert "secret" not in log
    assert str(client.token) not in log
    assert str(client.token).rpartition("_")[2] not in log


def test_a_stopping_process_finishes_what_it_has_begun(sqlite_url: str) -> None:
    with serving(sqlite_url) as server:
        client, url = server.session()
        tenant = client.get("/v1/token").json["tenant"]
        sent = threading.Event()

        def pieces() -> Iterator[bytes]:
            yield b"x" * 100_000
            sent.set()
            wait_until(lambda: refuses(server.port))
            yield b"y" * 100_000

        replies: list[Any] = []
        uploading = server.client(client.token)
        thread = threading.Thread(
            target=lambda: replies.append(uploading.call("PUT", f"{url}/_/raw/f", pieces(), OCTETS))
        )
        thread.start()
        sent.wait(30)
        server.process.send_signal(signal.SIGTERM)
        thread.join(30)
        assert replies[0].status == 201
        session = url.split("/")[5]
        kept = server.store.tenant(tenant).space("session", session).read("/f")
        assert kept == b"x" * 100_000 + b"y" * 100_000


def refuses(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return True
    return False


def test_a_killed_process_has_lost_nothing_that_it_acknowledged(sqlite_url: str) -> None:
    server = Served(sqlite_url)
    client, url = server.session()
    for number in range(20):
        assert client.post(f"{url}/f{number}", {"content": str(number)}).status == 201
    server.process.kill()
    server.process.communicate()
    server.store.close()
    with serving(sqlite_url) as again:
        client = again.client(client.token)
        for number in range(20):
            assert client.get(f"{url}/f{number}").json["content"] == str(number)


def test_a_process_sweeps_by_itself(strict: Served) -> None:
    client, _ = strict.session()
    wait_until(lambda: not re.search(
        r"keelfs_last_sweep_timestamp_seconds 0\.0", client.get("/metrics").body.decode()
    ))  # fmt: skip


def test_several_processes_serve_one_store(postgres_url: str) -> None:
    with serving(postgres_url) as one, serving(postgres_url) as two:
        client, url = one.session()
        other = two.client(client.token)
        client.post(f"{url}/f", {"content": "x"})
        assert other.get(f"{url}/f").json["content"] == "x"
        made = client.post("/v1/tokens", {"role": "operator"}).json
        narrow = two.client(made["token"])
        assert narrow.get("/v1/token").status == 200
        client.delete(f"/v1/tokens/{made['id']}")
        assert narrow.get("/v1/token").status == 401


# -- the command


def keelfs(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "keelfs", *arguments],
        capture_output=True, text=True, timeout=60, check=False, **options,
    )  # fmt: skip


def test_token_new_prints_a_token_and_nothing_else(tmp_path: Path) -> None:
    where = ("--data", str(tmp_path / "d"), "token", "new", "--tenant", "acme")
    done = keelfs(*where, "--role", "user", "--name", "alice", "--readonly", "--expires", "60")
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(r"keel_1_[A-Za-z0-9_-]{43}\n", done.stdout)
    assert done.stderr == ""
    with serving(f"sqlite:///{tmp_path / 'd' / 'keelfs.db'}") as server:
        own = server.client(done.stdout.strip()).get("/v1/token").json
        assert (own["tenant"], own["role"], own["user"]) == ("acme", Role.USER, "alice")
        assert "read" in own["verbs"]
        assert "write" not in own["verbs"]
    for wrong in (("--role", "user"), ("--role", "agent"), ("--role", "operator", "--verb", "fly"),
                  ("--role", "agent", "--agent", "none")):  # fmt: skip
        failed = keelfs(*where, *wrong)
        assert (failed.returncode, failed.stdout) in {(2, ""), (3, "")}, wrong
        assert failed.stderr
        assert "Traceback" not in failed.stderr


def test_the_first_start_shows_a_token_once(tmp_path: Path) -> None:
    for first in (True, False):
        process = subprocess.Popen(
            [sys.executable, "-m", "keelfs", "serve", "--data", str(tmp_path), "--port", "0"],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip
        assert process.stdout is not None
        port = int(process.stdout.readline().rpartition(":")[2])
        if first:
            link = process.stdout.readline().rpartition(" ")[2].strip()
            assert process.stdout.readline().startswith("The store is new.")
            token = process.stdout.readline().strip()
            assert Client(port, token).get("/v1/token").json["role"] == "operator"
            redeemed_once(port, link)
        process.terminate()
        rest = process.stdout.read()
        assert process.wait(60) == 0
        assert "keel_" not in rest


def redeemed_once(port: int, link: str) -> None:
    """A link asks, gives a token once, and can do nothing else."""
    nobody, path = Client(port), link.partition(str(port))[2]
    code = path.partition("code=")[2]
    holder = Client(port, code)
    for looked_at in ("agents", "tokens", "agents/x", "tenant/usage"):
        assert holder.get(f"/v1/{looked_at}").status == 403
    assert holder.post("/v1/agents", {"name": "x"}).status == 403
    assert holder.post("/v1/tokens", {"role": "operator", "verbs": ["redeem"]}).status == 403
    for _ in range(2):
        asked = nobody.get(path)
        assert (asked.status, f"value='{code}'" in asked.body.decode()) == (200, True)
        assert "script" not in asked.body.decode()
    form = {"content-type": "application/x-www-form-urlencoded"}
    shown = nobody.call("POST", "/welcome", f"code={code}".encode(), form)
    token = re.findall(r"<pre>(keel_[^<]+)</pre>", shown.body.decode())[0]
    assert Client(port, token).post("/v1/agents", {"name": "x"}).status == 201
    assert nobody.call("POST", "/welcome", f"code={code}".encode(), form).status == 403
    assert holder.call("POST", "/v1/redeem").status == 401
    assert Client(port, token).call("POST", "/v1/redeem").status == 403
    assert nobody.get("/welcome?" + "&" * 500).status == 200
    assert nobody.call("POST", "/welcome", b"%ff" * 5000, form).status == 403
    attack = nobody.get("/welcome?code='><script>alert(1)</script>".replace(">", "%3E"))
    assert b"<script>" not in attack.body


def test_commands_that_cannot_be_are_explained(tmp_path: Path) -> None:
    for arguments in (("serve", "--store", "nonsense"), ("serve", "--port", "99999999"),
                      ("serve", "--store", "memory:"), ("token",), ("fly",)):  # fmt: skip
        done = keelfs(*arguments, cwd=tmp_path)
        assert done.returncode != 0
        assert "Traceback" not in done.stderr, arguments
        assert done.stderr


def test_a_log_that_nobody_reads_keeps_nobody_waiting(sqlite_url: str) -> None:
    """The error stream is a pipe that is full after some hundred requests."""
    process = subprocess.Popen(
        [sys.executable, "-m", "keelfs", "serve", "--store", sqlite_url, "--port", "0"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    client = Client(int(process.stdout.readline().rpartition(":")[2]))
    for _ in range(1500):
        assert client.get("/v1/token").status == 401
    process.terminate()
    assert process.stderr is not None
    lines = process.stderr.read().splitlines()
    assert process.wait(30) == 0
    assert sum('"event":"request"' in line for line in lines) == 1500


def test_what_no_reader_takes_is_dropped_and_counted() -> None:
    reader, writer = os.pipe()
    with os.fdopen(reader, "rb") as end:
        with os.fdopen(writer, "wb") as stream:
            log = Log(stream)
            for number in range(MOST + 5000):
                log.write("info", "x", number=number)
            text: list[bytes] = []
            taking = threading.Thread(target=lambda: text.append(end.read()))
            taking.start()
            log.close(60)
        taking.join(60)
    dropped = sum(int(lines) for lines in re.findall(rb'"lines":(\d+)', text[0]))
    assert dropped > 0
    assert text[0].count(b'"event":"x"') + dropped == MOST + 5000
