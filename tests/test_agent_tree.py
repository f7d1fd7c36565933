"""The tree of an agent: what is mounted, what crosses mounts, what is shown, what dies when.

Requirements S0-30 to S0-68 are proved here, on all three stores, unless another test is named in
docs/requirements.md.
"""

from __future__ import annotations

import asyncio
import inspect
import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import keelfs
from keelfs import aio, ops
from keelfs.agents import AgentTree
from keelfs.agents.primer import TEXT
from keelfs.agents.spaces import key_of_pair
from keelfs.errors import (
    AlreadyExists,
    Busy,
    Conflict,
    CrossDevice,
    InvalidArgument,
    InvalidPath,
    IsADirectory,
    KeelError,
    NotADirectory,
    NotFound,
    PermissionDenied,
    QuotaExceeded,
    ReadOnly,
    TooLarge,
    Unsupported,
)
from keelfs.gates.audit import Attempt
from keelfs.gates.mounts import Mounts
from keelfs.gates.policy import Policy
from keelfs.memory import MemorySpace
from keelfs.model import ABSENT, ANY, ChangeKind, Kind, Limits, Principal
from keelfs.path import parse
from keelfs.testing.cluster import PostgresCluster

MEMORY = "/.user/memory/MEMORY.md"
_numbers = itertools.count(1)
_stores: dict[str, keelfs.Store] = {}


@pytest.fixture(scope="module")
def sqlite_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[keelfs.Store]:
    url = f"sqlite:///{tmp_path_factory.mktemp('trees') / 'store.db'}"
    with keelfs.open(url, durability="relaxed") as store:
        yield store
        assert store.check().ok


@pytest.fixture(scope="module")
def postgres_store(postgres_cluster: PostgresCluster) -> Iterator[keelfs.Store]:
    with keelfs.open(postgres_cluster.create_database()) as store:
        yield store
        assert store.check().ok


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def store(request: pytest.FixtureRequest) -> Iterator[keelfs.Store]:
    if request.param == "memory":
        with keelfs.open("memory:") as store:
            yield store
    else:
        yield request.getfixturevalue(f"{request.param}_store")


@pytest.fixture
def acme(store: keelfs.Store) -> keelfs.Tenant:
    return store.tenant(f"tenant {next(_numbers)}")


@pytest.fixture
def skill(tmp_path: Path) -> Path:
    folder = tmp_path / "onboarding"
    (folder / "references").mkdir(parents=True)
    (folder / "SKILL.md").write_text("1. Ask\n")
    (folder / "references" / "terms.md").write_text("chat: a conversation\n")
    return folder


Make = Callable[..., AgentTree]


@pytest.fixture
def make(acme: keelfs.Tenant) -> Make:
    def made(
        session: str = "chat-abc", agent: str = "coder", user: str = "u-1", **more: Any
    ) -> Any:
        return acme.agent_tree(session=session, agent=agent, user=user, **more)

    return made


@pytest.fixture
def tree(make: Make, skill: Path) -> AgentTree:
    return make(skills={"onboarding": skill})


def names(tree: keelfs.Workspace, path: str = "/") -> list[str]:
    return [entry.name for entry in tree.entries(path)]


# --- what is mounted


def test_one_tree_of_all(tree: AgentTree) -> None:
    """S0-39, S0-41, S0-42, S0-45: chat root, agent, user, artifacts and skills in one tree."""
    assert names(tree) == [".agent", ".user", "artifacts", "skills"]
    assert names(tree, "/skills/onboarding/references") == ["terms.md"]
    assert [path for path, _ in tree.walk("/skills")] == [
        "onboarding", "onboarding/SKILL.md", "onboarding/references",
        "onboarding/references/terms.md",
    ]  # fmt: skip
    for path in ("/", "/.agent", "/.user", "/artifacts", "/skills", "/skills/onboarding"):
        assert tree.stat(path).is_directory
    assert not tree.exists("/skills/other")


def test_what_is_shared_by_whom(make: Make) -> None:
    """S0-34 to S0-36, S0-40: a session's own, an agent's, a user's with an agent."""
    here = make()
    for path in ("/a", "/.agent/a", "/.user/a", "/artifacts/a"):
        here.write(path, path)
    other = {
        "session": make(session="chat-xyz"), "agent": make(agent="writer"),
        "user": make(user="u-2"),
    }  # fmt: skip
    seen = {
        who: [path for path in ("/a", "/.agent/a", "/.user/a", "/artifacts/a") if tree.exists(path)]
        for who, tree in other.items()
    }
    assert seen == {
        "session": ["/.agent/a", "/.user/a"],
        "agent": ["/a", "/artifacts/a"],
        "user": ["/a", "/.agent/a", "/artifacts/a"],
    }


