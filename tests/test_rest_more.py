"""What the server offers beyond the session filesystem's document, on both databases."""

from __future__ import annotations

import io
import tarfile
import zipfile
from typing import Any

import pytest

from keelfs.grant import Role
from keelfs.model import Limits
from serving import OCTETS, Client, Served

Fs = tuple[Client, str]


@pytest.fixture
def fs(served: Served) -> Fs:
    return served.session()


def files(fs: Fs, tree: dict[str, str]) -> None:
    client, url = fs
    for path, content in tree.items():
        assert client.post(f"{url}{path}", {"content": content}).status == 201


def test_agents_and_sessions(served: Served) -> None:
    client = served.client(served.token(served.tenant()))
    assert client.get("/v1/agents").json == {"data": []}
    sent = {"name": "coder", "description": "codes", "system_prompt": "Code.", "tags": ["a"],
            "capabilities": ["fs"], "default_model_id": "m"}  # fmt: skip
    made = client.post("/v1/agents", sent)
    assert made.status == 201
    assert made.json == {**made.json, **sent, "status": "active"}
    assert list(made.json) == [
        "id", "name", "description", "system_prompt", "default_model_id", "tags", "capabilities",
        "status", "created_at", "updated_at",
    ]  # fmt: skip
    agent = f"/v1/agents/{made.json['id']}"
    assert client.get(agent).json == made.json
    for wrong in ({}, {"name": ""}, {"name": "x" * 256}, {"name": 1}, {"name": "x", "nam": "y"}):
        assert client.post("/v1/agents", wrong).status == 400
    session = client.post(f"{agent}/sessions", {"title": "t", "tags": ["x"]})
    assert session.status == 201
    assert list(session.json) == [
        "id", "agent_id", "title", "tags", "model_id", "status", "user", "created_at",
        "started_at", "finished_at",
    ]  # fmt: skip
    assert session.json["agent_id"] == made.json["id"]
    assert session.json["status"] == "pending"
    url = f"{agent}/sessions/{session.json['id']}"
    assert client.get(url).json == session.json
    ids = [session.json["id"]]
    ids += [client.post(f"{agent}/sessions", {}).json["id"] for _ in range(4)]
    found: list[str] = []
    after = ""
    while True:
        page = client.get(f"{agent}/sessions?limit=2&after={after}").json
        found += [each["id"] for each in page["data"]]
        if "next" not in page:
            break
        after = page["next"]
    assert found == ids
    assert client.delete(agent).json == {"deleted": True}
    for gone in (agent, url, f"{agent}/sessions"):
        assert client.get(gone).status == 404
    assert client.post(f"{agent}/sessions", {}).status == 404


def test_tokens(served: Served, fs: Fs) -> None:
    client, url = fs
    agent, session = url.split("/")[3], url.split("/")[5]
    files(fs, {"/d/f": "x", "/e": "y"})
    own = client.get("/v1/token").json
    assert own["role"] == "operator"
    assert "token" not in own
    made = client.post("/v1/tokens", {
        "role": "agent", "agent_id": agent, "session_id": session, "paths": ["/d"],
        "verbs": ["read", "open", "list", "getstat"], "expires_in_s": 60, "label": "tool",
    })  # fmt: skip
    assert made.status == 201
    assert made.json["paths"] == ["/d"]
    assert made.json["label"] == "tool"
    narrow = served.client(made.json["token"])
    assert narrow.get(f"{url}/d/f").json["content"] == "x"
    assert narrow.get("/v1/token").json["id"] == made.json["id"]
    refusals = [narrow.get(f"{url}{path}") for path in ("/e", "/", "/none", "/da")]
    assert {(each.status, each.json["error"]) for each in refusals} == {
        (403, "this token does not reach here")
    }
    assert narrow.put(f"{url}/d/f", {"content": "no"}).status == 403
    assert narrow.post(f"{url}/d/g", {"content": "no"}).status == 403
    assert narrow.delete(f"{url}/d/f").status == 403
    wider = {"role": "agent", "agent_id": agent, "session_id": session}
    assert narrow.post("/v1/tokens", wider).status == 403
    listed = client.get("/v1/tokens").json["data"]
    assert made.json["id"] in [each["id"] for each in listed]
    assert all("token" not in each for each in listed)
    assert client.delete(f"/v1/tokens/{made.json['id']}").json == {"deleted": True}
    assert narrow.get(f"{url}/d/f").status == 401
    assert client.delete(f"/v1/tokens/{made.json['id']}").status == 404
    for wrong in ({"role": "king"}, {"role": "user"}, {"role": "agent"}, {},
                  {"role": "operator", "verbs": ["fly"]}, {"role": "operator", "paths": ["d"]},
                  {"role": "operator", "expires_in_s": 0}):  # fmt: skip
        assert client.post("/v1/tokens", wrong).status == 400, wrong


