"""The session filesystem over HTTP, as its document has it: bodies, statuses, defaults, encodings.

Each test runs against serving processes on SQLite and on PostgreSQL.
"""

from __future__ import annotations

import base64
import re
import uuid
from datetime import datetime
from typing import Any
from urllib.parse import quote

import pytest

from serving import Client, Served

FILE_FIELDS = [
    "id", "session_id", "path", "name", "content", "encoding", "is_directory", "is_readonly",
    "size_bytes", "created_at", "updated_at",
]  # fmt: skip
INFO_FIELDS = [field for field in FILE_FIELDS if field not in {"content", "encoding"}]
STAT_FIELDS = [field for field in INFO_FIELDS if field not in {"id", "session_id"}]


@pytest.fixture
def fs(served: Served) -> tuple[Client, str]:
    return served.session()


Fs = tuple[Client, str]


def test_the_examples_of_the_document(fs: Fs) -> None:
    client, url = fs
    body = {"content": "fn main() {}", "encoding": "text"}
    made = client.post(f"{url}/src/main.rs", body)
    assert made.status == 201
    assert list(made.json) == FILE_FIELDS
    assert made.json == {
        **made.json, "path": "/src/main.rs", "name": "main.rs", "content": "fn main() {}",
        "encoding": "text", "is_directory": False, "is_readonly": False, "size_bytes": 12,
        "session_id": url.split("/")[5],
    }  # fmt: skip
    assert uuid.UUID(made.json["id"]).version == uuid.UUID(made.json["session_id"]).version == 7
    for name in ("created_at", "updated_at"):
        assert datetime.fromisoformat(made.json[name]).tzinfo is not None

    docs = client.post(f"{url}/docs", {"is_directory": True})
    assert docs.status == 201
    assert list(docs.json) == [field for field in FILE_FIELDS if field != "content"]
    assert docs.json == {**docs.json, "is_directory": True, "size_bytes": 0, "encoding": "text"}

    listed = client.get(f"{url}/src")
    assert listed.status == 200
    assert list(listed.json) == ["data"]
    assert [list(each) for each in listed.json["data"]] == [INFO_FIELDS]
    assert listed.json["data"][0]["path"] == "/src/main.rs"
    assert listed.json["data"][0]["id"] == made.json["id"]

    for folder in ("_actions", "_"):
        found = client.post(
            f"{url}/{folder}/grep", {"pattern": "fn\\s+\\w+", "path_pattern": "*.rs"}
        )
        assert found.status == 200
        line = {"path": "/src/main.rs", "line_number": 1, "line": "fn main() {}"}
        assert found.json == {"data": [{"path": "/src/main.rs", "matches": [line]}]}


def test_reading(fs: Fs) -> None:
    client, url = fs
    assert client.get(url).json == {"data": []}
    made = client.post(f"{url}/a/b.txt", {"content": "hello"})
    assert client.get(f"{url}/a/b.txt").json == made.json
    assert client.get(f"{url}/a/b.txt/").json == made.json
    assert client.get(f"{url}/").json == client.get(url).json
    missing = client.get(f"{url}/a/none.txt")
    assert missing.status == 404
    assert missing.json["error"] == "File not found: /a/none.txt"
    assert missing.headers["content-type"] == "application/problem+json"
    assert client.get(f"{url}/a/b.txt/below").status == 400


def refused(fs: Fs, method: str, path: str, body: Any, status: int, error: str) -> None:
    client, url = fs
    reply = client.call(method, f"{url}{path}", body)
    assert reply.status == status, reply
    assert reply.json["error"] == error
    assert reply.json["status"] == status
    assert reply.json["remedy"]