def test_pairs_are_not_joined_by_a_character() -> None:
    """S0-35, S0-38: no two pairs of user and agent share a key, whatever they are called."""
    hostile = ["a", "ab", "b", "", '","', '"', "\\", "a:b", "b:c", "/", '["a"]', "é", "x" * 255,
               "x" * 254, "\\u0061", "💾" * 63]  # fmt: skip
    keys = [key_of_pair(user, agent) for user in hostile for agent in hostile]
    assert len(set(keys)) == len(keys)
    assert all(len(key.encode()) <= 255 for key in keys)


@pytest.mark.parametrize(
    "bad", ["", ".", "..", "a\0b", "a\nb", "\x7f", "\ud800", "x" * 256, 7, None]
)
@pytest.mark.parametrize("which", ["session", "agent", "user"])
def test_ids_that_cannot_be(which: str, bad: Any) -> None:
    with keelfs.open("memory:") as store, pytest.raises(InvalidArgument) as caught:
        store.tenant("acme").agent_tree(**{"session": "s", "agent": "a", "user": "u", which: bad})
    assert which in str(caught.value)


def test_the_author_is_the_agent(acme: keelfs.Tenant, make: Make) -> None:
    """S0-32: journals tell the agent, and no session's id."""
    tree = make(session="chat-secret")
    for path in ("/a", "/.agent/a", "/.user/a"):
        tree.write(path, "x")
    assert {change.by for change in tree.changes("/").items} == {"agent:coder"}
    assert "chat-secret" not in repr(tree.changes("/")) + repr(list(tree.walk("/")))
    given = make(principal=Principal("user", "ann"))
    given.write("/b", "x")
    assert given.history("/b")[0].by == "user:ann"


def test_a_tree_may_be_refused_instead_of_made(make: Make, acme: keelfs.Tenant) -> None:
    with pytest.raises(NotFound):
        make(create=False)
    assert list(acme.spaces()) == []
    make().write("/a", "x")
    assert make(create=False).exists("/a")
    assert sorted(acme.spaces()) == [
        ("agent", "coder"), ("artifacts", "chat-abc"), ("session", "chat-abc"),
        ("user", '["u-1","coder"]'),
    ]  # fmt: skip


# --- mount points


@pytest.mark.parametrize(
    "place", ["/.agent", "/.user", "/skills", "/skills/onboarding", "/artifacts"]
)
def test_mount_points_stay(tree: AgentTree, place: str) -> None:
    """S0-X4: a mount point and what lies above one cannot be removed, renamed or replaced."""
    tree.write("/f", "x")
    tree.mkdir("/d")
    for op in (
        ops.Remove(place, recursive=True), ops.Trash(place), ops.Move(place, "/elsewhere"),
        ops.Move("/d", place, replace=True), ops.Transfer(place, "/elsewhere", recursive=True),
        ops.Transfer("/f", place, replace=True), ops.Copy("/f", place, replace=True),
    ):  # fmt: skip
        for each in (op, ops.Batch((op,))):
            with pytest.raises(Busy):
                tree.perform(each)
    for op in (ops.Write(place, "x"), ops.Append(place, "x"), ops.Read(place), ops.Add(place, "x")):
        with pytest.raises(IsADirectory):
            tree.perform(op)
    for op in (ops.Mkdir(place), ops.Symlink("f", place), ops.Mknod(place, Kind.FIFO),
               ops.Link("/f", place)):  # fmt: skip
        with pytest.raises((AlreadyExists, CrossDevice)):
            tree.perform(op)
    assert tree.mkdir(place, exist_ok=True).is_directory
    assert tree.stat(place).is_directory
    assert names(tree) == [".agent", ".user", "artifacts", "d", "f", "skills"]


def test_the_root_stays(tree: AgentTree) -> None:
    for op in (ops.Remove("/", recursive=True), ops.Trash("/"), ops.Move("/", "/x"),
               ops.Transfer("/", "/.agent/x", recursive=True),
               ops.Transfer("/", "/x", recursive=True),
               ops.Transfer("/", "/skills/onboarding/x", recursive=True)):  # fmt: skip
        with pytest.raises(Busy):
            tree.perform(op)


def test_nothing_straddles(tree: AgentTree) -> None:
    """S0-X4: move, copy and hard links stay within one mount."""
    tree.write("/f", "x")
    for to in ("/.agent/f", "/.user/f", "/artifacts/f", "/skills/onboarding/f"):
        for op in (ops.Move("/f", to), ops.Copy("/f", to), ops.Link("/f", to)):
            with pytest.raises(CrossDevice) as caught:
                tree.perform(op)
            assert (caught.value.path, caught.value.to) == ("/f", to)


