"""Cuts the power of a SQLite database at every moment, on paper.

`record` runs work once over a VFS that writes through and keeps a log of what the disk was told and
when; `images` then makes, from that log, directories as they may be found after the power failed:
what was synced is there, of the rest nothing, a part, or torn and garbled sectors of 512 bytes.
`judge` says whether what is recovered from an image is a state that the work went through.

The disk modelled here keeps its word about a sync, keeps bytes that are not being written, and
keeps names as a journalling file system does. The shared memory of a WAL is not on disk and is
absent from every image. `lying=True` is the disk that forgets syncs: a control that must fail.

Who calls: the crash tests of the SQLite store, and whoever wants to try a writer of theirs.
"""

from __future__ import annotations

import itertools
import random
import shutil
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

import apsw
from msgspec import Struct, field

State = TypeVar("State")
SECTOR: Final = 512
#: A survey quotes so many bad images; one is enough to start with.
MAX_REASONS: Final = 5
_NUMBERS: Final = itertools.count(1)

Damage = Literal["drop", "all", "prefix", "subset", "torn", "garbage"]
DAMAGES: Final[tuple[Damage, ...]] = ("drop", "all", "prefix", "subset", "torn", "garbage")


class Event(Struct, frozen=True):
    """One thing the disk was told, or a mark that the work made; `name` is a file's."""

    kind: Literal["create", "write", "truncate", "sync", "delete", "begin", "ack"]
    name: str = ""
    #: Where a write goes, the size a truncation leaves, the number of a mark; 1 for a deletion
    #: that syncs the directory.
    number: int = 0
    data: bytes = b""


class Log(Struct, frozen=True):
    """What happened, in order, on a disk that held `start`."""

    start: dict[str, bytes]
    events: list[Event]


class Image(Struct, frozen=True):
    """What was found after the power came back. The directory lasts until the next image."""

    directory: Path
    #: The marks that were acknowledged, and those that were begun, when the power failed.
    acked: frozenset[int]
    begun: frozenset[int]
    #: How many events had happened, and what became of those not synced: for repeating a failure.
    cut: int
    damage: Damage


class Verdict(StrEnum):
    """What a recovered state says about the writer."""

    SOUND = "sound"
    #: Something acknowledged is missing.
    LOST = "lost"
    #: It is no state that the work went through.
    NONATOMIC = "nonatomic"
    #: It cannot be read.
    CORRUPT = "corrupt"


class Run:
    """What work is given while it is recorded: a place, a disk, and marks to make."""

    def __init__(self, directory: Path, events: list[Event], lock: threading.RLock) -> None:
        #: Files whose names lie in this directory are recorded, through this VFS only.
        self.directory = directory
        self.vfs = f"keelfs-powerloss-{next(_NUMBERS)}"
        self._events = events
        self._lock = lock

    def begin(self, number: int) -> None:
        """Says that change `number` is about to be made; its effects may be found from now on."""
        with self._lock:
            self._events.append(Event("begin", number=number))

    def ack(self, number: int) -> None:
        """Says that change `number` is acknowledged; its effects must be found from now on."""
        with self._lock:
            self._events.append(Event("ack", number=number))


class _File(apsw.VFSFile):
    """A file that writes through and tells the log."""

    def __init__(self, vfs: _Disk, name: str, flags: list[int], given: Any) -> None:
        super().__init__("", given, flags)
        self._vfs, self._name = vfs, name

    def xWrite(self, data: Any, offset: int) -> None:  # noqa: N802
        with self._vfs.lock:
            super().xWrite(data, offset)  # pyright: ignore[reportUnknownMemberType]
            self._vfs.events.append(Event("write", self._name, offset, bytes(data)))

    def xTruncate(self, newsize: int) -> None:  # noqa: N802
        with self._vfs.lock:
            super().xTruncate(newsize)
            self._vfs.events.append(Event("truncate", self._name, newsize))

    def xSync(self, flags: int) -> None:  # noqa: ARG002, N802
        # The medium below is not asked: the sync that counts is the one in the log.
        with self._vfs.lock:
            if not self._vfs.lying:
                self._vfs.events.append(Event("sync", self._name))


