"""Descends a folder of the host by directory descriptors.

The kernel is asked about one name at a time, in a directory that is already open, and is never
asked to follow a link. Links are read and followed here, component by component: absolute targets
from the root of the folder, `..` stopping at it. So whatever another program swaps meanwhile, no
step leaves the folder: a step either opens a directory that was there, or fails.

What may fail by such a race is tried again as one of the 40 hops that a path may take. Only the
host folder calls this.
"""

from __future__ import annotations

import errno
import os
import stat
from collections import deque
from types import TracebackType
from typing import Final, Self

from keelfs.errors import (
    DanglingLink,
    InvalidPath,
    LinkLoop,
    NotADirectory,
    NotFound,
)
from keelfs.path import VPath

DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
#: As many hops as Linux allows.
MAX_HOPS: Final = 40
#: Names of this form hold what is being written or removed; they are hidden from every verb.
UNFINISHED: Final = ".keelfs-unfinished-"
#: Descriptors kept open behind the present directory, for `..`; farther back is walked anew.
_KEPT: Final = 16


class _Trail:
    """The way from the root to the present directory."""

    def __init__(self, root: int) -> None:
        self._root = root
        self.names: list[str] = []
        self._open = [os.open(".", DIRECTORY, dir_fd=root)]

    @property
    def here(self) -> int:
        return self._open[-1]

    def enter(self, name: str) -> None:
        self._open.append(os.open(name, DIRECTORY, dir_fd=self.here))
        self.names.append(name)
        if len(self._open) > _KEPT:
            os.close(self._open.pop(0))

    def leave(self) -> None:
        """To the directory we came from, which `..` of the host need not be any more."""
        if not self.names:
            return
        self.names.pop()
        os.close(self._open.pop())
        if not self._open:
            names, self.names = self.names, []
            self._open.append(os.open(".", DIRECTORY, dir_fd=self._root))
            for name in names:
                self.enter(name)

    def restart(self) -> None:
        fresh = os.open(".", DIRECTORY, dir_fd=self._root)
        self.close()
        self.names = []
        self._open = [fresh]

    def close(self) -> None:
        while self._open:
            os.close(self._open.pop())


class Place:
    """Where a path leads: a name in an open directory, and what the name held a moment ago."""

    def __init__(
        self, trail: _Trail, missing: tuple[str, ...], info: os.stat_result | None,
        *, in_link: bool = False, dangling: bool = False,
    ) -> None:  # fmt: skip
        self._trail = trail
        #: What is not there: one name if only the last is missing, more if directories are.
        self.missing = missing
        self.info = info
        #: The first missing name stood in a link; in `dangling`, all of them did.
        self.in_link = in_link
        self.dangling = dangling

    @property
    def fd(self) -> int:
        """The deepest directory that exists."""
        return self._trail.here

    @property
    def parents(self) -> tuple[str, ...]:
        """Canonical names of that directory."""
        return tuple(self._trail.names)

    @property
    def name(self) -> str:
        """The last name; "." for the root."""
        return self.missing[-1]

    @property
    def is_root(self) -> bool:
        return self.name == "."

    def there(self) -> os.stat_result:
        """What is there, or the refusal."""
        if self.info is None:
            raise NotFound
        return self.info

    def creatable(self, parents: bool) -> None:
        """Refuses where nothing may be made: behind a link to nothing, in no directory."""
        if self.dangling or (self.in_link and parents):
            raise DanglingLink
        if len(self.missing) > 1 and (not parents or ".." in self.missing):
            raise NotFound("the parent directory does not exist")
        if any(name.startswith(UNFINISHED) for name in self.missing):
            raise InvalidPath(f"names that begin with {UNFINISHED!r} are kept for writing")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        self._trail.close()


def find(root: int, path: VPath, follow: bool) -> Place:
    """The place of `path` below the open directory `root`; close it by `with`."""
    trail = _Trail(root)
    try:
        return _Search(trail, path, follow).run()
    except BaseException:
        trail.close()
        raise


class _Search:
    def __init__(self, trail: _Trail, path: VPath, follow: bool) -> None:
        self._trail, self._follow = trail, follow
        self._pending = deque(path.parts)
        self._hops = 0
        #: How many names were left when the outermost link still being followed was met.
        self._behind_link: int | None = None

    def run(self) -> Place:
        while True:
            if not self._pending:
                if not self._trail.names:
                    return Place(self._trail, (".",), os.fstat(self._trail.here))
                self._step_back()
            name = self._pending.popleft()
            if name == "..":
                self._trail.leave()
                continue
            if name.startswith(UNFINISHED):
                raise InvalidPath(f"names that begin with {UNFINISHED!r} are kept for writing")
            try:
                if self._pending:
                    self._pass(name)
                    continue
                found = self._end(name)
            except FileNotFoundError:
                behind = self._behind_link
                return Place(
                    self._trail, (name, *self._pending), None,
                    in_link=behind is not None and len(self._pending) >= behind,
                    dangling=behind == 0,
                )  # fmt: skip
            if found is not None:
                return Place(self._trail, (name,), found)

    def _step_back(self) -> None:
        """A link that ends in `..` names a directory; a place needs its name in its parent."""
        self._hop()
        name = self._trail.names[-1]
        self._trail.leave()
        self._pending.append(name)

    def _pass(self, name: str) -> None:
        try:
            self._trail.enter(name)
        except OSError as error:
            if error.errno not in {errno.ENOTDIR, errno.ELOOP}:
                raise
            mode = os.lstat(name, dir_fd=self._trail.here).st_mode
            if stat.S_ISLNK(mode):
                self._take_link(name)
            elif stat.S_ISDIR(mode):
                self._hop()
                self._pending.appendleft(name)
            else:
                raise NotADirectory from None

    def _end(self, name: str) -> os.stat_result | None:
        info = os.lstat(name, dir_fd=self._trail.here)
        if self._follow and stat.S_ISLNK(info.st_mode):
            self._take_link(name)
            return None
        return info

    def _take_link(self, name: str) -> None:
        self._hop()
        target = read_target(self._trail.here, name)
        if target is None:
            self._pending.appendleft(name)
            return
        if self._behind_link is None or len(self._pending) < self._behind_link:
            self._behind_link = len(self._pending)
        if target.startswith("/"):
            self._trail.restart()
        names = [part for part in target.split("/") if part not in {"", "."}]
        self._pending.extendleft(reversed(names))

    def _hop(self) -> None:
        self._hops += 1
        if self._hops > MAX_HOPS:
            raise LinkLoop


def read_target(directory: int, name: str) -> str | None:
    """A link's target as written; None if it is no link any more."""
    try:
        target = os.readlink(name, dir_fd=directory)
    except OSError as error:
        if error.errno == errno.EINVAL:
            return None
        raise
    try:
        target.encode()
    except UnicodeEncodeError:
        raise InvalidPath("the target of the link is not valid UTF-8") from None
    return target
