"""Watching: nothing is missed, nothing is told twice, and any change is a place to go on from."""

from __future__ import annotations

import itertools
import threading
from typing import Any

import pytest

from keelfs import errors, ops
from keelfs.memory import MemorySpace
from keelfs.model import ChangeKind
from keelfs.watch import FIRST_PAUSE, LONGEST_PAUSE
from keelfs.workspace import Workspace


@pytest.fixture
def ws() -> Workspace:
    return Workspace(MemorySpace())


def seen(ws: Workspace, **given: Any) -> list[tuple[str, str | None, str | None]]:
    """What a watcher tells from the beginning of the journal."""

    def spelled(end: tuple[str, ...] | None) -> str | None:
        return None if end is None else "/".join(end)

    found = ws.watch(**{"after": 0, "timeout": 0, **given})
    return [(change.kind.value, spelled(change.path), spelled(change.to)) for change in found]


class Alarm:
    """A waiter that lets a test act each time somebody waits."""

    def __init__(self, *acts: Any) -> None:
        self.acts, self.asked = list(acts), list[tuple[int, float]]()

    def wait(self, after_seq: int, timeout: float) -> None:
        self.asked.append((after_seq, timeout))
        if self.acts:
            self.acts.pop(0)()


def test_now_is_the_moment_of_the_call(ws: Workspace) -> None:
    ws.write("/before", "x")
    watch = ws.watch(timeout=0)
    ws.write("/after", "x")
    assert [change.path for change in watch] == [("after",)]


def test_a_watcher_waits_for_what_comes() -> None:
    space = MemorySpace()
    writer = Workspace(space)
    alarm = Alarm(
        lambda: writer.write("/a", "x"),
        lambda: None,
        lambda: writer.batch([ops.Write("/b", "x"), ops.Write("/c", "x")]),
    )
    watch = Workspace(space, wait=alarm).watch()
    first, second, third = itertools.islice(watch, 3)
    assert [each.path for each in (first, second, third)] == [("a",), ("b",), ("c",)]
    assert second.batch == third.batch != first.batch
    assert [after for after, _ in alarm.asked] == [0, first.seq, first.seq]


def test_any_change_is_a_place_to_go_on_from(ws: Workspace) -> None:
    for number in range(20):
        ws.write(f"/{number}", "x")
    everything = list(ws.watch(after=0, timeout=0))
    for at, change in enumerate(everything):
        assert list(ws.watch(after=change.seq, timeout=0)) == everything[at + 1 :]


def test_many_pages_are_told_once(ws: Workspace) -> None:
    ws.batch([ops.Write(f"/d/{number}", b"") for number in range(2500)])
    paths = [path for _, path, _ in seen(ws, kinds={"create"}, pattern="*[0-9]")]
    assert paths == [f"d/{number}" for number in range(2500)]


def test_nothing_is_missed_beside_writers(ws: Workspace) -> None:
    def work(name: str) -> None:
        for number in range(100):
            ws.write(f"/{name}{number}", b"")

    watch = ws.watch(timeout=5)
    threads = [threading.Thread(target=work, args=(name,)) for name in "abc"]
    for thread in threads:
        thread.start()
    told = list(itertools.islice(watch, 300))
    for thread in threads:
        thread.join()
    assert [change.seq for change in told] == sorted({change.seq for change in told})
    assert len({change.path for change in told}) == 300


def test_ends_outside_are_not_told(ws: Workspace) -> None:
    ws.mkdir("/in")
    ws.write("/out", "x")
    ws.move("/out", "/in/a")
    ws.move("/in/a", "/in/b")
    ws.move("/in/b", "/gone")
    assert seen(ws, path="/in")[1:] == [
        ("move", None, "a"),
        ("move", "a", "b"),
        ("move", "b", None),
    ]