class _Disk(apsw.VFS):
    """The VFS that `record` registers; locks and shared memory are those of the default VFS."""

    def __init__(self, run: Run, events: list[Event], lock: threading.RLock, lying: bool) -> None:
        self.directory, self.events, self.lock, self.lying = run.directory, events, lock, lying
        super().__init__(run.vfs, "")

    def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:  # noqa: N802
        text = name.filename() if isinstance(name, apsw.URIFilename) else name
        if text is None or Path(text).parent != self.directory:
            return apsw.VFSFile("", name, flags)
        with self.lock:
            known = Path(text).exists()
            file = _File(self, Path(text).name, flags, name)
            if not known:
                self.events.append(Event("create", Path(text).name))
        return file

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802
        with self.lock:
            super().xDelete(filename, syncdir)
            if Path(filename).parent == self.directory:
                durable = syncdir and not self.lying
                self.events.append(Event("delete", Path(filename).name, int(durable)))


def record(work: Callable[[Run], object], *, start: Path | None = None, lying: bool = False) -> Log:
    """Runs `work` once and keeps what it told the disk.

    `start` is a directory whose files the work finds, such as that of an image: recovery can be
    cut short as well. The work opens its databases with `vfs=run.vfs` and closes them.
    """
    events: list[Event] = []
    lock = threading.RLock()
    with tempfile.TemporaryDirectory(prefix="keelfs-powerloss-") as place:
        directory = Path(place).resolve()
        if start is not None:
            shutil.copytree(start, directory, dirs_exist_ok=True)
        found = {path.name: path.read_bytes() for path in directory.iterdir()}
        run = Run(directory, events, lock)
        disk = _Disk(run, events, lock, lying)
        try:
            work(run)
        finally:
            disk.unregister()
    return Log(found, events)


class _Platter(Struct):
    """One file: what is safe, and what is on its way since the last sync."""

    safe: bytearray = field(default_factory=bytearray)
    pending: list[Event] = field(default_factory=lambda: list[Event]())


class _Model:
    """The disk as the log tells it, up to some moment."""

    def __init__(self, start: dict[str, bytes]) -> None:
        #: What each name stood for since names were last synced: the first is safe, the last is
        #: what the work believes; None is no file.
        self.names: dict[str, list[_Platter | None]] = {
            name: [_Platter(bytearray(data))] for name, data in start.items()
        }
        self.acked: set[int] = set()
        self.begun: set[int] = set()

    def apply(self, event: Event) -> None:
        if event.kind == "begin":
            self.begun.add(event.number)
        elif event.kind == "ack":
            self.acked.add(event.number)
        elif event.kind == "create":
            self.names.setdefault(event.name, [None]).append(_Platter())
        elif event.kind == "delete":
            self.names[event.name].append(None)
            if event.number:
                self._sync_names()
        elif event.kind == "sync":
            self._sync(event.name)
        else:
            self._file(event.name).pending.append(event)

    def _file(self, name: str) -> _Platter:
        file = self.names[name][-1]
        # A file that was deleted while it is open is written to no more than a closed one.
        return _Platter() if file is None else file

    def _sync(self, name: str) -> None:
        file = self._file(name)
        for event in file.pending:
            _write(file.safe, event)
        file.pending.clear()
        if file is not self.names[name][0]:
            # The first sync of a new file makes its name safe, and with it what came before.
            self._sync_names()

    def _sync_names(self) -> None:
        for history in self.names.values():
            del history[:-1]

    def develop(self, damage: Damage, rng: random.Random) -> dict[str, bytes]:
        """The files that are found when the power comes back."""
        found: dict[str, bytes] = {}
        for name, history in self.names.items():
            at = {"drop": 0, "all": len(history) - 1}.get(damage, rng.randrange(len(history)))
            file = history[at]
            if file is not None:
                found[name] = _developed(file, damage, rng)
        return found


def _developed(file: _Platter, damage: Damage, rng: random.Random) -> bytes:
    data = bytearray(file.safe)
    if damage == "drop":
        return bytes(data)
    if damage == "prefix":
        chosen = file.pending[: rng.randint(0, len(file.pending))]
    elif damage == "all":
        chosen = file.pending
    else:
        kept = rng.choice((0.1, 0.5, 0.9))
        chosen = [event for event in file.pending if rng.random() < kept]
    for event in chosen:
        if damage in {"torn", "garbage"} and event.kind == "write":
            for part in _sectors(event, damage, rng):
                _write(data, part)
        else:
            _write(data, event)
    return bytes(data)


