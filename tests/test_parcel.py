"""Exports and imports as a caller says them; the formats have tests of their own."""

from __future__ import annotations

import io
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest

from keelfs import errors, ops
from keelfs.memory import MemorySpace
from keelfs.workspace import Workspace


@pytest.fixture
def ws() -> Workspace:
    ws = Workspace(MemorySpace())
    ws.batch([ops.Write("/d/a.txt", "one"), ops.Write("/d/e/b.txt", "two")])
    return ws


def tree(ws: Workspace, path: str = "/") -> dict[str, bytes | None]:
    return {
        name: ws.read(f"{path}/{name}") if stat.is_file else None for name, stat in ws.walk(path)
    }


TREE = {"a.txt": b"one", "e": None, "e/b.txt": b"two"}


@pytest.mark.parametrize("name", ["out", "out.tar", "out.tar.gz", "out.tgz", "OUT.ZIP"])
def test_a_tree_goes_out_and_comes_back(ws: Workspace, tmp_path: Path, name: str) -> None:
    told: list[tuple[int, int]] = []
    done = ws.export(tmp_path / name, "/d", progress=lambda *so_far: told.append(so_far))
    assert (done.files, done.bytes, told[-1]) == (2, 6, (2, 6))
    assert (tmp_path / name).is_dir() == (name == "out")
    other = Workspace(MemorySpace())
    assert other.import_(str(tmp_path / name), "/back").files == 2
    assert tree(other, "/back") == TREE


def test_a_name_ending_in_gz_is_packed(ws: Workspace, tmp_path: Path) -> None:
    ws.export(tmp_path / "out.tar.gz")
    assert (tmp_path / "out.tar.gz").read_bytes()[:2] == b"\x1f\x8b"


@pytest.mark.parametrize("form", [None, "tar", "zip"])
def test_file_objects_and_bytes_will_do(ws: Workspace, form: Any) -> None:
    file = io.BytesIO()
    ws.export(file, "/d", form)
    data = file.getvalue()
    assert zipfile.is_zipfile(io.BytesIO(data)) == (form == "zip")
    assert tarfile.is_tarfile(io.BytesIO(data)) == (form != "zip")
    for source in (data, io.BytesIO(data)):
        other = Workspace(MemorySpace())
        other.import_(source)
        assert tree(other) == TREE


def test_what_cannot_seek_is_a_tar(ws: Workspace) -> None:
    class Pipe(io.RawIOBase):
        def __init__(self, data: bytes) -> None:
            self._data = io.BytesIO(data)

        def read(self, size: int = -1, /) -> bytes:
            return self._data.read(size)

    for form in ("tar", "zip"):
        file = io.BytesIO()
        ws.export(file, "/d", form)  # type: ignore[arg-type]
        other = Workspace(MemorySpace())
        if form == "tar":
            other.import_(Pipe(file.getvalue()))  # type: ignore[arg-type]
            assert tree(other) == TREE
        else:
            with pytest.raises(errors.InvalidArgument, match="seek"):
                other.import_(Pipe(file.getvalue()), "/x", "zip")  # type: ignore[arg-type]


def test_replacing_is_asked_for(ws: Workspace, tmp_path: Path) -> None:
    ws.export(tmp_path / "out", "/d")
    ws.write("/d/a.txt", "mine")
    with pytest.raises(errors.AlreadyExists) as caught:
        ws.import_(tmp_path / "out", "d")
    assert (caught.value.path, ws.read("/d/a.txt")) == ("d", b"mine")
    ws.import_(tmp_path / "out", "d", replace=True)
    assert tree(ws, "/d") == TREE


def test_files_of_the_host_are_not_written_over(ws: Workspace, tmp_path: Path) -> None:
    target = tmp_path / "out.tar"
    target.write_bytes(b"precious")
    with pytest.raises(errors.AlreadyExists):
        ws.export(target)
    assert target.read_bytes() == b"precious"


def test_an_export_that_fails_leaves_no_file(ws: Workspace, tmp_path: Path) -> None:
    with pytest.raises(errors.NotFound) as caught:
        ws.export(tmp_path / "out.tar", "missing")
    assert (caught.value.path, list(tmp_path.iterdir())) == ("missing", [])


@pytest.mark.parametrize(
    "call",
    [
        lambda ws: ws.export(5),
        lambda ws: ws.export(io.BytesIO(), "/", "rar"),
        lambda ws: ws.export(io.BytesIO(), "/", "folder"),
        lambda ws: ws.export("no/such/folder/x.tar"),
        lambda ws: ws.export("a\0b.tar"),
        lambda ws: ws.import_(5),
        lambda ws: ws.import_("no/such/archive.tar"),
        lambda ws: ws.import_(b"", "/", "folder"),
        lambda ws: ws.import_(b"no archive at all" * 100),
        lambda ws: ws.import_(b"", replace="yes"),
    ],
)
def test_a_mistake_is_answered_with_what_to_pass(ws: Workspace, call: Any) -> None:
    before = list(ws.walk())
    with pytest.raises(errors.Invalid) as caught:
        call(ws)
    assert len(caught.value.message) > 15
    assert list(ws.walk()) == before
