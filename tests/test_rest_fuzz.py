"""Nothing that a client sends gives a 5xx, and every answer is one that the description has.

Schemathesis makes up requests out of the description, in all its phases; a corpus of what has
broken other servers goes to every route beside that.
"""

from __future__ import annotations

import subprocess
import sys
import urllib.parse
from collections.abc import Iterator
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from keelfs.surfaces.rest import description
from keelfs.surfaces.rest.routes import FS, ROUTES
from keelfs.surfaces.rest.table import Route
from serving import Client, Reply, Served, serving
from test_rest_openapi import DOCUMENT

CHECKS = (
    "not_a_server_error", "status_code_conformance", "content_type_conformance",
    "response_schema_conformance", "response_headers_conformance", "unsupported_method",
    "allow_header_conformance", "ignored_auth",
)  # fmt: skip

#: The session is there, so that requests reach the tree; what would delete it is sent elsewhere.
CONFIG = """
[parameters]
"path.agent" = "{agent}"
"path.session" = "{session}"
"query.wait" = 0

[[operations]]
include-name = "DELETE /v1/agents/{{agent}}"
parameters = {{ "path.agent" = "nobody" }}

[[operations]]
include-name = "DELETE /v1/agents/{{agent}}/sessions/{{session}}"
parameters = {{ "path.session" = "none" }}

# Each way in which one of 36 kinds of operations can be wrong is more than a run can try; the
# corpus below has the worst of them.
[[operations]]
include-name = "POST /v1/agents/{{agent}}/sessions/{{session}}/fs/_/operations"
phases.coverage.enabled = false
"""


