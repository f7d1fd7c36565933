"""What goes into an archive comes out of it; what an archive must not do, it cannot."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import socket
import tarfile
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keelfs import ops
from keelfs.archive import (
    Archived,
    Bounds,
    export_folder,
    export_tar,
    export_zip,
    import_folder,
    import_tar,
    import_zip,
)
from keelfs.errors import (
    AlreadyExists,
    InvalidArgument,
    InvalidPath,
    IsADirectory,
    KeelError,
    NotADirectory,
    NotEmpty,
    TooLarge,
    Unsupported,
)
from keelfs.gates.mounts import Mounts
from keelfs.memory import MemorySpace
from keelfs.model import Attrs, Kind, Limits
from keelfs.path import ROOT, VPath, parse
from keelfs.ports import Handler
from keelfs.search import walk
from keelfs.volumes.host import HostFolder

AT = parse("/in")
NS = 1_700_000_000_123_456_789


def tree(handler: Handler, path: VPath = ROOT, coarse: bool = False) -> dict[str, object]:
    """Everything an archive should keep of a tree."""
    found: dict[str, object] = {}
    groups: dict[bytes, str] = {}
    for parts, stat in walk(handler, path):
        name = "/".join(parts)
        data = handler.perform(ops.Read(path.join(VPath(parts)))) if stat.is_file else None
        kept = (stat.kind, data, stat.target, stat.mode, stat.mtime_ns // (10**9 if coarse else 1))
        same = groups.setdefault(stat.id, name)
        found[name] = (
            kept if coarse else (*kept, stat.xattrs, stat.readonly, stat.mime, same)
        )  # fmt: skip
    return found


def sample() -> MemorySpace:
    space = MemorySpace()
    for path, data in {
        "/a.txt": b"hello",
        "/empty": b"",
        "/dir/deep/er/file.bin": bytes(range(256)) * 5000,
        "/dir/é\n\"'%= name": b"odd",
        "/dir/" + "n" * 255: b"long",
    }.items():
        space.perform(ops.Write(path, data))
    space.perform(ops.Mkdir("/dir/nothing", mode=0o700))
    space.perform(ops.Symlink("../a.txt", "/dir/link"))
    space.perform(ops.Symlink("/etc/passwd", "/absolute"))
    space.perform(ops.Symlink("x" * 300, "/dangling"))
    space.perform(ops.Link("/a.txt", "/dir/second"))
    space.perform(
        ops.SetAttrs("/a.txt", Attrs(mode=0o640, xattrs={"user.k=%": b"\0\xff\n", "user.e": b""}))
    )
    space.perform(ops.SetAttrs("/empty", Attrs(readonly=True, mime="text/x-keel")))
    for at, (parts, _) in enumerate(reversed(list(walk(space)))):
        attrs = Attrs(mtime_ns=NS + at * 1_000_000_001)
        space.perform(ops.SetAttrs(VPath(parts), attrs, follow=False))
    space.perform(ops.SetAttrs("/dir/deep", Attrs(mtime_ns=-500_000_000)))
    return space


def test_a_tree_goes_through_tar_and_comes_out_the_same() -> None:
    space, packed, other = sample(), io.BytesIO(), MemorySpace()
    done = export_tar(space, ROOT, packed)
    assert (done.files, done.directories, done.links) == (5, 4, 4)
    assert done.bytes == sum(s.size for _, s in walk(space) if s.is_file) - len("hello")
    packed.seek(0)
    assert import_tar(other, AT, packed) == done
    assert tree(other, AT) == tree(space)
    assert next(parts for parts, _ in walk(other)) == ("in",)


def test_the_system_reads_our_archives_and_we_read_its(tmp_path: Path) -> None:
    space, packed = sample(), tmp_path / "ours.tar"
    with packed.open("wb") as file:
        export_tar(space, ROOT, file)
    with tarfile.open(packed) as tar:
        assert sorted(tar.getnames()) == sorted("/".join(parts) for parts, _ in walk(space))
    folder = tmp_path / "folder"
    (folder / "sub").mkdir(parents=True)
    (folder / "sub" / "x").write_bytes(b"x" * 3000)
    for form in (tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT, tarfile.PAX_FORMAT):
        theirs = io.BytesIO()
        with tarfile.open(fileobj=theirs, mode="w", format=form) as tar:
            tar.add(folder, arcname=".")
        theirs.seek(0)
        other = MemorySpace()
        import_tar(other, AT, theirs)
        assert other.perform(ops.Read("/in/sub/x")) == b"x" * 3000


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
def test_packed_archives_are_recognised(pack: Callable[[bytes], bytes]) -> None:
    packed, other = io.BytesIO(), MemorySpace()
    export_tar(sample(), ROOT, packed)

    class Dripping:
        """A source that gives a few bytes at a time and cannot seek."""

        def __init__(self, data: bytes) -> None:
            self._data = io.BytesIO(data)

        def read(self, size: int) -> bytes:
            return self._data.read(min(size, 1000))

    import_tar(other, AT, Dripping(pack(packed.getvalue())))
    assert tree(other, AT) == tree(sample())
    with pytest.raises(InvalidArgument):
        import_tar(other, parse("/x"), io.BytesIO(pack(packed.getvalue())[:-9]))


_NAMES = st.sampled_from(["a", "b", "_%", "é", ".h", "a b", "x\ny", "0" * 120])
_TREES = st.dictionaries(
    st.lists(_NAMES, min_size=1, max_size=4).map(tuple),
    st.binary(max_size=600) | st.sampled_from([None, "../a", "/b", "nowhere"]),
    max_size=8,
)


@given(_TREES, st.integers(0, 2**62))
@settings(max_examples=60, deadline=None)
def test_any_tree_survives_tar(made: dict[tuple[str, ...], bytes | str | None], at: int) -> None:
    space, packed, other = MemorySpace(), io.BytesIO(), MemorySpace()
    for parts, what in made.items():
        path = VPath(parts)
        try:
            match what:
                case None:
                    space.perform(ops.Mkdir(path, parents=True))
                case str():
                    space.perform(ops.Symlink(what, path, parents=True))
                case _:
                    space.perform(ops.Write(path, what))
            space.perform(ops.SetAttrs(path, Attrs(mtime_ns=at), follow=False))
        except KeelError:
            continue
    export_tar(space, ROOT, packed)
    packed.seek(0)
    import_tar(other, AT, packed)
    assert tree(other, AT) == tree(space)


def test_a_tree_goes_through_zip_and_keeps_what_zip_can_keep() -> None:
    space, packed, other = sample(), io.BytesIO(), MemorySpace()
    done = export_zip(space, ROOT, packed)
    assert (done.files, done.directories, done.links) == (6, 4, 3)
    assert import_zip(other, AT, packed) == done
    assert tree(other, AT, coarse=True) == tree(space, coarse=True)
    with zipfile.ZipFile(packed) as archive:
        assert archive.testzip() is None


def test_zip_archives_of_others() -> None:
    packed, other = io.BytesIO(), MemorySpace()
    with zipfile.ZipFile(packed, "w") as archive:
        dos = zipfile.ZipInfo("a/b.txt", (1999, 12, 31, 23, 59, 58))
        dos.create_system = 0
        archive.writestr(dos, b"dos")
        archive.writestr("top", b"now")
    import_zip(other, AT, packed)
    stat = other.perform(ops.GetStat("/in/a/b.txt"))
    assert (stat.mode, stat.mtime_ns) == (0o644, 946684798 * 10**9)


def test_one_file_is_an_archive_of_one_member() -> None:
    space, packed, other = sample(), io.BytesIO(), MemorySpace()
    export_tar(space, parse("/a.txt"), packed)
    packed.seek(0)
    import_tar(other, AT, packed)
    assert list(tree(other, AT)) == ["a.txt"]


def test_special_files_are_left_out_and_named() -> None:
    space = MemorySpace()
    space.perform(ops.Mknod("/pipe", Kind.FIFO))
    assert export_tar(space, ROOT, io.BytesIO()).skipped == [("pipe", "a special file")]
    assert export_zip(space, ROOT, io.BytesIO()).skipped_count == 1


# --- what is refused


def tar_of(*members: tuple[str, bytes, str | bytes]) -> io.BytesIO:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w", format=tarfile.PAX_FORMAT, encoding="utf-8") as tar:
        for name, kind, what in members:
            info = tarfile.TarInfo(name)
            info.type = kind
            if isinstance(what, str):
                info.linkname = what
                tar.addfile(info)
            else:
                info.size = len(what)
                tar.addfile(info, io.BytesIO(what))
    made.seek(0)
    return made


REG, LNK, SYM, DIR = tarfile.REGTYPE, tarfile.LNKTYPE, tarfile.SYMTYPE, tarfile.DIRTYPE


@pytest.mark.parametrize(
    ("member", "error"),
    [
        (("/etc/x", REG, b""), InvalidPath),
        (("a/../../x", REG, b""), InvalidPath),
        (("..", DIR, b""), InvalidPath),
        (("n" * 256, REG, b""), InvalidPath),
        (("d/" * 2500 + "x", REG, b""), InvalidPath),
        ((b"bad\xff".decode("utf-8", "surrogateescape"), REG, b""), InvalidPath),
        (("link", SYM, b"bad\xff".decode("utf-8", "surrogateescape")), InvalidPath),
        (("device", tarfile.CHRTYPE, b""), InvalidArgument),
        (("device", tarfile.BLKTYPE, b""), InvalidArgument),
        (("pipe", tarfile.FIFOTYPE, b""), InvalidArgument),
        (("second", LNK, "../outside"), InvalidPath),
        (("second", LNK, "/outside"), InvalidPath),
        (("second", LNK, "outside"), InvalidArgument),
        (("sparse", tarfile.GNUTYPE_SPARSE, b""), InvalidArgument),
    ],
)
def test_a_bad_member_refuses_the_whole_archive(
    member: tuple[str, bytes, str | bytes], error: type[KeelError]
) -> None:
    space = MemorySpace()
    space.perform(ops.Write("/outside", "mine"))
    before = tree(space)
    with pytest.raises(error) as caught:
        import_tar(space, AT, tar_of(("good", REG, b"good"), member))
    assert type(caught.value) is error or error is InvalidPath
    assert tree(space) == before


def test_no_member_lands_outside_through_a_link() -> None:
    space = MemorySpace()
    space.perform(ops.Write("/outside/f", "mine"))
    for target in ("/outside", "../outside", "/in/../outside"):
        for kind, what in ((REG, b"theirs"), (LNK, "good")):
            packed = tar_of(
                ("good", REG, b"good"), ("link", SYM, target), ("link/f", kind, what)
            )  # fmt: skip
            with pytest.raises(KeelError):
                import_tar(space, AT, packed)
            packed.seek(0)
            with pytest.raises(KeelError):
                import_tar(space, ROOT, packed)
    assert list(tree(space)) == ["outside", "outside/f"]
    assert space.perform(ops.Read("/outside/f")) == b"mine"
    import_tar(space, AT, tar_of(("d/x", REG, b"x"), ("l", SYM, "/d"), ("l/y", REG, b"y")))
    assert space.perform(ops.Read("/in/d/y")) == b"y"


def test_privileges_of_an_archive_are_not_taken_over() -> None:
    packed, space = io.BytesIO(), MemorySpace()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        info = tarfile.TarInfo("su")
        info.mode, info.uid = 0o7755, 0
        tar.addfile(info)
    packed.seek(0)
    import_tar(space, AT, packed)
    assert space.perform(ops.GetStat("/in/su")).mode == 0o1755


def test_bombs_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    space = MemorySpace()
    zeros = tar_of(*((f"f{at}", REG, bytes(2**20)) for at in range(6)))
    with pytest.raises(TooLarge, match="bytes"):
        import_tar(space, AT, zeros, bounds=Bounds(max_bytes=6 * 2**20 - 1))
    zeros.seek(0)
    import_tar(space, parse("/fits"), zeros, bounds=Bounds(max_bytes=6 * 2**20))
    zeros.seek(0)
    with pytest.raises(TooLarge, match="members"):
        import_tar(space, AT, zeros, bounds=Bounds(max_entries=5))
    monkeypatch.setattr("keelfs.archive.landing._INNOCENT_BYTES", 2**20)
    packed = io.BytesIO(bz2.compress(zeros.getvalue()))
    with pytest.raises(TooLarge, match="times"):
        import_tar(space, AT, packed)
    packed.seek(0)
    import_tar(space, parse("/known"), packed, bounds=Bounds(max_ratio=None))
    squeezed = io.BytesIO()
    with zipfile.ZipFile(squeezed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("zeros", bytes(3 * 2**20))
    with pytest.raises(TooLarge, match="times"):
        import_zip(space, AT, squeezed)
    assert [parts for parts, _ in walk(space) if len(parts) == 1] == [("fits",), ("known",)]


def pax(records: bytes, kind: bytes = tarfile.XHDTYPE) -> io.BytesIO:
    info = tarfile.TarInfo("header")
    info.type, info.size = kind, len(records)
    header = info.tobuf(tarfile.USTAR_FORMAT)
    return io.BytesIO(header + records + bytes(-len(records) % 512) + tar_of().read())


@pytest.mark.parametrize(
    "records",
    [
        b"2 " * 30_000 + b"=\n",
        b"9" * 5000 + b" a=b\n",
        b"5 a=b",
        b"0 a=b\n",
        b"".join(b"11 k%04d=v\n" % (at % 10_000) for at in range(3000)),
        b"x" * (2**20 + 1),
    ],
)
def test_hostile_headers_are_refused_at_once(records: bytes) -> None:
    for kind in (tarfile.XHDTYPE, tarfile.XGLTYPE):
        with pytest.raises(KeelError):
            import_tar(MemorySpace(), AT, pax(records, kind))


def test_a_chain_of_headers_is_refused() -> None:
    link = pax(b"6 a=b\n", tarfile.XGLTYPE).read()[:1024]
    with pytest.raises(InvalidArgument):
        import_tar(MemorySpace(), AT, io.BytesIO(link * 2000 + tar_of(("x", REG, b"")).read()))


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_damage_never_imports_a_part(data: st.DataObject) -> None:
    """Whatever happens to the bytes: a typed error and nothing there, or a whole tree."""
    big = bytes(range(256)) * 8
    whole = tar_of(("d", DIR, b""), ("d/f", REG, big), ("l", SYM, "d"), ("z", REG, b"z" * 600))
    archive = bytearray(whole.read()[: 512 * 11])
    for _ in range(data.draw(st.integers(0, 3))):
        archive[data.draw(st.integers(0, len(archive) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.just(len(archive)) | st.integers(0, len(archive)))
    space = MemorySpace()
    try:
        done = import_tar(space, AT, io.BytesIO(bytes(archive[:cut])))
    except KeelError:
        assert not tree(space)
    else:
        # The end mark is two blocks of zeros, and one of them was read.
        assert cut > 512 * 9
        assert done.files + done.directories + done.links == 4


@given(st.data())
@settings(max_examples=100, deadline=None)
def test_damaged_zip_archives_raise_typed_errors(data: st.DataObject) -> None:
    packed = io.BytesIO()
    export_zip(sample_small(), ROOT, packed)
    archive = bytearray(packed.getvalue())
    for _ in range(data.draw(st.integers(1, 3))):
        archive[data.draw(st.integers(0, len(archive) - 1))] = data.draw(st.integers(0, 255))
    space = MemorySpace()
    try:
        import_zip(space, AT, io.BytesIO(bytes(archive)))
    except KeelError:
        assert not tree(space)


def sample_small() -> MemorySpace:
    space = MemorySpace()
    space.perform(ops.Write("/d/f", b"abc" * 40))
    space.perform(ops.Symlink("f", "/d/l"))
    return space


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (lambda info: setattr(info, "filename", "../x"), InvalidPath),
        (lambda info: setattr(info, "filename", "/x"), InvalidPath),
        (lambda info: setattr(info, "external_attr", 0o020666 << 16), InvalidArgument),
        (lambda info: setattr(info, "compress_type", zipfile.ZIP_BZIP2), InvalidArgument),
        (lambda info: setattr(info, "external_attr", 0o120777 << 16), InvalidArgument),
    ],
)
def test_a_bad_zip_member_refuses_the_whole_archive(
    change: Callable[[zipfile.ZipInfo], None], error: type[KeelError]
) -> None:
    packed, space = io.BytesIO(), MemorySpace()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("good", b"good")
        info = zipfile.ZipInfo("bad")
        change(info)
        archive.writestr(info, b"x" * 5000)
    with pytest.raises(error):
        import_zip(space, AT, packed)
    assert not tree(space)


def test_zip_refuses_what_it_cannot_read() -> None:
    class Pipe(io.BytesIO):
        def seekable(self) -> bool:
            return False

    for packed in (io.BytesIO(b""), io.BytesIO(b"PK\5\6"), io.BytesIO(b"x" * 9000), Pipe()):
        with pytest.raises(InvalidArgument):
            import_zip(MemorySpace(), AT, packed)
    name = io.BytesIO()
    with zipfile.ZipFile(name, "w") as archive:
        archive.writestr("nämé", b"")
    broken = name.getvalue().replace("nämé".encode(), b"n\xffm\xfe\xfe\xfe")
    with pytest.raises(KeelError):
        import_zip(MemorySpace(), AT, io.BytesIO(broken))


# --- where an import lands


def test_an_import_merges_into_what_exists() -> None:
    space = MemorySpace()
    space.perform(ops.Write("/in/d/old", "old"))
    space.perform(ops.Write("/in/d/same", "mine"))
    packed = tar_of(("d/same", REG, b"theirs"), ("d/new", REG, b"new"), ("e/x", REG, b"x"))
    before = tree(space, AT)
    with pytest.raises(AlreadyExists):
        import_tar(space, AT, packed)
    assert tree(space, AT) == before
    packed.seek(0)
    import_tar(space, AT, packed, replace=True)
    assert list(tree(space, AT)) == ["d", "d/new", "d/old", "d/same", "e", "e/x"]
    assert space.perform(ops.Read("/in/d/same")) == b"theirs"
    with pytest.raises(IsADirectory):
        import_tar(space, AT, tar_of(("d", REG, b"a file")), replace=True)
    with pytest.raises(NotADirectory):
        import_tar(space, AT, tar_of(("d/old/x", REG, b"")), replace=True)
    with pytest.raises(NotADirectory):
        import_tar(space, parse("/in/d/old"), tar_of())


def test_an_import_makes_the_directories_above() -> None:
    space = MemorySpace()
    with pytest.raises(InvalidPath):
        import_tar(space, parse("/a/b/c"), tar_of(("..", DIR, b"")))
    assert not tree(space)
    import_tar(space, parse("/a/b/c"), tar_of(("x", REG, b"x")))
    assert list(tree(space)) == ["a", "a/b", "a/b/c", "a/b/c/x"]


def test_an_import_lands_in_a_mount() -> None:
    space = MemorySpace()
    composed = Mounts(MemorySpace(), {parse("/m/n"): space})
    import_tar(composed, parse("/m/n"), tar_of(("x", REG, b"x")))
    assert list(tree(space)) == ["x"]


def test_a_limit_of_the_space_leaves_nothing_behind() -> None:
    space = MemorySpace(limits=Limits(bytes=3000))
    with pytest.raises(KeelError):
        import_tar(space, AT, tar_of(*((f"f{at}", REG, b"x" * 500) for at in range(9))))
    assert not tree(space)


def test_progress_is_told() -> None:
    told: list[tuple[int, int]] = []
    packed = io.BytesIO()
    export_tar(sample(), ROOT, packed, lambda *done: told.append(done))
    assert len(told) == 5
    assert told == sorted(told)
    packed.seek(0)
    again: list[tuple[int, int]] = []
    done = import_tar(MemorySpace(), AT, packed, progress=lambda *each: again.append(each))
    assert again[-1] == (done.files, done.bytes) == told[-1]


# --- folders of the host


def test_a_tree_goes_through_a_folder(tmp_path: Path) -> None:
    space, other = sample(), MemorySpace()
    out = tmp_path / "out"
    done = export_folder(space, ROOT, out)
    assert [name for name, _ in done.skipped] == ["absolute"]
    assert (out / "dir/link").readlink() == Path("../a.txt")
    assert (out / "a.txt").stat().st_mtime_ns == space.perform(ops.GetStat("/a.txt")).mtime_ns
    assert (out / "dir/nothing").stat().st_mode & 0o777 == 0o700
    with pytest.raises(NotEmpty):
        export_folder(space, ROOT, out)
    done = import_folder(other, AT, out)
    assert not done.skipped
    expected = tree(space, coarse=True)
    del expected["absolute"]
    assert tree(other, AT, coarse=True) == expected


@pytest.mark.parametrize(
    ("target", "depth", "inside"),
    [
        ("x", 0, True),
        ("..", 0, False),
        ("../x", 1, True),
        ("../../x", 1, False),
        ("d/../x", 2, False),
        ("./../x", 1, True),
        ("/x", 5, False),
    ],
)
def test_links_that_lead_out_are_not_written(
    tmp_path: Path, target: str, depth: int, inside: bool
) -> None:
    space = MemorySpace()
    space.perform(ops.Symlink(target, "/" + "d/" * depth + "link", parents=True))
    done = export_folder(space, ROOT, tmp_path / "out")
    assert (done.links, done.skipped_count) == ((1, 0) if inside else (0, 1))


def test_a_folder_is_read_without_following_anything(tmp_path: Path) -> None:
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "f").write_text("secret")
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "link").symlink_to(tmp_path / "secret")
    (folder / "file").symlink_to(tmp_path / "secret" / "f")
    (folder / "a").write_text("a")
    os.link(folder / "a", folder / "b")
    os.mkfifo(folder / "pipe")
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(folder / "sock"))
    (Path(os.fsdecode(os.fsencode(folder) + b"/bad\xff"))).write_text("")
    space = MemorySpace()
    done = import_folder(space, AT, folder)
    assert sorted(done.skipped) == [
        ("bad\\xff", "its name or target is not UTF-8"),
        ("pipe", "a special file"),
        ("sock", "a special file"),
    ]
    stats = {"/".join(parts): stat for parts, stat in walk(space, AT)}
    assert sorted(stats) == ["a", "b", "file", "link"]
    assert stats["link"].kind is Kind.SYMLINK
    assert stats["a"].id == stats["b"].id


def test_the_host_refuses_in_our_words(tmp_path: Path) -> None:
    space = sample()
    with pytest.raises(KeelError) as caught:
        export_folder(space, ROOT, tmp_path / "none" / "x")
    assert str(tmp_path) not in str(caught.value)
    with pytest.raises(KeelError):
        import_folder(space, AT, tmp_path / "none")
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with pytest.raises(KeelError):
        export_folder(space, ROOT, tmp_path / "link")
    with pytest.raises(NotADirectory):
        export_folder(space, parse("/a.txt"), tmp_path / "file")
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(TooLarge):
        import_folder(MemorySpace(), AT, tmp_path, bounds=Bounds(max_entries=1))
    assert len(os.listdir("/proc/self/fd")) == before


class Endless:
    """Keeps nothing of what is written, and reads as a file of a gibibyte."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.written = 0
        self.space = MemorySpace()
        self.space.perform(ops.Write("/f", "x"))

    def perform(self, op: ops.Op[object], /) -> object:
        match op:
            case ops.Within(op=ops.Write(data=data)) if not isinstance(data, bytes | str):
                for block in data.blocks():
                    self.written += len(block)
                return self.space.perform(ops.Within(ops.Write("/f", "x"), op.base))
            case ops.Open() | ops.List():
                return self._sized(self.space.perform(op))
            case _:
                return self.space.perform(op)

    def _sized(self, answer: object) -> object:
        from msgspec.structs import replace

        from keelfs.model import Entry, Page

        if isinstance(answer, Page):
            return Page(
                [Entry(e.name, replace(e.stat, size=self.size)) for e in answer.items], answer.next
            )

        class Long:
            stat = replace(answer.stat, size=self.size)  # type: ignore[attr-defined]

            def read(self, offset: int, length: int) -> bytes:
                return bytes(min(length, self.stat.size - offset))

        return Long()


