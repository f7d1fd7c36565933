"""What the contract promises is promised behind every gate, too.

Each gate stands before the memory space, which keeps the whole contract. Gates that hand an
operation on as it is run the whole suite together, in one stack, and each of them alone the groups
in which operations are wrapped: nothing else could be different in one of them. Gates that change
what the volume sees, or what it is asked to do, run all that they can answer for.
"""

from __future__ import annotations

from typing import TypeVar

import pytest

from keelfs import ops
from keelfs.gates.audit import Attempt, Audit
from keelfs.gates.confined import Confined
from keelfs.gates.deadline import Deadline
from keelfs.gates.mounts import Mounts
from keelfs.gates.policy import Policy
from keelfs.gates.readonly import ReadOnlyGate
from keelfs.gates.subtree import Subtree
from keelfs.gates.validate import Validate, ValidatorRegistry
from keelfs.memory import MemorySpace
from keelfs.model import Content
from keelfs.path import parse
from keelfs.ports import Handler
from keelfs.testing import conformance
from keelfs.testing.conformance import ConformanceSuite, Setting, Subject, register

T = TypeVar("T")

BASE = parse("/_%/b")


class Early:
    """A clock by which no deadline has passed."""

    def now_ns(self) -> int:
        return 0


class Questions:
    """A read-only tree as its readers see it; changes are made on its other side."""

    def __init__(self, below: Handler) -> None:
        self.below, self.gate = below, ReadOnlyGate(below)

    def perform(self, op: ops.Op[T], /) -> T:
        asks = not op.mutates or isinstance(op, ops.Checksum)
        return (self.gate if asks else self.below).perform(op)


class Placed:
    """Asks for everything at its own place in a tree of which only a part may be seen."""

    def __init__(self, below: Handler) -> None:
        self.below = below

    def perform(self, op: ops.Op[T], /) -> T:
        return self.below.perform(op.rerooted(BASE.join))


def memory(setting: Setting) -> MemorySpace:
    return MemorySpace(setting.principal, setting.limits, setting.clock)


def based(setting: Setting) -> MemorySpace:
    """A space in which the base is an empty directory."""
    space = memory(setting)
    space.perform(ops.Mkdir(BASE, parents=True))
    return space


def audited(below: Handler, setting: Setting) -> Audit:
    attempts: list[Attempt] = []
    return Audit(below, attempts.append, principal=setting.principal, clock=Early())


def in_time(below: Handler) -> Deadline:
    return Deadline(below, Early(), 1)


def allowed(below: Handler) -> Policy:
    return Policy(below, lambda op: None)


def judged(below: Handler, glob: str) -> Validate:
    """Content is judged where the glob says, and found to be good."""

    def good(content: Content) -> None:
        assert len(content.read(0, 10)) == min(10, content.stat.size)

    registry = ValidatorRegistry()
    registry.register(glob, good)
    return Validate(below, registry)


def stack(setting: Setting) -> Handler:
    gate = judged(Questions(memory(setting)), "/no/such/path")
    return audited(in_time(allowed(gate)), setting)


def mounts(setting: Setting) -> Handler:
    """A tree that is mounted into another one, beside a third."""
    others = {BASE: memory(setting), parse("/_%/bb"): MemorySpace()}
    return Subtree(Mounts(MemorySpace(), others), BASE)


STACK = register(Subject("gates that pass", stack))
AUDIT = register(Subject("audit", lambda setting: audited(memory(setting), setting)))
DEADLINE = register(Subject("deadline", lambda setting: in_time(memory(setting))))
POLICY = register(Subject("policy", lambda setting: allowed(memory(setting))))
READONLY = register(Subject("read-only", lambda setting: Questions(memory(setting))))
MOUNTS = register(Subject("mounts", mounts))
VALIDATE = register(
    Subject(
        "validate",
        lambda setting: judged(memory(setting), "**"),
        dict.fromkeys(
            ("symlinks", "special_nodes", "devices"),
            "nothing but a file can stand where content is validated, and here it is everywhere",
        ),
    )
)
SUBTREE = register(
    Subject(
        "sub-tree",
        lambda setting: Subtree(based(setting), BASE),
        {
            "snapshots": "they are the whole space's",
            "journal": "undo is the whole space's, and the base was made before",
            "limits": "they count the base and what lies above it",
            "usage": "trash and history are counted for the whole space",
        },
    )
)
CONFINED = register(
    Subject(
        "confined",
        lambda setting: Placed(Confined(based(setting), [BASE])),
        {
            "snapshots": "they are the whole space's",
            "journal": "undo is the whole space's, and the base was made before",
            "trash": "it is listed and emptied for the whole space",
            "limits": "they count the base and what lies above it",
            "usage": "trash and history are counted for the whole space",
        },
    )
)


class TestStack(ConformanceSuite):
    @pytest.fixture
    def subject(self) -> Subject:
        return STACK


class TestMounts(ConformanceSuite):
    @pytest.fixture
    def subject(self) -> Subject:
        return MOUNTS


class TestValidate(ConformanceSuite):
    @pytest.fixture
    def subject(self) -> Subject:
        return VALIDATE


class Wrapping(
    conformance.Writing, conformance.Batches, conformance.Requests, conformance.Judges,
    conformance.Confined, conformance.Honesty,
):  # fmt: skip
    """Changes, and whatever can be wrapped around one."""


class TestAudit(Wrapping):
    @pytest.fixture
    def subject(self) -> Subject:
        return AUDIT


class TestDeadline(Wrapping):
    @pytest.fixture
    def subject(self) -> Subject:
        return DEADLINE


class TestPolicy(Wrapping):
    @pytest.fixture
    def subject(self) -> Subject:
        return POLICY


class TestReadOnly(
    conformance.Reading, conformance.SymbolicLinks, conformance.Histories, conformance.Batches,
    conformance.Confined, conformance.Ledger, conformance.Journals, conformance.Honesty,
):  # fmt: skip
    """Every question, in every wrapping, is answered as if there were no gate."""

    @pytest.fixture
    def subject(self) -> Subject:
        return READONLY


class Below(
    conformance.Reading, conformance.Writing, conformance.Entering, conformance.Copying,
    conformance.SymbolicLinks, conformance.HardLinks, conformance.Attributes,
    conformance.Expecting, conformance.Histories, conformance.HostileNames, conformance.Paths,
    conformance.Batches, conformance.Requests, conformance.Judges, conformance.Confined,
):  # fmt: skip
    """A part of a space: what it cannot do is not refused whole, but answered for that part."""


class TestSubtree(Below, conformance.Trashing):
    @pytest.fixture
    def subject(self) -> Subject:
        return SUBTREE


class TestConfined(Below):
    @pytest.fixture
    def subject(self) -> Subject:
        return CONFINED
