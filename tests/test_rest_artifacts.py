"""Artifacts, memory entries and slash commands over HTTP, as their document has them.

Each test runs against serving processes on SQLite and on PostgreSQL.
"""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec
import pytest

from keelfs.grant import Role
from serving import Client, Served

ARTIFACT_FIELDS = [
    "id", "tenant_id", "conversation_id", "path", "sha256", "mime_type", "size", "created_at",
    "updated_at",
]  # fmt: skip
ENTRIES = "/v1/memory/entries"


@pytest.fixture
def talk(served: Served) -> tuple[Client, str]:
    """An operator, and the URL of a conversation."""
    client, fs = served.session()
    return client, f"/v1/conversations/{fs.split('/')[5]}"


Talk = tuple[Client, str]


def another(client: Client) -> str:
    """The URL of one more conversation of the same tenant."""
    agent = client.get("/v1/agents").json["data"][0]["id"]
    return f"/v1/conversations/{client.post(f'/v1/agents/{agent}/sessions', {}).json['id']}"


def test_an_artifact_is_made_changed_read_and_removed(talk: Talk) -> None:
    """S2-25, S2-27, S2-59 to S2-63, S2-X1, S2-X3."""
    client, url = talk
    body = {"path": "output\\report.md", "content": "one", "mime_type": "text/html"}
    made = client.post(f"{url}/artifacts", body)
    assert (made.status, made.json["created"]) == (201, True)
    assert list(made.json["artifact"]) == ARTIFACT_FIELDS
    assert made.json["artifact"]["path"] == "output/report.md"
    again = client.post(f"{url}/artifacts", {**body, "content": "four"})
    assert (again.status, again.json["created"]) == (200, False)
    assert again.json["artifact"]["id"] == made.json["artifact"]["id"] == 1
    assert again.json["conversation_used_bytes"] == again.json["tenant_used_bytes"] == 4
    assert client.get(f"{url}/artifacts/1").json == again.json["artifact"]
    listed = client.get(f"{url}/artifacts").json
    assert listed == {
        "conversation_id": url.rpartition("/")[2], "count": 1,
        "artifacts": [again.json["artifact"]], "bytes_used": 4, "tenant_bytes_used": 4,
    }  # fmt: skip
    raw = client.get(f"{url}/artifacts/1/raw")
    tag = f'"{hashlib.sha256(b"four").hexdigest()}"'
    assert (raw.status, raw.body, raw.headers["etag"]) == (200, b"four", tag)
    assert raw.headers["content-type"] == "text/html"
    assert raw.headers["x-content-type-options"] == "nosniff"
    assert raw.headers["content-disposition"].startswith("attachment")
    assert "sandbox" in raw.headers["content-security-policy"]
    for known in (tag, "*", f'"x", W/{tag}'):
        same = client.get(f"{url}/artifacts/1/raw", if_none_match=known)
        assert (same.status, same.body, same.headers["etag"]) == (304, b"", tag)
    assert client.get(f"{url}/artifacts/1/raw", if_none_match='"x"').status == 200
    assert client.delete(f"{url}/artifacts/1").json == {"deleted": True}
    assert client.delete(f"{url}/artifacts/1").status == 404


def test_the_conversation_in_the_address_counts(served: Served, talk: Talk) -> None:
    """S2-64 to S2-67, S2-X2: by the tenant's routes any of its artifacts, by others their own."""
    client, url = talk
    client.post(f"{url}/artifacts", {"path": "a", "content": "1"})
    other = another(client)
    for method, tail in (("GET", ""), ("GET", "/raw"), ("DELETE", "")):
        assert client.call(method, f"{other}/artifacts/1{tail}").status == 404
        foreign = served.session()[0]
        assert foreign.call(method, f"{url}/artifacts/1{tail}").status == 404
        assert foreign.call(method, f"/v1/artifacts/1{tail}").status == 404
        assert served.client().call(method, f"/v1/artifacts/1{tail}").status == 401
    assert client.get("/v1/artifacts").json["count"] == 1
    assert client.get("/v1/artifacts/1").json["path"] == "a"
    assert client.get("/v1/artifacts/1/raw").body == b"1"
    assert client.delete("/v1/artifacts/1").json == {"deleted": True}


def test_what_is_refused(talk: Talk) -> None:
    client, url = talk
    kept = f"{url}/artifacts"
    refused: list[tuple[dict[str, Any], int, str]] = [
        ({"path": "../x", "content": ""}, 400, "invalid path: traversal"),
        ({"path": "", "content": ""}, 400, "invalid path: empty path"),
        ({"path": "a"}, 400, "content"),
        ({"path": "a", "content": "", "mime_type": "a\r\nb: c/d"}, 400, "MIME"),
        ({"path": "a", "content": "x" * (2**20 + 1)}, 413, "1048576"),
    ]
    for body, status, says in refused:
        answer = client.post(kept, body)
        assert answer.status == status, answer
        assert says in answer.json["error"]
    assert client.get(kept).json["bytes_used"] == 0
    for wrong in ("0", "-1", "x", "1x", "9" * 30):
        assert client.get(f"/v1/artifacts/{wrong}").status == 400
    assert client.get(f"/v1/conversations/{'0' * 8}/artifacts").status == 404
    assert client.put(kept, {}).status == 405


