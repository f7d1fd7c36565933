"""Sixteen trees of agents side by side: none sees, changes or counts what belongs to another.

Two tenants, two users, two agents and two sessions, under names that are easily taken for each
other. Every room (a space of a tree) holds a mark of its own in names, contents, history, trash,
attributes and snapshots. Each tree then performs every verb with every path that ever led out of
anything, and two things must hold: no answer and no error carries a foreign mark, and every foreign
room is, to the byte and to the last counter, what it was.
"""

from __future__ import annotations

import contextlib
import itertools
import secrets
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import keelfs
from keelfs import ops
from keelfs.agents import AgentTree
from keelfs.errors import KeelError, Unsupported
from keelfs.model import END_OF_JOURNAL, Attrs, Kind
from keelfs.path import ROOT, VPath, parse
from keelfs.testing.cluster import PostgresCluster
from keelfs.testing.exercises import operations
from keelfs.testing.portrait import portrait

TENANTS = ("acme_", "acme%")
USERS = ('u","a', "u")
AGENTS = ("a", 'a","a')
SESSIONS = ("chat_1", "chatX1")

Ids = tuple[str, str, str, str]
#: Where it is mounted, and to whom it belongs.
Room = tuple[str, ...]
ALL: list[Ids] = list(itertools.product(TENANTS, USERS, AGENTS, SESSIONS))


def rooms_of(ids: Ids) -> set[Room]:
    """What a tree is made of, by names and not by what the store calls them."""
    tenant, user, agent, session = ids
    return {
        ("/", tenant, session), ("/artifacts", tenant, session), ("/.agent", tenant, agent),
        ("/.user", tenant, user, agent),
    }  # fmt: skip


class World:
    """A store in which everybody has something to hide."""

    def __init__(self, store: keelfs.Store, folder: Path, attackers: list[Ids]) -> None:
        self.store, self.attackers = store, attackers
        self._folder = folder
        every = sorted(set().union(*map(rooms_of, ALL)))
        self.marks = {room: f"mark{secrets.token_hex(6)}" for room in every}
        (folder / "skill").mkdir()
        (folder / "skill" / "SKILL.md").write_text("1. Ask\n")
        for room, mark in self.marks.items():
            self._furnish(self.room(room), mark)
        self.outside = f"mark{secrets.token_hex(6)}"
        (folder / "outside").write_text(self.outside)
        (folder / "skill" / "out").symlink_to(folder / "outside")
        (folder / "skill" / "up").symlink_to("..")
        (folder / "skill" / "gone").symlink_to("../not-yet-there")

    def room(self, room: Room) -> keelfs.Workspace:
        """One space alone, as the first tree has it that it is part of."""
        tree = self.tree(next(ids for ids in ALL if room in rooms_of(ids)))
        return keelfs.Workspace(tree._homes[parse(room[0])])  # pyright: ignore[reportPrivateUsage]

    def tree(self, ids: Ids) -> AgentTree:
        tenant, user, agent, session = ids
        return self.store.tenant(tenant).agent_tree(
            session=session, agent=agent, user=user, skills={"s": self._folder / "skill"}
        )

    def foreign(self, ids: Ids) -> list[Room]:
        return [room for room in self.marks if room not in rooms_of(ids)]

    def looks(self, ids: Ids) -> list[object]:
        """All that the rooms hold that do not belong to these ids."""
        return [looks(self.room(room)) for room in self.foreign(ids)]

    @staticmethod
    def _furnish(space: keelfs.Workspace, mark: str) -> None:
        space.write("/secret", f"{mark} former")
        space.write("/secret", mark)
        space.write(f"/d/{mark}", mark)
        space.set_attrs("/secret", xattrs={"user.mark": mark.encode()}, mime=f"text/{mark}")
        with contextlib.suppress(Unsupported):
            # Artifacts have no links.
            space.symlink(f"/d/{mark}", "/to-mark")
        space.snapshot(mark)
        space.write("/trashed", mark)
        space.trash("/trashed")


def looks(space: keelfs.Workspace) -> object:
    """Everything that can be known about a space."""
    return (
        portrait(space.perform), space.usage(), space.trashed(), space.snapshots(),
        space.changes(limit=10_000),
    )  # fmt: skip


