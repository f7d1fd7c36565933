"""Trees as folders of the host.

The host is walked by directory descriptors and no link of it is ever followed, so that nobody who
can write there leads a copy astray. A link of the tree is written to the host only if it leads from
its place to somewhere below the folder; others are left out and reported.
"""

from __future__ import annotations

import os
import stat as modes
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from typing import Final

from keelfs import ops
from keelfs.archive.landing import Bounds, Landing, kept_mode
from keelfs.archive.tally import Archived, Progress, Tally
from keelfs.errors import (
    AlreadyExists,
    InvalidArgument,
    InvalidPath,
    KeelError,
    Missing,
    NotADirectory,
    NotEmpty,
    NotFound,
    PermissionDenied,
    QuotaExceeded,
    TooLarge,
    WrongKind,
)
from keelfs.model import Attrs, Kind, Stat
from keelfs.path import ROOT, VPath, check_name
from keelfs.ports import Handler
from keelfs.reading import BLOCK, read_blocks
from keelfs.search import walk

_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW_FILE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
#: O_NONBLOCK, so that a pipe put in the place of a file holds nobody up.
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
#: Each open directory costs a descriptor.
_MAX_DEPTH: Final = 256
_MAX_LINKED: Final = 10_000
_TOLD: Final[dict[type[OSError], type[KeelError]]] = {
    FileExistsError: AlreadyExists,
    FileNotFoundError: NotFound,
    NotADirectoryError: NotADirectory,
    PermissionError: PermissionDenied,
}


def export_folder(
    handler: Handler,
    path: VPath,
    folder: str | os.PathLike[str],
    progress: Progress | None = None,
) -> Archived:
    """Writes what lies below a directory into a folder, which must be missing or empty.

    Special files are left out, and so is what vanishes meanwhile. Modes and times are kept, owners
    and extended attributes are not.
    """
    tally = Tally(progress)
    if not handler.perform(ops.GetStat(path)).is_directory:
        raise NotADirectory("only a directory is exported to a folder")
    with _told():
        writing = _Writing(_empty_folder(folder))
        try:
            for parts, stat in walk(handler, path):
                writing.enter(parts[:-1])
                _export_entry(handler, VPath(path.parts + parts), parts, stat, writing, tally)
            writing.enter(())
        finally:
            writing.close()
    return tally.done()


def _empty_folder(folder: str | os.PathLike[str]) -> int:
    with suppress(FileExistsError):
        os.mkdir(folder)
    descriptor = os.open(folder, _DIRECTORY)
    if os.listdir(descriptor):
        os.close(descriptor)
        raise NotEmpty("the folder is not empty; export into a new one")
    return descriptor


class _Writing:
    """The directories under way: each a descriptor, and what it becomes once it is complete."""

    def __init__(self, root: int) -> None:
        self._open: list[tuple[str, int, Stat | None]] = [("", root, None)]

    @property
    def here(self) -> int:
        return self._open[-1][1]

    def enter(self, parts: tuple[str, ...]) -> None:
        """Leaves the directories that `parts` does not lie in."""
        while tuple(name for name, _, _ in self._open[1:]) != parts[: len(self._open) - 1]:
            self._leave()

    def directory(self, name: str, stat: Stat) -> None:
        if len(self._open) > _MAX_DEPTH:
            raise TooLarge(f"the tree is more than {_MAX_DEPTH} directories deep")
        os.mkdir(name, 0o700, dir_fd=self.here)
        self._open.append((name, os.open(name, _DIRECTORY, dir_fd=self.here), stat))

    def _leave(self) -> None:
        _, descriptor, stat = self._open.pop()
        try:
            if stat is not None:
                _finish(descriptor, stat)
        finally:
            os.close(descriptor)

    def close(self) -> None:
        for _, descriptor, _ in self._open:
            os.close(descriptor)


def _finish(descriptor: int, stat: Stat) -> None:
    os.fchmod(descriptor, stat.mode & 0o777)
    os.utime(descriptor, ns=(stat.atime_ns, stat.mtime_ns))


def _export_entry(
    handler: Handler, path: VPath, parts: tuple[str, ...], stat: Stat, writing: _Writing,
    tally: Tally,
) -> None:  # fmt: skip
    name, shown = parts[-1], "/".join(parts)
    match stat.kind:
        case Kind.DIRECTORY:
            writing.directory(name, stat)
            tally.directories += 1
        case Kind.SYMLINK:
            target = stat.target or ""
            if not _stays_inside(target, len(parts) - 1):
                tally.skip(shown, "a link that may lead out of the folder")
                return
            os.symlink(target, name, dir_fd=writing.here)
            times = stat.atime_ns, stat.mtime_ns
            os.utime(name, ns=times, dir_fd=writing.here, follow_symlinks=False)
            tally.links += 1
        case Kind.FILE:
            try:
                _, blocks = read_blocks(handler, path, stat.size)
            except (Missing, WrongKind):
                tally.skip(shown, "vanished meanwhile")
                return
            descriptor = os.open(name, _NEW_FILE, 0o600, dir_fd=writing.here)
            with open(descriptor, "wb", buffering=0) as file:
                for block in tally.counted(blocks):
                    _write_all(descriptor, block)
                _finish(file.fileno(), stat)
            tally.file()
        case _:
            tally.skip(shown, "a special file")