def test_entries_link_and_expire(talk: Talk, served: Served) -> None:
    """S2-38 to S2-46, B2.4."""
    client, url = talk
    client.post(f"{url}/artifacts", {"path": "a", "content": "1"})
    entry = {"type": "reference", "title": "Findings", "content": "x", "tags": ["t"]}
    made = client.post(ENTRIES, {**entry, "artifact_id": 1})
    assert (made.status, made.json["id"], made.json["artifact"]["path"]) == (201, 1, "a")
    for wrong in (2, 0):
        assert client.post(ENTRIES, {**entry, "artifact_id": wrong}).status == 400
    foreign, elsewhere = served.session()
    foreign.post(
        f"/v1/conversations/{elsewhere.split('/')[5]}/artifacts", {"path": "b", "content": ""}
    )
    assert client.post(ENTRIES, {**entry, "type": "story"}).status == 400
    one = f"{ENTRIES}/1"
    assert client.patch(one, {"artifact_id": None}).json["artifact_id"] is None
    assert client.patch(one, {"artifact_id": 1, "title": "New"}).json["artifact_id"] == 1
    assert client.patch(one, {"artifact_id": 2}).status == 400
    assert [each["title"] for each in client.get(f"{ENTRIES}?tag=t&q=NEW").json["entries"]] == [
        "New"
    ]
    assert foreign.get(one).status == 404
    client.delete("/v1/artifacts/1")
    gone = client.get(one).json
    assert (gone["artifact_id"], gone["artifact"], gone["expired_artifact_id"]) == (None, None, 1)
    assert client.post(f"{one}/invalidate", {}).json == {"invalidated": True, "id": 1}
    for answer in (client.get(one), client.patch(one, {"title": "x"}), client.delete(one)):
        assert answer.status == 404


def test_roles(served: Served, talk: Talk) -> None:
    """An agent's token reaches its own conversation, and no route leads around the citation."""
    client, url = talk
    tenant = client.get("/v1/token").json["tenant"]
    agent = client.get("/v1/agents").json["data"][0]["id"]
    other = another(client)
    client.post(f"{url}/artifacts", {"path": "mine", "content": "1"})
    client.post(f"{other}/artifacts", {"path": "theirs", "content": "2"})
    bot = served.client(
        served.token(tenant, role=Role.AGENT, name=agent, agent=agent,
                     session=url.rpartition("/")[2])
    )  # fmt: skip
    assert bot.get(f"{url}/artifacts/1/raw").body == b"1"
    assert bot.get(f"{other}/artifacts").status == 404
    assert bot.get("/v1/artifacts/2/raw").status == 404
    assert [each["path"] for each in bot.get("/v1/artifacts").json["artifacts"]] == ["mine"]
    assert bot.delete(f"{url}/artifacts/1").status == 403
    entry = {"type": "reference", "title": "Steal", "artifact_id": 2}
    assert bot.post(ENTRIES, entry).status == 400
    user = served.client(served.token(tenant, role=Role.USER, name="ann", owner="ann"))
    assert user.get(f"{url}/artifacts").status == 404
    assert user.get("/v1/artifacts").json["count"] == 0


def events(body: bytes) -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    for frame in body.decode().split("\n\n")[:-1]:
        name, data = frame.split("\n")
        found.append(
            (name.removeprefix("event: "), msgspec.json.decode(data.removeprefix("data: ")))
        )
    return found


def test_commands(talk: Talk) -> None:
    """S2-28 to S2-35 over HTTP: files and results as events."""
    client, url = talk
    text = "/write --persist a.md\nx\n/endwrite\n/read a.md\n"
    answer = client.post(f"{url}/commands", {"text": text, "stream_id": "s1", "depth": 2})
    assert answer.headers["content-type"] == "text/event-stream"
    (file, written, read, end, done) = events(answer.body)
    assert file[0] == "file"
    assert file[1] == {
        "path": "a.md", "size": 1, "content": "x", "stream_id": "s1", "depth": 2,
        "agent": file[1]["agent"], "encoding": "utf-8",
    }  # fmt: skip
    assert "OK: persisted 1 bytes (artifact #1, 1 of 52428800 bytes used" in written[1]["text"]
    assert read == ("result", {"text": "[/read a.md]\nx\n[END READ]\n\n"})
    assert (end[1], done[0]) == ({"text": "[END TOOL RESULTS]\n"}, "done")
    other = another(client)
    refused = events(client.post(f"{other}/commands", {"text": "/read #1"}).body)
    assert "ERR: artifact #1 is in a different conversation" in refused[0][1]["text"]
    assert client.post("/v1/conversations/x/commands", {"text": ""}).status == 404