def test_creating(fs: Fs) -> None:
    client, url = fs
    client.post(f"{url}/a/b/c.txt", {"content": "x"})
    assert [each["path"] for each in client.get(f"{url}/a").json["data"]] == ["/a/b"]
    refused(
        fs, "POST", "/a/b/c.txt", {"content": "y"}, 409, "File already exists at path: /a/b/c.txt"
    )
    refused(fs, "POST", "/a/b", {"content": "y"}, 409, "File already exists at path: /a/b")
    refused(
        fs, "POST", "/a/b/c.txt", {"is_directory": True}, 400, "A file exists at path: /a/b/c.txt"
    )
    refused(
        fs,
        "POST",
        "/a/b/c.txt/d",
        {"content": ""},
        400,
        "A file exists on the way to: /a/b/c.txt/d",
    )
    refused(fs, "POST", "/a/b/c.txt/d", {"is_directory": True}, 400,
            "A file exists on the way to: /a/b/c.txt/d")  # fmt: skip
    refused(fs, "POST", "", {"content": ""}, 400, "Cannot create at root path, specify a path")
    refused(fs, "POST", "/", {"content": ""}, 400, "Cannot create at root path, specify a path")
    assert client.get(f"{url}/a/b/c.txt").json["content"] == "x"
    once = client.post(f"{url}/d", {"is_directory": True})
    again = client.post(f"{url}/d", {"is_directory": True})
    assert (once.status, again.status, again.json) == (201, 201, once.json)


def test_a_file_without_content_is_empty(fs: Fs) -> None:
    client, url = fs
    made = client.post(f"{url}/empty", {})
    assert made.status == 201
    assert "content" not in made.json
    assert made.json["size_bytes"] == 0
    assert client.get(f"{url}/empty").json["content"] == ""
    assert client.post(f"{url}/locked", {"content": "x", "is_readonly": True}).json["is_readonly"]


def test_updating(fs: Fs) -> None:
    client, url = fs
    made = client.post(f"{url}/f", {"content": "one"}).json
    updated = client.put(f"{url}/f", {"content": "two!"})
    assert updated.status == 200
    assert list(updated.json) == FILE_FIELDS
    assert updated.json["content"] == "two!"
    assert updated.json["id"] == made["id"]
    assert updated.json["created_at"] == made["created_at"]
    assert updated.json["updated_at"] > made["updated_at"]
    assert client.put(f"{url}/f", {}).json == updated.json
    refused(fs, "PUT", "/none", {"content": "x"}, 404, "File not found")
    refused(fs, "PUT", "/none/below", {"content": "x"}, 404, "File not found")
    assert client.get(f"{url}/none").status == 404
    client.post(f"{url}/d", {"is_directory": True})
    refused(fs, "PUT", "/d", {"content": "x"}, 400, "Cannot update directory: /d")
    refused(fs, "PUT", "/d", {"is_readonly": True}, 400, "Cannot update directory: /d")
    refused(fs, "PUT", "", {"content": "x"}, 400, "Cannot update directory: /")


def test_readonly_files(fs: Fs) -> None:
    client, url = fs
    client.post(f"{url}/f", {"content": "one"})
    assert client.put(f"{url}/f", {"is_readonly": True}).json["is_readonly"]
    refused(fs, "PUT", "/f", {"content": "two"}, 400, "Cannot modify readonly file: /f")
    refused(
        fs, "PATCH", "/f", {"content": "x", "offset": 0}, 400, "Cannot modify readonly file: /f"
    )
    assert client.post(f"{url}/_/copy", {"src_path": "/f", "dst_path": "/g"}).json["is_readonly"]
    moved = client.post(f"{url}/_/move", {"src_path": "/g", "dst_path": "/h"})
    assert moved.json["is_readonly"]
    both = client.put(f"{url}/f", {"is_readonly": False, "content": "two"})
    assert (both.json["content"], both.json["is_readonly"]) == ("two", False)
    locked = client.put(f"{url}/f", {"is_readonly": True, "content": "three"})
    assert (locked.json["content"], locked.json["is_readonly"]) == ("three", True)
    assert client.delete(f"{url}/f").json == {"deleted": True}


def test_deleting(fs: Fs) -> None:
    client, url = fs
    client.post(f"{url}/d/e/f", {"content": "x"})
    client.post(f"{url}/empty", {"is_directory": True})
    refused(fs, "DELETE", "/d", None, 400, "Directory is not empty. Use recursive=true to delete")
    assert client.delete(f"{url}/empty").json == {"deleted": True}
    assert client.delete(f"{url}/empty").json == {"deleted": False}
    assert client.delete(f"{url}/d/e/f/below").json == {"deleted": False}
    assert client.delete(f"{url}/d?recursive=true").json == {"deleted": True}
    assert client.delete(f"{url}/d?recursive=true").json == {"deleted": False}
    refused(fs, "DELETE", "", None, 400, "Cannot delete root directory")
    refused(fs, "DELETE", "?recursive=true", None, 400, "Cannot delete root directory")
    assert client.get(url).json == {"data": []}


