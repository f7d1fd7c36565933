"""The overlay: what is seen of two trees, and that the lower one never changes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keelfs import errors, ops
from keelfs.memory import MemorySpace
from keelfs.model import ABSENT, ANY, Attrs, Kind, Limits, Page, Stat
from keelfs.path import VPath
from keelfs.testing.portrait import OWN_FIELDS, portrait, without
from keelfs.volumes import merge
from keelfs.volumes.host import HostFolder
from keelfs.volumes.marks import OWN, WHITEOUTS
from keelfs.volumes.overlay import Overlay


@pytest.fixture
def lower() -> MemorySpace:
    space = MemorySpace()
    for path in ("/a/b/f", "/a/g", "/d/e/x", "/f"):
        space.perform(ops.Write(path, path))
    space.perform(ops.Symlink("a/b", "/l"))
    return space


@pytest.fixture
def upper() -> MemorySpace:
    return MemorySpace()


@pytest.fixture
def overlay(lower: MemorySpace, upper: MemorySpace) -> Overlay:
    return Overlay(lower, upper)


def names(volume: Any, path: str = "/") -> list[str]:
    return [entry.name for entry in volume.perform(ops.List(path)).items]


def outcome(volume: Any, op: ops.Op[Any]) -> object:
    try:
        return told(volume.perform(op))
    except errors.KeelError as error:
        return type(error), error.operation


def told(answer: Any) -> object:
    """What two equal volumes must both say."""
    if isinstance(answer, list):
        return [told(each) for each in answer]
    if isinstance(answer, Stat):
        return without(answer, *OWN_FIELDS) if answer.kind is not Kind.DIRECTORY else answer.kind
    if isinstance(answer, Page):
        return [(entry.name, entry.stat.kind) for entry in answer.items], answer.next
    return answer


def looks(volume: Any) -> dict[str, object]:
    """All but the root's own attributes, which are those of the upper tree."""
    seen = portrait(volume.perform)
    return {path: (without(stat, *OWN_FIELDS), data)
            for path, (stat, data) in seen.items() if path != "/"}  # fmt: skip


#: Few paths, drawn often, so that operations meet what exists in either tree.
PATHS = st.sampled_from(
    ["/a", "/b", "/_", "/a/a", "/a/b", "/a/é", "/b/a", "/b/b", "/a/b/a", "/a/b/c", "/b/a/a",
     "/_/a", "/a/a/a", "/"]
)  # fmt: skip
GROUND = [
    ops.Write("/a/b/a", b"12"), ops.Write("/a/b/c", b"3"), ops.Write("/a/é", b""),
    ops.Write("/b/b", b"4"), ops.Symlink("../a", "/b/a"), ops.Symlink("b/a", "/a/a"),
    ops.Symlink("/b", "/_"), ops.Mkdir("/_"), ops.Write("/b/a/a", b"5"), ops.Mkdir("/a/a"),
    ops.Mknod("/a/b", Kind.FIFO), ops.Write("/b", b"6"),
]  # fmt: skip
FLAG = st.booleans()
TARGETS = st.sampled_from(["a", "b/c", "..", "../a", "/b", "/a/b", ".", "c"])
BYTES = st.binary(max_size=4)
EXPECT = st.sampled_from([ANY] * 6 + [ABSENT, 1, 2])