#: Each of them alone meets every name; the others are victims of these, and attack in the long run.
FEW = {"memory": ALL[::5], "sqlite": ALL[::5], "postgres": ALL[::15]}


@pytest.fixture(params=["few", pytest.param("all", marks=pytest.mark.torture)])
def attackers(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=list(FEW))
def world(
    request: pytest.FixtureRequest,
    attackers: str,
    tmp_path: Path,
    postgres_cluster: PostgresCluster,
) -> Iterator[World]:
    url = {
        "memory": "memory:",
        "sqlite": f"sqlite:///{tmp_path / 'store.db'}",
    }.get(request.param) or postgres_cluster.create_database()
    with keelfs.open(url, durability="relaxed") as store:
        yield World(store, tmp_path, ALL if attackers == "all" else FEW[request.param])
        assert store.check().ok


#: Where a link may point to lead out; planted in each room of the attacker.
TARGETS = [
    "..", "../..", "/..", "../secret", "/../../secret", "/.agent", "/.user/secret", "/artifacts",
    "../.agent/secret", "/session/chatX1/secret", "../chatX1/secret", "../../etc/passwd",
    "/etc/passwd", "/proc/self/environ", "/skills/s/out", ".", "/", "%", "_", "self",
]  # fmt: skip


def plant_links(tree: AgentTree) -> list[str]:
    """Links out of each room, and one to itself."""
    found: list[str] = []
    for base, (number, target) in itertools.product(
        ("", "/.agent", "/.user", "/artifacts"), enumerate(TARGETS)
    ):
        path = f"{base}/link{number}"
        if not tree.lexists(path):
            with contextlib.suppress(Unsupported):
                tree.symlink(path.rpartition("/")[2] if target == "self" else target, path)
        found.append(path)
    return found


def paths_of(ids: Ids, folder: Path) -> list[str]:
    """Paths that have led out of other stores."""
    tenant, user, agent, session = ids
    other = next(each for each in SESSIONS if each != session)
    return [
        "/secret", "/.agent/secret", "/.user/secret", "/artifacts/secret", "/skills/s/SKILL.md",
        "/../secret", "/../../secret", f"/../{other}/secret", f"/{other}/secret", f"../{other}",
        f"/.agent/../../{other}/secret", f"/.user/../../{user}/secret", "/.agent/../.agent/secret",
        f"/session/{other}/secret", f"/{tenant}/session/{other}/secret", f"/agent/{agent}/secret",
        f"/users/{user}/agents/{agent}/secret", "/./.././.user/.././.agent/./secret", "//secret",
        "/..\\secret", "\\..\\..\\secret", "/%2e%2e/secret", "/..%2fsecret", "/%2e%2e%2f%2e%2e/x",
        "/．．/secret", "/‥/secret", "/.agent\u200b/secret", "/.AGENT/secret", "/.Agent", "/.user ",
        "/.agent.", "/%", "/_", "/%secret", "/s_cret", "/.agen_/secret", "/*", "/**", "/d/*",
        "/etc/passwd", "/proc/self/environ", "C:\\secret", "file:///etc/passwd", "~", "/~/secret",
        str(folder / "outside"), "/skills/s/out", "/skills/s/up/outside", "/skills/s/up",
        "/skills/s/gone", "/skills/s/../../../outside", "/skills/../../outside", "/skills/s/./out",
        "/skills", "/skills/t", "/", "", ".", "..", "/a\0b", "/a\ud800", "/" + "x" * 300,
        "/x" * 3000, "/secret/", "/secret/x", "/secret/..", "/to-mark", "/.user/to-mark",
        ":memory:", "'; DROP TABLE nodes; --", "/\n", "/\x1b[2J", "/.agent/fragments.jsonl",
        "/.user/memory/MEMORY.md",
    ]  # fmt: skip


#: How each verb is performed on a path; what only looks comes first.
def looking(path: str) -> list[ops.Op[Any]]:
    return [
        ops.GetStat(path), ops.GetStat(path, follow=False), ops.List(path), ops.Read(path),
        ops.Read(path, revision=1), ops.Open(path), ops.Readlink(path), ops.Checksum(path),
        ops.History(path), ops.Changes(path), ops.Changes(path, END_OF_JOURNAL),
        ops.GetUsage(path), ops.ListTrash(), ops.ListSnapshots(),
        ops.Batch((ops.Read(path), ops.List(path))),
    ]  # fmt: skip


