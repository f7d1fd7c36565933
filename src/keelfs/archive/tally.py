"""Counts what an export or import has done, for its caller and for the answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from msgspec import Struct, field

#: Called with the files and bytes done so far: after each file, and within large ones.
Progress = Callable[[int, int], None]

#: Names of skipped entries that are kept; beyond, they are only counted.
_MAX_NAMED: Final = 1000


class Archived(Struct, frozen=True, kw_only=True):
    """What an export or import has done."""

    files: int
    directories: int
    links: int
    bytes: int
    #: What was left out and why; `skipped_count` counts also those that are not named here.
    skipped: list[tuple[str, str]] = field(default_factory=lambda: list[tuple[str, str]]())
    skipped_count: int = 0


class Tally:
    """The count while it is under way."""

    def __init__(self, progress: Progress | None) -> None:
        self._progress = progress
        self.files = self.directories = self.links = self.bytes = self.skipped_count = 0
        self._skipped: list[tuple[str, str]] = []

    def file(self) -> None:
        self.files += 1
        self._tell()

    def counted(self, blocks: Iterable[bytes]) -> Iterator[bytes]:
        """The same blocks, counted as they pass."""
        for number, block in enumerate(blocks):
            self.bytes += len(block)
            yield block
            if number % 32 == 31:
                self._tell()

    def skip(self, name: str, reason: str) -> None:
        self.skipped_count += 1
        if len(self._skipped) < _MAX_NAMED:
            self._skipped.append((name, reason))

    def _tell(self) -> None:
        if self._progress is not None:
            self._progress(self.files, self.bytes)

    def done(self) -> Archived:
        return Archived(
            files=self.files,
            directories=self.directories,
            links=self.links,
            bytes=self.bytes,
            skipped=self._skipped,
            skipped_count=self.skipped_count,
        )