def _write_all(descriptor: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def _stays_inside(target: str, depth: int) -> bool:
    """Whether a link, `depth` directories below the folder, cannot lead out of it.

    It may go up only before it goes down: after a name that is a link itself, ".." leads from
    wherever that one points.
    """
    names = [name for name in target.split("/") if name not in {"", "."}]
    ups = names.count("..")
    return not target.startswith("/") and ups <= depth and ".." not in names[ups:]


def import_folder(
    handler: Handler,
    path: VPath,
    folder: str | os.PathLike[str],
    *,
    replace: bool = False,
    bounds: Bounds | None = None,
    progress: Progress | None = None,
) -> Archived:
    """Reads a folder of the host into a directory: all or nothing.

    Links are kept as links. Special files, and names that are not UTF-8, are left out and reported.
    The directory may exist; then `replace` decides about files that exist in it.
    """
    tally = Tally(progress)
    with _told():
        root = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        landing = Landing(handler, path, replace, bounds or Bounds())
        with _Reading(root) as reading, landing:
            for parent, raw, here in reading.entries():
                _import_entry(parent, raw, here, reading, landing, tally)
            landing.settle()
    return tally.done()


class _Reading:
    """A walk of the host, depth first by name; each directory under way is a descriptor."""

    def __init__(self, root: int) -> None:
        self._open: list[tuple[VPath, int, list[bytes]]] = []
        self._enter(ROOT, root)
        #: Files with several names, by where the host keeps them.
        self.linked: dict[tuple[int, int], VPath] = {}

    def __enter__(self) -> _Reading:
        return self

    def __exit__(self, *_error: object) -> None:
        for _, descriptor, _ in self._open:
            os.close(descriptor)

    def _enter(self, path: VPath, descriptor: int) -> None:
        names = [os.fsencode(name) for name in os.listdir(descriptor)]
        self._open.append((path, descriptor, sorted(names, reverse=True)))

    def directory(self, path: VPath, raw: bytes, here: int) -> None:
        if len(self._open) > _MAX_DEPTH:
            raise TooLarge(f"the folder is more than {_MAX_DEPTH} directories deep")
        self._enter(path, os.open(raw, _DIRECTORY, dir_fd=here))

    def entries(self) -> Iterator[tuple[VPath, bytes, int]]:
        while self._open:
            path, descriptor, names = self._open[-1]
            if names:
                yield path, names.pop(), descriptor
            else:
                self._open.pop()
                os.close(descriptor)


def _import_entry(
    parent: VPath, raw: bytes, here: int, reading: _Reading, landing: Landing, tally: Tally
) -> None:
    shown = "/".join((*parent.parts, raw.decode("utf-8", "backslashreplace")))
    landing.entry()
    try:
        name = raw.decode()
        check_name(name)
        status = os.stat(raw, dir_fd=here, follow_symlinks=False)
        path = parent.child(name)
        if modes.S_ISDIR(status.st_mode):
            reading.directory(path, raw, here)
            landing.directory(path, kept_mode(status.st_mode), _attrs(status))
            tally.directories += 1
        elif modes.S_ISLNK(status.st_mode):
            target = os.readlink(raw, dir_fd=here).decode()
            landing.symlink(target, path, _attrs(status))
            tally.links += 1
        elif modes.S_ISREG(status.st_mode):
            _import_file(path, raw, here, reading, landing, tally)
        else:
            tally.skip(shown, "a special file")
    except (UnicodeDecodeError, InvalidPath):
        tally.skip(shown, "its name or target is not UTF-8")
    except FileNotFoundError:
        tally.skip(shown, "vanished meanwhile")


def _import_file(
    path: VPath, raw: bytes, here: int, reading: _Reading, landing: Landing, tally: Tally
) -> None:
    descriptor = os.open(raw, _FILE, dir_fd=here)
    with open(descriptor, "rb", buffering=0) as file:
        status = os.fstat(descriptor)
        if not modes.S_ISREG(status.st_mode):
            tally.skip(str(path)[1:], "a special file")
            return
        identity = status.st_dev, status.st_ino
        if identity in reading.linked:
            landing.link(reading.linked[identity], path)
            tally.links += 1
            return
        if status.st_nlink > 1 and len(reading.linked) < _MAX_LINKED:
            reading.linked[identity] = path
        blocks = tally.counted(landing.bounded(iter(lambda: file.read(BLOCK), b"")))
        mode = kept_mode(status.st_mode)
        landing.file(path, blocks, status.st_size, mode, None, _attrs(status))
        tally.file()


def _attrs(status: os.stat_result) -> Attrs:
    return Attrs(mtime_ns=status.st_mtime_ns)


@contextmanager
def _told() -> Generator[None]:
    """Tells in our own words, and without a path, why the host refused."""
    try:
        yield
    except OSError as error:
        if error.errno in {28, 122}:
            raise QuotaExceeded("there is no room left on the host") from None
        told = next((_TOLD[kind] for kind in type(error).__mro__ if kind in _TOLD), InvalidArgument)
        raise told(f"the host refused: {error.strerror or type(error).__name__}") from None