MAKE = st.one_of(
    st.builds(ops.Write, PATHS, BYTES, EXPECT, FLAG),
    st.builds(ops.Write, PATHS, BYTES),
    st.builds(ops.Mkdir, PATHS, FLAG, FLAG),
    st.builds(ops.Symlink, TARGETS, PATHS, FLAG),
    st.builds(ops.Mknod, PATHS, st.just(Kind.FIFO)),
    st.builds(ops.Append, PATHS, BYTES, EXPECT, FLAG),
    st.builds(ops.SetAttrs, PATHS, st.builds(
        Attrs, mode=st.sampled_from([None, 0o600]), readonly=st.sampled_from([None, True, False]),
        xattrs=st.sampled_from([None, {"user.x": b"1"}, {"user.x": None}]),
    ), FLAG),
)  # fmt: skip
CHANGE = st.one_of(
    MAKE,
    st.builds(ops.Patch, PATHS, st.integers(0, 5), BYTES, EXPECT),
    st.builds(ops.Truncate, PATHS, st.integers(0, 5), EXPECT),
    st.builds(ops.Remove, PATHS, FLAG, EXPECT),
    st.builds(ops.Remove, PATHS, st.just(True)),
    st.builds(ops.Move, PATHS, PATHS, FLAG, FLAG, EXPECT),
    st.builds(ops.Move, PATHS, PATHS, st.just(True), st.just(True)),
    st.builds(ops.Copy, PATHS, PATHS, FLAG, FLAG, FLAG, EXPECT),
    st.builds(ops.Copy, PATHS, PATHS, st.just(True), st.just(True), st.just(True)),
    st.builds(ops.Link, PATHS, PATHS, FLAG),
    st.builds(ops.List, PATHS, st.sampled_from([None, "a", "b"]), st.integers(1, 3)),
    st.builds(ops.Read, PATHS),
    st.builds(ops.GetStat, PATHS, FLAG),
)
BELOW = st.tuples(
    st.lists(st.sampled_from(GROUND), min_size=4, max_size=9), st.lists(MAKE, max_size=4)
).map(lambda both: both[0] + both[1])
WITHIN = st.builds(ops.Within, CHANGE, st.sampled_from([VPath(("a",)), VPath(("a", "b"))]))
BATCH = st.lists(CHANGE, min_size=2, max_size=4).map(lambda each: ops.Batch(tuple(each)))
ABOVE = st.one_of(CHANGE, CHANGE, CHANGE, WITHIN, BATCH)


def compare(below: list[ops.Op[Any]], above: list[ops.Op[Any]]) -> None:
    """An overlay over a tree answers as that tree itself would."""
    lower, upper, model = MemorySpace(), MemorySpace(), MemorySpace()
    for op in below:
        outcome(lower, op)
        outcome(model, op)
    before = portrait(lower.perform)
    overlay = Overlay(lower, upper)
    for op in above:
        expected = outcome(model, op)
        assert outcome(overlay, op) == expected, op
        assert looks(overlay) == looks(model), op
    assert portrait(lower.perform) == before


