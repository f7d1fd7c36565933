"""The actions of the session filesystem: stat, move, copy and grep."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from typing import Final

from msgspec import UNSET

from keelfs.identity import Context
from keelfs.model import Match
from keelfs.path import ROOT, VPath
from keelfs.surfaces.rest.answer import Answer, json
from keelfs.surfaces.rest.bodies import FileStat, GrepAnswer, GrepFile, GrepLine, time_of
from keelfs.surfaces.rest.conditions import tag_of
from keelfs.surfaces.rest.dialect import creatable, place
from keelfs.surfaces.rest.files import current
from keelfs.surfaces.rest.reach import changing, files_of
from keelfs.surfaces.rest.request import Request

#: One answer of grep holds so many lines, of so many bytes together.
MAX_LINES: Final = 10_000
MAX_LINE_BYTES: Final = 8 * 2**20


def stat(context: Context, request: Request) -> Answer:
    """What is known of a file or directory; links are not followed."""
    path = place(request.body.path)
    found = files_of(context, request).stat(path, follow=False)
    answer = FileStat(
        str(path), path.name or "/", found.is_directory, found.readonly,
        found.size if found.is_file else 0, time_of(found.created_ns), time_of(found.mtime_ns),
    )  # fmt: skip
    return json(answer, 200, tag_of(found))


def move(context: Context, request: Request) -> Answer:
    """Moves or renames a file or a directory with all it holds."""
    source, target = place(request.body.src_path), creatable(place(request.body.dst_path))
    space = changing(context, request)
    moved = space.move(source, target, parents=True, key=request.key)
    return json(current(space, target, moved, request.params["session"]))


def copy(context: Context, request: Request) -> Answer:
    """Copies a file."""
    source, target = place(request.body.src_path), creatable(place(request.body.dst_path))
    space = changing(context, request)
    made = space.copy(source, target, parents=True, key=request.key)
    return json(current(space, target, made, request.params["session"]), 201)


def grep(context: Context, request: Request) -> Answer:
    """The lines in which a pattern is found, file by file; files that are no text are left out."""
    body = request.body
    space = context.space(request.params["agent"], request.params["session"], request.until_ns)
    found = space.grep(body.pattern, ROOT, body.path_pattern or None)
    files, cut = _grouped(found)
    return json(GrepAnswer(files, truncated=cut or UNSET))


def _grouped(found: Iterable[Match]) -> tuple[list[GrepFile], bool]:
    files: list[GrepFile] = []
    lines = size = 0
    for parts, matches in groupby(found, key=lambda match: match.path):
        path = str(VPath(parts))
        files.append(GrepFile(path, []))
        for match in matches:
            lines, size = lines + 1, size + len(match.line)
            if lines > MAX_LINES or size > MAX_LINE_BYTES:
                return files, True
            files[-1].matches.append(GrepLine(path, match.line_number, match.line))
    return files, False