def test_without_recursion_only_children_are_told(ws: Workspace) -> None:
    ws.mkdir("/d")
    ws.mkdir("/d/deep")
    ws.write("/d/deep/a", "x")
    ws.move("/d/deep/a", "/d/a")
    ws.move("/d/a", "/d/deep/a")
    ws.set_attrs("/d", mode=0o700)
    assert seen(ws, path="/d", recursive=False) == [
        ("create", "", None),
        ("create", "deep", None),
        ("move", None, "a"),
        ("move", "a", None),
        ("attrs", "", None),
    ]
    assert ("create", "deep/a", None) in seen(ws, path="/d")


def test_kinds_are_told_apart(ws: Workspace) -> None:
    ws.write("/a", "1")
    ws.write("/a", "2")
    ws.remove("/a")
    assert seen(ws, kinds={ChangeKind.CREATE, ChangeKind.REMOVE}) == [
        ("create", "a", None), ("remove", "a", None),
    ]  # fmt: skip
    assert seen(ws, kinds=["write"]) == [("write", "a", None)]
    assert seen(ws, kinds=set()) == []


def test_a_pattern_looks_at_both_ends_below_the_path(ws: Workspace) -> None:
    ws.mkdir("/d")
    ws.write("/d/a.py", "x")
    ws.write("/d/b.md", "x")
    ws.move("/d/b.md", "/d/b.py")
    ws.mkdir("/d/sub")
    ws.write("/d/sub/c.py", "x")
    assert seen(ws, path="/d", pattern="*.py") == [
        ("create", "a.py", None), ("move", "b.md", "b.py"), ("create", "sub/c.py", None),
    ]  # fmt: skip
    assert seen(ws, path="/d", pattern="sub/*") == [("create", "sub/c.py", None)]


def test_a_directory_that_moves_passes_every_pattern(ws: Workspace) -> None:
    ws.write("/d/a.py", "x")
    ws.move("/d", "/e")
    ws.trash("/e")
    told = seen(ws, pattern="*.py")
    assert told == [("create", "d/a.py", None), ("move", "d", "e"), ("trash", "e", None)]


def test_it_ends_when_nothing_passes_for_long_enough(ws: Workspace) -> None:
    assert list(ws.watch(timeout=0.03)) == []
    ws.write("/a", "x")
    assert len(list(ws.watch(after=0, timeout=0.03))) == 1


def test_pauses_grow_and_start_small_again(ws: Workspace) -> None:
    watcher = ws.watcher()
    pauses = []
    for _ in range(9):
        assert watcher.poll() == []
        pauses.append(watcher.next_pause())
    assert pauses[:3] == [FIRST_PAUSE, 2 * FIRST_PAUSE, 4 * FIRST_PAUSE]
    assert pauses[-1] == LONGEST_PAUSE
    ws.write("/a", "x")
    assert len(watcher.poll()) == 1
    assert watcher.next_pause() == FIRST_PAUSE


def test_the_cursor_is_right_even_when_nothing_passes(ws: Workspace) -> None:
    watcher = ws.watcher(kinds={ChangeKind.REMOVE})
    ws.write("/a", "x")
    assert (watcher.poll(), watcher.behind) == ([], True)
    assert watcher.cursor == ws.changes().items[-1].seq
    assert (watcher.poll(), watcher.behind) == ([], False)


def test_a_cursor_beyond_the_end_goes_on_from_the_end(ws: Workspace) -> None:
    ws.write("/a", "x")
    watcher = ws.watcher(after=10_000)
    assert watcher.poll() == []
    ws.write("/b", "x")
    assert [change.path for change in watcher.poll()] == [("b",)]


def test_a_subtree_is_watched_as_a_whole_tree(ws: Workspace) -> None:
    ws.mkdir("/in")
    watch = ws.subtree("/in").watch(timeout=0)
    ws.write("/in/a", "x")
    ws.write("/out", "x")
    assert [change.path for change in watch] == [("a",)]


def test_errors_of_a_watcher_name_its_path() -> None:
    class Forgetful:
        def perform(self, op: Any, /) -> Any:
            raise errors.CursorExpired

    for given in ({}, {"after": 3, "timeout": 0}):
        with pytest.raises(errors.CursorExpired) as caught:
            list(Workspace(Forgetful()).watch("some/where", **given))
        assert caught.value.path == "some/where"
