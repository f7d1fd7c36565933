"""Each gate refuses, observes or confines what it says, however an operation is wrapped."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from keelfs import ops
from keelfs.errors import (
    DeadlineExceeded,
    InvalidPath,
    KeelError,
    NotADirectory,
    NotFound,
    PermissionDenied,
    ReadOnly,
    Refused,
    UnknownFailure,
    ValidationFailed,
)
from keelfs.gates.audit import Attempt, Audit
from keelfs.gates.deadline import Deadline
from keelfs.gates.policy import Policy
from keelfs.gates.readonly import ReadOnlyGate
from keelfs.gates.subtree import Subtree
from keelfs.gates.validate import Validate, ValidatorRegistry
from keelfs.memory import MemorySpace
from keelfs.model import Attrs, Content, Kind, Principal
from keelfs.ops import Batch, Judged, Once, Op, Within, fingerprint, unwrapped
from keelfs.path import ROOT, VPath, parse
from keelfs.ports import Handler


def once(op: Op[Any]) -> Op[Any]:
    return Once(op, "key", fingerprint(op))


def judged(op: Op[Any]) -> Op[Any]:
    return Judged(op, lambda volume, touched: None)


WRAPPINGS: list[Callable[[Op[Any]], Op[Any]]] = [
    lambda op: op,
    lambda op: Batch((op,)),
    lambda op: Batch((ops.GetStat("/"), op)),
    once,
    judged,
    lambda op: Within(op, ROOT),
    lambda op: judged(Batch((once(Within(op, ROOT)),))),
]

PATH = "/d/f"
MUTATIONS: list[Op[Any]] = [
    ops.Write(PATH, "x"),
    ops.Add(PATH, "x"),
    ops.Append(PATH, "x"),
    ops.Patch(PATH, 0, "x"),
    ops.Truncate(PATH, 0),
    ops.Mkdir("/new"),
    ops.Mknod("/new", Kind.FIFO),
    ops.Symlink("d", "/new"),
    ops.Link(PATH, "/new"),
    ops.Remove(PATH),
    ops.Move(PATH, "/new"),
    ops.Transfer(PATH, "/new"),
    ops.Copy(PATH, "/new"),
    ops.SetAttrs(PATH, Attrs(mode=0o600)),
    ops.Restore(PATH, 1),
    ops.Trash(PATH),
    ops.Untrash("1"),
    ops.Purge("1"),
    ops.TakeSnapshot("s"),
    ops.DropSnapshot("s"),
    ops.Rollback("s"),
    ops.Undo(1),
]
READINGS: list[Op[Any]] = [
    ops.GetStat(PATH),
    ops.List("/d"),
    ops.Read(PATH),
    ops.Open(PATH),
    ops.Checksum(PATH),
    ops.History(PATH),
    ops.ListTrash(),
    ops.ListSnapshots(),
    ops.Changes(),
    ops.GetUsage(),
]


def leaves(kind: type[Op[Any]]) -> set[type[Op[Any]]]:
    below = [each for each in kind.__subclasses__() if each.__module__ == Op.__module__]
    return set().union(*(leaves(each) for each in below)) if below else {kind}


def space() -> MemorySpace:
    made = MemorySpace()
    made.perform(ops.Write(PATH, "one"))
    made.perform(ops.Write(PATH, "two"))
    return made


def test_no_verb_is_forgotten() -> None:
    ours = {kind for kind in leaves(Op) if kind.__module__ == "keelfs.ops"}
    wrapping = {Batch, Within, Judged, Once, ops.Readlink}
    assert ours - wrapping == {type(op) for op in MUTATIONS + READINGS}


# --- readonly


@pytest.mark.parametrize("wrap", WRAPPINGS)
def test_a_readonly_gate_refuses_every_change(wrap: Callable[[Op[Any]], Op[Any]]) -> None:
    below = space()
    gate, before = ReadOnlyGate(below), below.tree()
    for op in MUTATIONS:
        with pytest.raises(ReadOnly):
            gate.perform(wrap(op))
    assert below.tree() == before


def test_a_readonly_gate_passes_every_reading() -> None:
    gate = ReadOnlyGate(space())
    for op in READINGS:
        gate.perform(op)
        gate.perform(Within(op, ROOT))
    assert gate.perform(Batch((ops.Read(PATH), ops.GetStat(PATH))))[0] == b"two"
    assert Subtree(ReadOnlyGate(space()), parse("/d")).perform(ops.Checksum("/f"))
    with pytest.raises(ReadOnly):
        gate.perform(once(ops.Read(PATH)))


# --- subtree


def confined() -> tuple[MemorySpace, Subtree]:
    below = MemorySpace()
    below.perform(ops.Write("/secret", "secret"))
    below.perform(ops.Write("/base/f", "mine"))
    return below, Subtree(below, parse("/base"))


@pytest.mark.parametrize(
    "target", ["/secret", "../secret", "../../secret", "/base/../secret", "d/../../secret"]
)
def test_no_link_leads_out_of_a_subtree(target: str) -> None:
    below, gate = confined()
    gate.perform(ops.Mkdir("/d"))
    gate.perform(ops.Symlink(target, "/link"))
    gate.perform(ops.Symlink(target[: -len("secret")] or ".", "/dir"))
    for path in ("/link", "/dir/secret", "/../secret", "/d/../../secret"):
        for op in (
            ops.Read(path), ops.GetStat(path), ops.Open(path), ops.Checksum(path),
            ops.Patch(path, 0, "x"), ops.Truncate(path, 0), ops.Copy(path, "/stolen"),
            ops.History(path),
        ):  # fmt: skip
            with pytest.raises(KeelError):
                gate.perform(op)
    with pytest.raises(NotFound):
        gate.perform(ops.Remove("/dir/secret"))
    assert below.perform(ops.Read("/secret")) == b"secret"


def test_a_subtree_cannot_be_led_away_by_a_link_in_its_base() -> None:
    below, gate = confined()
    below.perform(ops.Move("/base", "/former"))
    below.perform(ops.Symlink("/", "/base"))
    with pytest.raises(NotADirectory):
        gate.perform(ops.Read("/secret"))
    below.perform(ops.Remove("/base"))
    with pytest.raises(NotFound):
        gate.perform(ops.List("/"))


def test_a_subtree_answers_as_if_it_were_all() -> None:
    below, gate = confined()
    stat = gate.perform(ops.Write("/sub/g", "12345"))
    assert below.perform(ops.GetStat("/base/sub/g")) == stat
    assert gate.perform(ops.GetUsage()).bytes == 9
    below.perform(ops.Write("/elsewhere", "x"))
    paths = [change.path for change in gate.perform(ops.Changes()).items]
    assert ("sub", "g") in paths
    assert ("elsewhere",) not in paths
    trashed = gate.perform(ops.Trash("/f"))
    assert trashed.path == ("f",)
    foreign = below.perform(ops.Trash("/secret")).id
    assert [item.id for item in gate.perform(ops.ListTrash()).items] == [trashed.id]
    for op in (ops.Untrash(foreign), ops.Purge(foreign)):
        with pytest.raises(NotFound):
            gate.perform(op)
    for op in (ops.TakeSnapshot("s"), ops.Rollback("s"), ops.Undo(1), ops.ListSnapshots()):
        with pytest.raises(PermissionDenied):
            gate.perform(op)
    with pytest.raises(Refused):
        gate.perform(ops.Remove("/", recursive=True))


def test_keys_of_one_subtree_do_not_answer_in_another() -> None:
    below = MemorySpace()
    below.perform(ops.Mkdir("/a"))
    below.perform(ops.Mkdir("/b"))
    first = Subtree(below, parse("/a")).perform(once(ops.Write("/f", "x")))
    second = Subtree(below, parse("/b")).perform(once(ops.Write("/f", "x")))
    assert first.id != second.id
    assert Subtree(below, parse("/b")).perform(once(ops.Write("/f", "x"))).id == second.id


# --- policy


@pytest.mark.parametrize("wrap", WRAPPINGS)
def test_a_policy_sees_every_verb_however_it_is_wrapped(
    wrap: Callable[[Op[Any]], Op[Any]],
) -> None:
    def decide(op: Op[Any]) -> None:
        if isinstance(op, ops.Remove):
            raise PermissionDenied("nothing is removed here")

    below = space()
    gate = Policy(below, decide)
    with pytest.raises(PermissionDenied):
        gate.perform(wrap(ops.Remove(PATH)))
    assert below.perform(ops.Read(PATH)) == b"two"
    gate.perform(wrap(ops.Write(PATH, "three")))
    assert below.perform(ops.Read(PATH)) == b"three"


def test_a_policy_sees_paths_from_where_it_stands() -> None:
    seen: list[str] = []
    gate = Policy(space(), lambda op: seen.extend(map(str, op.paths())))
    Subtree(gate, parse("/d")).perform(Batch((ops.Read("/f"), ops.Copy("/f", "/g"))))
    assert seen == ["/d/f", "/d/f", "/d/g"]
    assert [op.verb for op in unwrapped(judged(Batch((ops.Undo(1),))))] == ["undo"]


# --- audit


class Clock:
    def __init__(self) -> None:
        self.now = 1000

    def now_ns(self) -> int:
        return self.now


def test_every_attempt_is_recorded_once_with_how_it_ended() -> None:
    seen: list[Attempt] = []
    principal = Principal("agent", "smith")
    gate = Audit(space(), seen.append, principal=principal, clock=Clock())
    gate.perform(ops.Write("/secret-content-goes-nowhere", "password"))
    with pytest.raises(NotFound):
        gate.perform(ops.Read("/missing"))
    with pytest.raises(NotFound):
        gate.perform(Batch((ops.Write(PATH, "x"), ops.Move(PATH, "/g"), ops.Remove("/missing"))))
    gate.perform(Within(ops.GetStat("/f"), parse("/d")))
    assert [(a.verb, a.verbs, a.paths, a.mutates, a.outcome) for a in seen] == [
        ("write", ("write",), ("/secret-content-goes-nowhere",), True, "ok"),
        ("read", ("read",), ("/missing",), False, "not_found"),
        ("batch", ("write", "move", "remove"), (PATH, PATH, "/g", "/missing"), True, "not_found"),
        ("getstat", ("getstat",), (PATH,), False, "ok"),
    ]
    assert {(a.principal, a.at_ns) for a in seen} == {("agent:smith", 1000)}
    assert all(a.duration_ns > 0 for a in seen)
    assert "password" not in repr(seen)


def test_a_defect_is_recorded_too_and_passed_on() -> None:
    class Broken:
        def perform(self, op: Op[Any], /) -> Any:
            raise ZeroDivisionError

    seen: list[Attempt] = []
    gate = Audit(Broken(), seen.append, principal=Principal(), clock=Clock())
    with pytest.raises(ZeroDivisionError):
        gate.perform(ops.Read("/x"))
    assert seen[0].outcome == UnknownFailure.code


# --- deadline


def test_nothing_starts_after_the_deadline() -> None:
    clock, below = Clock(), space()
    gate = Deadline(below, clock, 2000)
    clock.now = 1999
    gate.perform(ops.Write(PATH, "in time"))
    clock.now = 2000
    with pytest.raises(DeadlineExceeded):
        gate.perform(ops.Write(PATH, "late"))
    assert below.perform(ops.Read(PATH)) == b"in time"


# --- validate


def no_bad_word(content: Content) -> None:
    if b"BAD" in content.read(0, content.stat.size):
        raise ValidationFailed("the word BAD is not allowed; leave it out")


def validated(glob: str = "/v/*.txt") -> tuple[MemorySpace, Validate]:
    below = MemorySpace()
    below.perform(ops.Write("/v/f.txt", "BAD from before"))
    below.perform(ops.Write("/v/f.txt", "good, B"))
    below.perform(ops.Write("/v/B.txt", "B"))
    below.perform(ops.Write("/o/bad.txt", "BAD"))
    below.perform(ops.Write("/o/deep/v/x.txt", "BAD"))
    below.perform(ops.Write("/o/good", "good"))
    below.perform(ops.TakeSnapshot("valid"))
    registry = ValidatorRegistry()
    registry.register(glob, no_bad_word)
    return below, Validate(below, registry)


EVASIONS: list[Op[Any]] = [
    ops.Write("/v/f.txt", "BAD"),
    ops.Write("/v/new.txt", "BAD"),
    ops.Append("/v/f.txt", "AD"),
    ops.Patch("/v/f.txt", 0, "BAD"),
    ops.Copy("/o/bad.txt", "/v/c.txt"),
    ops.Copy("/o/bad.txt", "/v/f.txt", replace=True),
    ops.Copy("/o/deep/v", "/v2", recursive=True),
    ops.Move("/o/bad.txt", "/v/m.txt"),
    ops.Move("/o/bad.txt", "/v/f.txt", replace=True),
    ops.Link("/o/bad.txt", "/v/l.txt"),
    ops.Restore("/v/f.txt", 1),
    ops.Symlink("/o/bad.txt", "/v/s.txt"),
    ops.Symlink("/nowhere", "/v/s.txt"),
    Batch((ops.Remove("/v", recursive=True), ops.Symlink("/o", "/v"))),
    Batch((ops.Remove("/v", recursive=True), ops.Move("/o/deep/v", "/v"))),
    Batch((ops.Remove("/v", recursive=True), ops.Copy("/o/deep/v", "/v", recursive=True))),
    Batch((ops.Write("/v/f.txt", "B"), ops.Append("/v/f.txt", "A"), ops.Append("/v/f.txt", "D"))),
    Batch((ops.Symlink("/v", "/alias"), ops.Write("/alias/f.txt", "BAD"))),
    Batch((ops.Link("/v/f.txt", "/alias"), ops.Write("/alias", "BAD"))),
    Batch((ops.Symlink("/v/f.txt", "/alias"), ops.Write("/alias", "BAD"))),
    Batch((ops.Truncate("/v/f.txt", 0), ops.Mknod("/v/p.txt", Kind.FIFO))),
]


@pytest.mark.parametrize("wrap", [lambda op: op, once, judged, lambda op: Within(op, ROOT)])
@pytest.mark.parametrize("op", EVASIONS, ids=lambda op: f"{op.verb}")
def test_bad_content_gets_in_by_no_way(op: Op[Any], wrap: Callable[[Op[Any]], Op[Any]]) -> None:
    below, gate = validated("{/v,/v2}/*.txt")
    before = below.tree()
    with pytest.raises(ValidationFailed):
        gate.perform(wrap(op))
    assert below.tree() == before


def test_bad_content_does_not_come_back() -> None:
    """From the trash, from a snapshot, or by undoing that it was corrected."""
    below, gate = validated()
    below.perform(ops.Write("/v/t.txt", "BAD"))
    trashed = below.perform(ops.Trash("/v/t.txt"))
    below.perform(ops.Write("/v/u.txt", "BAD"))
    below.perform(ops.TakeSnapshot("bad"))
    below.perform(ops.Write("/v/u.txt", "corrected"))
    corrected = below.perform(ops.Changes("/v/u.txt")).items[-1].seq
    before = below.tree()
    for op in (ops.Untrash(trashed.id), ops.Rollback("bad"), ops.Undo(corrected)):
        with pytest.raises(ValidationFailed):
            gate.perform(op)
        assert below.tree() == before
    gate.perform(ops.Untrash(trashed.id, "/o/t.txt"))
    gate.perform(ops.Rollback("valid"))


def test_good_content_and_other_paths_pass() -> None:
    _, gate = validated()
    gate.perform(ops.Write("/v/f.txt", "better"))
    gate.perform(ops.Write("/v/f.md", "BAD but not our concern"))
    gate.perform(ops.Write("/v/sub/f.txt", "BAD but deeper"))
    gate.perform(ops.Symlink("/v", "/alias"))
    gate.perform(ops.Symlink("/o/good", "/v/link.md"))
    gate.perform(Batch((ops.Write("/v/f.txt", "BAD"), ops.Write("/v/f.txt", "good after all"))))
    gate.perform(ops.Remove("/v/f.txt"))
    gate.perform(ops.Mkdir("/v/dir.txt"))
    assert gate.perform(ops.Read("/v/f.md")).startswith(b"BAD")


def test_a_link_is_refused_only_where_it_would_matter() -> None:
    for glob, link, refused in [
        ("x.json", "/anywhere", False),
        ("x.json", "/d/x.json", True),
        ("**/x.json", "/d", False),
        ("/s/*/x.json", "/s/one", True),
        ("/s/*/x.json", "/s", True),
        ("/s/*/x.json", "/t", False),
        ("/s/*/x.json", "/s/one/y", False),
    ]:
        registry = ValidatorRegistry()
        registry.register(glob, no_bad_word)
        gate = Validate(MemorySpace(), registry)
        try:
            gate.perform(ops.Symlink("/o", link, parents=True))
        except ValidationFailed:
            assert refused, (glob, link)
        else:
            assert not refused, (glob, link)


def test_a_validator_that_fails_lets_nothing_pass() -> None:
    def broken(content: Content) -> None:
        content.read(0, 1).decode("ascii")

    registry = ValidatorRegistry()
    registry.register("*", broken)
    below = MemorySpace()
    gate = Validate(below, registry)
    with pytest.raises(ValidationFailed):
        gate.perform(ops.Write("/f", b"\xff"))
    assert not below.tree().keys() - {"/"}


@pytest.mark.parametrize("inside", [True, False])
def test_a_validator_and_a_subtree_in_either_order(inside: bool) -> None:
    below = MemorySpace()
    below.perform(ops.Mkdir("/base"))
    seen: list[bytes] = []
    registry = ValidatorRegistry()
    registry.register("/f" if inside else "/base/f", lambda c: seen.append(c.read(0, 99)))
    base = parse("/base")
    gate: Handler
    if inside:
        gate = Validate(Subtree(below, base), registry)
    else:
        gate = Subtree(Validate(below, registry), base)
    gate.perform(ops.Write("/f", "judged"))
    assert seen == [b"judged"]


def test_a_bad_glob_is_refused_when_it_is_registered() -> None:
    with pytest.raises(KeelError):
        ValidatorRegistry().register("[", no_bad_word)
    with pytest.raises(InvalidPath):
        parse("/x").below(VPath(("y",)))


def test_a_deep_tree_is_judged_once_and_not_for_each_of_its_levels() -> None:
    listed: list[VPath] = []

    class Counted:
        def __init__(self, view: Any) -> None:
            self.view = view

        def list(self, path: VPath, after: str | None, limit: int) -> Any:
            listed.append(path)
            return self.view.list(path, after, limit)

        def __getattr__(self, name: str) -> Any:
            return getattr(self.view, name)

    seen: list[bytes] = []
    registry = ValidatorRegistry()
    registry.register("**", lambda content: seen.append(content.read(0, 9)))
    op = ops.Write("/a/b/c/d/f", "deep")
    MemorySpace().perform(Judged(op, lambda volume, paths: registry.judge(Counted(volume), paths)))
    assert (len(listed), len(set(listed)), seen) == (4, 4, [b"deep"])
