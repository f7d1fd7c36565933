"""File objects over a workspace."""

from __future__ import annotations

import csv
import gc
import io
import warnings
import zipfile
from typing import Any

import pytest

from keelfs import errors
from keelfs.filehandle import SPOOL
from keelfs.memory import MemorySpace
from keelfs.model import ANY, Limits
from keelfs.workspace import Workspace


@pytest.fixture
def ws() -> Workspace:
    return Workspace(MemorySpace())


def test_reading_is_pinned_and_seekable(ws: Workspace) -> None:
    ws.write("/a", b"0123456789")
    with ws.open("/a", "rb") as file:
        ws.write("/a", b"changed")
        assert file.read(3) == b"012"
        assert (file.seek(-2, io.SEEK_END), file.read()) == (8, b"89")
        assert (file.seek(2), file.seek(3, io.SEEK_CUR), file.read(1)) == (2, 5, b"5")
        assert (file.seek(50), file.read(), file.tell()) == (50, b"", 50)
        assert (file.readable(), file.seekable(), file.writable()) == (True, True, False)
        with pytest.raises(io.UnsupportedOperation):
            file.write(b"x")  # type: ignore[attr-defined]
        for wrong in ((-1, 0), (-11, 2), (0, 9)):
            with pytest.raises((errors.InvalidArgument, ValueError)):
                file.seek(*wrong)
    with pytest.raises(ValueError):
        file.read()


def test_text_keeps_its_line_ends(ws: Workspace) -> None:
    ws.write("/a", "eins\r\nzwei\nüber")
    with ws.open("/a") as file:
        assert list(file) == ["eins\r\n", "zwei\n", "über"]
    with ws.open("/a", newline=None) as file:
        assert file.read() == "eins\nzwei\nüber"
    with ws.open("/b", "w", encoding="utf-16") as file:
        file.write("x\r\n")
    assert ws.read_text("/b", "utf-16") == "x\r\n"


def test_large_files_are_read_in_blocks(ws: Workspace) -> None:
    data = bytes(range(256)) * 4096 * 2
    ws.write("/a", data)
    with ws.open("/a", "rb") as file:
        assert file.read() == data
        file.seek(1_000_001)
        assert file.read(70_000) == data[1_000_001:1_070_001]
        file.raw.seek(7)
        assert file.raw.readall() == data[7:]


def test_what_is_written_appears_whole_on_closing(ws: Workspace) -> None:
    ws.write("/a", b"old")
    with ws.open("/a", "wb") as file:
        file.write(b"ne")
        file.flush()
        assert ws.read("/a") == b"old"
        file.write(b"w")
    assert ws.read("/a") == b"new"
    assert file.stat == ws.stat("/a")
    file.close()
    assert ws.stat("/a").revision == 2


