"""A long, deterministic life of one space: what crash tests write, and what they compare with.

The script of a seed draws operations from what exists and tries each on the memory model first, so
every one of them does something. As a program, `python -m keelfs.testing.workload URL`, it performs
the script on a store and prints the marks that `keelfs.testing.killer` reads. Afterwards `reached`
tells after which operation the store stopped, or objects: to a state that the script never went
through, to an acknowledged operation that is missing, to whatever `check()` finds.

A careless program acknowledges early, or performs batches piece by piece: a crash test that finds
nothing wrong with it proves nothing.

Who calls: the crash tests of both stores.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, Final, Literal

from msgspec import Struct

import keelfs
from keelfs.errors import KeelError
from keelfs.memory import MemorySpace
from keelfs.model import Attrs, Kind, Stat
from keelfs.ops import (
    Append,
    Batch,
    Changes,
    Copy,
    DropSnapshot,
    GetUsage,
    History,
    ListSnapshots,
    ListTrash,
    Mkdir,
    Move,
    Op,
    Patch,
    Remove,
    Rollback,
    SetAttrs,
    Symlink,
    TakeSnapshot,
    Trash,
    Truncate,
    Write,
)
from keelfs.testing.portrait import OWN_FIELDS, Perform, portrait, without

#: Names that meet one another, and some that careless SQL would mistake.
_NAMES: Final = ("a", "b", "A", "a_", "a%", "ab", "é", "notes.md", "x" * 40)
#: Sizes around nothing, one row, one page and one chunk; large ones are rare.
_SIZES: Final = (0, 1, 100, 3000, 9000, 20_000)
_LARGE: Final = (262_144, 300_000, 700_001)
#: What a careless program does, for tests of the tests.
Careless = Literal["early", "pieces"]
#: The key of the space, unless it is named.
SPACE: Final = "workload"
#: Trees stay small enough to be compared after every crash.
_MOST_NODES: Final = 60


class Blocks(Struct, frozen=True):
    """Bytes that arrive in blocks, as a stream does."""

    data: bytes

    def blocks(self) -> Iterator[bytes]:
        for at in range(0, len(self.data), 65_536):
            yield self.data[at : at + 65_536]


class Script:
    """The operations of one seed, one after another, and the tree as it is after the last."""

    def __init__(self, seed: int) -> None:
        self.space = MemorySpace()
        self._rng = random.Random(seed)
        self._snapshots = 0

    def next(self) -> Op[Any]:
        """Performs the next operation on the model and returns it."""
        while True:
            op = self._draw()
            try:
                self.space.perform(op)
            except KeelError:
                continue
            return op

    def _draw(self) -> Op[Any]:
        rng, tree = self._rng, self.space.tree()
        if len(tree) > _MOST_NODES:
            return Remove(rng.choice([path for path in tree if path != "/"]), recursive=True)
        if rng.random() < 0.12:
            return Batch(tuple(self._one(tree) for _ in range(rng.randint(2, 6))))
        return self._one(tree)

    def _one(self, tree: dict[str, Stat]) -> Op[Any]:
        rng = self._rng
        files = [path for path, stat in tree.items() if stat.kind is Kind.FILE]
        anything = [path for path in tree if path != "/"] or ["/a"]
        some, other = rng.choice(anything), rng.choice(anything)
        file = rng.choice(files or ["/a"])
        # A tree without files refuses what needs one, and another operation is drawn.
        revision = tree[file].revision if file in tree else 1
        fresh = self._fresh(tree)
        draws: list[tuple[int, Callable[[], Op[Any]]]] = [
            (8, lambda: Write(fresh, self._data())),
            (8, lambda: Write(file, self._data(), expect=revision)),
            (8, lambda: Append(file, self._data())),
            (4, lambda: Patch(file, rng.randrange(30_000), self._data())),
            (3, lambda: Truncate(file, rng.choice(_SIZES))),
            (3, lambda: Mkdir(fresh, parents=True)),
            (6, lambda: Move(some, fresh, parents=True)),
            (3, lambda: Move(some, other, replace=True)),
            (4, lambda: Copy(some, fresh, recursive=True, parents=True)),
            (4, lambda: Remove(some, recursive=rng.random() < 0.5)),
            (3, lambda: Trash(some)),
            (2, lambda: Symlink(rng.choice(anything), fresh, parents=True)),
            (2, lambda: SetAttrs(some, Attrs(mode=rng.randrange(0o1000)), follow=False)),
            (1, self._album),
        ]
        weights = [weight for weight, _ in draws]
        return rng.choices([draw for _, draw in draws], weights)[0]()

    def _fresh(self, tree: dict[str, Stat]) -> str:
        folders = [path for path, stat in tree.items() if stat.kind is Kind.DIRECTORY]
        parent = self._rng.choice(folders)
        return f"{parent.rstrip('/')}/{self._rng.choice(_NAMES)}"

    def _data(self) -> bytes | Blocks:
        rng = self._rng
        size = rng.choice(_LARGE) if rng.random() < 0.05 else rng.choice(_SIZES)
        data = rng.randbytes(size)
        return Blocks(data) if rng.random() < 0.3 else data

    def _album(self) -> Op[Any]:
        name = f"s{self._rng.randrange(3)}"
        return self._rng.choice((TakeSnapshot, TakeSnapshot, Rollback, DropSnapshot))(name)


def picture(perform: Perform) -> dict[str, Any]:
    """All that two equal spaces have in common: tree, bytes, history, trash, albums, journal."""
    tree = portrait(perform)
    return {
        "tree": {path: (without(stat, *OWN_FIELDS), data) for path, (stat, data) in tree.items()},
        "history": {
            path: [(each.revision, each.size) for each in perform(History(path))]
            for path, (stat, _) in tree.items()
            if stat.kind is Kind.FILE
        },
        "trash": sorted((each.path, each.bytes) for each in perform(ListTrash()).items),
        "albums": [(each.bytes, each.nodes) for each in perform(ListSnapshots())],
        "usage": _numbers(perform(GetUsage())),
        "journal": [
            (each.kind, each.path, each.to, each.revision)
            for each in perform(Changes(limit=10_000)).items
        ],
    }


def _numbers(usage: Any) -> dict[str, int]:
    return {name: getattr(usage, name) for name in usage.__struct_fields__ if name != "limits"}


def space_of(store: keelfs.Store, key: str = SPACE) -> keelfs.Space:
    """The space in which the script plays; several may play in spaces of their own."""
    return store.tenant("crash").space("session", key)


def reached(store: keelfs.Store, seed: int, acked: int, begun: int, key: str = SPACE) -> int:
    """How many operations of the script the store holds; an `AssertionError` if it is no number
    between those acknowledged and those begun, or if the store is not sound.
    """
    report = store.check()
    assert report.ok, f"check() finds: {report.findings[:5]}"
    found = picture(space_of(store, key).perform)
    script = Script(seed)
    for _ in range(acked):
        script.next()
    differences: list[str] = []
    for number in range(acked, begun + 1):
        expected = picture(script.space.perform)
        if found == expected:
            return number
        differences.append(f"not {number}: {_difference(expected, found)}")
        script.next()
    raise AssertionError("; ".join(differences) + f"; {_explained(found, seed, acked)}")


def _difference(expected: dict[str, Any], found: dict[str, Any]) -> str:
    parts = [name for name in expected if expected[name] != found[name]]
    told = f"{expected[parts[0]]!r:.300} became {found[parts[0]]!r:.300}"
    return f"{', '.join(parts)} differ: {told}"


def _explained(found: dict[str, Any], seed: int, acked: int) -> str:
    """Whether an older state was found, which says that acknowledged operations are lost."""
    script = Script(seed)
    for number in range(acked):
        if picture(script.space.perform) == found:
            return f"LOST: it is the state after {number}, and {acked} were acknowledged"
        script.next()
    return f"NONATOMIC: it is no state of the script up to {acked}"


def perform(
    url: str, seed: int, start: int, count: int, careless: Careless | None = None,
    key: str = SPACE, **settings: Any,
) -> None:  # fmt: skip
    """Performs the operations after the first `start` of the script and prints the marks."""
    script = Script(seed)
    for _ in range(start):
        script.next()
    with keelfs.open(url, **settings) as store:
        space = space_of(store, key)
        for number in range(start + 1, start + count + 1):
            op = script.next()
            print("begin", number, flush=True)
            if careless == "early":
                print("ack", number, flush=True)
                time.sleep(0.001)
            _do(space, op, careless)
            if careless != "early":
                print("ack", number, flush=True)


def _do(space: keelfs.Space, op: Op[Any], careless: Careless | None) -> None:
    if careless == "pieces" and isinstance(op, Batch):
        for each in op.ops:
            space.perform(each)
    else:
        space.perform(op)


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="keelfs.testing.workload")
    parser.add_argument("url")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--space", default=SPACE)
    parser.add_argument("--durability", default="full")
    parser.add_argument("--careless", choices=["early", "pieces"])
    given = parser.parse_args(arguments)
    perform(
        given.url, given.seed, given.start, given.count, given.careless, given.space,
        durability=given.durability,
    )  # fmt: skip


if __name__ == "__main__":
    main(sys.argv[1:])
