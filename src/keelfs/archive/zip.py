"""Trees as zip archives: content, modes, links, and times to the second, as Info-ZIP keeps them.

The standard library reads and writes the members; it extracts nothing.
"""

from __future__ import annotations

import calendar
import stat as modes
import struct
import time
import zipfile
import zlib
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import IO, Final

from keelfs import ops
from keelfs.archive.landing import Bounds, Landing, kept_mode, member_path
from keelfs.archive.tally import Archived, Progress, Tally
from keelfs.errors import InvalidArgument, InvalidPath, Missing, TooLarge, WrongKind
from keelfs.model import Attrs, Kind, Stat
from keelfs.path import VPath
from keelfs.ports import Handler
from keelfs.reading import BLOCK, read_blocks
from keelfs.search import walk

_UNIX: Final = 3
_UTF8: Final = 0x800
_ENCRYPTED: Final = 0x1
#: The extra field of Info-ZIP that holds seconds since 1970.
_TIMESTAMP: Final = 0x5455
_MAX_TARGET: Final = 4095
#: The directory of an archive is held in memory as a whole.
_MAX_DIRECTORY: Final = 64 * 2**20
_END: Final = struct.Struct("<4s4H2LH")
_END64: Final = struct.Struct("<4sQ2H2L4Q")
_LOCATOR64: Final = struct.Struct("<4sLQL")


def export_zip(
    handler: Handler, path: VPath, fileobj: IO[bytes], progress: Progress | None = None
) -> Archived:
    """Writes what lies below a directory, or one file, as a zip archive.

    Special files are left out, and so is what vanishes meanwhile. A second name of a file becomes
    a file of its own, because zip knows no hard links.
    """
    tally = Tally(progress)
    stat = handler.perform(ops.GetStat(path))
    found = walk(handler, path) if stat.is_directory else iter([((), stat)])
    with zipfile.ZipFile(fileobj, "w", zipfile.ZIP_DEFLATED) as archive:
        for parts, each in found:
            _export_member(handler, VPath(path.parts + parts), parts, each, archive, tally)
    return tally.done()


def _export_member(
    handler: Handler, path: VPath, parts: tuple[str, ...], stat: Stat, archive: zipfile.ZipFile,
    tally: Tally,
) -> None:  # fmt: skip
    name = "/".join(parts) or path.name
    match stat.kind:
        case Kind.DIRECTORY:
            archive.writestr(_header(name + "/", stat, modes.S_IFDIR), b"")
            tally.directories += 1
        case Kind.SYMLINK:
            archive.writestr(_header(name, stat, modes.S_IFLNK), (stat.target or "").encode())
            tally.links += 1
        case Kind.FILE:
            try:
                size, blocks = read_blocks(handler, path, stat.size)
            except (Missing, WrongKind):
                tally.skip(name, "vanished meanwhile")
                return
            header = _header(name, stat, modes.S_IFREG)
            header.file_size = size
            with archive.open(header, "w", force_zip64=size >= 2**31 - 2**20) as member:
                for block in tally.counted(blocks):
                    member.write(block)
            tally.file()
        case _:
            tally.skip(name, "a special file")


def _header(name: str, stat: Stat, kind: int) -> zipfile.ZipInfo:
    seconds = stat.mtime_ns // 10**9
    shown = time.gmtime(min(max(seconds, 315532800), 4354819198))[:6]
    header = zipfile.ZipInfo(name, shown)
    header.compress_type = zipfile.ZIP_DEFLATED if kind == modes.S_IFREG else zipfile.ZIP_STORED
    header.create_system = _UNIX
    header.external_attr = (kind | stat.mode) << 16 | (0x10 if kind == modes.S_IFDIR else 0)
    if -(2**31) <= seconds < 2**31:
        header.extra = struct.pack("<HHBl", _TIMESTAMP, 5, 1, seconds)
    return header


def import_zip(
    handler: Handler,
    path: VPath,
    fileobj: IO[bytes],
    *,
    replace: bool = False,
    bounds: Bounds | None = None,
    progress: Progress | None = None,
) -> Archived:
    """Reads a zip archive from a seekable file into a directory: all or nothing.

    The directory may exist; then `replace` decides about files that exist in it.
    """
    tally = Tally(progress)
    with _readable():
        size = _check_directory(fileobj)
        archive = zipfile.ZipFile(fileobj)
    with archive, Landing(handler, path, replace, bounds or Bounds()) as landing:
        unfolded = 0
        for number, member in enumerate(archive.infolist(), 1):
            landing.entry()
            unfolded += member.file_size
            landing.check_ratio(unfolded, size)
            _import_member(archive, member, number, landing, tally)
        landing.settle()
    return tally.done()


