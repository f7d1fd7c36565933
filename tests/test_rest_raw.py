"""Files as bytes over HTTP: streams both ways, ranges, conditions, headers safe for browsers."""

from __future__ import annotations

import hashlib
import http.client
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote, unquote

import pytest

from serving import OCTETS, Client, Served

Fs = tuple[Client, str]
RAW = {"accept": "application/octet-stream"}


@pytest.fixture
def fs(served: Served) -> Fs:
    return served.session()


def put(fs: Fs, name: str, data: bytes, **headers: str) -> str:
    """Puts a file, and answers its tag."""
    client, url = fs
    reply = client.call("PUT", f"{url}/_/raw/{name}", data, {**OCTETS, **headers})
    assert reply.status in {200, 201}, reply
    return reply.headers["etag"]


def test_bytes_go_in_and_come_out_as_they_are(fs: Fs) -> None:
    client, url = fs
    data = bytes(range(256)) * 1000
    made = client.call("PUT", f"{url}/_/raw/d/f", data, OCTETS)
    assert made.status == 201
    assert made.json == {
        "path": "/d/f", "size_bytes": len(data), "revision": 1,
        "sha256": hashlib.sha256(data).hexdigest(),
    }  # fmt: skip
    for path, headers in (
        (f"{url}/d/f", RAW),
        (f"{url}/_/raw/d/f", {}),
        (f"{url}/_/download/d/f", {}),
    ):
        reply = client.call("GET", path, headers=headers)
        assert (reply.status, reply.body) == (200, data)
        assert reply.headers["content-length"] == str(len(data))
        head = client.call("HEAD", path, headers=headers)
        assert (head.status, head.body) == (200, b"")
        assert head.headers["content-length"] == str(len(data))
    again = client.call("PUT", f"{url}/_/raw/d/f", b"new", OCTETS)
    assert (again.status, again.json["revision"]) == (200, 2)
    assert client.call("GET", f"{url}/d/f?revision=1", headers=RAW).body == data


def test_the_document_s_verbs_take_bytes_too(fs: Fs) -> None:
    client, url = fs
    assert client.call("PUT", f"{url}/f", b"x", OCTETS).status == 404
    assert client.call("POST", f"{url}/a/f", b"\0one", OCTETS).status == 201
    twice = client.call("POST", f"{url}/a/f", b"two", OCTETS)
    assert (twice.status, twice.json["error"]) == (409, "File already exists at path: /a/f")
    assert client.call("PUT", f"{url}/a/f", b"three", OCTETS).status == 200
    assert (
        client.call("PUT", f"{url}/a", b"x", OCTETS).json["error"] == "Cannot update directory: /a"
    )
    assert client.call("GET", f"{url}/a/f", headers=RAW).body == b"three"
    for path in ("_x", "_/raw/_x", ""):
        for method in ("POST", "PUT"):
            assert client.call(method, f"{url}/{path}", b"x", OCTETS).status in {400, 405}


RANGES = {
    "bytes=0-0": (0, 1), "bytes=2-4": (2, 5), "bytes=5-": (5, 10), "bytes=-3": (7, 10),
    "bytes=-30": (0, 10), "bytes=8-99": (8, 10), "bytes=0-": (0, 10),
}  # fmt: skip


@pytest.mark.parametrize("name", RANGES)
def test_ranges(fs: Fs, name: str) -> None:
    client, url = fs
    data = b"0123456789"
    put(fs, "f", data)
    first, end = RANGES[name]
    reply = client.get(f"{url}/_/raw/f", range=name)
    assert (reply.status, reply.body) == (206, data[first:end])
    assert reply.headers["content-range"] == f"bytes {first}-{end - 1}/10"
    assert reply.headers["content-length"] == str(end - first)


def test_ranges_that_are_none(fs: Fs) -> None:
    client, url = fs
    tag = put(fs, "f", b"0123456789")
    put(fs, "empty", b"")
    for nonsense in ("bytes=4-2", "bytes=-", "bytes=a-b", "lines=1-2", "bytes=0-1,4-5", "bytes=٣-"):
        reply = client.get(f"{url}/_/raw/f", range=nonsense.encode().decode("latin-1"))
        assert (reply.status, len(reply.body)) == (200, 10), nonsense
    for beyond in ("bytes=10-", "bytes=99-100", "bytes=-0"):
        reply = client.get(f"{url}/_/raw/f", range=beyond)
        assert (reply.status, reply.headers["content-range"]) == (416, "bytes */10")
    assert client.get(f"{url}/_/raw/empty", range="bytes=0-").status == 416
    same = client.get(f"{url}/_/raw/f", range="bytes=0-1", if_range=tag)
    other = client.get(f"{url}/_/raw/f", range="bytes=0-1", if_range='"other"')
    assert (same.status, other.status) == (206, 200)


