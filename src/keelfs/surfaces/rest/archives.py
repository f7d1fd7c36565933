"""Whole trees out and in, as one archive that streams."""

from __future__ import annotations

import gzip
import tempfile
from collections.abc import Iterable, Iterator
from typing import IO, Any, Final, cast
from urllib.parse import quote

from keelfs.identity import Context
from keelfs.surfaces.rest.answer import Answer, json
from keelfs.surfaces.rest.dialect import unreserved
from keelfs.surfaces.rest.pipe import Pipe, poured
from keelfs.surfaces.rest.raw import GUARDS
from keelfs.surfaces.rest.reach import changing, files_of, url_place
from keelfs.surfaces.rest.request import HttpRefusal, Request

_KINDS: Final = {
    "zip": b"application/zip", "tar": b"application/x-tar", "tar.gz": b"application/gzip",
}  # fmt: skip
#: A zip archive is read from its end, so it is kept in a file without a name until it is whole.
MAX_ZIP: Final = 2**30


def download_archive(context: Context, request: Request) -> Answer:
    """What lies below a directory, or one file, as a zip or tar archive."""
    path, form = url_place(request), request.query.format
    space = files_of(context, request)
    space.stat(path)

    def pour(pipe: Pipe) -> None:
        if form == "tar.gz":
            with gzip.GzipFile(fileobj=cast(IO[bytes], pipe), mode="wb", mtime=0) as packed:
                space.export(cast(IO[bytes], packed), path, "tar")
        else:
            space.export(cast(IO[bytes], pipe), path, form)

    name = quote(f"{path.name or 'files'}.{form}", safe="")
    headers = [
        *GUARDS, (b"content-type", _KINDS[form]),
        (b"content-disposition", f"attachment; filename*=UTF-8''{name}".encode()),
    ]  # fmt: skip
    return Answer(200, headers, blocks=poured(pour), slow=True)


def import_archive(context: Context, request: Request) -> Answer:
    """Reads an archive into a directory, all of it or nothing."""
    path, space = unreserved(url_place(request)), changing(context, request)
    arriving = _Arriving(cast(Any, request.source).blocks())
    form, replace = request.query.format, request.query.replace
    if form != "zip":
        return json(space.import_(cast(IO[bytes], arriving), path, "tar", replace=replace), 201)
    with tempfile.TemporaryFile() as spooled:
        while block := arriving.read(2**20):
            spooled.write(block)
            if spooled.tell() > MAX_ZIP:
                raise HttpRefusal(413, f"a zip archive may have {MAX_ZIP} bytes; send a tar")
        spooled.seek(0)
        return json(space.import_(spooled, path, "zip", replace=replace), 201)


class _Arriving:
    """Blocks as a file that can only be read on."""

    def __init__(self, blocks: Iterable[bytes]) -> None:
        self._blocks: Iterator[bytes] = iter(blocks)
        self._held = b""

    def read(self, size: int = -1) -> bytes:
        parts = [self._held]
        have = len(self._held)
        while size < 0 or have < size:
            block = next(self._blocks, None)
            if block is None:
                break
            parts.append(block)
            have += len(block)
        data = b"".join(parts)
        wanted = have if size < 0 else size
        self._held = data[wanted:]
        return data[:wanted]

    def seekable(self) -> bool:
        return False
