"""Work on a store in a process of its own, and how much memory it took.

`python bounded.py URL WORK SIZE` does one of `WORKS` on one space, and prints by how many
bytes the process has grown at its peak.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import keelfs
from keelfs import ops

BLOCK = bytes(range(256)) * 1024
#: Files that one batch makes.
BATCH = 500


def blocks(size: int) -> Iterator[bytes]:
    for at in range(0, size, len(BLOCK)):
        yield BLOCK[: min(len(BLOCK), size - at)]


class Sink:
    """A file object that counts what it is given."""

    size = 0

    def write(self, data: bytes) -> int:
        self.size += len(data)
        return len(data)


def write(store: keelfs.Store, space: keelfs.Space, size: int) -> None:
    assert space.write("/big", blocks(size)).size == size


def read(store: keelfs.Store, space: keelfs.Space, size: int) -> None:
    assert sum(len(block) for block in space.stream("/big")) == size


def append(store: keelfs.Store, space: keelfs.Space, size: int) -> None:
    space.copy("/big", "/grown")
    assert space.append("/grown", b"!").size == size + 1
    assert space.append("/grown", blocks(size)).size == 2 * size + 1


def patch(store: keelfs.Store, space: keelfs.Space, size: int) -> None:
    space.copy("/big", "/patched")
    assert space.patch("/patched", 1, blocks(size)).size == size + 1


def copy(store: keelfs.Store, space: keelfs.Space, size: int) -> None:
    for number in range(3):
        assert space.copy("/big", f"/copy {number}").size == size


def checksum(store: keelfs.Store, space: keelfs.Space, size: int) -> None:
    space.copy("/big", "/unknown")
    space.append("/unknown", b"!")
    assert space.stat("/unknown").sha256 is None
    assert len(space.checksum("/unknown")) == 64


def export(store: keelfs.Store, space: keelfs.Space, size: int) -> None:
    sink = Sink()
    space.export(sink, "/big")
    assert sink.size > size


def check(store: keelfs.Store, space: keelfs.Space, size: int) -> None:
    assert store.check().ok


def plant(store: keelfs.Store, space: keelfs.Space, entries: int) -> None:
    """Makes a directory of many entries, and a tree of as many nodes out of copies."""
    for first in range(0, entries, BATCH):
        numbers = range(first, min(first + BATCH, entries))
        space.batch([ops.Write(f"/flat/f{at:06}", b"x") for at in numbers])
    space.batch([ops.Write(f"/tree/d0/f{at}", b"x") for at in range(BATCH)])
    for number in range(1, entries // BATCH):
        space.copy("/tree/d0", f"/tree/d{number}", recursive=True)


def page(store: keelfs.Store, space: keelfs.Space, entries: int) -> None:
    assert sum(1 for _ in space.entries("/flat")) == entries


def walk(store: keelfs.Store, space: keelfs.Space, entries: int) -> None:
    assert sum(1 for _ in space.walk("/tree")) >= entries


def remove(store: keelfs.Store, space: keelfs.Space, entries: int) -> None:
    space.remove("/flat", recursive=True)
    space.remove("/tree", recursive=True)


def sweep(store: keelfs.Store, space: keelfs.Space, entries: int) -> None:
    done = store.sweep()
    assert not done.more
    assert done.nodes >= 2 * entries


WORKS: dict[str, Callable[[keelfs.Store, keelfs.Space, int], None]] = {
    work.__name__: work
    for work in (
        write, read, append, patch, copy, checksum, export, check, plant, page, walk, remove, sweep,
    )
}  # fmt: skip


def peak() -> int:
    """The most memory that this process has held, in bytes; unlike what the parent's was."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return next(int(line.split()[1]) for line in status.splitlines() if "VmHWM" in line) * 1024


def main(url: str, work: str, size: int) -> None:
    with keelfs.open(url, grace_s=0) as store:
        space = store.tenant("acme").space("session", "big")
        space.write("/warm", iter([b"warm"] * 3))
        assert [*space.stream("/warm")]
        space.remove("/warm")
        before = peak()
        WORKS[work](store, space, size)
        print(peak() - before)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