def test_stat(fs: Fs) -> None:
    client, url = fs
    client.post(f"{url}/d/f", {"content": "four"})
    found = client.post(f"{url}/_/stat", {"path": "/d/f"})
    assert found.status == 200
    assert list(found.json) == STAT_FIELDS
    assert found.json["size_bytes"] == 4
    assert client.post(f"{url}/_/stat", {"path": "/d"}).json["is_directory"]
    root = client.post(f"{url}/_/stat", {"path": "/"}).json
    assert (root["name"], root["path"], root["is_directory"]) == ("/", "/", True)
    refused(fs, "POST", "/_/stat", {"path": "/none"}, 404, "Path not found")
    refused(fs, "POST", "/_/stat", {"path": "/d/f/g"}, 404, "Path not found")


def test_moving_and_copying(fs: Fs) -> None:
    client, url = fs
    made = client.post(f"{url}/f", {"content": "x"}).json
    moved = client.post(f"{url}/_/move", {"src_path": "/f", "dst_path": "/new/g"})
    assert moved.status == 200
    assert list(moved.json) == FILE_FIELDS
    assert (moved.json["id"], moved.json["path"]) == (made["id"], "/new/g")
    copied = client.post(f"{url}/_/copy", {"src_path": "/new/g", "dst_path": "/other/h"})
    assert copied.status == 201
    assert (copied.json["content"], copied.json["path"]) == ("x", "/other/h")
    assert copied.json["id"] != made["id"]
    for verb in ("move", "copy"):
        at = f"/_/{verb}"
        refused(
            fs, "POST", at, {"src_path": "/none", "dst_path": "/y"}, 404, "Source not found: /none"
        )
        refused(fs, "POST", at, {"src_path": "/new/g", "dst_path": "/other/h"}, 409,
                "Destination already exists: /other/h")  # fmt: skip
    refused(fs, "POST", "/_/copy", {"src_path": "/new", "dst_path": "/y"}, 400,
            "Cannot copy directories: /new")  # fmt: skip
    refused(fs, "POST", "/_/move", {"src_path": "/new", "dst_path": "/new/below"}, 400,
            "a directory cannot be moved into itself")  # fmt: skip
    assert client.post(f"{url}/_/move", {"src_path": "/new/g", "dst_path": "/new/g"}).status == 200
    assert client.get(f"{url}/new/g").json["content"] == "x"
    assert client.post(f"{url}/_/move", {"src_path": "/new", "dst_path": "/old"}).json[
        "is_directory"
    ]
    assert client.get(f"{url}/old/g").json["content"] == "x"


def test_names_beginning_with_an_underscore_belong_to_the_server(fs: Fs) -> None:
    client, url = fs
    sentence = "Paths starting with '_' are reserved for system actions"
    client.post(f"{url}/f", {"content": "x"})
    for path in ("/_x", "/_", "/_x/y", "/_/unknown", "/%5Fx"):
        refused(fs, "POST", path, {"content": ""}, 400, sentence)
        refused(fs, "POST", path, {"is_directory": True}, 400, sentence)
    refused(fs, "PUT", "/_x", {"content": ""}, 400, sentence)
    for verb in ("move", "copy"):
        refused(fs, "POST", f"/_/{verb}", {"src_path": "/f", "dst_path": "/_x"}, 400, sentence)
    assert client.post(f"{url}/src/__init__.py", {"content": ""}).status == 201
    moved = client.post(f"{url}/_/move", {"src_path": "/f", "dst_path": "/src/_private"})
    assert moved.status == 200


ENCODED = {
    "text": (b"hello", "text"),
    "empty": (b"", "text"),
    "png": (b"\x89PNG\r\n\x1a\n\0", "base64"),
    "late": (b"a" * 8191 + b"\0", "base64"),
    "later": (b"a" * 8192 + b"\0", "text"),
    "latin": (b"\xff", "base64"),
    "latin at the end": (b"a" * 9000 + b"\xff", "base64"),
    "unicode": ("ü€𝄞".encode(), "text"),
}