def test_links_do_not_lead_from_mount_to_mount(tree: AgentTree) -> None:
    """S0-60: a link resolves inside the space that holds it."""
    tree.write("/.agent/secret", "agent")
    tree.write("/secret", "session")
    for target in ("/.agent/secret", ".agent/secret", "../.agent/secret", "/skills/onboarding"):
        tree.symlink(target, "/link")
        with pytest.raises(NotFound):
            tree.read("/link")
        tree.remove("/link")
    tree.symlink("/secret", "/.agent/link")
    assert tree.read_text("/.agent/link") == "agent"
    tree.symlink("../secret", "/.agent/up")
    assert tree.read_text("/.agent/up") == "agent"


def test_what_was_there_before_is_hidden_by_a_mount(acme: keelfs.Tenant, make: Make) -> None:
    bare = acme.space("session", "chat-abc")
    bare.write("/.agent/x", "session's")
    bare.write("/skills", "a file")
    tree = make()
    assert names(tree, "/.agent") == []
    tree.write("/.agent/y", "agent's")
    assert names(bare, "/.agent") == ["x"]
    tree.symlink("/.agent/x", "/link")
    assert tree.read_text("/link") == "session's"


def test_a_directory_above_mounts_is_like_any_other(tree: AgentTree, acme: keelfs.Tenant) -> None:
    assert tree.stat("/skills").synthetic
    assert tree.write("/skills/mine.md", "x").revision == 1
    assert not tree.stat("/skills").synthetic
    assert names(tree, "/skills") == ["mine.md", "onboarding"]
    assert acme.space("session", "chat-abc").read("/skills/mine.md") == b"x"
    inside = tree.subtree("/skills")
    assert [path for path, _ in inside.walk()][:2] == ["mine.md", "onboarding"]
    inside.write("/onboarding/new", "n", key="once")
    inside.write("/other", "o", key="once")
    assert tree.read("/skills/onboarding/new") == b"n"
    assert tree.read("/skills/other") == b"o"


# --- skills


def test_a_skill_is_never_changed(make: Make, skill: Path) -> None:
    """S0-43, S0-44: reads come from the host, writes stay in memory and die with the tree."""
    tree = make(skills={"onboarding": skill})
    tree.write("/skills/onboarding/SKILL.md", "2. Listen\n")
    tree.remove("/skills/onboarding/references", recursive=True)
    tree.write("/skills/onboarding/new.md", "new")
    assert tree.read_text("/skills/onboarding/SKILL.md") == "2. Listen\n"
    assert names(tree, "/skills/onboarding") == ["SKILL.md", "new.md"]
    assert (skill / "SKILL.md").read_text() == "1. Ask\n"
    assert sorted(each.name for each in skill.iterdir()) == ["SKILL.md", "references"]
    again = make(skills={"onboarding": skill})
    assert again.read_text("/skills/onboarding/SKILL.md") == "1. Ask\n"
    assert not make().exists("/skills")


def test_a_skill_has_bounds(make: Make, skill: Path) -> None:
    """S0-X10: a large host file is not read, memory is limited, links of the host are not left."""
    (skill / "large").write_bytes(bytes(10 * 2**20 + 1))
    (skill / "out").symlink_to("/etc")
    tree = make(skills={"onboarding": skill})
    with pytest.raises(TooLarge):
        tree.read("/skills/onboarding/large")
    with pytest.raises(QuotaExceeded):
        for number in range(5):
            tree.write(f"/skills/onboarding/{number}", bytes(16 * 2**20))
    with pytest.raises(KeelError):
        tree.read("/skills/onboarding/out/hostname")


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a\0b", "x" * 256])
def test_names_that_no_skill_has(make: Make, skill: Path, name: str) -> None:
    with pytest.raises(InvalidPath):
        make(skills={name: skill})


def test_a_skill_without_a_folder(make: Make, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="skill 'gone'") as caught:
        make(skills={"gone": tmp_path / "nothing"})
    assert str(tmp_path) not in str(caught.value)


# --- across mounts


def test_searching_goes_through_mounts(tree: AgentTree) -> None:
    """S0-45, S0-X11: glob and grep see the whole tree, by its own paths."""
    tree.write("/src/a.md", "needle one\n")
    tree.write("/.agent/b.md", "needle two\n")
    tree.write("/skills/onboarding/c.md", "needle three\n")
    assert list(tree.glob("**/*.md")) == [
        ".agent/b.md", "skills/onboarding/SKILL.md", "skills/onboarding/c.md",
        "skills/onboarding/references/terms.md", "src/a.md",
    ]  # fmt: skip
    assert list(tree.glob("/.agent/*.md")) == [".agent/b.md"]
    assert [("/".join(match.path), match.line_number) for match in tree.grep("needle")] == [
        (".agent/b.md", 1), ("skills/onboarding/c.md", 1), ("src/a.md", 1),
    ]  # fmt: skip