def schemathesis(server: Served, folder: Path, *options: str) -> None:
    token = server.token(server.tenant())
    client, url = server.session(server.client(token))
    client.post(f"{url}/notes/plan.md", {"content": "1. Read"})
    client.put(f"{url}/notes/plan.md", {"content": "2. Write"})
    _, _, _, agent, _, session, _ = url.split("/")
    config = folder / "schemathesis.toml"
    config.write_text(CONFIG.format(agent=agent, session=session), encoding="utf-8")
    run = subprocess.run(
        [Path(sys.executable).with_name("schemathesis"), "--config-file", config, "run",
         f"http://127.0.0.1:{server.port}/v1/openapi.json", "--no-color", "--workers", "2",
         "--header", f"Authorization: Bearer {token}", "--checks", ",".join(CHECKS),
         "--continue-on-failure", "--warnings", "off", *options],
        capture_output=True, text=True, cwd=folder, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stdout[-8000:] + run.stderr[-2000:]
    for phase in ("Examples", "Coverage", "Fuzzing", "Stateful"):
        assert f"{phase} (in " in run.stdout, run.stdout[-8000:]
    # All routes but the one that the description itself came from.
    assert f"Tested: {len(ROUTES) - 1}\n" in run.stdout, run.stdout[-8000:]


def test_schemathesis_finds_nothing(tmp_path: Path) -> None:
    with serving(f"sqlite:///{tmp_path / 'k.db'}", "--no-log-requests") as server:
        schemathesis(server, tmp_path, "--max-examples", "2", "--seed", "7")


@pytest.mark.torture
def test_schemathesis_finds_nothing_in_many_more(server: Served, tmp_path: Path) -> None:
    schemathesis(server, tmp_path, "--max-examples", "200")


# --- what has broken others

DEEP = b"[" * 100_000 + b"]" * 100_000
BODIES: list[bytes] = [
    b"", b"null", b"[]", b'""', b"0", b"{", b"{}", b"\xff\xfe", b"\x00", b'"\xc3',
    b"\xef\xbb\xbf{}",
    DEEP, b'{"path":' * 50_000, b'{"content":"\\ud800"}', b'{"path":"\\udfff\\ud800"}',
    b'{"path":"/\\u0000"}', b'{"content":"\\u0000","encoding":"base64"}',
    b'{"content":"a","encoding":"base64"}', b'{"content":"====","encoding":"base64"}',
    b'{"content":1e400}', b'{"seq":1' + b"0" * 5000 + b"}", b'{"seq":-1}', b'{"seq":9e99}',
    b'{"seq":9223372036854775808}', b'{"path":"/a","revision":9223372036854775807}',
    b'{"content":"x","content":"y"}', b'{"name":"\\u0000"}', b'{"name":"' + b"x" * 300 + b'"}',
    b'{"id":"\\u0000"}', b'{"id":"99999999999999999999"}', b'{"name":""}', b'{"title":"\\u0000"}',
    b'{"pattern":"(?P<n>a)(?=b)"}', b'{"pattern":"(((((a*)*)*)*)*)*$"}', b'{"pattern":"\\u0000"}',
    b'{"pattern":"x","path_pattern":"[[[{{{**"}', b'{"pattern":"a{1000}{1000}"}',
    b'{"src_path":"/notes","dst_path":"/notes/plan.md/x"}', b'{"src_path":"/","dst_path":"/x"}',
    b'{"path":"' + b"/x" * 3000 + b'"}', b'{"path":"/a","offset":1e18}', b'{"bytes":1e30}',
    b'{"content":"x","offset":9223372036854775807}', b'{"role":"agent","agent_id":"\\u0000"}',
    b'{"role":"operator","expires_in_s":9223372036854775807}', b'{"role":"user","name":"a\\u0000"}',
    b'{"role":"operator","paths":["/\\u0000"],"verbs":["\\u0000"]}', b'{"role":"user","name":" "}',
    b'{"operations":[{"op":"patch","path":"/notes/plan.md","offset":9223372036854775807}]}',
    b'{"operations":[{"op":"write","path":"/a","content":"?","encoding":"base64"}]}',
    b'{"op":"list","path":"/","limit":-1}', b'{"op":"read","path":"/a"}',
    b'{"op":"read","path":"/a","length":-1}', b'{"op":"changes","after":-9223372036854775809}',
    b'{"op":"changes","after":1' + b"0" * 3000 + b"}", b'{"op":"truncate","path":"/a","size":1e18}',
    b'{"op":"setattrs","path":"/notes","attrs":{"xattrs":{"\\u0000":null}}}',
    b'{"op":"setattrs","path":"/notes","attrs":{"mode":9223372036854775808}}',
    b'{"op":"setattrs","path":"/notes","attrs":{"uid":9223372036854775807,"mtime_ns":-1}}',
    b'{"op":"mknod","path":"/n","kind":"file","rdev":9223372036854775807}',
    b'{"op":"once","key":"","inner":{"op":"getusage"}}',
    b'{"op":"once","key":"\\u0000","inner":{"op":"getusage"}}',
    b'{"op":"once","key":"k","inner":{"op":"open","path":"/notes/plan.md"}}',
    b'{"op":"once","key":"k","inner":{"op":"once","key":"k","inner":{"op":"getusage"}}}',
    b'{"op":"within","base":"/../..","inner":{"op":"rollback","name":"x"}}',
    b'{"op":"truncate","path":"/notes/plan.md","size":9223372036854775807}',
    b'{"op":"patch","path":"/notes/plan.md","offset":9223372036854775807,"data":"eA=="}',
    b'{"op":"batch","ops":[{"op":"batch","ops":[{"op":"read","path":"/a","length":99999999999}]}]}',
    b'{"op":"symlink","target":"\\u0000","path":"/l"}', b'{"op":"untrash","trash_id":"\\u0000"}',
]  # fmt: skip
TYPES = [
    "application/json", "application/json; charset=utf-16", "application/json\x0b", "text/plain",
    "application/octet-stream", "application/octet-stream; a=b", "multipart/form-data", "/", "é",
    "application/x-www-form-urlencoded", "application/vnd.api+json", "",
]  # fmt: skip
HEADERS = {
    "range": ["bytes=0-0", "bytes=-0", "bytes=9-1", "bytes=-" + "9" * 18,
              "bytes=" + "9" * 40 + "-", "bytes=0-0,2-3", "items=1-2", "bytes=",
              "bytes=\xff-", "bytes=0x1-2"],
    "if-match": ["*", '"', '"x"', "W/*", '"' + "0" * 32 + '-1"',
                 '"' + "0" * 32 + "-" + "9" * 18 + '"', ",,,", "\xff"],
    "if-none-match": ["*", "", "x", '"' + "f" * 32 + '-0"', "é"],
    "if-range": ["x", '"', "\xff"],
    "idempotency-key": ["", "\xff", "x" * 300, "k\xc3", " "],
    "last-event-id": ["-1", "9" * 18, "9" * 19, "\xb2", "x", ""],
    "accept": ["*", "application/octet-stream", "\xff", "," * 1000, "text/event-stream;q=x"],
    "authorization": ["", "Bearer", "Bearer \xff", "Basic eA==", "Bearer keel_1_" + "A" * 43,
                      "Bearer keel_" + "9" * 18 + "_" + "A" * 43, "Bearer keel_\xb2_" + "A" * 43],
    "host": ["", "\xff", "evil", "127.0.0.1:x", "[::1", "localhost:99999999"],
    "origin": ["null", "http://evil", "\xff"],
    "content-encoding": ["gzip", "\xff"],
    "expect": ["100-continue", "nothing"],
}  # fmt: skip
NAMES = [
    "%", "%00", "%ff", "%ed%a0%80", "%c3", "..", "%2e%2e", "%2F", "%2f..%2f", "a%0d%0ab", "\\", "_",
    "__", "con", "%F0%9F%98%80", "x" * 300, "/" * 50, "%25", "?", "%E2%80%AE", "-1", "0",
    "9" * 30, "*", "a;b=c", "%5C%5C", "%09", "~", "'%20OR%20'1'='1",
]  # fmt: skip


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Served]:
    """A server that logs no requests: nobody reads its log while it runs."""
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path_factory.mktemp('fuzz') / 'keelfs.db'}"
    else:
        url = request.getfixturevalue("postgres_cluster").create_database()
    with serving(url, "--no-log-requests") as server:
        yield server


