"""Which archive a caller means: a folder, a tar or a zip, by its name, its bytes or by word.

The formats themselves live in `keelfs.archive`; files of the host are opened here and nowhere else
on the way of an archive. Who calls: `export` and `import_` of a workspace.
"""

from __future__ import annotations

import gzip
import io
import os
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, Final, Literal, cast

from keelfs import archive
from keelfs.archive import Archived, Bounds, Progress
from keelfs.errors import AlreadyExists, InvalidArgument
from keelfs.path import VPath
from keelfs.ports import Handler

Format = Literal["tar", "zip", "folder"]
Outside = str | os.PathLike[str] | IO[bytes]

_ZIP_MAGIC: Final = (b"PK\x03\x04", b"PK\x05\x06")
_FORMS: Final = "a path of the host as text or Path, or a binary file object"


def export(
    handler: Handler, path: VPath, to: Outside, form: Format | None, progress: Progress | None
) -> Archived:
    """Writes what lies below `path`. A file or folder that exists already is not written over."""
    _check_form(form)
    if not isinstance(to, str | os.PathLike):
        if not callable(getattr(to, "write", None)) or form == "folder":
            raise InvalidArgument(f"an archive goes to {_FORMS}")
        return _written(handler, path, to, form or "tar", progress)
    target = _host_path(to)
    form = form or _by_name(target.name)
    if form == "folder":
        return archive.export_folder(handler, path, target, progress)
    with _new_file(target) as file:
        return _written(handler, path, file, form, progress)


def _written(
    handler: Handler, path: VPath, file: IO[bytes], form: Format, progress: Progress | None
) -> Archived:
    if form == "zip":
        return archive.export_zip(handler, path, file, progress)
    return archive.export_tar(handler, path, file, progress)


@contextmanager
def _new_file(target: Path) -> Generator[IO[bytes]]:
    """A new file, which does not survive an export that fails."""
    with _told():
        file = target.open("xb")
    try:
        with file:
            if target.name.lower().endswith((".gz", ".tgz")):
                with gzip.open(file, "wb", compresslevel=6) as packed:
                    yield cast(IO[bytes], packed)
            else:
                yield file
    except BaseException:
        with suppress(OSError):
            target.unlink()
        raise


def import_(
    handler: Handler, path: VPath, source: Outside | bytes, form: Format | None, *, replace: bool,
    bounds: Bounds | None, progress: Progress | None,
) -> Archived:  # fmt: skip
    """Reads an archive or a folder into a directory: all or nothing."""
    _check_form(form)
    given: dict[str, Any] = {"replace": replace, "bounds": bounds, "progress": progress}
    if isinstance(source, bytes):
        source = io.BytesIO(source)
    if not isinstance(source, str | os.PathLike):
        if not callable(getattr(source, "read", None)) or form == "folder":
            raise InvalidArgument(f"an archive comes from bytes, {_FORMS}")
        return _read(handler, path, source, form, given)
    origin = _host_path(source)
    if form == "folder" or (form is None and origin.is_dir()):
        return archive.import_folder(handler, path, origin, **given)
    with _told():
        file = origin.open("rb")
    with file:
        return _read(handler, path, file, form, given)


def _read(
    handler: Handler, path: VPath, file: IO[bytes], form: Format | None, given: dict[str, Any]
) -> Archived:
    seekable = callable(getattr(file, "seekable", None)) and file.seekable()
    if form is None and seekable:
        start = file.read(4)
        file.seek(-len(start), io.SEEK_CUR)
        form = "zip" if start in _ZIP_MAGIC else "tar"
    if form == "zip":
        if not seekable:
            raise InvalidArgument("a zip archive is read from its end: pass a file that can seek")
        return archive.import_zip(handler, path, file, **given)
    return archive.import_tar(handler, path, file, **given)


def _by_name(name: str) -> Format:
    lowered = name.lower()
    if lowered.endswith(".zip"):
        return "zip"
    return "tar" if lowered.endswith((".tar", ".tar.gz", ".tgz")) else "folder"


def _check_form(form: object) -> None:
    if form not in {None, "tar", "zip", "folder"}:
        raise InvalidArgument('format is "tar", "zip", "folder", or None to go by the name')


def _host_path(given: str | os.PathLike[str]) -> Path:
    if "\0" in os.fspath(given):
        raise InvalidArgument("a path of the host cannot contain a NUL character")
    return Path(given)


@contextmanager
def _told() -> Generator[None]:
    """What the host refuses, as an error that says so without repeating its path."""
    try:
        yield
    except FileExistsError:
        raise AlreadyExists("there is already such a file on the host") from None
    except OSError as error:
        raise InvalidArgument(f"the host's file cannot be opened: {error.strerror}") from None