@pytest.fixture(autouse=True)
def _short_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages so short that every walk crosses their seams."""
    monkeypatch.setattr(merge, "_PAGE", 2)


@settings(max_examples=200, deadline=None)
@given(BELOW, st.lists(ABOVE, min_size=6, max_size=14))
def test_an_overlay_is_like_the_tree_itself(
    below: list[ops.Op[Any]], above: list[ops.Op[Any]]
) -> None:
    compare(below, above)


@pytest.mark.torture
@settings(max_examples=10_000, deadline=None)
@given(BELOW, st.lists(ABOVE, min_size=10, max_size=40))
def test_an_overlay_is_like_the_tree_itself_at_length(
    below: list[ops.Op[Any]], above: list[ops.Op[Any]]
) -> None:
    compare(below, above)


def test_what_is_deleted_below_stays_deleted(
    lower: MemorySpace, upper: MemorySpace, overlay: Overlay
) -> None:
    overlay.perform(ops.Remove("/a", recursive=True))
    overlay.perform(ops.Remove("/f"))
    assert names(overlay) == ["d", "l"]
    overlay.perform(ops.Write("/a/new", b""))
    assert names(overlay, "/a") == ["new"]
    again = Overlay(lower, upper)
    assert names(again) == ["a", "d", "l"]
    assert names(again, "/a") == ["new"]
    assert names(lower, "/a") == ["b", "g"]


def test_a_lower_directory_moves_with_all_it_holds(lower: MemorySpace, overlay: Overlay) -> None:
    overlay.perform(ops.Write("/a/b/new", b""))
    overlay.perform(ops.Remove("/a/g"))
    overlay.perform(ops.Move("/a", "/z"))
    assert names(overlay) == ["d", "f", "l", "z"]
    assert names(overlay, "/z/b") == ["f", "new"]
    overlay.perform(ops.Mkdir("/a"))
    assert names(overlay, "/a") == []
    overlay.perform(ops.Move("/z", "/a", replace=True))
    assert names(overlay, "/a") == ["b"]


def test_no_name_of_a_user_collides_with_a_whiteout(overlay: Overlay) -> None:
    overlay.perform(ops.Write("/.wh.f", b"mine"))
    overlay.perform(ops.Write("/.wh..wh..opq", b"mine"))
    assert overlay.perform(ops.Read("/f")) == b"/f"
    overlay.perform(ops.Remove("/f"))
    assert overlay.perform(ops.Read("/.wh.f")) == b"mine"
    assert overlay.perform(ops.GetStat("/")).xattrs == {}
    with pytest.raises(errors.InvalidArgument):
        overlay.perform(ops.SetAttrs("/", Attrs(xattrs={WHITEOUTS: None})))
    assert "f" not in names(overlay)


def test_an_expectation_holds_across_the_bringing_up(
    lower: MemorySpace, upper: MemorySpace, overlay: Overlay
) -> None:
    for _ in range(4):
        lower.perform(ops.Append("/f", b"."))
    below = overlay.perform(ops.GetStat("/f"))
    brought = overlay.perform(ops.SetAttrs("/f", Attrs(mode=0o600), expect=below))
    assert (brought.id, brought.revision) == (below.id, below.revision)
    written = overlay.perform(ops.Append("/f", b"!", expect=below))
    assert (written.id, written.revision) == (below.id, below.revision + 1)
    with pytest.raises(errors.Conflict):
        overlay.perform(ops.Append("/f", b"!", expect=below))
    assert overlay.perform(ops.Read("/f", revision=written.revision)) == b"/f....!"
    assert overlay.perform(ops.Open("/f")).stat == overlay.perform(ops.GetStat("/f"))
    with pytest.raises(errors.RevisionNotFound):
        overlay.perform(ops.Read("/f", revision=below.revision - 1))
    assert overlay.perform(ops.Write("/a/g", b"", expect=1)).revision == 2
    copied = overlay.perform(ops.Copy("/f", "/copy"))
    assert copied.id != below.id
    assert copied.revision == 1


def test_a_refused_operation_brings_nothing_up(upper: MemorySpace, overlay: Overlay) -> None:
    batch = ops.Batch((ops.Append("/f", b"x"), ops.Remove("/a"), ops.Write("/new", b"")))
    with pytest.raises(errors.NotEmpty):
        overlay.perform(batch)
    with pytest.raises(errors.IsADirectory):
        overlay.perform(ops.Move("/a/b/f", "/d", replace=True))
    assert list(upper.tree()) == ["/"]


def test_memory_is_limited_by_the_upper_space(lower: MemorySpace) -> None:
    lower.perform(ops.Write("/big", b"x" * 1000))
    upper = MemorySpace(limits=Limits(bytes=500))
    overlay = Overlay(lower, upper)
    with pytest.raises(errors.QuotaExceeded):
        overlay.perform(ops.Append("/big", b"y"))
    with pytest.raises(errors.QuotaExceeded):
        overlay.perform(ops.Write("/new", b"y" * 501))
    assert list(upper.tree()) == ["/"]
    overlay.perform(ops.Write("/big", b"y"))


def test_no_more_is_brought_up_than_one_transaction_may_touch(lower: MemorySpace) -> None:
    upper = MemorySpace(limits=Limits(transaction_nodes=3))
    overlay = Overlay(lower, upper)
    before = looks(overlay), looks(upper)
    for op in (ops.Move("/a", "/n"), ops.Copy("/a", "/n", recursive=True)):
        with pytest.raises(errors.TooLarge) as caught:
            overlay.perform(op)
        told = caught.value
        assert (told.limit, told.size, told.used) == ("space.transaction_nodes", 3, 4)
        assert (looks(overlay), looks(upper)) == before
    overlay.perform(ops.Move("/a/b", "/n"))
    assert names(overlay, "/n") == ["f"]
    # What lies above already is moved whole, however much it is.
    for number in range(9):
        overlay.perform(ops.Write(f"/own/{number}", ""))
    overlay.perform(ops.Move("/own", "/mine"))
    assert len(names(overlay, "/mine")) == 9


def test_large_files_below_are_listed_and_not_read(lower: MemorySpace, upper: MemorySpace) -> None:
    lower.perform(ops.Write("/big", b"x" * 11))
    overlay = Overlay(lower, upper, max_file_read_bytes=10)
    assert overlay.perform(ops.GetStat("/big")).size == 11
    for op in (
        ops.Read("/big", 0, 1), ops.Open("/big"), ops.Checksum("/big"), ops.Append("/big", b"x"),
        ops.Copy("/big", "/c"), ops.Move("/big", "/c"), ops.SetAttrs("/big", Attrs(mode=0)),
    ):  # fmt: skip
        with pytest.raises(errors.TooLarge):
            overlay.perform(op)
    assert list(upper.tree()) == ["/"]
    overlay.perform(ops.Write("/big", b"x" * 12))
    assert overlay.perform(ops.Read("/big")) == b"x" * 12


def test_a_judge_sees_the_merged_tree_and_what_was_changed(
    upper: MemorySpace, overlay: Overlay
) -> None:
    seen: list[Any] = []

    def judge(view: Any, touched: list[tuple[str, ...]]) -> None:
        listed = [entry.name for entry in view.list(VPath(), None, 100).items]
        seen.append((sorted(touched), listed))
        if "bad" in listed:
            raise errors.ValidationFailed

    everything = ["a", "d", "f", "l"]
    for op, touched in (
        (ops.Append("/a/b/f", b"x"), [("a", "b", "f")]),
        (ops.Write("/a/g", b"x"), [("a", "g")]),
        (ops.SetAttrs("/d/e/x", Attrs(mode=0o600)), []),
        (ops.Write("/d/e/y", b""), [("d", "e", "y")]),
    ):
        overlay.perform(ops.Judged(op, judge))
        assert seen[-1] == (touched, everything)
    overlay.perform(ops.Judged(ops.Link("/f", "/a/h"), judge))
    assert ("a", "h") in seen[-1][0]
    with pytest.raises(errors.ValidationFailed):
        overlay.perform(ops.Judged(ops.Write("/bad", b""), judge))
    assert names(overlay) == everything


def test_a_request_is_answered_once(overlay: Overlay) -> None:
    once = ops.Once(ops.Append("/f", b"!"), "key", b"print")
    assert overlay.perform(once) == overlay.perform(once)
    assert overlay.perform(ops.Read("/f")) == b"/f!"
    apart = ops.Within(ops.Once(ops.Append("/b/f", b"!"), "key", b"print"), VPath(("a",)))
    overlay.perform(apart)
    overlay.perform(apart)
    assert overlay.perform(ops.Read("/a/b/f")) == b"/a/b/f!"


def test_there_is_no_history(overlay: Overlay) -> None:
    for op in (
        ops.History("/f"), ops.Restore("/f", 1), ops.Trash("/f"), ops.ListTrash(),
        ops.Untrash("t"), ops.Purge("t"), ops.TakeSnapshot("s"), ops.ListSnapshots(),
        ops.DropSnapshot("s"), ops.Rollback("s"), ops.Undo(1), ops.Changes(),
    ):  # fmt: skip
        with pytest.raises(errors.Unsupported):
            overlay.perform(op)


def test_usage_is_that_of_the_merged_tree(overlay: Overlay) -> None:
    before = overlay.perform(ops.GetUsage())
    assert (before.bytes, before.nodes) == (6 + 4 + 6 + 2, 9)
    overlay.perform(ops.Write("/f", b"12345"))
    overlay.perform(ops.Remove("/a", recursive=True))
    after = overlay.perform(ops.GetUsage())
    assert (after.bytes, after.nodes) == (6 + 5, 5)
    assert overlay.perform(ops.GetUsage("/d/e")).nodes == 1


def test_a_host_folder_below_is_never_modified(tmp_path: Path) -> None:
    base = tmp_path / "skill"
    (base / "refs").mkdir(parents=True)
    (base / "refs/a.md").write_bytes(b"a")
    (base / "out").symlink_to("/etc")
    os.mkfifo(base / "pipe")

    def state() -> list[tuple[str, int, int]]:
        return sorted(
            (str(path), path.lstat().st_mtime_ns, path.lstat().st_mode)
            for path in [base, *base.rglob("*")]
        )

    before = state()
    upper = MemorySpace()
    with HostFolder(base) as folder:
        overlay = Overlay(folder, upper)
        known = overlay.perform(ops.GetStat("/refs/a.md"))
        written = overlay.perform(ops.Append("/refs/a.md", b"b", expect=known.revision))
        assert written.revision == known.revision + 1
        with pytest.raises(errors.NotFound):
            overlay.perform(ops.Read("/out/hostname"))
        with pytest.raises(errors.NotAFile):
            overlay.perform(ops.Read("/pipe"))
        overlay.perform(ops.Move("/refs", "/moved"))
        overlay.perform(ops.Remove("/out"))
        overlay.perform(ops.Move("/pipe", "/moved/pipe"))
        assert overlay.perform(ops.Read("/moved/a.md")) == b"ab"
        assert names(overlay) == ["moved"]
        fresh = Overlay(folder, MemorySpace())
        assert names(fresh) == ["out", "pipe", "refs"]
    assert state() == before
    assert any(OWN in name for name in upper.perform(ops.GetStat("/")).xattrs)