def changing(path: str, other: str) -> list[ops.Op[Any]]:
    return [
        ops.Copy(path, "/stolen", replace=True, recursive=True),
        ops.Copy("/stolen", path, replace=True, recursive=True),
        ops.Transfer(path, "/.user/stolen", replace=True, recursive=True),
        ops.Transfer("/.user/stolen", other, replace=True, recursive=True),
        ops.Link(path, "/linked"), ops.Symlink(path or ".", "/pointed"),
        ops.Append(path, "attack"), ops.Patch(path, 0, "attack"), ops.Truncate(path, 1),
        ops.Write(path, "attack"), ops.Add(path, "attack"), ops.Mkdir(path, parents=True),
        ops.Mknod(path, Kind.FIFO), ops.SetAttrs(path, Attrs(mode=0o600)), ops.Restore(path, 1),
        ops.Batch((ops.Write(path, "attack"), ops.Write("/.agent/attack", "attack"))),
        ops.Move(path, other, replace=True), ops.Trash(path), ops.Untrash("x", path),
        ops.Remove(path, recursive=True), ops.Mkdir("/x"),
    ]  # fmt: skip


def of_whole(marks: list[str]) -> list[ops.Op[Any]]:
    """Verbs without a path, with what a foreign room would call its things."""
    named: list[ops.Op[Any]] = [ops.Undo(seq) for seq in (0, 1, 2**48 + 1, 2**200, 2**192 + 3)]
    for mark in marks:
        named += [ops.Rollback(mark), ops.DropSnapshot(mark), ops.Untrash(mark), ops.Purge(mark)]
    return [*named, ops.TakeSnapshot("mine"), ops.Within(ops.Read("/secret"), ROOT)]


def wrapped(op: ops.Op[Any]) -> list[ops.Op[Any]]:
    """The same, by another door."""
    return [op, ops.Batch((op,)), ops.Within(op, VPath((".agent",)))]


def test_every_verb_is_tried() -> None:
    tried = {type(op) for op in [*looking("/a"), *changing("/a", "/b"), *of_whole(["a"])]}
    assert operations() - tried == {ops.Judged, ops.Once}


def told(tree: keelfs.Workspace, op: ops.Op[Any]) -> str:
    """All that a caller learns from an operation."""
    try:
        answer = tree.perform(op)
    except KeelError as error:
        return f"{error!r} {error} {error.path} {error.to} {error.__dict__}"
    answers = answer if isinstance(answer, list) else [answer]
    contents = [each.read(0, 10_000) for each in answers if _is_content(each)]
    return f"{answer!r} {contents!r}"


def _is_content(answer: object) -> bool:
    return isinstance(getattr(answer, "stat", None), keelfs.Stat) and hasattr(answer, "read")


def check(world: World, foreign: list[str], heard: str, op: ops.Op[Any]) -> None:
    for mark in (*foreign, world.outside):
        assert mark not in heard, op


def test_no_tree_sees_another(world: World, tmp_path: Path) -> None:
    """S0-33 to S0-38, S0-60, X-2: every verb that looks, every hostile path, from every tree."""
    links = {ids: plant_links(world.tree(ids)) for ids in world.attackers}
    for ids in world.attackers:
        tree, before = world.tree(ids), world.looks(ids)
        foreign = [world.marks[room] for room in world.foreign(ids)]
        for path in paths_of(ids, tmp_path) + links[ids]:
            for op in (*looking(path), ops.Read(f"{path}/secret")):
                check(world, foreign, told(tree, op), op)
        for op in of_whole(foreign):
            for each in wrapped(op):
                check(world, foreign, told(tree, each), each)
        wide = (tree.glob("**"), tree.walk(), tree.grep("mark"), tree.watch(after=0, timeout=0))
        for heard in (*map(list, wide), tree.describe()):
            check(world, foreign, repr(heard), ops.List("/"))
        assert world.looks(ids) == before