@pytest.mark.parametrize("size", [0, 5, SPOOL, SPOOL + 1, 3 * SPOOL + 7])
def test_any_size_is_written(ws: Workspace, size: int) -> None:
    data = (b"0123456789abcdef" * (size // 16 + 1))[:size]
    with ws.open("/deep/a", "wb") as file:
        file.write(data)
    assert ws.read("/deep/a") == data


@pytest.mark.parametrize("mode", ["w", "wb", "a", "ab", "x", "xb", "r+", "r+b", "w+b"])
def test_an_exception_commits_nothing(ws: Workspace, mode: str) -> None:
    path = "/new" if mode.startswith("x") else "/a"
    ws.write("/a", "old")
    with pytest.raises(KeyError), ws.open(path, mode) as file:
        file.write(b"new" if "b" in mode else "new")  # type: ignore[arg-type]
        raise KeyError
    assert file.closed
    assert ws.read("/a") == b"old"
    assert not ws.exists("/new")


@pytest.mark.parametrize("mode", ["w", "wb", "ab", "r+", "r+b"])
def test_discarding_and_forgetting_commit_nothing(ws: Workspace, mode: str) -> None:
    ws.write("/a", "old")
    file: Any = ws.open("/a", mode)
    file.write(b"new" if "b" in mode else "new")
    file.discard()
    file.discard()
    file.close()
    assert ws.read("/a") == b"old"
    file = ws.open("/a", mode)
    file.write(b"new" if "b" in mode else "new")
    with pytest.warns(ResourceWarning, match="nothing was committed"):
        del file
        gc.collect()
    assert ws.read("/a") == b"old"


def test_a_closed_file_is_forgotten_in_silence(ws: Workspace) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        file = ws.open("/a", "w")
        file.write("x")
        file.close()
        del file
        gc.collect()
    assert ws.read("/a") == b"x"


def test_appending_adds_to_whatever_is_there_at_the_end(ws: Workspace) -> None:
    with ws.open("/a", "a") as one, ws.open("/a", "ab") as two:
        one.write("one")
        two.write(b"two")
        ws.append("/a", b"zero")
    assert ws.read("/a") == b"zerotwoone"
    with ws.open("/a", "ab") as file, pytest.raises(io.UnsupportedOperation):
        file.seek(0)
    with ws.open("/b", "a"):
        pass
    assert ws.read("/b") == b""


def test_exclusive_creation_conflicts_early_and_late(ws: Workspace) -> None:
    with ws.open("/a", "x") as file:
        file.write("mine")
    with pytest.raises(errors.Conflict) as caught:
        ws.open("/a", "xb")
    assert caught.value.path == "/a"
    with pytest.raises(errors.Conflict) as caught, ws.open("./b", "xb") as late:
        ws.write("/b", "theirs")
        late.write(b"mine")
    assert (ws.read("/b"), caught.value.path, late.closed) == (b"theirs", "./b", True)


def test_a_file_is_changed_in_place(ws: Workspace) -> None:
    ws.write("/a", b"0123456789", mime="text/x", mode=0o600)
    with ws.open("/a", "r+b") as file:
        assert file.read(2) == b"01"
        file.write(b"AB")
        file.seek(8)
        file.write(b"CDEF")
        assert (file.seek(0), file.read()) == (0, b"01AB4567CDEF")
        file.truncate(6)
        file.seek(-1, io.SEEK_END)
        file.write(b"!")
    assert ws.read("/a") == b"01AB4!"
    stat = ws.stat("/a")
    assert (stat.mime, stat.mode, stat.revision) == ("text/x", 0o600, 2)
    with ws.open("/a", "r+") as text:
        text.write("x")
    assert ws.read("/a") == b"x1AB4!"


@pytest.mark.parametrize("size", [10, SPOOL + 10])
def test_truncating_grows_by_zeros(ws: Workspace, size: int) -> None:
    ws.write("/a", b"abc")
    with ws.open("/a", "r+b") as file:
        file.truncate(size)
        file.seek(size + 5)
        file.write(b"end")
    assert ws.read("/a") == b"abc" + b"\0" * (size + 2) + b"end"


def test_reading_alone_commits_nothing(ws: Workspace) -> None:
    ws.write("/a", b"abc")
    with ws.open("/a", "r+b") as file:
        file.read()
    assert ws.stat("/a").revision == 1


def test_a_change_in_between_is_a_conflict_unless_it_does_not_matter(ws: Workspace) -> None:
    ws.write("/a", b"abc")
    with pytest.raises(errors.Conflict), ws.open("/a", "r+b") as file:
        ws.write("/a", b"theirs")
        file.write(b"X")
    assert ws.read("/a") == b"theirs"
    with ws.open("/a", "r+b", expect=ANY) as file:
        ws.write("/a", b"others")
        file.write(b"X")
    assert ws.read("/a") == b"Xheirs"
    with pytest.raises(errors.Conflict), ws.open("/a", "wb", expect=1) as written:
        written.write(b"late")


def test_a_refused_commit_frees_the_file() -> None:
    ws = Workspace(MemorySpace(limits=Limits(file_bytes=10)))
    with pytest.raises(errors.TooLarge) as caught, ws.open("/a", "wb") as file:
        file.write(b"x" * 11)
    assert (caught.value.path, file.closed, ws.exists("/a")) == ("/a", True, False)
    with pytest.raises(ValueError):
        file.write(b"x")


def test_the_standard_library_works_with_them(ws: Workspace) -> None:
    with ws.open("/t.csv", "w") as file:
        csv.writer(file).writerows([["a", "b\nc"], ["d", "e"]])
    with ws.open("/t.csv") as file:
        assert list(csv.reader(file)) == [["a", "b\nc"], ["d", "e"]]
    with ws.open("/t.zip", "w+b") as packed, zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("inner", "x" * 1000)
    with ws.open("/t.zip", "rb") as packed, zipfile.ZipFile(packed) as archive:
        assert archive.read("inner") == b"x" * 1000
