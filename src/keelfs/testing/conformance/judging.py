"""The contract of judges, who see a tree as it would be."""

from __future__ import annotations

from typing import Any

import pytest

from keelfs.errors import (
    ValidationFailed,
)
from keelfs.ops import (
    Append,
    Batch,
    Copy,
    Judged,
    Link,
    Mkdir,
    Move,
    Op,
    Read,
    Restore,
    Symlink,
    Write,
)
from keelfs.path import parse
from keelfs.testing.conformance.frame import Frame, needs, refused
from keelfs.testing.portrait import Perform


def touched(fs: Perform, op: Op[Any]) -> list[tuple[str, ...]]:
    """What a judge is told that an operation touched."""
    seen: list[tuple[str, ...]] = []
    fs(Judged(op, lambda _, paths: seen.extend(paths)))
    return seen


@needs("judges")
class Judges(Frame):
    """A judge sees the tree as it would be, before it is."""

    @pytest.mark.parametrize(
        ("op", "path"),
        [
            (Write("/n", "x"), "n"), (Write("/a", "x"), "a"), (Append("/a", "x"), "a"),
            (Copy("/a", "/n"), "n"), (Copy("/d", "/n", recursive=True), "n"),
            (Move("/a", "/n"), "n"), (Move("/d", "/n"), "n"),
            (Copy("/d/b", "/a", replace=True), "a"), (Mkdir("/n"), "n"),
            (Batch((Write("/d/x", "1"), Move("/d/x", "/n"))), "n"),
        ],
    )  # fmt: skip
    def test_touched(self, fs: Perform, op: Op[Any], path: str) -> None:
        """Whatever changes bytes or places is told."""
        fs(Write("/a", "1"))
        fs(Write("/d/b", "2"))
        assert (path,) in touched(fs, op)

    def test_untouched(self, fs: Perform) -> None:
        """What was changed in an earlier transaction is not told."""
        fs(Write("/a", "1"))
        assert touched(fs, Write("/b", "1")) == [("b",)]
        assert touched(fs, Read("/a")) == []

    @needs("hard_links")
    def test_all_names_are_touched(self, fs: Perform) -> None:
        """A change under one name touches the others."""
        fs(Write("/a", "1"))
        fs(Link("/a", "/d/b", parents=True))
        assert sorted(touched(fs, Append("/a", "x"))) == [("a",), ("d", "b")]

    @needs("symlinks")
    def test_touched_is_canonical(self, fs: Perform) -> None:
        """A change through a link touches what the link leads to."""
        fs(Write("/d/a", "1"))
        fs(Symlink("d/a", "/l"))
        assert touched(fs, Write("/l", "x")) == [("d", "a")]

    @needs("history")
    def test_restore_and_untrash_are_touched(self, fs: Perform) -> None:
        """Bytes that come back are judged like bytes that come in."""
        fs(Write("/a", "1"))
        fs(Write("/a", "2"))
        assert touched(fs, Restore("/a", 1)) == [("a",)]

    def test_a_judge_refuses_everything(self, fs: Perform) -> None:
        """What a judge refuses did not happen."""

        def refuse(_volume: object, _touched: object) -> None:
            raise ValidationFailed("no")

        with refused(fs, ValidationFailed):
            fs(Judged(Batch((Write("/a", "x"), Write("/b", "x"))), refuse))

    def test_a_judge_reads_what_would_be(self, fs: Perform) -> None:
        """The judge reads the final bytes."""
        seen: list[bytes] = []

        def look(volume: Any, _touched: object) -> None:
            seen.append(volume.open(parse("/a"), None).read(0, 99))

        fs(Write("/a", "old"))
        fs(Judged(Append("/a", "+new"), look))
        assert seen == [b"old+new"]