@pytest.mark.parametrize("name", ENCODED)
def test_encodings(fs: Fs, name: str) -> None:
    client, url = fs
    data, encoding = ENCODED[name]
    sent = base64.b64encode(data).decode()
    made = client.post(f"{url}/f", {"content": sent, "encoding": "base64"})
    assert made.status == 201
    for reply in (made, client.get(f"{url}/f")):
        assert reply.json["encoding"] == encoding
        assert reply.json["size_bytes"] == len(data)
        shown = reply.json["content"]
        assert (shown.encode() if encoding == "text" else base64.b64decode(shown)) == data


def test_encodings_that_are_none(fs: Fs) -> None:
    client, url = fs
    for wrong in ("iVBORw0KGgo", "****", "iVBO Rw0KGgo=", "ü", "iVBORw0KGgo=\n"):
        refused(fs, "POST", "/f", {"content": wrong, "encoding": "base64"}, 400,
                "Invalid base64 content")  # fmt: skip
    assert client.get(f"{url}/f").status == 404
    made = client.post(f"{url}/f", {"content": "iVBORw0KGgo=", "encoding": "rot13"})
    assert made.json["content"] == "iVBORw0KGgo="
    assert made.json["size_bytes"] == 12


def test_listings_show_directories_first(fs: Fs) -> None:
    client, url = fs
    for name in ("b", "é", "B", "a/x", "z/y", "_ok"[1:], "A/x", ".hidden"):
        client.post(f"{url}/{quote(name)}", {"content": "x"})
    shown = [each["path"] for each in client.get(url).json["data"]]
    assert shown == ["/A", "/a", "/z", "/.hidden", "/B", "/b", "/ok", "/é"]
    everything = [each["path"] for each in client.get(f"{url}?recursive=true").json["data"]]
    assert everything == sorted(everything, key=lambda path: path.encode().split(b"/"))
    assert len(everything) == 11


def test_recursion_ends_at_the_directory_that_was_asked_for(fs: Fs) -> None:
    client, url = fs
    for path in ("a/b/c", "a/d", "ab/x", "a.txt", "z"):
        client.post(f"{url}/{path}", {"content": "x"})
    below = client.get(f"{url}/a?recursive=true").json["data"]
    assert [each["path"] for each in below] == ["/a/b", "/a/b/c", "/a/d"]


def test_pages_of_listings_hold_each_entry_once(fs: Fs) -> None:
    client, url = fs
    names = [f"d{number // 5}/f{number:02}" for number in range(20)] + ["top"]
    for name in names:
        client.post(f"{url}/{name}", {"content": "x"})
    for question in ("recursive=true&", ""):
        whole = [each["path"] for each in client.get(f"{url}?{question}").json["data"]]
        for limit in (1, 3, 7):
            found: list[str] = []
            after = ""
            while True:
                page = client.get(f"{url}?{question}limit={limit}&after={quote(after)}").json
                assert len(page["data"]) <= limit
                found += [each["path"] for each in page["data"]]
                if "next" not in page:
                    break
                after = page["next"]
            assert sorted(found) == sorted(whole)


def test_grep_passes_over_what_is_no_text(fs: Fs) -> None:
    client, url = fs
    for name, data in (("t.rs", b"fn a\nno\nfn b"), ("n.rs", b"fn\0"), ("l.rs", b"fn \xff"),
                       ("x.py", b"fn c"), ("src/deep/u.rs", b"\n\nfn d")):  # fmt: skip
        sent = {"content": base64.b64encode(data).decode(), "encoding": "base64"}
        client.post(f"{url}/{name}", sent)

    def found(**body: str) -> dict[str, list[tuple[int, str]]]:
        data = client.post(f"{url}/_/grep", body).json["data"]
        assert all(match["path"] == each["path"] for each in data for match in each["matches"])
        return {
            each["path"]: [(match["line_number"], match["line"]) for match in each["matches"]]
            for each in data
        }

    assert found(pattern="fn", path_pattern="*.rs") == {
        "/l.rs": [(1, "fn �")],
        "/src/deep/u.rs": [(3, "fn d")],
        "/t.rs": [(1, "fn a"), (3, "fn b")],
    }
    assert set(found(pattern="fn")) == {"/l.rs", "/src/deep/u.rs", "/t.rs", "/x.py"}
    assert set(found(pattern="fn", path_pattern="/src/**")) == {"/src/deep/u.rs"}
    assert set(found(pattern="^fn c$", path_pattern="")) == {"/x.py"}
    assert found(pattern="nothing") == {}
    for wrong in ("(", "a**", "\\1", "(?=x)"):
        reply = client.post(f"{url}/_/grep", {"pattern": wrong})
        assert (reply.status, reply.json["error"][:15]) == (400, "Invalid regex: ")
    assert client.post(f"{url}/_/grep", {"pattern": "x", "path_pattern": "["}).status == 400