def _blocks(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> Iterator[bytes]:
    with _readable():
        file = archive.open(member)
    with file:
        while True:
            with _readable():
                block = file.read(BLOCK)
            if not block:
                return
            yield block


def _import_member(
    archive: zipfile.ZipFile, member: zipfile.ZipInfo, number: int, landing: Landing, tally: Tally
) -> None:
    if member.flag_bits & _ENCRYPTED:
        raise InvalidArgument(f"member {number} of the archive is encrypted; decrypt it first")
    if member.compress_type not in {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}:
        # The library unpacks other methods without a bound on what one step may yield.
        raise InvalidArgument(f"member {number} of the archive is not packed by deflate; repack it")
    name = _name(member, number)
    path = member_path(name, number)
    mode = member.external_attr >> 16 if member.create_system == _UNIX else 0
    attrs = Attrs(mtime_ns=_mtime_ns(member))
    kind = modes.S_IFDIR if name.endswith("/") else modes.S_IFMT(mode) or modes.S_IFREG
    blocks = landing.bounded(_blocks(archive, member))
    if kind == modes.S_IFDIR:
        landing.directory(path, kept_mode(mode) or 0o755, attrs)
        tally.directories += not path.is_root
    elif kind == modes.S_IFLNK:
        landing.symlink(_target(blocks, number), path, attrs)
        tally.links += 1
    elif kind == modes.S_IFREG:
        kept = kept_mode(mode) or 0o644
        landing.file(path, tally.counted(blocks), member.file_size, kept, None, attrs)
        tally.file()
    else:
        raise InvalidArgument(
            f"member {number} of the archive is no file, directory or link; leave it out"
        )


def _name(member: zipfile.ZipInfo, number: int) -> str:
    """The name; where it does not say that it is UTF-8, it has to be nevertheless."""
    name = member.orig_filename
    if member.flag_bits & _UTF8 or name.isascii():
        return name
    try:
        return name.encode("cp437").decode()
    except UnicodeError:
        raise InvalidPath(f"member {number} of the archive: its name is not UTF-8") from None


def _target(blocks: Iterator[bytes], number: int) -> str:
    target = next(blocks, b"")
    if len(target) > _MAX_TARGET or next(blocks, b""):
        raise InvalidArgument(f"member {number} of the archive: its target is too long for a link")
    try:
        return target.decode()
    except UnicodeDecodeError:
        raise InvalidPath(f"member {number} of the archive: its target is not UTF-8") from None


def _mtime_ns(member: zipfile.ZipInfo) -> int | None:
    at, extra = 0, member.extra
    while at + 4 <= len(extra):
        kind, size = struct.unpack_from("<HH", extra, at)
        if kind == _TIMESTAMP and size >= 5 and at + 9 <= len(extra) and extra[at + 4] & 1:
            return int(struct.unpack_from("<l", extra, at + 5)[0]) * 10**9
        at += 4 + size
    try:
        return calendar.timegm((*member.date_time, 0, 0, 0)) * 10**9
    except ValueError:
        return None


def _check_directory(fileobj: IO[bytes]) -> int:
    """The size of the archive, once it is known that its directory fits in memory."""
    if not fileobj.seekable():
        raise InvalidArgument("a zip archive is read from a file that can be sought in")
    size = fileobj.seek(0, 2)
    start = max(0, size - _END.size - 0xFFFF)
    fileobj.seek(start)
    tail = fileobj.read()
    at = tail.rfind(b"PK\5\6")
    if at < 0 or at + _END.size > len(tail):
        raise InvalidArgument("this is no zip archive, or its end is missing")
    directory = _END.unpack_from(tail, at)[5]
    if at >= _LOCATOR64.size and tail[at - _LOCATOR64.size :].startswith(b"PK\6\7"):
        where = _LOCATOR64.unpack_from(tail, at - _LOCATOR64.size)[2]
        fileobj.seek(min(where, size))
        record = fileobj.read(_END64.size)
        if len(record) == _END64.size:
            directory = _END64.unpack(record)[8]
    if directory > _MAX_DIRECTORY:
        raise TooLarge(f"the directory of the archive has more than {_MAX_DIRECTORY} bytes")
    fileobj.seek(0)
    return size


@contextmanager
def _readable() -> Generator[None]:
    """Says in our own words that an archive is damaged."""
    try:
        yield
    except (zipfile.BadZipFile, EOFError, zlib.error, struct.error, OSError, ValueError) as error:
        raise InvalidArgument(f"the archive cannot be read: {error}") from None
    except NotImplementedError:
        raise InvalidArgument("the archive needs a newer reader; repack it") from None