def test_large_files_come_in_ranges_too(fs: Fs) -> None:
    client, url = fs
    data = hashlib.shake_256(b"large").digest(2**20 + 7)
    put(fs, "f", data)
    reply = client.get(f"{url}/_/raw/f", range="bytes=100000-900000")
    assert (reply.status, reply.body) == (206, data[100000:900001])


def test_a_tag_names_one_state(fs: Fs) -> None:
    client, url = fs
    first = put(fs, "f", b"one")
    assert first.startswith('"')
    assert client.get(f"{url}/_/raw/f").headers["etag"] == first
    assert client.get(f"{url}/_/raw/f", if_none_match=first).status == 304
    assert client.get(f"{url}/_/raw/f", if_none_match=f'"x", {first}').status == 304
    assert client.get(f"{url}/_/raw/f", if_none_match="*").status == 304
    second = put(fs, "f", b"two")
    assert second != first
    assert client.get(f"{url}/_/raw/f", if_none_match=first).status == 200
    client.delete(f"{url}/f")
    seen = {first, second, put(fs, "f", b"one"), put(fs, "f", b"two"), put(fs, "g", b"one")}
    assert len(seen) == 5
    as_json = client.get(f"{url}/f").headers["etag"]
    assert as_json not in seen
    assert client.get(f"{url}/f", if_none_match=as_json).status == 304
    client.put(f"{url}/f", {"is_readonly": True})
    assert client.get(f"{url}/f", if_none_match=as_json).status == 200


def test_a_lost_race_is_told(fs: Fs) -> None:
    client, url = fs
    old = put(fs, "f", b"one")
    new = put(fs, "f", b"two")
    as_json = client.get(f"{url}/f").headers["etag"]
    raw = f"{url}/_/raw/f"
    for headers in ({"if-match": old}, {"if-none-match": "*"}, {"if-none-match": new},
                    {"if-match": '"nonsense"'}):  # fmt: skip
        for reply in (
            client.call("PUT", raw, b"no", {**OCTETS, **headers}),
            client.call("PUT", f"{url}/f", b"no", {**OCTETS, **headers}),
            client.call("PUT", f"{url}/f", {"content": "no"}, headers),
            client.call("PATCH", f"{url}/f?offset=0", b"no", {**OCTETS, **headers}),
            client.call("DELETE", f"{url}/f", None, headers),
            client.call("POST", f"{url}/_/trash", {"path": "/f"}, headers),
        ):
            assert (reply.status, reply.json["code"]) == (412, "conflict"), (headers, reply)
    assert client.get(raw).body == b"two"
    assert client.call("PUT", raw, b"3", {**OCTETS, "if-match": f'"x", {as_json}'}).status == 200
    assert client.call("PUT", raw, b"4", {**OCTETS, "if-match": "*"}).status == 200
    assert client.call("PUT", raw, b"5", {**OCTETS, "if-none-match": old}).status == 200
    absent = f"{url}/_/raw/absent"
    assert client.call("PUT", absent, b"x", {**OCTETS, "if-match": "*"}).status == 412
    assert client.call("PUT", absent, b"x", {**OCTETS, "if-none-match": "*"}).status == 201
    assert client.call("PUT", absent, b"x", {**OCTETS, "if-match": "no quotes"}).status == 400


def test_of_many_writers_one_wins_each_revision(served: Served, fs: Fs) -> None:
    client, url = fs
    tag = put(fs, "f", b"0")
    won: list[int] = []

    def write(number: int) -> None:
        mine = served.client(client.token)
        headers = {**OCTETS, "if-match": tag}
        if mine.call("PUT", f"{url}/_/raw/f", b"%d" % number, headers).status == 200:
            won.append(number)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1
    assert client.get(f"{url}/_/raw/f").body == b"%d" % won[0]


