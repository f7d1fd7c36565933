"""What a conversation keeps: numbers, limits, links, and who may read it, by every door."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import keelfs
from databases import ENGINES
from keelfs.assembly import Store, Tenant
from keelfs.errors import (
    InvalidArgument,
    InvalidPath,
    KeelError,
    NotFound,
    PermissionDenied,
    QuotaExceeded,
    TooLarge,
    Unsupported,
)
from keelfs.filing import Room
from keelfs.model import Limits, Principal
from keelfs.ops import Mkdir, Move, Write

BOT = Principal("agent", "bot")
MIB = 2**20


@pytest.fixture(params=ENGINES)
def store(request: pytest.FixtureRequest) -> Iterator[Store]:
    url = request.getfixturevalue(f"{request.param}_url")
    with keelfs.open(url) as opened:
        yield opened
        assert opened.check().findings == []


@pytest.fixture
def tenant(store: Store) -> Tenant:
    return store.tenant("acme")


def paths(tenant: Tenant, conversation: str = "c") -> list[str]:
    return sorted(each.path for each in tenant.artifacts(conversation).list().items)


def tree_of(tenant: Tenant, conversation: str = "c") -> Any:
    return tenant.agent_tree(session=conversation, agent="bot", user="u")


# -- one door and the other


def test_what_is_put_is_in_the_tree_and_the_other_way_round(tenant: Tenant) -> None:
    """S2-1, S2-2: the same file under one number, whoever made it."""
    kept, tree = tenant.artifacts("c"), tree_of(tenant)
    made = kept.put("output\\report.md", "one", mime="text/markdown")
    assert (made.created, made.artifact.id, made.artifact.path) == (True, 1, "output/report.md")
    assert tree.read("/artifacts/output/report.md") == b"one"
    tree.write("/artifacts/b", "by the tree")
    assert kept.read("b") == kept.read(2) == b"by the tree"
    assert [each.id for each in kept.list().items] == [2, 1]
    tree.append("/artifacts/output/report.md", "!")
    assert [each.id for each in kept.list().items] == [1, 2]
    tree.move("/artifacts/output", "/artifacts/elsewhere")
    assert kept.get(1).path == "elsewhere/report.md"


def test_an_overwrite_keeps_the_number(tenant: Tenant) -> None:
    """S2-25, S2-26, S2-57."""
    kept = tenant.artifacts("c")
    first = kept.put("a//b/", b"x" * 100_000)
    second = kept.put("a\\b", b"y" * 200_000)
    assert (second.created, second.artifact.id) == (False, first.artifact.id)
    assert second.artifact.updated_ns > first.artifact.updated_ns
    assert second.room.conversation_used_bytes == second.room.tenant_used_bytes == 200_000
    assert paths(tenant) == ["a/b"]


def test_a_number_is_never_given_again(tenant: Tenant) -> None:
    kept = tenant.artifacts("c")
    kept.put("deep/er/a", b"1")
    kept.delete(1)
    assert kept.put("deep", b"2").artifact.id == 2
    with pytest.raises(NotFound):
        kept.get(1)


def test_places_exchanged_in_one_batch(tenant: Tenant) -> None:
    kept, tree = tenant.artifacts("c"), tree_of(tenant)
    kept.put("a", b"1")
    kept.put("b", b"2")
    tree.batch([Move(f"/artifacts/{one}", f"/artifacts/{other}")
                for one, other in (("a", "x"), ("b", "a"), ("x", "b"))])  # fmt: skip
    assert (kept.get(1).path, kept.get(2).path) == ("b", "a")


def test_trash_hides_and_gives_back(tenant: Tenant) -> None:
    kept, tree = tenant.artifacts("c"), tree_of(tenant)
    kept.put("d/f", b"12")
    item = tree.trash("/artifacts/d")
    assert paths(tenant) == []
    with pytest.raises(NotFound):
        kept.read(1)
    assert kept.usage().conversation_used_bytes == 2
    tree.untrash(item.id)
    assert kept.get(1).path == "d/f"


def test_copies_transfers_and_rollback(tenant: Tenant) -> None:
    tree = tree_of(tenant)
    tree.write("/d/f", "1")
    tree.transfer("/d", "/artifacts/d", recursive=True)
    tree.copy("/artifacts/d", "/artifacts/e", recursive=True)
    space = tenant.space("artifacts", "c")
    space.snapshot("s")
    space.remove("/d", recursive=True)
    space.write("/g", "2")
    space.rollback("s")
    assert paths(tenant) == ["d/f", "e/f"]
    fork = space.fork("artifacts", "other")
    fork.write("/h", "3")
    assert paths(tenant, "other") == ["d/f", "e/f", "h"]


def test_nothing_of_another_dialect_gets_in(tenant: Tenant) -> None:
    """S2-7 to S2-21, by the tree, by trees that come from elsewhere, by links."""
    tree = tree_of(tenant)
    tree.write("/t/.hidden", "1")
    tree.write("/u/f", "1")
    tree.link("/u/f", "/u/g")
    for change in (
        lambda: tree.write("/artifacts/.env", "1"),
        lambda: tree.write("/artifacts/con.txt", "1"),
        lambda: tree.write("/artifacts/a\\b", "1"),
        lambda: tree.mkdir("/artifacts/.git"),
        lambda: tree.transfer("/t", "/artifacts/t", recursive=True),
        lambda: tree.transfer("/u", "/artifacts/u", recursive=True),
        lambda: tree.symlink("x", "/artifacts/l"),
        lambda: tenant.space("artifacts", "c").write("/" + "d/" * 130 + "f", "1", parents=True),
        lambda: tenant.artifacts("c").put("../x", "1"),
        lambda: tenant.artifacts("c").put("#1", "1"),
    ):
        with pytest.raises((InvalidPath, Unsupported)):
            change()
    assert paths(tenant) == []


# -- limits


def test_the_limits_are_exact(tenant: Tenant) -> None:
    """S2-22 to S2-24 and D4, with the numbers of the document."""
    kept = tenant.artifacts("c")
    kept.put("a", b"x" * MIB)
    with pytest.raises(TooLarge):
        kept.put("a", b"x" * (MIB + 1))
    kept.delete(1)
    tenant.set_limits(Limits(artifact_file_bytes=5))
    with pytest.raises(TooLarge):
        tenant.artifacts("c").put("a", b"123456")


def test_the_arithmetic_of_quotas(sqlite_url: str) -> None:
    with keelfs.open(sqlite_url, limits=Limits(artifact_file_bytes=None)) as store:
        tenant = store.tenant("acme")
        kept, tree = tenant.artifacts("c"), tree_of(tenant)
        kept.put("file", b"x" * 102_400)
        tree.write("/artifacts/rest", b"")
        tree.truncate("/artifacts/rest", 52_326_401 - 102_400)
        before = kept.at("file"), kept.usage()
        with pytest.raises(QuotaExceeded) as refused:
            kept.put("file", b"y" * 204_800)
        assert refused.value.limit == "space.bytes"
        assert (kept.at("file"), kept.usage()) == before
        assert kept.read("file") == b"x" * 102_400
        tree.truncate("/artifacts/rest", 52_326_400 - 102_400)
        room = kept.put("file", b"y" * 204_800).room
        assert room == Room(
            conversation_used_bytes=52_428_800, tenant_used_bytes=52_428_800,
            conversation_limit_bytes=52_428_800, tenant_limit_bytes=524_288_000,
        )  # fmt: skip
        for number in range(9):
            tree_of(tenant, f"c{number}").write("/artifacts/f", b"")
            tree_of(tenant, f"c{number}").truncate("/artifacts/f", 52_428_800)
        assert kept.usage().tenant_used_bytes == 524_288_000
        with pytest.raises(QuotaExceeded) as refused:
            tenant.artifacts("last").put("one", b"1")
        assert refused.value.limit == "tenant.artifact_bytes"
        kept.put("file", b"z" * 204_799)
        tenant.artifacts("last").put("one", b"1")
        tenant.delete_session("c0")
        assert kept.usage().tenant_used_bytes == 524_288_000 - 52_428_800
        assert store.check().findings == []


WRITER = """
import sys, keelfs
from keelfs.errors import LimitExceeded
from keelfs.model import Limits
url, who = sys.argv[1], int(sys.argv[2])
limits = Limits(artifact_file_bytes=700, artifact_space_bytes=9999, artifact_bytes=14999)
done = 0
with keelfs.open(url, limits=limits, busy_timeout_s=300.0) as store:
    tenant = store.tenant("acme")
    sys.stdin.readline()
    for number in range(5):
        kept = tenant.artifacts("one" if (who + number) % 2 else "two")
        for size in (701, 700):
            try:
                kept.put(f"{who}/{number}", b"x" * size)
                done += 1
            except LimitExceeded:
                pass
