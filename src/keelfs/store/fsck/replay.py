"""The journal, done again: does what it tells lead to the tree that is there?

A journal tells names, kinds and revisions; bytes and attributes it does not hold. Replaying begins
at the newest moment whose tree is known: the beginning of the space, as long as the journal still
reaches back to it, or a snapshot whose image is kept. A change that leads to a tree which the
journal cannot know (a fork, a repair, a return to a snapshot that was dropped since) makes all
unknown again, and nothing is then said of that space until its next snapshot.

In memory are one small object and one name for each node of one space.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from keelfs.store.database import Row, Statement, Tx
from keelfs.store.fsck.invariant import Invariant, ids, ids_pg, listed
from keelfs.store.scope import OUTSIDE, PEEK, SpaceRow, split
from keelfs.store.tree import DIRECTORY, FILE, ROOT

#: Rows of the journal or of a tree that are in memory together, and directories asked for at once.
_PAGE: Final = 5000
_DIRECTORIES: Final = 500

SPACES: Final = Statement(
    """SELECT id FROM spaces WHERE tenant = ?1 AND id > ?2 AND kind <> 'snapshot'
          AND deleted_ns IS NULL ORDER BY id LIMIT ?3"""
)
OLDEST: Final = Statement(
    "SELECT seq FROM changes WHERE tenant = ?1 AND space = ?2 ORDER BY seq LIMIT 1"
)
#: The newest change that leads to a tree which no journal tells.
CUT: Final = Statement(
    """SELECT coalesce(max(seq), 0) FROM changes
        WHERE tenant = ?1 AND space = ?2 AND kind IN ('fork', 'repair')"""
)
IMAGES: Final = Statement(
    """SELECT p.seq, p.name, p.image FROM snapshots p
         JOIN spaces i ON i.tenant = ?1 AND i.id = p.image AND i.deleted_ns IS NULL
        WHERE p.tenant = ?1 AND p.space = ?2 ORDER BY p.seq DESC"""
)
CHANGES: Final = Statement(
    """SELECT seq, kind, path, dest, node, revision, detail FROM changes
        WHERE tenant = ?1 AND space = ?2 AND seq > ?3 ORDER BY seq LIMIT ?4"""
)
#: What lies in directories ?3, behind name ?5 of directory ?4.
_LISTED: Final = """SELECT e.parent, e.name, e.node, n.kind, n.revision, e.shared FROM entries e
         JOIN nodes n ON n.tenant = ?1 AND n.space = ?2 AND n.id = e.node
        WHERE e.tenant = ?1 AND e.space = ?2 AND e.parent {0} AND (e.parent, e.name) > (?4, ?5)
        ORDER BY e.parent, e.name LIMIT ?6"""
LISTED: Final = Statement(_LISTED.format(f"IN {ids(3)}"), postgres=_LISTED.format(ids_pg(3)))


class _Thing:
    """What the journal says is somewhere."""

    __slots__ = ("children", "kind", "revision")

    def __init__(self, kind: int, revision: int) -> None:
        """Kind 0 is something of which nothing is known; so is revision 0."""
        self.kind = kind
        self.revision = revision
        self.children: dict[str, _Thing] = {} if kind == DIRECTORY else _NO_CHILDREN


#: Shared by all that cannot hold anything, so that a file costs no dictionary.
_NO_CHILDREN: Final[dict[str, _Thing]] = {}


class _Lost(Exception):
    """A change concerns what the changes before it have not made."""


class _Replay:
    """The tree of one space, as its journal tells it."""

    def __init__(self, tx: Tx, space: int) -> None:
        self._tx = tx
        self._space = space
        self._images: list[Row] = []
        self._trash: dict[str, _Thing] = {}
        #: Whether a file may have been written under a name that is not known to be its name.
        self.doubtful = False
        self.root = _Thing(0, 0)

    def run(self, newest: int) -> None:
        """Plays all changes from the newest moment that is known.

        Without one it begins after the newest fork or repair, or at the end: with nothing known.
        """
        oldest, cut = self._tx.one(OLDEST, self._space), self._tx.one(CUT, self._space)
        assert cut is not None
        first = newest + 1 if oldest is None else oldest[0]
        self._images = self._tx.all(IMAGES, self._space)
        after = cut[0] or newest
        if self._images and self._images[0][0] >= max(cut[0], first - 1):
            after = self._images[0][0]
            self.root = _image(self._tx, self._images[0][2], revisions=True)
        elif first == 1 and not cut[0]:
            after, self.root = 0, _Thing(DIRECTORY, 1)
        while rows := self._tx.all(CHANGES, self._space, after, _PAGE):
            after = rows[-1][0]
            for row in rows:
                self._play(row)

    def _play(self, row: Row) -> None:
        seq, kind, path, dest, node, revision, detail = row
        if kind == "rollback":
            self._roll_back(seq, detail)
        elif kind == "create":
            self._put(path, _Thing(node, revision))
        elif kind == "write":
            self._at(path).revision = revision
        elif path == OUTSIDE:
            # It came from another space, with its revision; what a directory holds is not told.
            self._put(dest, self._unknown() if node == DIRECTORY else _Thing(node, revision))
        elif kind in {"move", "link", "copy"}:
            self._pass(kind, path, dest)
        elif kind == "remove":
            self._take(path)
        elif kind == "trash":
            self._trash[detail] = self._take(path)
        elif kind == "untrash":
            self._untrash(path, detail)

    def _pass(self, kind: str, path: str, dest: str) -> None:
        if kind == "move":
            self._put(dest, self._take(path))
        elif kind == "link":
            self._put(dest, self._at(path))
        else:
            self._put(dest, _copied(self._at(path)))

    def _untrash(self, path: str, trash_id: str) -> None:
        thing = self._trash.pop(trash_id, None)
        self._put(path, self._unknown() if thing is None else thing)

    def _unknown(self) -> _Thing:
        """Something with other names perhaps, by which what is known may be written."""
        self.doubtful = True
        return _Thing(0, 0)

    def _roll_back(self, seq: int, name: str) -> None:
        """Revisions after it are not those of the image, and what is trashed may be linked."""
        self._trash = {}
        for taken, named, image in self._images:
            if named == name and taken < seq:
                self.root = _image(self._tx, image, revisions=False)
                return
        self.root = _Thing(0, 0)

    # -- places

    def _above(self, names: tuple[str, ...]) -> _Thing | None:
        """The directory that holds the last name; None where nothing is known."""
        thing = self.root
        for name in names[:-1]:
            if not thing.kind:
                return None
            below = thing.children.get(name)
            if below is None:
                raise _Lost
            thing = below
        if thing.kind not in {0, DIRECTORY}:
            raise _Lost
        return thing if thing.kind else None

    def _at(self, path: str) -> _Thing:
        names = split(path)
        if not names:
            return self.root
        above = self._above(names)
        if above is None:
            return _Thing(0, 0)
        if names[-1] not in above.children:
            raise _Lost
        return above.children[names[-1]]

    def _take(self, path: str) -> _Thing:
        thing, names = self._at(path), split(path)
        above = self._above(names)
        if above is not None:
            del above.children[names[-1]]
        return thing

    def _put(self, path: str, thing: _Thing) -> None:
        names = split(path)
        above = self._above(names)
        if above is None:
            return
        if names[-1] in above.children:
            raise _Lost
        above.children[names[-1]] = thing


def _copied(top: _Thing) -> _Thing:
    """A copy begins to count revisions anew; what had two names within it has them still."""
    copies: dict[int, _Thing] = {id(top): _Thing(top.kind, 1)}
    pending = [top]
    while pending:
        thing = pending.pop()
        children = copies[id(thing)].children
        for name, child in thing.children.items():
            if id(child) not in copies:
                copies[id(child)] = _Thing(child.kind, 1 if child.kind else 0)
                pending.append(child)
            children[name] = copies[id(child)]
    return copies[id(top)]


# -- the tree that is there


def _listed(tx: Tx, space: int, directories: list[int]) -> Iterator[Row]:
    """The entries of directories, with the kind and the revision of what they lead to."""
    for at in range(0, len(directories), _DIRECTORIES):
        wanted = listed(directories[at : at + _DIRECTORIES])
        after: tuple[int, str] = (0, "")
        while rows := tx.all(LISTED, space, wanted, *after, _PAGE):
            after = rows[-1][0], rows[-1][1]
            yield from rows


def _image(tx: Tx, space: int, *, revisions: bool) -> _Thing:
    """The tree that an image keeps."""
    made: dict[int, _Thing] = {ROOT: _Thing(DIRECTORY, 1)}
    level = [ROOT]
    while level:
        below: list[int] = []
        for parent, name, node, kind, revision, _shared in _listed(tx, space, level):
            if node not in made:
                made[node] = _Thing(kind, revision if revisions else 0)
                if kind == DIRECTORY:
                    below.append(node)
            made[parent].children[name] = made[node]
        level = below
    return made[ROOT]


def _differences(tx: Tx, space: int, replay: _Replay) -> Iterator[str]:
    level: dict[int, _Thing] = {ROOT: replay.root} if replay.root.kind else {}
    while level:
        below: dict[int, _Thing] = {}
        left = {id_: len(thing.children) for id_, thing in level.items()}
        for parent, name, node, kind, revision, shared in _listed(tx, space, list(level)):
            told = level[parent].children.get(name)
            if told is None:
                yield f"space {space}: no change in its journal leads to a name of node {node}"
                continue
            left[parent] -= 1
            if told.kind and told.kind != kind:
                yield f"space {space}: its journal takes node {node} for one of another kind"
            elif kind == FILE and told.revision not in {0, revision}:
                if not (shared and replay.doubtful):
                    yield f"space {space}: its journal leads to another revision of node {node}"
            elif kind == DIRECTORY and told.kind:
                below[node] = told
        for id_, count in left.items():
            if count:
                yield f"space {space}: its journal leads to {count} names more in directory {id_}"
        level = below


def spaces(tx: Tx, after: int) -> list[Row]:
    """Some spaces that have a journal."""
    return tx.all(SPACES, after, _PAGE)


def differences(tx: Tx, space: int) -> Iterator[str]:
    """Where the journal of a space leads to another tree than the one that is there."""
    row = tx.one(PEEK, space)
    if row is None:
        return
    replay = _Replay(tx, space)
    try:
        replay.run(SpaceRow(*row).seq)
    except _Lost:
        yield f"space {space}: a change in its journal concerns what no change before it has made"
        return
    yield from _differences(tx, space, replay)


def _violations(tx: Tx) -> Iterator[str]:
    after = 0
    while rows := spaces(tx, after):
        after = rows[-1][0]
        for (space,) in rows:
            yield from differences(tx, space)


#: Asked of each space in a transaction of its own. What it finds cannot be mended, and is no more
#: said once a snapshot of the tree has been taken.
REPLAY: Final = Invariant("replay", _violations)
