"""Mounts: several trees as one, none of which leads into another."""

from __future__ import annotations

import pytest

from keelfs import Workspace, errors, ops
from keelfs.gates.mounts import Mounts
from keelfs.memory import MemorySpace
from keelfs.path import ROOT, parse


class Tree:
    """A chat with an agent's tree at /.agent, and one inside of it at /.agent/skills/a."""

    def __init__(self) -> None:
        self.chat, self.agent, self.skill = MemorySpace(), MemorySpace(), MemorySpace()
        self.whole = Workspace(
            Mounts(
                self.chat,
                {parse("/.agent"): self.agent, parse("/.agent/skills/a"): self.skill},
            )
        )
        Workspace(self.chat).write("/notes.md", "chat")
        Workspace(self.agent).write("/memory.md", "agent")
        Workspace(self.skill).write("/steps.md", "skill")


@pytest.fixture
def tree() -> Tree:
    return Tree()


def test_the_deepest_mount_answers(tree: Tree) -> None:
    ws = tree.whole
    assert ws.read("/notes.md") == b"chat"
    assert ws.read("/.agent/memory.md") == b"agent"
    assert ws.read("/.agent/skills/a/steps.md") == b"skill"
    ws.write("/.agent/skills/a/more.md", "x")
    assert Workspace(tree.skill).read("/more.md") == b"x"
    assert not Workspace(tree.agent).exists("/skills/a/more.md")


def test_the_tree_is_one(tree: Tree) -> None:
    assert [path for path, _ in tree.whole.walk("/")] == [
        ".agent", ".agent/memory.md", ".agent/skills", ".agent/skills/a",
        ".agent/skills/a/steps.md", "notes.md",
    ]  # fmt: skip
    assert tree.whole.stat("/.agent/skills").is_directory
    assert list(tree.whole.glob("**/*.md")) == [
        ".agent/memory.md", ".agent/skills/a/steps.md", "notes.md",
    ]  # fmt: skip


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 5])
def test_names_of_mounts_are_listed_in_their_places(limit: int) -> None:
    chat = MemorySpace()
    for name in ("a", "c", "e"):
        Workspace(chat).write(f"/{name}", "")
    # A file where a mount stands is hidden by it.
    mounts = {parse(f"/{name}"): MemorySpace() for name in ("b", "c", "f")}
    ws, names, after = Workspace(Mounts(chat, mounts)), list[str](), None
    while True:
        page = ws.list("/", after=after, limit=limit)
        assert len(page.items) <= limit
        names += [entry.name for entry in page.items]
        after = page.next
        if after is None:
            break
    assert names == ["a", "b", "c", "e", "f"]
    assert ws.stat("/c").is_directory


@pytest.mark.parametrize("path", ["/.agent", "/.agent/skills", "/.agent/skills/a"])
def test_mount_points_stay(tree: Tree, path: str) -> None:
    ws = tree.whole
    for change in (
        ops.Remove(path, recursive=True), ops.Trash(path), ops.Move(path, "/elsewhere"),
        ops.Move("/notes.md", path, replace=True), ops.Copy("/notes.md", path, replace=True),
    ):  # fmt: skip
        with pytest.raises(errors.Busy):
            ws.perform(change)
    with pytest.raises(errors.AlreadyExists):
        ws.mkdir(path)
    assert ws.mkdir(path, exist_ok=True).is_directory
    with pytest.raises(errors.IsADirectory):
        ws.write(path, "x")
    assert ws.read("/.agent/skills/a/steps.md") == b"skill"


def test_nothing_is_mounted_at_the_root() -> None:
    with pytest.raises(errors.InvalidArgument):
        Mounts(MemorySpace(), {ROOT: MemorySpace()})


@pytest.mark.parametrize(
    "op",
    [
        ops.Move("/notes.md", "/.agent/notes.md"),
        ops.Move("/.agent/memory.md", "/.agent/skills/a/memory.md"),
        ops.Copy("/notes.md", "/.agent/notes.md"),
        ops.Link("/notes.md", "/.agent/notes.md"),
        ops.Once(ops.Move("/notes.md", "/.agent/notes.md"), "key", b""),
    ],
    ids=lambda op: type(op).__name__,
)
def test_what_needs_two_volumes_is_refused(tree: Tree, op: ops.Op[object]) -> None:
    before = [path for path, _ in tree.whole.walk("/")]
    with pytest.raises(errors.CrossDevice):
        tree.whole.perform(op)
    assert [path for path, _ in tree.whole.walk("/")] == before


def test_a_batch_inside_one_volume_is_performed(tree: Tree) -> None:
    tree.whole.batch(
        [ops.Write("/.agent/b", "2"), ops.Move("/.agent/b", "/.agent/c"), ops.Trash("/.agent/c")]
    )
    assert not tree.whole.exists("/.agent/c")


@pytest.mark.parametrize("target", ["/.agent/memory.md", ".agent/memory.md", "../.agent/memory.md"])
def test_no_link_leads_from_one_volume_into_another(tree: Tree, target: str) -> None:
    tree.whole.symlink(target, "/way")
    assert not tree.whole.exists("/way")
    tree.whole.symlink("/notes.md", "/.agent/back")
    assert not tree.whole.exists("/.agent/back")
    with pytest.raises(errors.DanglingLink):
        tree.whole.write("/way", "x")


def test_a_directory_that_only_a_mount_implies_becomes_real_when_it_is_used(tree: Tree) -> None:
    tree.whole.write("/.agent/skills/list.md", "a", parents=False)
    assert Workspace(tree.agent).read("/skills/list.md") == b"a"


def test_a_subtree_with_mounts_is_composed_again(tree: Tree) -> None:
    inner = tree.whole.subtree("/.agent")
    assert inner.read("/memory.md") == b"agent"
    assert inner.read("/skills/a/steps.md") == b"skill"
    with pytest.raises(errors.CrossDevice):
        inner.move("/memory.md", "/skills/a/memory.md")
    assert not inner.exists("/../notes.md")


def test_answers_that_name_a_path_name_that_of_the_whole_tree(tree: Tree) -> None:
    assert tree.whole.trash("/.agent/memory.md").path == (".agent", "memory.md")


def test_a_mounted_tree_that_is_gone_shows_nothing_else_in_its_place(tree: Tree) -> None:
    class Gone:
        def perform(self, op: ops.Op[object], /) -> object:
            raise errors.NotFound("this space has been deleted")

    Workspace(tree.chat).write("/m", "hidden")
    ws = Workspace(Mounts(tree.chat, {parse("/m"): Gone()}))  # type: ignore[dict-item]
    assert [entry.name for entry in ws.entries("/")] == ["notes.md"]
    assert not ws.exists("/m")
