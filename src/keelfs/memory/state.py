"""The dictionaries of a memory space, with the log that undoes every assignment to them.

Always true: each assignment goes through `put` or `drop`, so that `rewind` leaves nothing behind;
names enter and leave directories only through `bind` and `unbind`, which keep the ledger equal to
a recount. The trash is a directory of its own beside the root, and charges its own counters.

Who calls: the layers of the volume. Nothing here knows a path with links in it, or a limit.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, TypeVar

from keelfs.errors import NotADirectory, NotFound
from keelfs.memory.records import Album, Frozen, Kept, Node
from keelfs.model import Change, Kind, Trashed

K = TypeVar("K")
V = TypeVar("V")

#: The trash is a directory under an id that no node can have.
TRASH: Final = b"trash"
_ABSENT: Final = object()


class State:
    """Everything that one space holds."""

    def __init__(self, root: Node) -> None:
        self.root = root.id
        self.nodes: dict[bytes, Node] = {root.id: root}
        self.children: dict[bytes, dict[str, bytes]] = {root.id: {}, TRASH: {}}
        #: Each node's names, as the directory that holds the name and the name itself.
        self.names: dict[bytes, dict[tuple[bytes, str], bool]] = {root.id: {}}
        self.history: dict[bytes, tuple[Kept, ...]] = {}
        self.journal: dict[int, Change] = {}
        self.trash: dict[str, Trashed] = {}
        self.snapshots: dict[str, Album] = {}
        self.requests: dict[tuple[tuple[str, ...], str], tuple[bytes, bytes]] = {}
        self.totals: dict[str, int] = dict.fromkeys(
            ("bytes", "nodes", "trash_bytes", "trash_nodes", "history_bytes", "snapshot_bytes",
             "seq", "first_seq", "albums"), 0,
        )  # fmt: skip
        self._log: list[tuple[dict[Any, Any], Any, Any]] = []

    def put(self, table: dict[K, V], key: K, value: V) -> None:
        """`table[key] = value`, to be undone by `rewind`."""
        self._log.append((table, key, table.get(key, _ABSENT)))
        table[key] = value

    def drop(self, table: dict[K, V], key: K) -> V:
        """`table.pop(key)`, to be undone by `rewind`."""
        value = table.pop(key)
        self._log.append((table, key, value))
        return value

    def add(self, counter: str, amount: int) -> None:
        """Moves a counter of the ledger."""
        if amount:
            self.put(self.totals, counter, self.totals[counter] + amount)

    def rewind(self) -> None:
        """Undoes every assignment since the last `settle`, the latest first."""
        while self._log:
            table, key, former = self._log.pop()
            if former is _ABSENT:
                del table[key]
            else:
                table[key] = former

    def settle(self) -> None:
        """Makes what was assigned final."""
        self._log.clear()

    def bind(self, directory: bytes, name: str, node: bytes) -> None:
        """Gives a node a name, and charges what it holds."""
        self.put(self.children[directory], name, node)
        self.put(self.names[node], (directory, name), True)
        self._charge(self.realm(directory), node, 1)

    def unbind(self, directory: bytes, name: str) -> bytes:
        """Takes a name away; the node stays until it is released."""
        node = self.drop(self.children[directory], name)
        self.drop(self.names[node], (directory, name))
        self._charge(self.realm(directory), node, -1)
        return node

    def release(self, node: bytes) -> None:
        """Forgets a node that has lost its last name, and what only it held."""
        doomed = [node]
        while doomed:
            each = doomed.pop()
            # A file with two names in one removed tree is met twice.
            if each not in self.nodes or self.names[each]:
                continue
            names = list(self.children.get(each, ()))
            doomed.extend([self.unbind(each, name) for name in names])
            if each in self.children:
                self.drop(self.children, each)
            self.set_history(each, ())
            self.drop(self.names, each)
            self.drop(self.nodes, each)

    def adopt(self, node: Node) -> None:
        """Takes in a new node, which has no name yet."""
        self.put(self.nodes, node.id, node)
        self.put(self.names, node.id, {})
        if node.kind is Kind.DIRECTORY:
            self.put(self.children, node.id, {})

    def replace(self, node: Node) -> None:
        """Puts a node in the place of its former self, and charges the difference by name."""
        growth = len(node.data) - len(self.nodes[node.id].data)
        self.put(self.nodes, node.id, node)
        if growth:
            for directory, _ in self.names[node.id]:
                self._count(self.realm(directory), growth, 0)

    def set_history(self, node: bytes, kept: tuple[Kept, ...]) -> None:
        """Which former contents of a node are kept, oldest first."""
        former = self.history.get(node, ())
        self.add("history_bytes", sum(len(each.data) for each in kept))
        self.add("history_bytes", -sum(len(each.data) for each in former))
        if kept:
            self.put(self.history, node, kept)
        elif former:
            self.drop(self.history, node)

    def realm(self, directory: bytes) -> bytes | None:
        """The root or the trash, whichever holds a directory; None while it has no name."""
        while directory not in (self.root, TRASH):
            names = self.names[directory]
            if not names:
                return None
            directory = next(iter(names))[0]
        return directory

    def _charge(self, realm: bytes | None, node: bytes, sign: int) -> None:
        if realm is not None:
            size, nodes = self.weight(node)
            self._count(realm, sign * size, sign * nodes)

    def _count(self, realm: bytes | None, size: int, nodes: int) -> None:
        if realm is not None:
            prefix = "trash_" if realm == TRASH else ""
            self.add(prefix + "bytes", size)
            self.add(prefix + "nodes", nodes)

    def walk(self, node: bytes) -> Iterator[tuple[tuple[str, ...], Node]]:
        """A node and everything below it, each with its path from there, parents first."""
        pending: list[tuple[tuple[str, ...], bytes]] = [((), node)]
        while pending:
            path, each = pending.pop()
            yield path, self.nodes[each]
            below = self.children.get(each, {})
            pending.extend(((*path, name), child) for name, child in below.items())

    def weight(self, node: bytes) -> tuple[int, int]:
        """Bytes and names of a node and everything below it."""
        sizes = [len(each.data) for _, each in self.walk(node)]
        return sum(sizes), len(sizes)

    def paths(self, node: bytes) -> list[tuple[str, ...]]:
        """Every path of a node in the tree; none while it lies in the trash only."""
        found: list[tuple[str, ...]] = []
        for directory, name in self.names.get(node, ()):
            path, above = [name], directory
            while above not in (self.root, TRASH) and self.names[above]:
                above, name = next(iter(self.names[above]))
                path.append(name)
            if above == self.root:
                found.append(tuple(reversed(path)))
        return [()] if node == self.root else found

    def at(self, path: tuple[str, ...]) -> Node:
        """The node at a canonical path, no link followed."""
        node = self.root
        for name in path:
            if node not in self.children:
                raise NotADirectory
            if name not in self.children[node]:
                raise NotFound
            node = self.children[node][name]
        return self.nodes[node]

    def freeze(self) -> Frozen:
        """The present tree, shared as far as it does not change."""
        nodes = {node.id: node for _, node in self.walk(self.root)}
        children = {each: dict(self.children[each]) for each in nodes if each in self.children}
        return Frozen(self.root, nodes, children)
