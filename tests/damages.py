"""Damage done to a store past it, at least one kind for each invariant, and what is left of it.

Who calls: `test_fsck`, which sees each reported and mended, and that no invariant is missing here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Struct

from databases import Opened
from keelfs import ops
from keelfs.filing import MemoryEntry
from keelfs.model import Limits
from keelfs.store import memories
from keelfs.store.home import SpaceHome
from keelfs.testing.exercises import prepare

#: Far from being reached, so that grants are in force.
LIMITS = Limits(bytes=10**9, nodes=10**6)
ENTRY = MemoryEntry(id=0, type="reference", title="Report", content="", author="x")
#: Tables that any repair of a tree writes into: it records itself.
JOURNAL = ("changes", "spaces")


class Place:
    """One space with something of everything in it, and SQL that spoils it."""

    def __init__(self, opened: Opened) -> None:
        self.opened = opened
        self.tenant = opened.tenant()
        opened.catalog.set_limits(self.tenant, LIMITS)
        self.home: SpaceHome = opened.space(self.tenant)
        self.space = self.home.space
        prepare(self.home.perform)
        self.home.perform(ops.Mkdir("/p/q", parents=True))
        self.home.perform(ops.Write("/nothing", b""))
        self.kept: SpaceHome = opened.space(self.tenant, kind="artifacts")
        self.kept.perform(ops.Write("/output/report.md", b"kept"))
        self.kept.perform(ops.Write("/b", b"kept"))
        opened.database.write(self.tenant, lambda tx: memories.add(tx, ENTRY, 1, lambda _: None))

    def at(self, path: str) -> int:
        """The node that a path leads to."""
        found = self.home.perform(ops.GetStat(path, follow=False)).id
        mark = "?" if self.opened.engine == "sqlite" else "%s"
        rows = self.opened.execute(f"SELECT id FROM nodes WHERE uuid = {mark}", (found,))
        return int(rows[0][0])

    def one(self, text: str) -> Any:
        return self.opened.execute(text)[0][0]

    def content(self, path: str) -> int:
        return int(self.one(f"SELECT content FROM nodes WHERE {self.node(path)}"))

    def strand(self, path: str) -> int:
        return int(self.one(f"SELECT tail FROM contents WHERE id = {self.content(path)}"))

    def image(self) -> int:
        return int(self.one(f"SELECT image FROM snapshots WHERE {self.here()}"))

    # -- conditions

    def here(self) -> str:
        return f"tenant = {self.tenant} AND space = {self.space}"

    def itself(self) -> str:
        return f"tenant = {self.tenant} AND id = {self.space}"

    def node(self, path: str) -> str:
        return f"{self.here()} AND id = {self.at(path)}"

    def held(self, path: str) -> str:
        return f"tenant = {self.tenant} AND id = {self.content(path)}"

    def made_of(self, path: str) -> str:
        return f"tenant = {self.tenant} AND id = {self.strand(path)}"

    # -- spoiling

    def run(self, *statements: str) -> None:
        for text in statements:
            self.opened.execute(text)

    def set_node(self, path: str, assignments: str) -> None:
        self.run(f"UPDATE nodes SET {assignments} WHERE {self.node(path)}")

    def set_space(self, assignments: str) -> None:
        self.run(f"UPDATE spaces SET {assignments} WHERE {self.itself()}")

    def set_content(self, path: str, assignments: str) -> None:
        self.run(f"UPDATE contents SET {assignments} WHERE {self.held(path)}")

    def blob(self, data: bytes) -> str:
        if self.opened.engine == "sqlite":
            return f"X'{data.hex()}'"
        return f"decode('{data.hex()}', 'hex')"


class Damage(Struct, frozen=True):
    """One way to spoil a store, and all that is to be said of it."""

    #: The invariant that it is about, and others that cannot hold either.
    invariant: str
    plant: Callable[[Place], None]
    also: frozenset[str] = frozenset()
    #: What a second check still says.
    left: frozenset[str] = frozenset()
    #: Tables that are not what they were before the damage, once it is mended.
    differs: tuple[str, ...] = ()
    #: Paths that do not lead where they led.
    gone: tuple[str, ...] = ()
    #: What is in the directory for what is lost: names without their numbers, and bytes.
    found: tuple[bytes, ...] = ()


def _all(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _cut_off(place: Place, path: str) -> None:
    place.run(f"DELETE FROM entries WHERE {place.here()} AND node = {place.at(path)}")


def _second_name(place: Place) -> None:
    place.run(
        "INSERT INTO entries (tenant, space, parent, name, node)"
        f" VALUES ({place.tenant}, {place.space}, {place.at('/e')}, 'ghost', {place.at('/d')})"
    )


def _cycle(place: Place) -> None:
    outer, inner = place.at("/p"), place.at("/p/q")
    place.run(
        f"UPDATE entries SET parent = {inner} WHERE {place.here()} AND node = {outer}",
        f"UPDATE nodes SET parent = {inner} WHERE {place.here()} AND id = {outer}",
    )


def _lost_directory(place: Place) -> None:
    place.run(f"DELETE FROM nodes WHERE {place.node('/d')}")


def _lost_node(place: Place) -> None:
    node = place.at("/late")
    _cut_off(place, "/late")
    place.run(f"DELETE FROM nodes WHERE {place.here()} AND id = {node}")


def _below_a_file(place: Place) -> None:
    place.run(
        f"UPDATE entries SET parent = {place.at('/a')}"
        f" WHERE {place.here()} AND node = {place.at('/e/f')}"
    )


def _entry(place: Place, node: int) -> None:
    place.run(
        "INSERT INTO entries (tenant, space, parent, name, node)"
        f" VALUES ({place.tenant}, {place.space}, 1, 'ghost', {node})"
    )


def _strange_revision(place: Place) -> None:
    place.run(
        "INSERT INTO revisions (tenant, space, node, revision, content, size, at_ns, author,"
        f" until_ns) VALUES ({place.tenant}, {place.space}, 999, 4, {place.content('/late')}, 3,"
        " 1, 'x', 2)",
        f"UPDATE contents SET refs = refs + 1 WHERE {place.held('/late')}",
    )


def _last_chunk(place: Place) -> None:
    place.run(
        f"DELETE FROM chunks WHERE tenant = {place.tenant} AND strand = {place.strand('/big')}"
        " AND start > 0"
    )


def _chunk(place: Place, assignments: str) -> None:
    place.run(
        f"UPDATE chunks SET {assignments} WHERE tenant = {place.tenant}"
        f" AND strand = {place.strand('/big')} AND start > 0"
    )


def _trash(place: Place, assignments: str) -> None:
    place.run(f"UPDATE trash SET {assignments} WHERE {place.here()}")


def _insert(place: Place, table: str, **values: Any) -> None:
    names = ", ".join(values)
    place.run(f"INSERT INTO {table} (tenant, {names}) VALUES ({place.tenant}, "
              f"{', '.join(map(str, values.values()))})")  # fmt: skip


def _change(place: Place, space: int) -> None:
    _insert(place, "changes", space=space, seq=1, batch=1, kind="'create'", path="'/x'", node=2,
            revision=1, author="'x'", at_ns=1)  # fmt: skip


def _last_write(place: Place, assignments: str) -> None:
    place.run(
        f"UPDATE changes SET {assignments} WHERE {place.here()} AND kind = 'write' AND seq ="
        f" (SELECT max(seq) FROM changes WHERE {place.here()} AND kind = 'write')"
    )


TREES = {
    "a directory every space has is lost": Damage(
        "tops", lambda p: p.run(f"DELETE FROM nodes WHERE {p.here()} AND id = 3"),
        differs=("nodes", *JOURNAL),
    ),
    "a directory every space has is a file": Damage(
        "tops", lambda p: p.run(f"UPDATE nodes SET kind = 2 WHERE {p.here()} AND id = 3"),
        differs=("nodes", "entries", *JOURNAL), found=(b"",),
    ),
    "a name with a slash": Damage(
        "names",
        lambda p: p.run(f"UPDATE entries SET name = 'a/b' WHERE {p.here()} AND name = 'late'"),
        _all("replay"), differs=("entries", *JOURNAL), gone=("/late",),
    ),
    "an entry that leads nowhere": Damage(
        "entry-node", lambda p: _entry(p, 999), _all("children"), differs=JOURNAL
    ),
    "an entry below a file": Damage(
        "entry-parent", _below_a_file, _all("children below replay"),
        differs=("nodes", "entries", *JOURNAL), gone=("/e/f",), found=(b"deep",),
    ),
    "a directory without its row": Damage(
        "entry-parent", _lost_directory, _all("entry-node ledger replay"),
        differs=("nodes", "entries", *JOURNAL), gone=("/d", "/d/g", "/link"),
    ),
    "a file without a name": Damage(
        "named", lambda p: _cut_off(p, "/late"), _all("children ledger replay"),
        differs=("nodes", "entries", *JOURNAL), gone=("/late",), found=(b"new",),
    ),
    "a directory without a name": Damage(
        "named", lambda p: _cut_off(p, "/d"), _all("children ledger replay"),
        differs=("nodes", "entries", *JOURNAL), gone=("/d", "/d/g", "/link"),
    ),
    "a directory in itself": Damage(
        "reached", _cycle, _all("children below height ledger replay"),
        differs=("nodes", "entries", *JOURNAL), gone=("/p", "/p/q"),
    ),
    "a directory with two names": Damage(
        "directory-name", _second_name,
        _all("children below height directory-parent replay"), differs=("nodes", *JOURNAL),
    ),
    "a directory with another parent": Damage(
        "directory-parent", lambda p: p.set_node("/p/q", f"parent = {p.at('/d')}")
    ),
    "names miscounted": Damage("nlink", lambda p: p.set_node("/a", "nlink = 5")),
    "a name that denies the others": Damage(
        "shared",
        lambda p: p.run(f"UPDATE entries SET shared = 0 WHERE {p.here()} AND name = 'hard'"),
    ),
    "entries miscounted": Damage("children", lambda p: p.set_node("/d", "children = 7")),
    "bytes below miscounted": Damage(
        "below", lambda p: p.set_node("/d", "below_bytes = 7000"), _all("ledger")
    ),
    "levels forgotten": Damage("height", lambda p: p.set_node("/e", "height = 0")),
    "said to lie in the trash": Damage(
        "trash-entry",
        lambda p: _insert(p, "trash", space=p.space, id="'x'", node=p.at("/a"), path="'/x'",
                          author="'x'", at_ns=1, expires_ns=2),
    ),
    "nothing says what was trashed": Damage(
        "trash-row", lambda p: p.run(f"DELETE FROM trash WHERE {p.here()}"), differs=("trash",)
    ),
    "trashed from nowhere": Damage(
        "trash-path", lambda p: _trash(p, "path = 'nowhere'"), differs=("trash",)
    ),
    "node ids given twice": Damage("node-counter", lambda p: p.set_space("next_node = 4")),
    "two nodes with one identity": Damage(
        "identity",
        lambda p: p.set_node(
            "/late", f"uuid = (SELECT uuid FROM nodes WHERE {p.node('/a')})"
        ),
        differs=("nodes",),
    ),
    "a file with a target": Damage("kind", lambda p: p.set_node("/a", "target = 'ghost'")),
    "a node of no kind": Damage(
        "kind", lambda p: p.set_node("/link", "kind = 9"), _all("replay"), differs=JOURNAL,
    ),
    "a link that leads nowhere": Damage(
        "target", lambda p: p.set_node("/link", "target = NULL"), left=_all("target"),
        differs=("nodes",), gone=("/link",),
    ),
}  # fmt: skip

ARTIFACTS = {
    "an artifact without its number": Damage(
        "artifact-number",
        lambda p: p.run(f"DELETE FROM artifacts WHERE tenant = {p.tenant} AND id = 2"),
        differs=("artifacts",),
    ),
    "a number of no file": Damage(
        "artifact-node",
        lambda p: _insert(p, "artifacts", id=9, space=p.kept.space, node=99, updated_ns=1),
        _all("artifact-counter"),
    ),
    "an artifact that is said to lie elsewhere": Damage(
        "artifact-path",
        lambda p: p.run(f"UPDATE artifacts SET path = 'b/c' WHERE tenant = {p.tenant} AND id = 2"),
    ),
    "an artifact that is said to be in the trash": Damage(
        "artifact-path",
        lambda p: p.run(f"UPDATE artifacts SET path = NULL WHERE tenant = {p.tenant} AND id = 1"),
    ),
    "artifacts miscounted": Damage(
        "artifact-ledger",
        lambda p: p.run(f"UPDATE tenants SET artifact_bytes = 7 WHERE id = {p.tenant}"),
    ),
    "numbers given twice": Damage(
        "artifact-counter",
        lambda p: p.run(f"UPDATE tenants SET next_artifact = 1 WHERE id = {p.tenant}"),
    ),
    "a link to nothing": Damage(
        "memory-link",
        lambda p: p.run(f"UPDATE memory_entries SET artifact = 77 WHERE tenant = {p.tenant}"),
        differs=("memory_entries",),
    ),
}  # fmt: skip

CONTENTS = {
    "a content is lost": Damage(
        "content-there", lambda p: p.run(f"DELETE FROM contents WHERE {p.held('/late')}"),
        left=_all("content-there"), differs=("contents",), gone=("/late",),
    ),
    "a file of the wrong size": Damage(
        "content-size", lambda p: p.set_node("/late", "size = 7"), _all("ledger")
    ),
    "a revision of the wrong size": Damage(
        "content-size",
        lambda p: p.run(f"UPDATE revisions SET size = 9 WHERE {p.here()} AND node = {p.at('/a')}"
                        " AND revision = 1"),
        _all("history-ledger"),
    ),
    "a directory with a size": Damage("node-size", lambda p: p.set_node("/empty", "size = 7")),
    "a revision is lost": Damage(
        "revisions",
        lambda p: p.run(f"DELETE FROM revisions WHERE {p.here()} AND node = {p.at('/a')}"
                        " AND revision = 2"),
        _all("refs history-ledger"),
        differs=("revisions", "nodes", "entries", "contents", *JOURNAL), found=(b"first",),
    ),
    "a revision is forgotten": Damage(
        "revisions", lambda p: p.set_node("/a", "revision = 1"), _all("replay"), differs=JOURNAL
    ),
    "the first revision is forgotten": Damage(
        "revisions", lambda p: p.set_node("/a", "first_revision = 2"), differs=JOURNAL
    ),
    "a revision of no node": Damage(
        "revision-node", _strange_revision, _all("history-ledger"),
        differs=("nodes", "entries", "contents", *JOURNAL), found=(b"new",),
    ),
    "holders miscounted": Damage("refs", lambda p: p.set_content("/late", "refs = 7")),
    "a node is lost": Damage(
        "refs", _lost_node, _all("children ledger replay"),
        differs=("nodes", "entries", *JOURNAL), gone=("/late",), found=(b"new",),
    ),
    "let go and held": Damage("freed", lambda p: p.set_content("/late", "freed_ns = 7")),
    "users miscounted": Damage(
        "strand-refs", lambda p: p.run(f"UPDATE strands SET refs = 7 WHERE {p.made_of('/big')}")
    ),
    "let go and used": Damage(
        "strand-freed",
        lambda p: p.run(f"UPDATE strands SET freed_ns = 7 WHERE {p.made_of('/big')}"),
    ),
    "small bytes of another size": Damage(
        "inline-size", lambda p: p.set_content("/late", "size = 7"), _all("content-size")
    ),
    "extents of another size": Damage(
        "extents", lambda p: p.set_content("/big", "size = 7"), _all("content-size")
    ),
    "another last strand": Damage("extents", lambda p: p.set_content("/big", "tail = 7")),
    "extents that nobody can read": Damage(
        "extents", lambda p: p.set_content("/big", "extents = 'ghost'"),
        left=_all("extents"), differs=("contents",), gone=("/big",),
    ),
    "chunks with a gap": Damage(
        "chunks", lambda p: _chunk(p, "start = start + 1"), _all("strand-length"),
        left=_all("chunks"), differs=("chunks", "strands"), gone=("/big",),
    ),
    "a strand of another length": Damage(
        "strand-length",
        lambda p: p.run(f"UPDATE strands SET length = length + 1 WHERE {p.made_of('/big')}"),
    ),
    "a strand too short": Damage(
        "strand-range",
        lambda p: p.run(f"UPDATE strands SET length = 7 WHERE {p.made_of('/big')}"),
        _all("strand-length"),
    ),
    "a chunk is lost": Damage(
        "strand-length", _last_chunk, left=_all("strand-range"),
        differs=("strands", "chunks"), gone=("/big",),
    ),
    "a strand is lost": Damage(
        "chunk-strand", lambda p: p.run(f"DELETE FROM strands WHERE {p.made_of('/big')}"),
        _all("strand-range"),
    ),
    "content ids given twice": Damage("content-counter", lambda p: p.set_space("next_content = 1")),
    "large bytes have changed": Damage(
        "chunk-bytes", lambda p: _chunk(p, f"data = {p.blob(bytes(37855) + b'1')}"),
        left=_all("chunk-bytes"), differs=("chunks",), gone=("/big",),
    ),
    "small bytes have changed": Damage(
        "inline-bytes", lambda p: p.set_content("/late", f"data = {p.blob(b'old')}"),
        left=_all("inline-bytes"), differs=("contents",), gone=("/late",),
    ),
    "another hash": Damage(
        "sha256", lambda p: p.set_node("/late", f"sha256 = {p.blob(bytes(32))}"),
        left=_all("sha256"), differs=("nodes",),
    ),
    "another hash of nothing": Damage(
        "empty-sha256", lambda p: p.set_node("/nothing", f"sha256 = {p.blob(bytes(32))}"),
        left=_all("empty-sha256"), differs=("nodes",),
    ),
}  # fmt: skip

LEDGERS = {
    "bytes miscounted": Damage("ledger", lambda p: p.set_space("bytes = bytes + 1")),
    "trash miscounted": Damage("trash-ledger", lambda p: p.set_space("trash_nodes = 7")),
    "history miscounted": Damage("history-ledger", lambda p: p.set_space("history_bytes = 7")),
    "snapshots miscounted": Damage("snapshot-ledger", lambda p: p.set_space("snapshot_bytes = 7")),
    "an image deleted": Damage(
        "image", lambda p: p.run(f"UPDATE spaces SET deleted_ns = 7 WHERE id = {p.image()}")
    ),
    "an image emptied": Damage(
        "image",
        lambda p: p.run(
            f"DELETE FROM entries WHERE tenant = {p.tenant} AND space = {p.image()}",
            f"UPDATE spaces SET deleted_ns = 7 WHERE id = {p.image()}",
        ),
        differs=("snapshots", "entries", "spaces"),
    ),
    "an image of nobody": Damage(
        "image-owner", lambda p: p.run(f"DELETE FROM snapshots WHERE {p.here()}"),
        _all("snapshot-ledger"), differs=("snapshots", *JOURNAL),
    ),
    "an image of another size": Damage(
        "image-size", lambda p: p.run(f"UPDATE snapshots SET bytes = 7 WHERE {p.here()}"),
        _all("snapshot-ledger"),
    ),
    "a space without a grant": Damage(
        "grant-limit", lambda p: p.set_space("granted_bytes = NULL"), _all("tenant-grants"),
        differs=("spaces",),
    ),
    "more used than granted": Damage(
        "grant", lambda p: p.set_space("granted_nodes = 1"), _all("tenant-grants"),
        differs=("spaces",),
    ),
    "grants miscounted": Damage(
        "tenant-grants",
        lambda p: p.run(f"UPDATE tenants SET granted_bytes = 7 WHERE id = {p.tenant}"),
        differs=("spaces",),
    ),
    "changes miscounted": Damage("journal", lambda p: p.set_space("seq = seq - 1")),
    "a change is lost": Damage(
        "journal", lambda p: p.run(f"DELETE FROM changes WHERE {p.here()} AND seq = 2"),
        left=_all("journal"), differs=("changes",),
    ),
    "a change of no kind": Damage(
        "change",
        lambda p: p.run(f"UPDATE changes SET kind = 'ghost' WHERE {p.here()} AND seq = 2"),
        left=_all("change"), differs=("changes",),
    ),
    "a journal that leads to another revision": Damage(
        "replay", lambda p: _last_write(p, "revision = 7"), left=_all("replay"),
        differs=("changes",),
    ),
    "a journal that leads elsewhere": Damage(
        "replay",
        lambda p: p.run(f"UPDATE changes SET path = '/ghost' WHERE {p.here()}"
                        " AND path = '/nothing'"),
        left=_all("replay"), differs=("changes",),
    ),
    "rows of no space": Damage("homeless", lambda p: _change(p, 268_000_000)),
    "a space is lost": Damage(
        "homeless", lambda p: p.run(f"DELETE FROM spaces WHERE id = {p.image()}"), _all("image"),
        differs=("spaces",),
    ),
    "marks left behind": Damage("marks", lambda p: _insert(p, "marks", space=p.space, node=1,
                                                           becomes=2)),
}  # fmt: skip

DAMAGES = {**TREES, **ARTIFACTS, **CONTENTS, **LEDGERS}