def test_a_pattern_takes_linear_time(fs: Fs) -> None:
    client, url = fs
    client.post(f"{url}/a", {"content": "a" * 200_000 + "!"})
    reply = client.post(f"{url}/_/grep", {"pattern": "(a+)+$", "path_pattern": "*a*a*a*a*b"})
    assert reply.json == {"data": []}
    assert client.post(f"{url}/_/grep", {"pattern": "(a+)+$"}).json == {"data": []}


HOSTILE = [
    "100%", "a_b", "a-b", "a b", " lead", "trail ", "back\\slash", "quote\"'", "new\nline", "tab\t",
    "semi;colon", "ü", "é", "日本", "‮rtl", "<script>", "%2e%2e", "con", "#1", "?", "&",
    "a" * 255, "~", "-rf", "…", "\x7f", "\x01",
]  # fmt: skip


def test_hostile_names_are_names(fs: Fs) -> None:
    client, url = fs
    for name in HOSTILE:
        at = f"{url}/dir/{quote(name, safe='')}"
        assert client.post(at, {"content": name}).status == 201, name
        read = client.get(at)
        assert read.json["content"] == name
        assert read.json["name"] == name
        assert read.json["path"] == f"/dir/{name}"
    listed = {each["name"] for each in client.get(f"{url}/dir").json["data"]}
    assert listed == set(HOSTILE)
    for name in HOSTILE:
        stat = client.post(f"{url}/_/stat", {"path": f"/dir/{name}"})
        assert stat.json["name"] == name
        assert client.delete(f"{url}/dir/{quote(name, safe='')}").json == {"deleted": True}
    assert client.get(f"{url}/dir").json == {"data": []}


def test_removing_one_name_spares_those_that_look_alike(fs: Fs) -> None:
    client, url = fs
    for path in ("my_dir/x", "my-dir/keep", "my%25dir/keep", "mydir/keep"):
        client.post(f"{url}/{path}", {"content": "x"})
    assert client.delete(f"{url}/my_dir?recursive=true").json == {"deleted": True}
    left = [each["path"] for each in client.get(url).json["data"]]
    assert left == ["/my%dir", "/my-dir", "/mydir"]


def test_directories_with_names_that_are_not_ascii_move_whole(fs: Fs) -> None:
    client, url = fs
    client.post(f"{url}/{quote('日本/é_x/ü')}", {"content": "x"})
    client.post(f"{url}/{quote('日本x/keep')}", {"content": "y"})
    moved = client.post(f"{url}/_/move", {"src_path": "/日本", "dst_path": "/neu/ß"})
    assert moved.status == 200
    assert client.get(f"{url}/{quote('neu/ß/é_x/ü')}").json["content"] == "x"
    assert client.get(f"{url}/{quote('日本x/keep')}").json["content"] == "y"


WRONG_PATHS = ["a//b", "../x", "a/../b", "a/./b", ".", "..", "a/..", "%2e%2e/x", "a%2F..%2Fb",
               "a/%2e/b", "/x", "a%00b", "%00"]  # fmt: skip


@pytest.mark.parametrize("path", WRONG_PATHS)
def test_paths_that_are_none_are_refused_everywhere(fs: Fs, path: str) -> None:
    client, url = fs
    for method, body in (("GET", None), ("POST", {"content": ""}), ("PUT", {"content": ""}),
                         ("POST", {"is_directory": True}), ("DELETE", None)):  # fmt: skip
        reply = client.call(method, f"{url}/{path}", body)
        assert reply.status == 400, (method, reply)
        assert reply.json["code"] == "invalid_path"