def test_patching(fs: Fs) -> None:
    client, url = fs
    put(fs, "f", b"0123456789")
    assert client.call("PATCH", f"{url}/f?offset=3", b"abc", OCTETS).json["size_bytes"] == 10
    assert client.call("PATCH", f"{url}/f?offset=end", b"!", OCTETS).json["size_bytes"] == 11
    assert (
        client.patch(f"{url}/f", {"content": "QQ==", "encoding": "base64", "offset": 0}).status
        == 200
    )
    assert client.patch(f"{url}/f", {"content": "?", "offset": "end"}).status == 200
    assert client.get(f"{url}/f").json["content"] == "A12abc6789!?"
    assert client.call("PATCH", f"{url}/f?offset=14", b"x", OCTETS).status == 200
    assert client.call("GET", f"{url}/f", headers=RAW).body == b"A12abc6789!?\0\0x"
    for wrong in ("", "?offset=-1", "?offset=x", "?offset=1e3", "?offset=%D9%A1"):
        assert client.call("PATCH", f"{url}/f{wrong}", b"x", OCTETS).status == 400, wrong
    missing = client.call("PATCH", f"{url}/none?offset=0", b"x", OCTETS)
    assert (missing.status, missing.json["error"]) == (404, "File not found")
    assert client.call("PATCH", f"{url}/none?offset=end", b"x", OCTETS).status == 404
    assert client.call("PATCH", f"{url}/_x?offset=0", b"x", OCTETS).status == 400


def test_a_request_with_a_key_is_done_once(fs: Fs) -> None:
    client, url = fs
    put(fs, "f", b"")
    key = {"idempotency-key": "order-17"}
    for _ in range(2):
        reply = client.call("PATCH", f"{url}/f", {"content": "egg", "offset": "end"}, key)
        assert reply.json["size_bytes"] == 3
    other = client.call("PATCH", f"{url}/f", {"content": "milk", "offset": "end"}, key)
    assert (other.status, other.json["code"]) == (412, "conflict")
    tag = client.get(f"{url}/_/raw/f").headers["etag"]
    for _ in range(2):
        headers = {**OCTETS, "if-match": tag, "idempotency-key": "put"}
        reply = client.call("PUT", f"{url}/_/raw/f", iter([b"four"]), headers)
        assert (reply.status, reply.json["revision"]) == (200, 3), reply
    for _ in range(2):
        made = client.call("POST", f"{url}/new", {"content": "x"}, {"idempotency-key": "make"})
        assert made.status == 201
    for _ in range(2):
        moved = client.call("POST", f"{url}/_/move", {"src_path": "/new", "dst_path": "/moved"},
                            {"idempotency-key": "move"})  # fmt: skip
        assert moved.status == 200
    for _ in range(2):
        gone = client.call("DELETE", f"{url}/moved", None, {"idempotency-key": "gone"})
        assert gone.json == {"deleted": True}
    assert client.call("DELETE", f"{url}/f", None, {"idempotency-key": "x" * 256}).status == 400


ACTIVE = ["x.html", "x.svg", "x.xml", "x.js", "x.xhtml", "x.pdf", "x.unknown", "x.mhtml", "noext"]
PASSIVE = {"x.txt": "text/plain; charset=utf-8", "x.png": "image/png", "x.json": "application/json",
           "x.csv": "text/csv; charset=utf-8", "x.mp4": "video/mp4"}  # fmt: skip


def test_no_browser_runs_what_somebody_stored(fs: Fs) -> None:
    client, url = fs
    for name in (*ACTIVE, *PASSIVE):
        put(fs, name, b"<script>alert(1)</script>")
        for path, headers in ((f"{url}/_/raw/{name}", {}), (f"{url}/{name}", RAW)):
            sent = client.call("GET", path, headers=headers).headers
            assert sent["x-content-type-options"] == "nosniff"
            assert sent["content-security-policy"].startswith("sandbox;")
            kind = "inline" if name in PASSIVE else "attachment"
            assert sent["content-disposition"].startswith(f"{kind};"), name
            if name in PASSIVE:
                assert sent["content-type"] == PASSIVE[name]
    assert client.get(f"{url}/x.html").headers["content-type"] == "application/json"