@pytest.fixture
def client(server: Served) -> Iterator[Client]:
    client = server.client(server.token(server.tenant()))
    yield client
    client.close()


@pytest.fixture
def fs(server: Served, client: Client) -> str:
    _, url = server.session(client)
    assert client.post(f"{url}/notes/plan.md", {"content": "1. Read"}).status == 201
    return url


def address(route: Route, fs: str, tail: str = "notes/plan.md") -> str:
    _, _, _, agent, _, session, _ = fs.split("/")
    # What would delete the session that all others need is sent elsewhere.
    gone = route.method == "DELETE" and not route.template.startswith(FS)
    known = {"agent": "nobody" if gone else agent, "session": session}
    return description.address(route).format_map(
        {**dict.fromkeys(("path", "name", "item", "token", "artifact", "entry"), tail), **known}
    )


def check(reply: Reply, where: object) -> None:
    assert reply.status < 500, (where, reply)
    if reply.status >= 400 and reply.headers.get("content-type") == "application/problem+json":
        schema = {"$ref": "#/components/schemas/ProblemBody", "components": DOCUMENT["components"]}
        Draft202012Validator(schema).validate(reply.json)


def shown(route: Route) -> str:
    return f"{route.method} {route.template.rpartition('/fs')[2] or route.template}"


@pytest.mark.parametrize("route", [each for each in ROUTES if each.intake != "none"], ids=shown)
def test_hostile_bodies(route: Route, client: Client, fs: str) -> None:
    where = address(route, fs)
    for body in BODIES:
        check(client.call(route.method, where, body, {"content-type": "application/json"}), body)
    if route.intake != "whole":
        for body in BODIES[::5]:
            check(client.call(route.method, where, body, {"content-type": TYPES[4]}), body)


@pytest.mark.parametrize("name", HEADERS)
def test_hostile_headers(name: str, client: Client, fs: str) -> None:
    for route in ROUTES:
        where = address(route, fs)
        if route.intake in {"stream", "either"} or name in {"authorization", "host", "expect"}:
            continue
        for value in HEADERS[name]:
            body = None if route.intake == "none" else b'{"path":"/notes/plan.md"}'
            if route.name == "events" and name == "accept":
                continue
            sent = {"content-type": "application/json", name: value}
            check(client.call(route.method, where, body, sent), (where, value))


@pytest.mark.parametrize("name", ["authorization", "host", "expect", "if-match", "range"])
def test_hostile_headers_of_files(name: str, client: Client, fs: str) -> None:
    for value in HEADERS[name]:
        for method, where in (
            ("GET", f"{fs}/notes/plan.md"), ("GET", f"{fs}/_/raw/notes/plan.md"),
            ("PUT", f"{fs}/_/raw/notes/plan.md"), ("PATCH", f"{fs}/notes/plan.md?offset=end"),
        ):  # fmt: skip
            body = None if method == "GET" else b"bytes"
            sent = {"content-type": "application/octet-stream", name: value}
            try:
                reply = client.call(method, where, body, sent)
            except OSError:
                # A head that is none ends the connection.
                client.close()
                continue
            check(reply, (where, value))


@pytest.mark.parametrize("held", ["agent", "session"])
def test_hostile_ids(held: str, client: Client, fs: str) -> None:
    _, _, _, agent, _, session, _ = fs.split("/")
    for name in NAMES:
        ids = {"agent": agent, "session": session, held: urllib.parse.quote(name, safe="%")}
        for template in ("/v1/agents/{agent}/sessions/{session}", "/v1/agents/{agent}"):
            check(client.get(template.format_map(ids)), (held, name))


def test_hostile_names(client: Client, fs: str) -> None:
    for route in ROUTES:
        if not any(f"{{{name}" in route.template for name in ("path", "item", "name", "token")):
            continue
        for name in NAMES:
            where = address(route, fs, urllib.parse.quote(name, safe="%/?;=*'~\\"))
            body = None if route.intake == "none" else b'{"content":"x"}'
            check(client.call(route.method, where, body, {"content-type": TYPES[0]}), where)


@pytest.mark.parametrize("kind", TYPES)
def test_odd_content_types(kind: str, client: Client, fs: str) -> None:
    for route in ROUTES:
        if route.intake != "none":
            where = address(route, fs)
            reply = client.call(route.method, where, b'{"path":"/a"}', {"content-type": kind})
            check(reply, (where, kind))


def test_hostile_queries(client: Client, fs: str) -> None:
    values = ["", "-1", "0", "9" * 30, "1e5", "true", "%00", "%ff", "null", "NaN", "inf", "%F0%9F"]
    for route in ROUTES:
        if route.query is None or route.name == "events":
            continue
        for parameter in description._of_query(route.query):
            for value in values:
                where = f"{address(route, fs)}?{parameter['name']}={value}"
                body = None if route.intake == "none" else b"{}"
                check(client.call(route.method, where, body, {"content-type": TYPES[0]}), where)