def _sectors(event: Event, damage: Damage, rng: random.Random) -> Generator[Event]:
    """Some of the sectors that a write covers, some of those as garbage."""
    start, end = event.number, event.number + len(event.data)
    for sector in range(start // SECTOR, -(-end // SECTOR)):
        first, last = max(start, sector * SECTOR), min(end, (sector + 1) * SECTOR)
        if rng.random() < 0.5:
            continue
        data = event.data[first - start : last - start]
        if damage == "garbage" and rng.random() < 0.3:
            data = rng.randbytes(last - first)
        yield Event("write", event.name, first, data)


def _write(data: bytearray, event: Event) -> None:
    """Does a write or a truncation to bytes; what was never written is zeros."""
    end = event.number + len(event.data)
    if len(data) < event.number:
        data.extend(bytes(event.number - len(data)))
    if event.kind == "truncate":
        del data[event.number :]
    else:
        data[event.number : end] = event.data


def boundaries(log: Log) -> list[int]:
    """The moments just before and just after each sync, each mark, and at the end."""
    kinds = {"sync", "begin", "ack"}
    near = {n for n, event in enumerate(log.events) if event.kind in kinds}
    return sorted(near | {n + 1 for n in near} | {len(log.events)})


def images(
    log: Log, rng: random.Random, count: int, *, among: Sequence[int] | None = None
) -> Generator[Image]:
    """`count` images of cuts at random moments, `among` those given; all are used before any is
    used again. Each directory is gone when the next one comes.
    """
    model, done = _Model(log.start), 0
    moments = range(len(log.events) + 1) if among is None else among
    whole, rest = divmod(count, len(moments))
    cuts = sorted([*moments] * whole + rng.sample(moments, rest))
    for cut in cuts:
        for event in log.events[done:cut]:
            model.apply(event)
        done = cut
        damage = rng.choice(DAMAGES)
        with tempfile.TemporaryDirectory(prefix="keelfs-image-", dir=_memory()) as place:
            for name, data in model.develop(damage, rng).items():
                (Path(place) / name).write_bytes(data)
            marks = frozenset(model.acked), frozenset(model.begun)
            yield Image(Path(place), *marks, cut, damage)


def _memory() -> str | None:
    """A place where syncs cost nothing, if there is one: recovery syncs what nobody will need."""
    return "/dev/shm" if Path("/dev/shm").is_dir() else None  # noqa: S108


class Survey(Struct, frozen=True):
    """How many images gave which verdict, and what the first bad ones were."""

    counts: Counter[Verdict]
    reasons: list[str]

    @property
    def sound(self) -> bool:
        return not self.reasons


def judge(
    image: Image, states: Sequence[State], recover: Callable[[Path], State]
) -> tuple[Verdict, str]:
    """What `recover`, which reads the state from a directory, makes of an image.

    `states[n]` is the state after the changes marked 1 to n, made one after another.
    """
    try:
        found = recover(image.directory)
    except Exception as error:
        return Verdict.CORRUPT, f"{type(error).__name__}: {error}"
    acked, begun = len(image.acked), len(image.begun)
    reached = [n for n in range(begun + 1) if states[n] == found]
    if not reached:
        return Verdict.NONATOMIC, f"{found!r} is no state of the first {begun}"
    if reached[-1] < acked:
        return Verdict.LOST, f"{acked} changes were acknowledged, {reached[-1]} are there"
    return Verdict.SOUND, ""


def survey(
    log: Log,
    states: Sequence[State],
    recover: Callable[[Path], State],
    rng: random.Random,
    count: int,
    *,
    among: Sequence[int] | None = None,
) -> Survey:
    """Judges `count` images of one log, cut at any moments or `among` those given."""
    counts: Counter[Verdict] = Counter()
    reasons: list[str] = []
    for image in images(log, rng, count, among=among):
        verdict, reason = judge(image, states, recover)
        counts[verdict] += 1
        if verdict is not Verdict.SOUND and len(reasons) < MAX_REASONS:
            reasons.append(f"{verdict} at event {image.cut}, {image.damage}: {reason[:500]}")
    return Survey(counts, reasons)
