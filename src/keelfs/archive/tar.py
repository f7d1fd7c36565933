"""Trees as tar archives in PAX format.

What a tree holds comes back the same: modes, times to the nanosecond, links, hard links, extended
attributes, readonly marks and media types. Owners are written but not taken over by an import, set-
user-id and set-group-id neither. The standard library reads and writes the members' headers; it
extracts nothing.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import re
import tarfile
import zlib
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from decimal import Decimal
from tarfile import HeaderError, TarFile
from typing import IO, Any, Final, Protocol, Self, cast

from keelfs import ops
from keelfs.archive.landing import Bounds, Landing, kept_mode, member_path
from keelfs.archive.tally import Archived, Progress, Tally
from keelfs.errors import InvalidArgument, InvalidPath, Missing, TooLarge, WrongKind
from keelfs.model import Attrs, Kind, Stat
from keelfs.path import VPath
from keelfs.ports import Handler
from keelfs.reading import BLOCK, read_blocks
from keelfs.search import walk

_XATTR: Final = "SCHILY.xattr."
_MIME: Final = "KEELFS.mime"
_READONLY: Final = "KEELFS.readonly"
#: Headers that come before a member's own; real ones hold a few names and attributes.
_MAX_HEADER: Final = 2**20
_HEADERS: Final = {
    tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE,
    tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK,
}  # fmt: skip
_PAX_HEADERS: Final = {tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE}
_MAX_RECORDS: Final = 2000
_RECORD: Final = re.compile(rb"([0-9]{1,7}) ")
#: Hard-linked files that are recognised as such; names of further ones become files of their own.
_MAX_LINKED: Final = 10_000
_SECONDS: Final = re.compile(r"-?[0-9]{1,10}(\.[0-9]+)?")
_MAX_NS: Final = 2**63 - 1


class Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


class Writable(Protocol):
    def write(self, data: bytes, /) -> object: ...


def export_tar(
    handler: Handler, path: VPath, fileobj: Writable, progress: Progress | None = None
) -> Archived:
    """Writes what lies below a directory, or one file, as an uncompressed tar archive.

    Special files are left out, and so is what vanishes meanwhile.
    """
    tally = Tally(progress)
    linked: dict[bytes, str] = {}
    opened: Any = tarfile.open
    with cast(
        TarFile,
        opened(
            fileobj=fileobj, mode="w|", format=tarfile.PAX_FORMAT,
            encoding="utf-8", errors="surrogateescape", copybufsize=BLOCK,
        ),
    ) as tar:  # fmt: skip
        for parts, stat in _exported(handler, path):
            _export_member(handler, path, parts, stat, tar, linked, tally)
            _forget_members(tar)
    return tally.done()


def _forget_members(tar: TarFile) -> None:
    """The library would remember every member for an index that nobody asks for."""
    cast(Any, tar).members.clear()


def _exported(handler: Handler, path: VPath) -> Iterator[tuple[tuple[str, ...], Stat]]:
    stat = handler.perform(ops.GetStat(path))
    return walk(handler, path) if stat.is_directory else iter([((), stat)])


def _export_member(
    handler: Handler, path: VPath, parts: tuple[str, ...], stat: Stat, tar: TarFile,
    linked: dict[bytes, str], tally: Tally,
) -> None:  # fmt: skip
    info = _header("/".join(parts) or path.name, stat)
    if stat.kind is Kind.DIRECTORY:
        info.type = tarfile.DIRTYPE
        tally.directories += 1
        tar.addfile(info)
    elif stat.kind is Kind.SYMLINK:
        info.type, info.linkname = tarfile.SYMTYPE, stat.target or ""
        tally.links += 1
        tar.addfile(info)
    elif stat.kind is not Kind.FILE:
        tally.skip(info.name, "a special file")
    elif stat.id in linked:
        info.type, info.linkname = tarfile.LNKTYPE, linked[stat.id]
        tally.links += 1
        tar.addfile(info)
    else:
        try:
            info.size, blocks = read_blocks(handler, VPath(path.parts + parts), stat.size)
        except (Missing, WrongKind):
            tally.skip(info.name, "vanished meanwhile")
            return
        if stat.nlink > 1 and len(linked) < _MAX_LINKED:
            linked[stat.id] = info.name
        tar.addfile(info, cast(IO[bytes], _Reader(tally.counted(blocks))))
        tally.file()


def _header(name: str, stat: Stat) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.mode, info.uid, info.gid = stat.mode, stat.uid, stat.gid
    info.mtime, fraction = divmod(stat.mtime_ns, 10**9)
    headers = info.pax_headers = dict[str, str]()
    if fraction:
        headers["mtime"] = format(Decimal(stat.mtime_ns).scaleb(-9), "f")
    for key, value in stat.xattrs.items():
        escaped = key.replace("%", "%25").replace("=", "%3D")
        headers[_XATTR + escaped] = value.decode("utf-8", "surrogateescape")
    if stat.mime is not None:
        headers[_MIME] = stat.mime
    if stat.readonly:
        headers[_READONLY] = "1"
    return info


class _Reader:
    """Blocks, to be read by size."""

    def __init__(self, blocks: Iterator[bytes]) -> None:
        self._blocks, self._rest = blocks, b""

    def read(self, size: int = -1) -> bytes:
        while size < 0 or len(self._rest) < size:
            block = next(self._blocks, None)
            if block is None:
                break
            self._rest += block
        size = len(self._rest) if size < 0 else size
        taken, self._rest = self._rest[:size], self._rest[size:]
        return taken


def import_tar(
    handler: Handler,
    path: VPath,
    fileobj: Readable,
    *,
    replace: bool = False,
    bounds: Bounds | None = None,
    progress: Progress | None = None,
) -> Archived:
    """Reads a tar archive, also one packed by gzip, bzip2 or xz, into a directory: all or nothing.

    The directory may exist; then `replace` decides about files that exist in it.
    """
    tally = Tally(progress)
    with Landing(handler, path, replace, bounds or Bounds()) as landing:
        for number, (tar, member) in enumerate(_members(_Unfolding(fileobj, landing)), 1):
            landing.entry()
            _import_member(tar, member, number, landing, tally)
        landing.settle()
    return tally.done()


def _members(unfolding: _Unfolding) -> Iterator[tuple[TarFile, tarfile.TarInfo]]:
    with _readable():
        tar = TarFile(
            fileobj=cast(IO[bytes], unfolding), mode="r", tarinfo=_Member,
            encoding="utf-8", errors="surrogateescape",
        )  # fmt: skip
    while True:
        with _readable():
            member = tar.next()
        if member is None:
            with _readable():
                unfolding.drain()
            return
        yield tar, member
        _forget_members(tar)


def _blocks(tar: TarFile, member: tarfile.TarInfo) -> Iterator[bytes]:
    file = tar.extractfile(member)
    while file is not None:
        with _readable():
            block = file.read(BLOCK)
        if not block:
            return
        yield block


def _import_member(
    tar: TarFile, member: tarfile.TarInfo, number: int, landing: Landing, tally: Tally
) -> None:
    path = member_path(member.name, number)
    attrs = _attrs(member)
    if member.isdir():
        landing.directory(path, kept_mode(member.mode), attrs)
        tally.directories += not path.is_root
    elif member.issym():
        landing.symlink(_text(member.linkname, number), path, attrs)
        tally.links += 1
    elif member.islnk():
        landing.link(member_path(member.linkname, number), path)
        tally.links += 1
    elif member.isreg() and member.size >= 0:
        counted = tally.counted(landing.bounded(_blocks(tar, member)))
        mime = member.pax_headers.get(_MIME)
        landing.file(path, counted, member.size, kept_mode(member.mode), mime, attrs)
        tally.file()
    else:
        raise InvalidArgument(
            f"member {number} of the archive is no file, directory or link; leave it out"
        )


def _attrs(member: tarfile.TarInfo) -> Attrs:
    headers = member.pax_headers
    text = headers.get("mtime", str(member.mtime))
    mtime_ns = int(Decimal(text).scaleb(9)) if _SECONDS.fullmatch(text) else None
    xattrs = {
        _unescaped(key.removeprefix(_XATTR)): value.encode("utf-8", "surrogateescape")
        for key, value in headers.items()
        if key.startswith(_XATTR)
    }
    return Attrs(
        mtime_ns=mtime_ns if mtime_ns is not None and abs(mtime_ns) <= _MAX_NS else None,
        readonly=True if headers.get(_READONLY) == "1" and member.isreg() else None,
        xattrs=dict[str, bytes | None](xattrs) or None,
    )


def _unescaped(key: str) -> str:
    return key.replace("%3D", "=").replace("%25", "%")


def _text(target: str, number: int) -> str:
    try:
        target.encode()
    except UnicodeEncodeError:
        raise InvalidPath(f"member {number} of the archive: its target is not UTF-8") from None
    return target


class _Member(tarfile.TarInfo):
    """A member that asks for no more memory and time than honest headers need.

    The library ends quietly at a header it does not understand, parses extended headers in
    quadratic time, and trusts their sizes; a hostile archive would make use of each.
    """

    @classmethod
    def fromtarfile(cls, tarfile: TarFile) -> Self:
        try:
            return super().fromtarfile(tarfile)
        except HeaderError as error:
            if type(error).__name__ == "EOFHeaderError":
                raise
            raise InvalidArgument("the archive is damaged, or a part of it is missing") from None

    def _proc_member(self, tar: TarFile) -> Self:
        if self.type in _HEADERS and not 0 <= self.size <= _MAX_HEADER:
            raise TooLarge(f"a header of the archive has more than {_MAX_HEADER} bytes")
        if self.type in _PAX_HEADERS:
            unfolding = cast(_Unfolding, tar.fileobj)
            start = unfolding.tell()
            records = unfolding.read(-(-self.size // tarfile.BLOCKSIZE) * tarfile.BLOCKSIZE)
            _check_records(records[: self.size], len(tar.pax_headers))
            unfolding.unread(start, records)
        if self.type == tarfile.GNUTYPE_SPARSE:
            self._refuse_sparse()
        inherited: Any = super()
        return cast(Self, inherited._proc_member(tar))

    def _refuse_sparse(self, *_: object) -> None:
        raise InvalidArgument("the archive has sparse members; write it without them")

    _proc_gnusparse_00 = _proc_gnusparse_01 = _proc_gnusparse_10 = _refuse_sparse


def _check_records(data: bytes, known: int) -> None:
    """Whether an extended header is what it should be: records of "length key=value"."""
    at, count = 0, known
    while at < len(data):
        length = _RECORD.match(data, at)
        end = at + int(length[1]) if length else at
        record = data[at:end]
        count += 1
        if not record.endswith(b"\n") or b"=" not in record or count > _MAX_RECORDS:
            raise InvalidArgument("an extended header of the archive is damaged")
        at = end


class _Unfolding:
    """The archive's bytes, unpacked if they are packed, as long as they keep their proportion.

    It is read from its beginning to its end; seeking skips.
    """

    def __init__(self, fileobj: Readable, landing: Landing) -> None:
        self._packed = _Counted(fileobj)
        self._landing = landing
        self._at = self._unfolded = 0
        self._unread = b""
        start = self._packed.peek(6)
        packed = cast(IO[bytes], self._packed)
        self._source: Readable = self._packed
        if start.startswith(b"\x1f\x8b"):
            self._source = gzip.GzipFile(fileobj=packed, mode="rb")
        elif start.startswith(b"BZh"):
            self._source = bz2.BZ2File(packed)
        elif start == b"\xfd7zXZ\0":
            self._source = lzma.LZMAFile(packed)  # noqa: SIM115

    def read(self, size: int) -> bytes:
        data, self._unread = self._unread[:size], self._unread[size:]
        self._at += len(data)
        while len(data) < size and (more := self._source.read(size - len(data))):
            data += more
            self._at += len(more)
            self._unfolded += len(more)
            self._landing.check_ratio(self._unfolded, self._packed.consumed)
        return data

    def unread(self, start: int, data: bytes) -> None:
        """Gives back what was read from `start` on."""
        self._at, self._unread = start, data + self._unread

    def drain(self) -> None:
        """Reads a packed archive to its end, where its checksum is."""
        while self._source is not self._packed and self.read(BLOCK):
            pass

    def tell(self) -> int:
        return self._at

    def seek(self, to: int) -> None:
        if to < self._at:
            raise InvalidArgument("the archive is damaged: its members overlap")
        while self._at < to and self.read(min(BLOCK, to - self._at)):
            pass


class _Counted:
    """A file object that is read from its beginning to its end, and counts."""

    def __init__(self, fileobj: Readable) -> None:
        self._fileobj, self._start, self.consumed = fileobj, b"", 0

    def peek(self, size: int) -> bytes:
        while len(self._start) < size and (more := self._fileobj.read(size - len(self._start))):
            self._start += more
        return self._start

    def read(self, size: int = -1) -> bytes:
        most = len(self._start) if size < 0 else size
        data, self._start = self._start[:most], self._start[most:]
        data = data or self._fileobj.read(size)
        self.consumed += len(data)
        return data

    def seekable(self) -> bool:
        return False


@contextmanager
def _readable() -> Generator[None]:
    """Says in our own words that an archive is damaged."""
    try:
        yield
    except (tarfile.TarError, EOFError, zlib.error, lzma.LZMAError, OSError, ValueError) as error:
        raise InvalidArgument(f"the archive cannot be read: {error}") from None
    except RecursionError:
        raise InvalidArgument("the archive has too many headers for one member") from None