def test_usage_is_a_sum(make: Make, acme: keelfs.Tenant) -> None:
    acme.space("agent", "coder").set_limits(Limits(bytes=100))
    tree = make()
    tree.write("/a", "1")
    tree.write("/d/b", "22")
    tree.write("/.agent/c", "333")
    assert (tree.usage().bytes, tree.usage().nodes) == (6, 4)
    assert tree.usage("/d").bytes == 2
    assert (tree.usage("/.agent").bytes, tree.usage("/.agent").limits.bytes) == (3, 100)
    with pytest.raises(QuotaExceeded):
        tree.write("/.agent/d", bytes(101))


def test_a_batch_over_mounts_is_one_transaction(make: Make) -> None:
    """S0-29: all or none, wherever it writes."""
    tree = make()
    answers = tree.batch([
        ops.Write("/a", "1"), ops.Write("/.agent/a", "2"), ops.Append("/.user/d/a", "3"),
        ops.Read("/.agent/a"), ops.List("/.user/d"),
        ops.Within(ops.Write("/b", "4"), parse("/.agent")),
    ])  # fmt: skip
    assert answers[3] == b"2"
    assert tree.read("/.agent/b") == b"4"
    with pytest.raises(NotFound) as caught:
        tree.batch([ops.Write("/a", "x"), ops.Write("/.agent/a", "x"), ops.Remove("/.user/none")])
    assert caught.value.operation == 2
    assert caught.value.path == "/.user/none"
    assert [tree.read(path) for path in ("/a", "/.agent/a")] == [b"1", b"2"]
    with pytest.raises(Conflict):
        tree.batch([ops.Write("/a", "x", 1), ops.Write("/.agent/a", "x", 7)])
    assert tree.read("/a") == b"1"


def test_a_batch_over_mounts_with_streams_and_limits(make: Make, acme: keelfs.Tenant) -> None:
    tree = make()
    big = [b"x" * 65_536 for _ in range(10)]
    tree.batch([ops.Write("/big", Stream(big)), ops.Write("/.agent/big", Stream(big))])
    assert tree.checksum("/big") == tree.checksum("/.agent/big")
    acme.space("agent", "coder").set_limits(Limits(batch_operations=2))
    fresh = make()
    many = [ops.Write(f"/.agent/{number}", "") for number in range(3)]
    with pytest.raises(TooLarge):
        fresh.batch([ops.Write("/a", "1"), *many])
    assert not fresh.exists("/a")


class Stream:
    def __init__(self, blocks: list[bytes]) -> None:
        self._blocks = blocks

    def blocks(self) -> Iterator[bytes]:
        yield from self._blocks


def test_a_batch_over_mounts_at_most_once(make: Make) -> None:
    tree = make()
    batch = [ops.Append("/log", "x"), ops.Append("/.agent/log", "y")]
    first = tree.batch(batch, key="k")
    assert tree.batch(batch, key="k") == first
    assert (tree.read("/log"), tree.read("/.agent/log")) == (b"x", b"y")


def test_a_batch_does_not_span_stores(tree: AgentTree) -> None:
    with pytest.raises(CrossDevice, match="different stores"):
        tree.batch([ops.Write("/a", "1"), ops.Write("/skills/onboarding/a", "2")])
    assert not tree.exists("/a")
    tree.batch([ops.Write("/skills/onboarding/a", "1"), ops.Write("/skills/onboarding/b", "2")])
    read = tree.batch([ops.Read("/skills/onboarding/a"), ops.Read("/.user/memory/MEMORY.md")])
    assert read == [b"1", TEXT]


# --- the journal


def test_one_journal_of_all(tree: AgentTree) -> None:
    """S0-45: a watcher of the root hears of every space, and misses nothing."""
    now = int(tree.changes("/").next or 0)
    tree.write("/a", "1")
    tree.write("/.agent/b", "2")
    tree.write("/.user/c", "3")
    tree.append("/a", "4")
    told = list(tree.watch("/", after=now, timeout=0))
    assert [("/".join(change.path or ()), change.kind.value) for change in told] == [
        ("a", "create"), (".agent/b", "create"), (".user/c", "create"), ("a", "write"),
    ]  # fmt: skip
    for seen in range(len(told)):
        rest = list(tree.watch("/", after=told[seen].seq, timeout=0))
        assert rest == told[seen + 1 :]
    assert [change.path for change in tree.watch("/.agent", after=0, timeout=0)] == [("b",)]
    assert [each.seq for each in tree.changes("/a").items] == [1, 2]


def test_the_journal_of_all_in_small_pages(make: Make) -> None:
    tree = make()
    for number in range(7):
        tree.write(f"/{number}", "x")
        tree.write(f"/.agent/{number}", "x")
        if number % 3 == 0:
            tree.write(f"/.user/{number}", "x")
    seen, cursor = [], 0
    while True:
        page = tree.changes("/", cursor, 2)
        seen += page.items
        if int(page.next or 0) == cursor:
            break
        cursor = int(page.next or 0)
    assert len(seen) == len({change.seq for change in seen}) == 17
    assert seen == tree.changes("/", 0, 1000).items