def test_without_a_token_nothing_is_told(served: Served, fs: Fs) -> None:
    client, url = fs
    files(fs, {"/f": "x"})
    nobody = served.client()
    there, absent = nobody.get(f"{url}/f"), nobody.get(f"{url}/none")
    assert there.status == absent.status == 401
    assert there.headers["www-authenticate"].startswith("Bearer")
    assert {**there.json, "request_id": ""} == {**absent.json, "request_id": ""}
    for scheme in ("Basic eDp5", "Bearer", "Bearer x", f"Token {client.token}", f"{client.token}"):
        assert nobody.get(f"{url}/f", authorization=scheme).status == 401
    assert nobody.get(f"{url}/f", authorization=f"bearer {client.token}").status == 200


def test_a_foreign_session_looks_like_none(served: Served, fs: Fs) -> None:
    """In status, headers and body, whatever is asked."""
    _, url = fs
    files(fs, {"/f": "x"})
    stranger, own = served.session()
    agent, session = url.split("/")[3], url.split("/")[5]
    own_agent = own.split("/")[3]
    absent = "01900000-0000-7000-8000-000000000000"

    def seen(method: str, agent: str, session: str, rest: str, body: Any) -> Any:
        reply = stranger.call(method, f"/v1/agents/{agent}/sessions/{session}{rest}", body)
        headers = {k: v for k, v in reply.headers.items() if k not in {"x-request-id", "date"}}
        return reply.status, headers, {**reply.json, "request_id": ""}

    for method, rest, body in (
        ("GET", "", None), ("GET", "/fs", None), ("GET", "/fs/f", None), ("GET", "/fs/none", None),
        ("POST", "/fs/f", {"content": ""}), ("PUT", "/fs/f", {"content": ""}),
        ("DELETE", "/fs/f", None), ("POST", "/fs/_/grep", {"pattern": "x"}),
        ("GET", "/fs/_/raw/f", None), ("GET", "/fs/_/usage", None), ("POST", "/fork", {}),
        ("GET", "/fs/_/archive/", None), ("DELETE", "", None), ("GET", "/limits", None),
    ):  # fmt: skip
        replies = [
            seen(method, *ids, rest, body)
            for ids in (
                (agent, session),
                (own_agent, session),
                (own_agent, absent),
                (absent, absent),
            )
        ]
        assert replies[0][0] == 404
        assert all(reply == replies[0] for reply in replies), (method, rest)


def test_history_and_restore(fs: Fs) -> None:
    client, url = fs
    files(fs, {"/f": "one\n"})
    for content in ("one\ntwo\n", "three\n"):
        client.put(f"{url}/f", {"content": content})
    page = client.get(f"{url}/_/history/f").json
    assert [each["revision"] for each in page["data"]] == [3, 2, 1]
    assert page["data"][0]["by"] == "operator:operator"
    assert "next" not in page
    first = client.get(f"{url}/_/history/f?limit=2").json
    rest = client.get(f"{url}/_/history/f?limit=2&before={first['next']}").json
    assert [each["revision"] for each in rest["data"]] == [1]
    assert client.get(f"{url}/f?revision=1").json["content"] == "one\n"
    assert client.get(f"{url}/f?revision=9").status == 404
    diff = client.get(f"{url}/_/diff/f?from=1&to=2")
    assert diff.status == 200
    assert "+two" in diff.body.decode()
    assert diff.headers["content-security-policy"].startswith("sandbox")
    assert client.get(f"{url}/_/diff/f").status == 400
    restored = client.post(f"{url}/_/restore", {"path": "/f", "revision": 1})
    assert restored.json["revision"] == 4
    assert client.get(f"{url}/f").json["content"] == "one\n"
    assert client.post(f"{url}/_/restore", {"path": "/f", "revision": 9}).status == 404
    assert client.get(f"{url}/_/history/none").status == 404


def test_trash(fs: Fs) -> None:
    client, url = fs
    files(fs, {"/d/f": "x", "/g": "y"})
    item = client.post(f"{url}/_/trash", {"path": "/d"}).json
    assert (item["path"], item["kind"], item["size_bytes"]) == ("/d", "directory", 1)
    assert client.get(f"{url}/d").status == 404
    assert client.get(f"{url}/_/trash").json == {"data": [item]}
    assert client.post(f"{url}/_/untrash", {"id": item["id"]}).status == 200
    assert client.get(f"{url}/d/f").json["content"] == "x"
    item = client.post(f"{url}/_/trash", {"path": "/g"}).json
    assert client.post(f"{url}/_/untrash", {"id": item["id"], "to": "/_x"}).status == 400
    assert client.delete(f"{url}/_/trash/{item['id']}").json == {"deleted": True}
    assert client.delete(f"{url}/_/trash/{item['id']}").status == 404
    assert client.delete(f"{url}/_/trash/%00").status == 404
    assert client.get(f"{url}/_/trash").json == {"data": []}