print(done)
"""


@pytest.mark.parametrize("engine", ENGINES)
def test_no_limit_is_passed_by_eight_processes(engine: str, request: pytest.FixtureRequest) -> None:
    """S2-X8: as much as fits gets in, and not a byte more."""
    url = request.getfixturevalue(f"{engine}_url")
    limits = Limits(artifact_file_bytes=700, artifact_space_bytes=9999, artifact_bytes=14_999)
    with keelfs.open(url, limits=limits) as store:
        tenant = store.tenant("acme")
        writers = [
            subprocess.Popen(
                [sys.executable, "-c", WRITER, url, str(who)],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            )
            for who in range(8)
        ]  # fmt: skip
        written = sum(int(each.communicate("go\n")[0]) for each in writers)
        assert written == 14_999 // 700
        used = [tenant.artifacts(each).usage() for each in ("one", "two")]
        assert used[0].tenant_used_bytes == written * 700
        assert sum(each.conversation_used_bytes for each in used) == written * 700
        assert max(each.conversation_used_bytes for each in used) <= 9999
        assert store.check().findings == []


# -- memory


def linked(tenant: Tenant) -> tuple[int, int]:
    """An artifact of conversation `c`, and an entry that links to it."""
    kept = tenant.artifacts("c", principal=BOT).put("report.md", "secret", mime="text/markdown")
    memory = tenant.memory(conversation="c", principal=BOT)
    made = memory.add("reference", "Findings", "see", tags=["a"], artifact=kept.artifact.id)
    return kept.artifact.id, made.id


def test_another_conversation_reads_by_citation_alone(tenant: Tenant) -> None:
    """S2-47 to S2-52, S2-X6: and every attempt is kept."""
    artifact, entry = linked(tenant)
    other = tenant.artifacts("d", principal=BOT)
    with pytest.raises(PermissionDenied):
        other.read(artifact)
    assert other.read(artifact, via=entry) == b"secret"
    unlinked = tenant.memory().add("project", "No link", "x").id
    with pytest.raises(PermissionDenied):
        other.read(artifact, via=unlinked)
    with pytest.raises(NotFound):
        other.read(artifact, via=99)
    own = tenant.artifacts("c", principal=BOT)
    assert own.read(artifact) == b"secret"
    with pytest.raises(PermissionDenied):
        own.read(artifact, via=unlinked)
    kept = [(each.conversation, each.entry, each.outcome == "granted") for each in own.citations()]
    assert kept == [
        ("d", None, False),
        ("d", entry, True),
        ("d", unlinked, False),
        ("d", 99, False),
    ]
    assert {each.author for each in own.citations()} == {"agent:bot"}


@pytest.mark.parametrize("revoke", ["invalidate", "delete", "unlink", "relink", "trash"])
def test_revocation_is_immediate(tenant: Tenant, revoke: str) -> None:
    artifact, entry = linked(tenant)
    memory, other = tenant.memory(), tenant.artifacts("d", principal=BOT)
    assert other.read(artifact, via=entry)
    match revoke:
        case "invalidate":
            memory.invalidate(entry)
        case "delete":
            memory.delete(entry)
        case "unlink":
            assert memory.update(entry, artifact=None).artifact is None
        case "relink":
            memory.update(entry, artifact=tenant.artifacts("c").put("else", "1").artifact.id)
        case _:
            tree_of(tenant).trash("/artifacts/report.md")
    with pytest.raises((NotFound, PermissionDenied)):
        other.read(artifact, via=entry)


def test_nobody_links_to_what_they_may_not_read(tenant: Tenant, store: Store) -> None:
    """S2-X5, S2-41."""
    artifact, _entry = linked(tenant)
    thief = tenant.memory(conversation="d", principal=BOT)
    with pytest.raises(PermissionDenied):
        thief.add("reference", "Mine", "x", artifact=artifact)
    mine = thief.add("reference", "Mine", "x").id
    with pytest.raises(PermissionDenied):
        thief.update(mine, artifact=artifact)
    foreign = store.tenant("globex")
    foreign.artifacts("c").put("a", "1")
    foreign.artifacts("c").put("b", "1")
    for number in (2, 0, -1, 2**70):
        with pytest.raises(InvalidArgument):
            tenant.memory().add("reference", "Theirs", "x", artifact=number)
    with pytest.raises(NotFound):
        tenant.artifacts("c").read(2)


@pytest.mark.parametrize("way", ["delete", "session", "tree", "many", "purge"])
def test_a_link_expires_with_its_artifact(tenant: Tenant, store: Store, way: str) -> None:
    """S2-43 to S2-46: the database clears it, and the entry says what it was."""
    artifact, entry = linked(tenant)
    tree = tree_of(tenant)
    match way:
        case "delete":
            tenant.artifacts("c").delete(artifact)
        case "session":
            tenant.delete_session("c")
        case "tree":
            tree.remove("/artifacts/report.md")
        case "many":
            tree.move("/artifacts/report.md", "/artifacts/d/report.md", parents=True)
            tree.batch([Mkdir(f"/artifacts/d/{each}") for each in range(1001)])
            tree.remove("/artifacts/d", recursive=True)
        case _:
            tree.purge(tree.trash("/artifacts/report.md").id)
    found = tenant.memory().get(entry)
    assert (found.artifact, found.expired_artifact, found.title) == (None, artifact, "Findings")
    store.sweep()
    assert tenant.memory().get(entry) == found


def test_entries_are_found_changed_and_bounded(tenant: Tenant) -> None:
    """B2.4."""
    memory = tenant.memory()
    first = memory.add("project", "Straße", "Ünïcode_100%", source="me", tags=["x", 'a"x"b'])
    second = memory.add("user", "Second", "", tags=['"x"'])
    assert [each.id for each in memory.list().items] == [second.id, first.id]
    for filters, wanted in (
        ({"type_": "user"}, [2]), ({"tag": "x"}, [1]), ({"tag": '"x"'}, [2]),
        ({"q": "STRASSE"}, [1]),
        ({"q": "code_1"}, [1]), ({"q": "code%1"}, []), ({"as_of_ns": first.created_ns}, [1]),
        ({"since_ns": second.created_ns}, [2]),
    ):  # fmt: skip
        filters_: dict[str, Any] = filters
        assert [each.id for each in memory.list(**filters_).items] == wanted, filters
    page = memory.list(limit=1)
    assert [each.id for each in memory.list(limit=1, cursor=page.next).items] == [1]
    changed = memory.update(1, title="New", tags=[])
    assert memory.get(1) == changed
    memory.invalidate(1)
    for refused in (lambda: memory.get(1), lambda: memory.update(1, title="x"),
                    lambda: memory.invalidate(1), lambda: memory.delete(1)):  # fmt: skip
        with pytest.raises(NotFound):
            refused()
    assert [each.id for each in memory.list(as_of_ns=first.created_ns).items] == [1]
    wrong: list[tuple[str, str, str, dict[str, Any]]] = [
        ("story", "t", "c", {}), ("user", "", "c", {}), ("user", "t" * 201, "c", {}),
        ("user", "t", "c" * 65_537, {}), ("user", "t", "ü" * 40_000, {}),
        ("user", "t", "c", {"source": "s" * 201}), ("user", "t", "c", {"tags": ["t"] * 33}),
        ("user", "t", "c", {"tags": ["t" * 65]}), ("user", "t\0", "c", {}),
    ]  # fmt: skip
    for type_, title, content, more in wrong:
        with pytest.raises(InvalidArgument):
            memory.add(type_, title, content, **more)


# -- lists and edges


def test_lists_have_pages(tenant: Tenant) -> None:
    """S2-X12: what changed last first, and none twice."""
    kept = tenant.artifacts("c")
    tree_of(tenant).batch([Write(f"/artifacts/{each}", b"x") for each in range(205)])
    seen, cursor = list[int](), None
    while True:
        page = kept.list(cursor=cursor, limit=100)
        seen += [each.id for each in page.items]
        cursor = page.next
        if cursor is None:
            break
    assert seen == list(range(205, 0, -1))
    for cursor in ("x", "1", "-", "1-x", "١-1"):
        with pytest.raises(InvalidArgument):
            kept.list(cursor=cursor)


@pytest.mark.parametrize("mime", ["text", "text/\nx", "a/" + "b" * 126, "tëxt/plain"])
def test_a_declared_type_can_stand_in_a_header(tenant: Tenant, mime: str) -> None:
    """S2-X4."""
    with pytest.raises(InvalidArgument):
        tenant.artifacts("c").put("a", b"", mime=mime)
    assert paths(tenant) == []


def test_of_another_conversation_nothing_is_removed(tenant: Tenant) -> None:
    artifact, _entry = linked(tenant)
    with pytest.raises(NotFound):
        tenant.artifacts("d").delete(artifact)
    assert paths(tenant) == ["report.md"]


def test_a_store_in_memory_says_that_it_cannot() -> None:
    with keelfs.open("memory:") as store:
        tenant = store.tenant("acme")
        calls: list[Callable[[], object]] = [
            lambda: tenant.artifacts("c"),
            tenant.memory,
            lambda: tenant.conversation("c", agent="a"),
        ]  # fmt: skip
        for call in calls:
            with pytest.raises(Unsupported):
                call()
        with pytest.raises(KeelError):
            tree_of(tenant).write("/artifacts/big", b"x" * (MIB + 1))
