"""The verbs that keep a whole tree and bring it back.

Always true: a snapshot holds the records of its time and shares the bytes; a rollback leaves the
node ids of everything that is in both trees as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from keelfs.errors import AlreadyExists, InvalidArgument, NotFound, PermissionDenied, QuotaExceeded
from keelfs.memory.bin import Bin
from keelfs.memory.files import encoded
from keelfs.memory.records import Album, Frozen, Node
from keelfs.memory.state import State
from keelfs.memory.tree import metered
from keelfs.model import ChangeKind, Kind, Snapshot


class Snapshots(Bin):
    """Taking, listing, dropping and rolling back."""

    def whole(self) -> None:
        """Refuses verbs of a whole space to whoever sees a part of it."""
        if self._base:
            raise PermissionDenied("only whoever holds the whole space may do this")

    def snapshot(self, name: str) -> Snapshot:
        self.whole()
        if "\0" in name or not 1 <= len(encoded(name)) <= 255:
            raise InvalidArgument("the name of a snapshot has 1 to 255 bytes and no NUL")
        state, turn = self._state, self._turn
        if name in state.snapshots:
            raise AlreadyExists("there is already a snapshot of this name")
        size, nodes = state.totals["bytes"], state.totals["nodes"]
        self._check_albums(size, nodes)
        taken = Snapshot(name=name, at_ns=turn.now, by=str(turn.principal), bytes=size, nodes=nodes)
        state.add("albums", 1)
        state.put(state.snapshots, name, Album(state.totals["albums"], taken, state.freeze()))
        state.add("snapshot_bytes", size)
        self.record(ChangeKind.SNAPSHOT, (), detail=name)
        return taken

    def _check_albums(self, size: int, nodes: int) -> None:
        limits, state = self._turn.limits, self._state
        self.check_size("transaction_nodes", nodes, "the nodes of one snapshot")
        for name, used, more in (
            ("snapshots", len(state.snapshots), 1),
            ("snapshot_bytes", state.totals["snapshot_bytes"], size),
        ):
            limit: int | None = getattr(limits, name)
            if limit is not None and more and used + more > limit:
                raise QuotaExceeded(
                    "drop a snapshot first", limit=f"space.{name}", size=limit, used=used
                )

    def snapshots(self) -> Sequence[Snapshot]:
        self.whole()
        albums = self._state.snapshots.values()
        return [album.snapshot for album in sorted(albums, key=lambda album: album.number)]

    def drop_snapshot(self, name: str) -> None:
        self.whole()
        album = self._album(name)
        self._state.drop(self._state.snapshots, name)
        self._state.add("snapshot_bytes", -album.snapshot.bytes)

    def _album(self, name: str) -> Album:
        if name not in self._state.snapshots:
            raise NotFound("there is no snapshot of this name")
        return self._state.snapshots[name]

    @metered
    def rollback(self, name: str) -> Snapshot:
        self.whole()
        tree = self._album(name).tree
        self.check_size("transaction_nodes", len(tree.nodes) - 1, "the nodes of one rollback")
        safety = self.snapshot(f"before-rollback-{self._state.totals['seq'] + 1}")
        self._replant(tree)
        self._turn.touched.add(self._state.root)
        self.record(ChangeKind.ROLLBACK, (), detail=name)
        return safety

    def _replant(self, tree: Frozen) -> None:
        """Makes the tree what `tree` holds: all names go, nodes are set right, names come back."""
        state = self._state
        present = {node.id for _, node in state.walk(state.root)}
        for directory in [each for each in present if each in state.children]:
            for name in list(state.children[directory]):
                state.unbind(directory, name)
        ids = {old: self._revive(node, present) for old, node in tree.nodes.items()}
        ids[tree.root] = state.root
        plant(state, tree, ids)
        for node in present - {state.root}:
            state.release(node)

    def _revive(self, kept: Node, present: set[bytes]) -> bytes:
        """A node of a snapshot in the present tree: itself, or a new one of its revision."""
        if kept.id not in present:
            made = replace(kept, id=self._turn.ids(self._turn.now))
            self._state.adopt(made)
            return made.id
        node = self._state.nodes[kept.id]
        if node.kind is Kind.FILE and node.data != kept.data:
            node = self.next_revision(node, kept.data, kept.sha256)
        self._state.replace(
            replace(
                kept, revision=node.revision, written_ns=node.written_ns,
                written_by=node.written_by,
            )
        )  # fmt: skip
        return kept.id


def plant(state: State, tree: Frozen, ids: dict[bytes, bytes]) -> None:
    """Binds every name of a kept tree; `ids` says which node stands for which.

    The root is filled last, so that each tree below it is charged once, when it is complete.
    """
    for old in sorted(tree.children, key=lambda directory: directory == tree.root):
        for name, child in tree.children[old].items():
            state.bind(ids[old], name, ids[child])


def sprout(tree: Frozen, new_id: Callable[[], bytes]) -> State:
    """A state of its own that holds a kept tree under new ids."""
    ids = {old: new_id() for old in tree.nodes}
    state = State(replace(tree.nodes[tree.root], id=ids[tree.root]))
    for old, node in tree.nodes.items():
        if old != tree.root:
            state.adopt(replace(node, id=ids[old]))
    plant(state, tree, ids)
    return state