def test_changes_are_undone_where_they_were_made(make: Make) -> None:
    tree = make()
    for path in ("/a", "/.agent/a", "/.user/a"):
        tree.write(path, "1")
        tree.write(path, "2")
    for path in ("/.agent/a", "/.user/a", "/a"):
        last = [each for each in tree.changes("/").items if each.path == tuple(path[1:].split("/"))]
        new = tree.undo(last[-1].seq)
        assert tree.read(path) == b"1"
        assert len(new) == 1
    assert [tree.read(path) for path in ("/a", "/.agent/a", "/.user/a")] == [b"1"] * 3
    own = tree.changes("/.agent").items[-1]
    assert tree.undo(own.seq)
    assert tree.read("/.agent/a") == b"2"
    with pytest.raises(NotFound):
        tree.undo(2**1000)


def test_a_batch_has_one_number_in_each_journal(make: Make) -> None:
    tree = make()
    tree.batch([ops.Write("/a", "1"), ops.Write("/.agent/a", "2"), ops.Write("/b", "3")])
    told = tree.changes("/").items
    assert len({change.batch for change in told if change.path != (".agent", "a")}) == 1
    assert len({change.batch for change in told}) == 2


# --- the trash


def test_the_trash_of_all(make: Make) -> None:
    tree = make()
    taken = []
    for path in ("/a", "/.agent/b", "/.user/d/c"):
        tree.write(path, path)
        taken.append(tree.trash(path))
    assert [thing.path for thing in taken] == [("a",), (".agent", "b"), (".user", "d", "c")]
    assert tree.trashed().items == taken
    paged, cursor = [], None
    while True:
        page = tree.trashed(cursor, 1)
        paged += page.items
        cursor = page.next
        if cursor is None:
            break
    assert paged == taken
    for thing in taken:
        tree.untrash(thing.id)
    assert [tree.read_text(path) for path in ("/a", "/.user/d/c")] == ["/a", "/.user/d/c"]
    assert tree.trashed().items == []
    purged = tree.trash("/.agent/b")
    tree.purge(purged.id)
    for missing in (
        purged.id,
        "nothing",
        "nothing:/.agent",
        "x:/elsewhere",
        taken[0].id + ":/.user",
    ):
        with pytest.raises(NotFound):
            tree.untrash(missing)
    back = tree.trash("/a")
    with pytest.raises(NotFound):
        tree.untrash(back.id, "/.agent/a")


# --- transfer


@pytest.mark.parametrize("to", ["/.agent/t", "/.user/t", "/t"])
def test_a_transfer_within_the_store(make: Make, store: keelfs.Store, to: str) -> None:
    tree = make()
    tree.write("/d/f", "one")
    tree.write("/d/f", "two", mode=0o600, mime="text/plain")
    tree.set_attrs("/d/f", xattrs={"user.x": b"1"}, times=(1, 2))
    tree.symlink("f", "/d/l")
    tree.link("/d/f", "/d/g")
    tree.write("/d/big", bytes(range(256)) * 4096)
    before = dict(tree.walk("/d"))
    with pytest.raises(IsADirectory):
        tree.transfer("/d", to)
    done = tree.transfer("/d", to, recursive=True)
    assert done.atomic
    assert done.stat.is_directory
    assert not tree.exists("/d")
    after = dict(tree.walk(to))
    assert list(after) == list(before)
    for path, stat in after.items():
        kept = ("kind", "size", "revision", "mode", "mime", "xattrs", "target", "mtime_ns", "nlink")
        assert [getattr(stat, name) for name in kept] == [
            getattr(before[path], name) for name in kept
        ]
    assert after["f"].id == after["g"].id
    assert tree.read(f"{to}/big") == bytes(range(256)) * 4096
    assert tree.read(f"{to}/l") == b"two"
    assert tree.append(f"{to}/f", "!").revision == 3
    assert tree.read(f"{to}/g") == b"two!"


def test_a_transfer_replaces_only_when_told(make: Make) -> None:
    tree = make()
    tree.write("/a", "new")
    tree.write("/.agent/a", "old")
    tree.mkdir("/.agent/d")
    with pytest.raises(AlreadyExists) as caught:
        tree.transfer("/a", "/.agent/a")
    assert (caught.value.path, caught.value.to) == ("/a", "/.agent/a")
    with pytest.raises(IsADirectory):
        tree.transfer("/a", "/.agent/d", replace=True)
    with pytest.raises(NotFound):
        tree.transfer("/a", "/.agent/x/y")
    assert tree.read("/a") == b"new"
    assert tree.transfer("/a", "/.agent/a", replace=True).atomic
    assert tree.read("/.agent/a") == b"new"
    assert tree.transfer("/.agent/a", "/x/y", parents=True).atomic
    with pytest.raises(NotFound):
        tree.transfer("/.agent/a", "/b")


