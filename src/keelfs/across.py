"""The verbs that go across a whole tree: searching it, and carrying it out and in.

They read page by page and block by block, so that memory is bounded whatever the tree holds. What
they find is told relative to the directory that was asked about. Who calls: everybody, as verbs of
a workspace.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from keelfs.arguments import flag, natural, text
from keelfs.door import Door, Place, named, spelling
from keelfs.model import Match, Stat
from keelfs.path import ROOT, VPath

if TYPE_CHECKING:
    from keelfs.archive import Archived, Bounds, Progress
    from keelfs.parcel import Format, Outside


class Across(Door):
    """A door through which whole trees are seen."""

    def walk(self, path: Place = ROOT) -> Iterator[tuple[str, Stat]]:
        """Everything below `path`: a directory before what it holds, names by their bytes.

        Paths are relative to `path`; links are not followed.
        """
        from keelfs import search

        def begin(base: VPath) -> Iterator[tuple[str, Stat]]:
            return (("/".join(parts), stat) for parts, stat in search.walk(self._handler, base))

        return named(path, begin)

    def glob(self, pattern: str, path: Place = ROOT) -> Iterator[str]:
        """The paths, relative to `path`, that match; `**` stands for any directories.

        A pattern without "/" is matched against names at any depth.
        """
        from keelfs import search

        def begin(base: VPath) -> Iterator[str]:
            text("pattern", pattern)
            return ("/".join(parts) for parts, _ in search.glob(self._handler, pattern, base))

        return named(path, begin)

    def grep(
        self, pattern: str, path: Place = ROOT, glob: str | None = None, *, fixed: bool = False,
        case_sensitive: bool = True, limit: int | None = None,
    ) -> Iterator[Match]:  # fmt: skip
        """The lines in which an RE2 pattern (or, with `fixed`, a text) is found, in order."""
        from keelfs import search

        def begin(base: VPath) -> Iterator[Match]:
            text("pattern", pattern)
            text("glob", glob or "")
            flag("fixed", fixed)
            flag("case_sensitive", case_sensitive)
            natural("limit", limit or 0)
            return search.grep(
                self._handler, pattern, base, glob, fixed=fixed, case_sensitive=case_sensitive,
                limit=limit,
            )  # fmt: skip

        return named(path, begin)

    def export(
        self, to: Outside, path: Place = ROOT, format: Format | None = None, *,
        progress: Progress | None = None,
    ) -> Archived:  # fmt: skip
        """Writes what lies below `path` into a new folder or archive of the host, or a file object.

        The name decides: `.tar`, `.tar.gz` and `.zip` are archives, everything else is a folder; a
        file object is given a tar, unless `format` says "zip". What exists is not written over.
        """
        from keelfs import parcel

        return spelling(path, lambda base: parcel.export(self._handler, base, to, format, progress))

    def import_(
        self, source: Outside | bytes, path: Place = ROOT, format: Format | None = None, *,
        replace: bool = False, bounds: Bounds | None = None, progress: Progress | None = None,
    ) -> Archived:  # fmt: skip
        """Reads a folder, a tar (packed or not) or a zip into a directory: all of it or nothing.

        `replace` decides about files that are there already; `bounds` about archives that unfold
        to more than anybody wants. Nothing is ever extracted to the host.
        """
        from keelfs import parcel

        flag("replace", replace)
        return spelling(
            path,
            lambda base: parcel.import_(
                self._handler, base, source, format, replace=replace, bounds=bounds,
                progress=progress,
            ),
        )  # fmt: skip