def test_no_tree_changes_another(world: World, tmp_path: Path) -> None:
    """The same for every verb that changes something, also from one mount into another."""
    for ids in world.attackers:
        tree, before = world.tree(ids), world.looks(ids)
        # A session that two users share may have been given, by one, what is theirs.
        own = repr([looks(world.room(room)) for room in sorted(rooms_of(ids))])
        foreign = [world.marks[room] for room in world.foreign(ids)]
        foreign = [mark for mark in foreign if mark not in own]
        paths = paths_of(ids, tmp_path) + plant_links(tree)[:20]
        for number, path in enumerate(paths):
            for op in changing(path, paths[number * 7 % 40]):
                check(world, foreign, told(tree, op), op)
        assert world.looks(ids) == before
    assert (tmp_path / "outside").read_text() == world.outside
    assert sorted(each.name for each in (tmp_path / "skill").iterdir()) == [
        "SKILL.md", "gone", "out", "up",
    ]  # fmt: skip
    assert not (tmp_path / "not-yet-there").exists()


#: What a shell does with a path; `$p` is the path, quoted by the shell itself.
SCRIPTS = [
    'cat "$p"', 'ls -la "$p"', 'find "$p"', 'grep -rn mark "$p"', 'cd "$p" && ls -la .. && cat *',
    'cat "$p"/../secret "$p"/secret', 'ln -sf "$p" /sl && cat /sl /sl/secret', 'cp -r "$p" /copied',
    'echo attack >> "$p"', 'tar cf - "$p" | strings', 'head -c 99 < "$p"', 'mv "$p" /moved',
    'echo "$p"/* "$p"/.*', 'source "$p"', 'rm -rf "$p"',
]  # fmt: skip
SHELL_PATHS = [
    "/", "/..", "../../..", "/.agent/..", "/.user/../../secret", "/session/chatX1/secret",
    "/../chatX1/secret", "/etc/passwd", "/proc/self/environ", "/dev/mem", "/tmp", "/root", "/%",
    "/s_cret", "/skills/s/out", "/skills/s/up/outside", "/skills/s/../../../outside", "~", "-", "*",
    "link5", "/.user/link8", "/.agent/link14",
]  # fmt: skip


def test_no_shell_reaches_another(world: World, tmp_path: Path) -> None:
    """The same through the shell of each tree, whose world is the tree."""
    paths = [*SHELL_PATHS, str(tmp_path / "outside"), str(tmp_path)]
    for ids in world.attackers[:1]:
        tree, before = world.tree(ids), world.looks(ids)
        foreign = [world.marks[room] for room in world.foreign(ids)]
        plant_links(tree)
        with tree.shell() as shell:
            heard = repr(shell.run("env; set; pwd; find /; grep -rn mark /; ls -laR /"))
            check(world, foreign, heard, ops.List("/"))
            assert all(world.marks[room] in heard for room in rooms_of(ids))
            for script, path in itertools.product(SCRIPTS, paths):
                ran = shell.run(f"p={shlex.quote(path)}; {script}")
                check(world, foreign, repr(ran), ops.List(path))
        assert world.looks(ids) == before
        assert (tmp_path / "outside").read_text() == world.outside


def test_a_foreign_session_is_as_absent_as_one_that_never_was(world: World) -> None:
    """X-2: what is told about what belongs to others is what is told about nothing at all."""
    tree = world.tree(ALL[0])
    for op in (ops.Read, ops.GetStat, ops.List, ops.Checksum):
        there, nowhere = (
            told(tree, op(f"/{name}/secret")).replace(name, "NAME")
            for name in (SESSIONS[1], "chatY1")
        )
        assert there == nowhere


def test_deleting_one_session_touches_no_other(world: World) -> None:
    """S0-40, X-6: not even one whose id matches it as a pattern."""
    ids = ALL[0]
    before = {room: looks(world.room(room)) for room in world.marks}
    world.store.tenant(ids[0]).delete_session(ids[3])
    while world.store.sweep(steps=1).more:
        pass
    left = set(world.store.tenant(ids[0]).spaces())
    assert not {("session", ids[3]), ("artifacts", ids[3])} & left
    gone = {("/", ids[0], ids[3]), ("/artifacts", ids[0], ids[3])}
    for room in world.marks.keys() - gone:
        assert looks(world.room(room)) == before[room]