def test_a_transfer_is_told_by_both_journals(make: Make) -> None:
    tree = make()
    tree.write("/a", "x")
    start = int(tree.changes("/").next or 0)
    tree.transfer("/a", "/.agent/b")
    told = {(each.kind, each.path, each.to) for each in tree.changes("/", start).items}
    assert told == {
        (ChangeKind.REMOVE, ("a",), None),
        (ChangeKind.COPY, None, (".agent", "b")),
    }
    arrived = tree.changes("/.agent").items[-1]
    tree.undo(arrived.seq)
    assert not tree.exists("/.agent/b")


def test_a_transfer_respects_the_limits_of_its_end(make: Make, acme: keelfs.Tenant) -> None:
    acme.space("agent", "coder").set_limits(Limits(bytes=10, file_bytes=5, directory_entries=2))
    tree = make()
    for path, size in (("/d/a", 6), ("/e/a", 4), ("/e/b", 4), ("/e/c", 4), ("/f/a", 5), ("/g", 6)):
        tree.write(path, bytes(size))
    for path, kind in (("/d", TooLarge), ("/e", TooLarge), ("/g", TooLarge)):
        with pytest.raises(kind):
            tree.transfer(path, "/.agent/x", recursive=True)
    tree.transfer("/f", "/.agent/f", recursive=True)
    tree.remove("/e/c")
    with pytest.raises(QuotaExceeded):
        tree.transfer("/e", "/.agent/e", recursive=True)
    assert names(tree, "/.agent") == ["f"]
    assert names(tree, "/e") == ["a", "b"]
    assert tree.usage("/.agent").bytes == 5


def test_a_transfer_takes_its_room_along(make: Make, acme: keelfs.Tenant) -> None:
    """What one space gives up in a transaction, another one may use in it."""
    tree = make()
    try:
        acme.set_limits(Limits(bytes=100, nodes=10))
    except Unsupported:
        # A store in memory bounds each space, not their sum.
        return
    tree.write("/a", bytes(60))
    assert tree.transfer("/a", "/.agent/a").atomic
    tree.batch([ops.Write("/b", bytes(40)), ops.Transfer("/.agent/a", "/.user/a")])
    with pytest.raises(QuotaExceeded):
        tree.batch([ops.Transfer("/.user/a", "/.agent/a"), ops.Write("/c", "x")])
    assert tree.exists("/.user/a")
    assert acme.usage().bytes == 100


def test_a_transfer_page_by_page(tree: AgentTree, skill: Path) -> None:
    moved = tree.transfer("/skills/onboarding/references", "/refs", recursive=True)
    assert not moved.atomic
    assert tree.read_text("/refs/terms.md") == "chat: a conversation\n"
    assert not tree.exists("/skills/onboarding/references")
    assert (skill / "references" / "terms.md").exists()
    tree.symlink("terms.md", "/refs/l")
    tree.set_attrs("/refs/terms.md", xattrs={"user.x": b"1"}, readonly=True)
    before = dict(tree.walk("/refs"))
    assert not tree.transfer(
        "/refs", "/skills/onboarding/deep/er", recursive=True, parents=True
    ).atomic
    after = dict(tree.walk("/skills/onboarding/deep/er"))
    assert list(after) == list(before)
    for path, stat in after.items():
        for name in ("kind", "size", "mode", "xattrs", "target", "readonly"):
            assert getattr(stat, name) == getattr(before[path], name), (path, name)
    assert names(tree) == [".agent", ".user", "artifacts", "skills"]
    with pytest.raises(Unsupported):
        tree.transfer("/skills/onboarding/SKILL.md", "/s", key="k")
    with pytest.raises(Busy):
        tree.transfer("/skills/onboarding/SKILL.md", "/.agent")
    assert tree.exists("/skills/onboarding/SKILL.md")


def test_a_transfer_that_fails_leaves_nothing(make: Make, acme: keelfs.Tenant, skill: Path) -> None:
    acme.space("agent", "coder").set_limits(Limits(bytes=30))
    tree = make(skills={"s": skill})
    tree.write("/.agent/fill", bytes(20))
    with pytest.raises(QuotaExceeded):
        tree.transfer("/skills/s/references", "/.agent/r", recursive=True)
    assert names(tree, "/.agent") == ["fill"]
    assert names(tree, "/skills/s/references") == ["terms.md"]