def test_snapshots_undo_and_fork(fs: Fs) -> None:
    client, url = fs
    files(fs, {"/f": "one"})
    assert client.post(f"{url}/_/snapshots", {"name": "s"}).status == 201
    assert client.post(f"{url}/_/snapshots", {"name": "s"}).status == 409
    client.put(f"{url}/f", {"content": "two"})
    assert [each["name"] for each in client.get(f"{url}/_/snapshots").json["data"]] == ["s"]
    session = url.removesuffix("/fs")
    for body, content in (({}, "two"), ({"snapshot": "s", "title": "twin"}, "one")):
        forked = client.post(f"{session}/fork", body)
        assert forked.status == 201
        twin = url.replace(session.rpartition("/")[2], forked.json["id"])
        assert client.get(f"{twin}/f").json["content"] == content
        client.put(f"{twin}/f", {"content": "theirs"})
    assert client.post(f"{session}/fork", {"snapshot": "none"}).status == 404
    assert client.get(f"{url}/f").json["content"] == "two"
    kept = client.post(f"{url}/_/rollback", {"name": "s"}).json
    assert kept["name"].startswith("before-rollback-")
    assert client.get(f"{url}/f").json["content"] == "one"
    client.put(f"{url}/f", {"content": "three"})
    changes = client.get(f"{url}/_/changes").json
    last = changes["data"][-1]
    assert (last["kind"], last["path"], last["by"]) == ("write", "/f", "operator:operator")
    assert client.post(f"{url}/_/undo", {"seq": last["seq"]}).json["changes"]
    assert client.get(f"{url}/f").json["content"] == "one"
    assert client.get(f"{url}/_/changes?after={changes['next']}").json["data"]
    assert client.delete(f"{url}/_/snapshots/s").json == {"deleted": True}
    assert client.post(f"{url}/_/rollback", {"name": "s"}).status == 404


def test_batches_are_done_whole_or_not_at_all(fs: Fs) -> None:
    client, url = fs
    steps = [
        {"op": "write", "path": "/a", "content": "1", "expect": "absent"},
        {"op": "append", "path": "/a", "content": "Mg==", "encoding": "base64"},
        {"op": "patch", "path": "/a", "offset": 0, "content": "x"},
        {"op": "mkdir", "path": "/d/e"},
        {"op": "copy", "path": "/a", "to": "/d/b"},
        {"op": "move", "path": "/d/b", "to": "/c"},
        {"op": "set_readonly", "path": "/c"},
        {"op": "restore", "path": "/a", "revision": 1},
        {"op": "stat", "path": "/c"},
        {"op": "trash", "path": "/d"},
        {"op": "remove", "path": "/c"},
    ]
    done = client.post(f"{url}/_/batch", {"operations": steps})
    assert done.status == 200, done
    assert len(done.json["data"]) == len(steps)
    assert done.json["data"][0]["revision"] == 1
    assert done.json["data"][-1] is None
    assert client.get(f"{url}/a").json["content"] == "1"
    before = client.get(f"{url}?recursive=true").json
    failing = [{"op": "write", "path": "/n", "content": ""}, {"op": "remove", "path": "/none"}]
    refused = client.post(f"{url}/_/batch", {"operations": failing})
    assert (refused.status, refused.json["operation"], refused.json["path"]) == (404, 1, "/none")
    assert client.get(f"{url}?recursive=true").json == before
    for wrong in (
        [], [{"op": "fly", "path": "/x"}], [{"op": "write"}], [{"op": "write", "path": "/_x"}],
        [{"op": "move", "path": "/a", "to": "/_x"}], [{"op": "move", "path": "/a"}],
        [{"op": "write", "path": "/a/../b"}], [{"op": "write", "path": "/a", "expect": -1}],
    ):  # fmt: skip
        assert client.post(f"{url}/_/batch", {"operations": wrong}).status == 400, wrong
    stale = [{"op": "write", "path": "/a", "content": "", "expect": 99}]
    assert client.post(f"{url}/_/batch", {"operations": stale}).status == 412