@pytest.mark.parametrize("path", ["", "a", "a/b", "//", "/a//b", "/..", "/a/../b", "/./a", "/a\0b"])
def test_paths_in_bodies_that_are_none_are_refused_everywhere(fs: Fs, path: str) -> None:
    client, url = fs
    client.post(f"{url}/f", {"content": "x"})
    for action, body in (
        ("stat", {"path": path}),
        ("move", {"src_path": path, "dst_path": "/y"}),
        ("move", {"src_path": "/f", "dst_path": path}),
        ("copy", {"src_path": path, "dst_path": "/y"}),
        ("copy", {"src_path": "/f", "dst_path": path}),
    ):
        reply = client.post(f"{url}/_/{action}", body)
        assert (reply.status, reply.json["code"]) == (400, "invalid_path"), (action, reply)


def test_long_names_and_paths(fs: Fs) -> None:
    client, url = fs
    assert client.post(f"{url}/{'a' * 256}", {"content": ""}).status == 400
    deep = "/".join(["x" * 200] * 20)
    assert client.post(f"{url}/{deep}", {"content": ""}).status == 201
    assert client.post(f"{url}/{deep}/{'y' * 200}", {"content": ""}).status == 400


WRONG_BODIES = [
    b"", b"null", b"[]", b"{", b'"x"', b'{"content":1}', b'{"content":"\xff"}', b'{"contnet":"x"}',
    b'{"content":"\\ud800x"}', b'{"is_directory":"yes"}', b"[" * 100_000,
    b'{"content":' + b"[" * 9999, b'{"content":NaN}', b"\xef\xbb\xbf{}",
]  # fmt: skip


@pytest.mark.parametrize("body", WRONG_BODIES, ids=lambda body: repr(body[:20]))
def test_bodies_that_are_wrong_are_refused(fs: Fs, body: bytes) -> None:
    client, url = fs
    for method in ("POST", "PUT"):
        reply = client.call(method, f"{url}/f", body, {"content-type": "application/json"})
        assert reply.status == 400, reply
    assert (
        client.call("POST", f"{url}/_/grep", body, {"content-type": "application/json"}).status
        == 400
    )
    assert client.get(f"{url}/f").status == 404


def test_bodies_of_other_types_are_refused(fs: Fs) -> None:
    client, url = fs
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""):
        reply = client.call("POST", f"{url}/f", b'{"content":""}', {"content-type": kind})
        assert reply.status == 415, kind


def test_a_body_may_have_ten_mebibytes(fs: Fs) -> None:
    client, url = fs
    room = 10 * 2**20 - len(b'{"content":""}')
    fits = b'{"content":"' + b"x" * room + b'"}'
    assert (
        client.call("POST", f"{url}/fits", fits, {"content-type": "application/json"}).status == 201
    )
    assert len(client.get(f"{url}/fits").json["content"]) == room
    reply = client.call("POST", f"{url}/f", fits + b" ", {"content-type": "application/json"})
    assert reply.status == 413
    client.close()
    pieces = iter([fits, b" "])
    reply = client.call("POST", f"{url}/f", pieces, {"content-type": "application/json"})
    assert reply.status == 413
    client.close()
    assert client.get(f"{url}/f").status == 404


def test_methods_that_a_path_does_not_have(fs: Fs) -> None:
    client, url = fs
    reply = client.call("GET", f"{url}/_/stat")
    assert (reply.status, reply.headers["allow"]) == (405, "POST")
    reply = client.call("TRACE", f"{url}/x")
    assert reply.status == 405
    assert re.fullmatch(r"DELETE, GET, HEAD, PATCH, POST, PUT", reply.headers["allow"])
    assert client.get("/v1/nothing").status == 404
    assert client.get("/").status == 404


def test_files_of_one_session_are_not_those_of_another(served: Served) -> None:
    client, url = served.session()
    _, other = served.session(client)
    client.post(f"{url}/f", {"content": "x"})
    assert client.get(f"{other}/f").status == 404
    assert client.get(other).json == {"data": []}
    assert client.post(f"{other}/_/grep", {"pattern": "."}).json == {"data": []}
    agent, session = url.split("/")[3], other.split("/")[5]
    mixed = f"/v1/agents/{agent}/sessions/{session}/fs"
    assert client.get(mixed).status == 404


def test_deleting_a_session_deletes_all_it_holds(fs: Fs) -> None:
    client, url = fs
    client.post(f"{url}/a/b", {"content": "x"})
    session = url.removesuffix("/fs")
    assert client.delete(session).json == {"deleted": True}
    for gone in (session, url, f"{url}/a/b"):
        assert client.get(gone).status == 404
    assert client.delete(session).status == 404