def test_a_transfer_loses_nothing_that_is_written_meanwhile(
    make: Make, acme: keelfs.Tenant
) -> None:
    """What changes at the source after it was copied stays there, and the caller is told."""
    tree = make()
    tree.write("/d/a", "1")
    tree.write("/d/b", "1")

    def meddle(op: ops.Op[Any]) -> None:
        # The first removal at the source comes when all of it has been copied.
        if isinstance(op, ops.Remove) and str(op.paths()[0]) == "/d/b":
            tree.write("/d/a", "changed")
            tree.write("/d/new", "new")

    layer = MemorySpace()
    home = Apart(acme.space("session", "chat-abc").handler, meddle)
    mounts = Mounts(home, {parse("/s"): layer})
    with pytest.raises(Conflict):
        mounts.perform(ops.Transfer("/d", "/s/d", recursive=True))
    assert tree.read("/d/a") == b"changed"
    assert tree.read("/d/new") == b"new"
    assert not tree.exists("/d/b")
    assert layer.perform(ops.Read("/d/a")) == b"1"


class Apart(Policy):
    """A gate that joins no transaction of others, as gates do."""


# --- MEMORY.md


def test_a_fresh_memory_reads_as_instructions(tree: AgentTree) -> None:
    """S0-66, S0-67: a read instructs, everything else tells the truth, nothing is stored."""
    assert tree.read(MEMORY) == TEXT
    assert tree.read_text(MEMORY).startswith("# Memory")
    assert tree.read(MEMORY, 2, 6) == b"Memory"
    assert tree.read("/.user/x/../memory/./MEMORY.md") == TEXT
    assert b"".join(tree.stream(MEMORY, block=7)) == TEXT
    with tree.open(MEMORY) as file:
        assert file.read().encode() == TEXT
    shown = tree.pin(MEMORY).stat
    assert (shown.synthetic, shown.revision, shown.size) == (True, 0, len(TEXT))
    assert tree.batch([ops.Read(MEMORY), ops.Open(MEMORY)])[0] == TEXT
    assert tree.subtree("/.user").read("/memory/MEMORY.md") == TEXT
    assert tree.readonly().read(MEMORY) == TEXT
    for question in (ops.GetStat(MEMORY), ops.Checksum(MEMORY), ops.History(MEMORY),
                     ops.Copy(MEMORY, "/.user/copy"), ops.Remove(MEMORY),
                     ops.Read(MEMORY, revision=1),
                     ops.List("/.user/memory"), ops.Transfer(MEMORY, "/m")):  # fmt: skip
        with pytest.raises(NotFound):
            tree.perform(question)
    assert not tree.exists(MEMORY)
    assert not tree.lexists(MEMORY)
    assert names(tree, "/.user") == []
    assert list(tree.grep("Memory", "/.user")) == []
    assert tree.usage("/.user").nodes == 0
    assert tree.changes("/.user").items == []


@pytest.mark.parametrize("expect", [ANY, ABSENT, 0, "stat"])
def test_the_first_write_makes_it_real(make: Make, expect: Any) -> None:
    tree = make()
    seen = tree.pin(MEMORY).stat
    assert tree.write(MEMORY, "mine", expect=seen if expect == "stat" else expect).revision == 1
    assert tree.read(MEMORY) == b"mine"
    assert not tree.pin(MEMORY).stat.synthetic
    assert tree.exists(MEMORY)
    for late in (ABSENT, 0, seen):
        with pytest.raises(Conflict):
            tree.write(MEMORY, "again", expect=late)
    tree.remove(MEMORY)
    assert tree.read(MEMORY) == TEXT


def test_what_is_written_first_is_not_added_to_the_text(make: Make) -> None:
    tree = make()
    tree.append(MEMORY, "one\n")
    assert tree.read(MEMORY) == b"one\n"
    tree.remove(MEMORY)
    with tree.open(MEMORY, "r+") as file:
        file.seek(0)
        file.truncate()
        file.write("rewritten")
    assert tree.read(MEMORY) == b"rewritten"
    tree.write(MEMORY, "")
    assert tree.read(MEMORY) == b""


def test_a_link_there_is_not_a_missing_file(make: Make) -> None:
    tree = make()
    tree.symlink("nowhere", MEMORY, parents=True)
    with pytest.raises(NotFound):
        tree.read(MEMORY)
    with pytest.raises(NotFound):
        tree.read("/memory/MEMORY.md")
    tree.remove(MEMORY)
    tree.mkdir(MEMORY)
    with pytest.raises(IsADirectory):
        tree.read(MEMORY)
    tree.remove("/.user/memory", recursive=True)
    tree.write("/.user/memory", "a file")
    with pytest.raises(NotADirectory):
        tree.read(MEMORY)


# --- deleting a session