def test_a_large_file_passes_in_little_memory() -> None:
    size = 96 * 2**20
    endless: Handler = Endless(size)  # type: ignore[assignment]

    class Sink(io.RawIOBase):
        def write(self, data: object, /) -> int:
            return len(data)  # type: ignore[arg-type]

    tracemalloc.start()
    assert export_tar(endless, ROOT, Sink()).bytes == size
    assert export_zip(endless, ROOT, Sink()).bytes == size  # type: ignore[arg-type]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 * 2**20

    class Zeros:
        def __init__(self) -> None:
            info = tarfile.TarInfo("f")
            info.size = size
            self.head = info.tobuf()
            self.left = size + 1024

        def read(self, most: int) -> bytes:
            if self.head:
                taken, self.head = self.head[:most], self.head[most:]
                return taken
            most = min(most, self.left)
            self.left -= most
            return bytes(most)

    tracemalloc.start()
    done: Archived = import_tar(endless, AT, Zeros())
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert done.bytes == size
    assert peak < 8 * 2**20


def test_an_import_into_a_host_folder_needs_a_new_directory(tmp_path: Path) -> None:
    host = HostFolder(tmp_path, writable=True, links=True)
    packed = tar_of(("d/x", REG, b"x"), ("l", SYM, "d"), ("y", REG, b"y"))
    import_tar(host, AT, packed)
    assert sorted(tree(host, AT)) == ["d", "d/x", "l", "y"]
    packed.seek(0)
    with pytest.raises(Unsupported, match="new directory"):
        import_tar(host, ROOT, packed)
    assert os.listdir(tmp_path) == ["in"]