def test_a_declared_type_is_kept_but_not_trusted(fs: Fs) -> None:
    client, url = fs
    for declared, shown, kind in (
        ("image/png", "image/png", "inline"),
        ("text/html", "text/html; charset=utf-8", "attachment"),
        ("IMAGE/SVG+XML; x=y", "image/svg+xml", "attachment"),
        ("nonsense", "application/octet-stream", "attachment"),
        ("text/plain, text/html", "application/octet-stream", "attachment"),
    ):
        put(fs, "f", b"x", **{"content-type": declared})
        client.call("PUT", f"{url}/_/raw/f", b"x", {"content-type": declared})
        sent = client.get(f"{url}/_/raw/f").headers
        assert sent["content-type"] == shown
        assert sent["content-disposition"].startswith(kind)
        client.delete(f"{url}/f")


NAMES = [
    'a"b',
    "a\\b",
    "a;b",
    "a\nb: c",
    "ü.txt",
    "日本.html",
    "%41",
    "a'b",
    "..x",
    " ",
    "\x7f",
    "a,b",
]


@pytest.mark.parametrize("name", NAMES)
def test_no_name_breaks_out_of_its_header(fs: Fs, name: str) -> None:
    client, url = fs
    put(fs, "d/" + quote(name, safe=""), b"x")
    reply = client.get(f"{url}/_/raw/d/{quote(name, safe='')}")
    assert (reply.status, reply.body) == (200, b"x")
    disposition = reply.headers["content-disposition"]
    _kind, plain, full = disposition.split("; ")
    assert plain.startswith('filename="')
    assert plain.endswith('"')
    assert not set(plain[10:-1]) & set('"\\%;\n')
    assert unquote(full.removeprefix("filename*=UTF-8''")) == name


def memory(served: Served) -> int:
    """The most memory that the server has ever held, in bytes."""
    for line in Path(f"/proc/{served.process.pid}/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) * 1024
    raise AssertionError


def test_large_files_stream_in_little_memory(served: Served, fs: Fs) -> None:
    client, url = fs
    blocks, block = 96, hashlib.shake_256(b"block").digest(2**20)
    before = memory(served)
    made = client.call("PUT", f"{url}/_/raw/big", iter([block] * blocks), OCTETS)
    assert made.json["size_bytes"] == blocks * 2**20
    wanted = hashlib.sha256(block * blocks).hexdigest()
    assert made.json["sha256"] == wanted
    read = hashlib.sha256()
    for piece in streamed(client, f"{url}/_/raw/big"):
        read.update(piece)
    assert read.hexdigest() == wanted
    assert memory(served) - before < 64 * 2**20
    assert client.get(f"{url}/big").status == 413
    assert client.call("HEAD", f"{url}/big", headers=RAW).headers["content-length"] == str(
        blocks * 2**20
    )


def streamed(client: Client, path: str) -> Iterator[bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", client.port, timeout=60)
    connection.request("GET", path, headers={"authorization": f"Bearer {client.token}"})
    response = connection.getresponse()
    while piece := response.read(2**20):
        yield piece
    connection.close()


def test_a_reader_sees_one_revision_whatever_is_written(fs: Fs) -> None:
    client, url = fs
    size = 8 * 2**20
    put(fs, "f", b"a" * size)
    pieces = streamed(client, f"{url}/_/raw/f")
    seen = bytearray(next(pieces))
    put(fs, "f", b"b" * size)
    client.delete(f"{url}/f")
    for piece in pieces:
        seen += piece
    assert bytes(seen) == b"a" * size


def test_an_upload_that_breaks_off_leaves_nothing(served: Served, fs: Fs) -> None:
    client, url = fs
    put(fs, "f", b"old")
    connection = http.client.HTTPConnection("127.0.0.1", client.port, timeout=60)
    connection.putrequest("PUT", f"{url}/_/raw/f")
    connection.putheader("authorization", f"Bearer {client.token}")
    connection.putheader("content-length", str(10 * 2**20))
    connection.endheaders()
    connection.send(b"x" * 2**20)
    connection.close()
    chunked = http.client.HTTPConnection("127.0.0.1", client.port, timeout=60)
    chunked.putrequest("PUT", f"{url}/_/raw/f")
    chunked.putheader("authorization", f"Bearer {client.token}")
    chunked.putheader("transfer-encoding", "chunked")
    chunked.endheaders()
    chunked.send(b"5\r\nhello\r\n")
    chunked.close()
    assert client.get(f"{url}/_/raw/f").body == b"old"
    assert client.get(f"{url}/_/history/f").json["data"][0]["revision"] == 1