def test_limits_and_usage(served: Served, fs: Fs) -> None:
    client, url = fs
    session = url.removesuffix("/fs")
    files(fs, {"/d/f": "1234", "/g": "56"})
    assert client.get(f"{url}/_/usage").json["bytes"] == 6
    assert client.get(f"{url}/_/usage?path=/d").json["bytes"] == 4
    assert client.get("/v1/tenant/usage").json["bytes"] == 6
    narrowed = client.put(f"{session}/limits", {"bytes": 10, "file_bytes": 8})
    assert narrowed.json["bytes"] == client.get(f"{session}/limits").json["bytes"] == 10
    assert client.post(f"{url}/fits", {"content": "1234"}).status == 201
    over = client.post(f"{url}/over", {"content": "1"})
    assert (over.status, over.json["limit"], over.json["size"]) == (413, "space.bytes", 10)
    big = client.call("PUT", f"{url}/_/raw/big", iter([b"x" * 9]), OCTETS)
    assert (big.status, big.json["limit"]) == (413, "space.file_bytes")
    assert client.put(f"{session}/limits", {"bytes": -1}).status == 400
    assert client.put(f"{session}/limits", {"byte": 1}).status == 400
    tenant = client.get("/v1/token").json["tenant"]
    user = served.client(served.token(tenant, role=Role.USER, name="u", owner="u"))
    assert user.get("/v1/tenant/usage").status == 403
    assert user.put(f"{session}/limits", {}).status == 404
    served.store.tenant(tenant).set_limits(Limits(bytes=10))
    assert client.get("/v1/tenant/usage").json["limits"]["bytes"] == 10


TREE = {"/d/a.txt": "a" * 100, "/d/e/b.bin": "b", "/c": ""}


@pytest.mark.parametrize("form", ["zip", "tar", "tar.gz"])
def test_trees_go_out_and_in_as_archives(fs: Fs, form: str) -> None:
    client, url = fs
    files(fs, TREE)
    reply = client.get(f"{url}/_/archive/?format={form}")
    assert reply.status == 200
    assert reply.headers["content-disposition"].startswith("attachment")
    if form == "zip":
        with zipfile.ZipFile(io.BytesIO(reply.body)) as archive:
            names = [name for name in archive.namelist() if not name.endswith("/")]
    else:
        with tarfile.open(fileobj=io.BytesIO(reply.body)) as tar:
            names = [member.name for member in tar if member.isfile()]
    assert sorted(f"/{name}" for name in names) == sorted(TREE)
    kind = "zip" if form == "zip" else "tar"
    done = client.call("POST", f"{url}/_/import/back?format={kind}", reply.body, OCTETS)
    assert (done.status, done.json["files"]) == (201, 3)
    for path, content in TREE.items():
        assert client.get(f"{url}/back{path}").json["content"] == content
    again = client.call("POST", f"{url}/_/import/back?format={kind}", reply.body, OCTETS)
    assert again.status == 409
    question = f"format={kind}&replace=true"
    assert client.call("POST", f"{url}/_/import/back?{question}", reply.body, OCTETS).status == 201
    assert client.get(f"{url}/_/archive/none?format={form}").status == 404


def test_archives_that_are_none_leave_nothing(fs: Fs) -> None:
    client, url = fs

    def tar(*names: str) -> bytes:
        file = io.BytesIO()
        with tarfile.open(fileobj=file, mode="w") as archive:
            for name in names:
                archive.addfile(tarfile.TarInfo(name))
        return file.getvalue()

    for kind, data in (("zip", b"PK\x03\x04nonsense"), ("tar", b"x" * 2048), ("zip", b""),
                       ("tar", tar("ok", "../up")), ("tar", tar("ok", "/abs")),
                       ("tar", tar("ok", "_x"))):  # fmt: skip
        reply = client.call("POST", f"{url}/_/import/?format={kind}", data, OCTETS)
        assert reply.status == 400, (kind, data[:20], reply)
    assert client.call("POST", f"{url}/_/import/_x?format=tar", tar("a"), OCTETS).status == 400
    assert client.get(url).json == {"data": []}


def test_an_agent_s_token_brings_no_page_down(served: Served, fs: Fs) -> None:
    """What an agent may do by default: everything but taking away and managing."""
    client, url = fs
    agent = url.split("/")[3]
    made = client.post("/v1/tokens", {"role": "agent", "agent_id": agent}).json
    mine = served.client(made["token"])
    assert mine.post(f"{url}/f", {"content": "x"}).status == 201
    assert mine.put(f"{url}/f", {"content": "y"}).status == 200
    for method, path, body in (
        ("DELETE", "/f", None), ("POST", "/_/trash", {"path": "/f"}),
        ("POST", "/_/batch", {"operations": [{"op": "remove", "path": "/f"}]}),
        ("POST", "/_/undo", {"seq": 1}), ("POST", "/_/rollback", {"name": "s"}),
    ):  # fmt: skip
        reply = mine.call(method, f"{url}{path}", body)
        assert (reply.status, reply.json["code"]) == (403, "permission_denied"), path
    session = url.removesuffix("/fs")
    assert mine.delete(session).status == 403
    assert mine.post(f"{session}/fork", {}).status == 403
    assert mine.get(f"{url}/f").json["content"] == "y"