def test_deleting_a_session(acme: keelfs.Tenant, make: Make, store: keelfs.Store) -> None:
    """S0-40, S1-44: its trees go with trash, history and snapshots; nothing else does."""
    tree, other = make(), make(session="chat-xyz")
    for path in ("/a", "/artifacts/a", "/.agent/a", "/.user/a"):
        tree.write(path, "one" * 30_000)
        tree.write(path, "two")
    tree.snapshot("s")
    tree.trash("/a")
    other.write("/a", "theirs")
    acme.delete_session("chat-abc")
    assert sorted(acme.spaces()) == [
        ("agent", "coder"), ("artifacts", "chat-xyz"), ("session", "chat-xyz"),
        ("user", '["u-1","coder"]'),
    ]  # fmt: skip
    with pytest.raises(NotFound):
        tree.write("/b", "late")
    with pytest.raises(NotFound):
        acme.delete_session("chat-abc")
    while store.sweep(steps=1).more:
        pass
    assert other.read("/a") == b"theirs"
    assert other.read("/.agent/a") == other.read("/.user/a") == b"two"
    fresh = make()
    assert names(fresh) == [".agent", ".user", "artifacts"]
    assert (fresh.trashed().items, fresh.snapshots()) == ([], [])
    assert store.check().ok


# --- gates


def test_policy_and_audit_hold_in_every_mount(make: Make) -> None:
    seen: list[Attempt] = []

    def no_removals(op: ops.Op[Any]) -> None:
        if isinstance(op, ops.Remove):
            raise PermissionDenied("nothing is removed here")

    tree = make(policy=no_removals, audit=seen.append, now=lambda: 42)
    for path in ("/a", "/.agent/a", "/.user/a"):
        tree.write(path, "x")
        with pytest.raises(PermissionDenied):
            tree.remove(path)
        with pytest.raises(PermissionDenied):
            tree.batch([ops.Write("/b", "x"), ops.Remove(path)])
    assert {attempt.principal for attempt in seen} == {"agent:coder"}
    assert [(attempt.paths, attempt.outcome) for attempt in seen[:2]] == [
        (("/a",), "ok"), (("/a",), "permission_denied"),
    ]  # fmt: skip
    assert {attempt.at_ns for attempt in seen} == {42}
    with pytest.raises(ReadOnly):
        tree.readonly().write("/.agent/a", "y")


def test_errors_carry_the_agents_own_paths(tree: AgentTree) -> None:
    """S0-X13: the caller's spelling, and nothing of what lies below."""
    for call, path in (
        (lambda: tree.read("/.agent/./x/../none"), "/.agent/./x/../none"),
        (lambda: tree.read("/skills/onboarding/none"), "/skills/onboarding/none"),
        (lambda: tree.list("/.user/none"), "/.user/none"),
        (lambda: tree.subtree("/.agent").read("/none"), "/none"),
    ):
        with pytest.raises(NotFound) as caught:
            call()
        assert caught.value.path == path
        for secret in ("chat-abc", "u-1", "coder", "tmp"):
            assert secret not in str(caught.value)


# --- what a model is told


def test_describe(make: Make, skill: Path, acme: keelfs.Tenant) -> None:
    acme.space("session", "chat-abc").set_limits(Limits(bytes=10 * 2**20, file_bytes=2**20))
    tree = make(skills={"onboarding": skill})
    tree.write("/a", bytes(1536))
    tree.write("/.agent/b", "x")
    text = tree.describe()
    for said in ("- /: ", "1.5 KiB in 1 files", "of 10 MiB at most", "one file has at most 1 MiB",
                 "- /.agent: ", "1 B in 1 files", "- /.user: ", "- /artifacts: ",
                 "- /skills/onboarding: ", MEMORY):  # fmt: skip
        assert said in text
    assert len(text) < 2000
    for secret in ("chat-abc", "u-1", str(skill)):
        assert secret not in text


# --- awaitable


def test_the_same_tree_for_an_event_loop(tmp_path: Path, skill: Path) -> None:
    async def main() -> None:
        async with await aio.open(f"sqlite:///{tmp_path / 'a.db'}") as store:
            tenant = await store.tenant("acme")
            tree = await tenant.agent_tree(
                session="s", agent="a", user="u", skills={"onboarding": skill}
            )
            assert await tree.read(MEMORY) == TEXT
            await tree.write("/a", "x")
            assert (await tree.transfer("/a", "/.agent/a")).atomic
            assert "/skills/onboarding" in await tree.describe()
            paths = [change.path async for change in tree.watch("/", after=0, timeout=0)]
            assert (".agent", "a") in [
                change.to async for change in tree.watch("/", after=0, timeout=0)
            ]
            assert ("a",) in paths
            await tenant.delete_session("s")
            assert [each async for each in tenant.spaces()] == [
                ("agent", "a"),
                ("user", '["u","a"]'),
            ]

    asyncio.run(main())


def test_both_kinds_of_tenants_take_the_same() -> None:
    from keelfs import assembly
    from keelfs.aio.store import Tenant

    for verb in ("agent_tree", "delete_session"):
        mine, theirs = getattr(assembly.Tenant, verb), getattr(Tenant, verb)
        assert inspect.signature(mine).parameters == inspect.signature(theirs).parameters
