"""Races: what many do at once, and what must be true however they meet.

Each is about one promise. Members write data that tell who wrote them, so that whatever is found
afterwards can be compared with what was acknowledged. Who calls: the concurrency tests, through
`keelfs.testing.crowd`; anybody can run them on a store of theirs.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Final

import keelfs
from keelfs import ABSENT, ops
from keelfs.errors import AlreadyExists, Conflict, NotFound
from keelfs.model import Limits, Stat
from keelfs.testing.crowd import Crowd, Member, Race
from keelfs.testing.linearize import Call, Recorder, violations

#: Sizes that are stored in different ways: in the row, as one chunk, and now and then as several.
SIZES: Final = (100, 5_000, 80_000)
LARGE: Final = 600_000


def _space(store: keelfs.Store, key: str = "race") -> keelfs.Space:
    return store.tenant("crowd").space("session", key)


class Counting(Race, frozen=True, kw_only=True):
    """Everybody counts up numbers in shared files: read, add one, write what is expected."""

    files: int = 16
    increments: int = 4

    def prepare(self, store: keelfs.Store) -> None:
        for number in range(self.files):
            _space(store).write(f"/counters/{number}", "0")

    def run(self, member: Member) -> Counter[str]:
        ws, counted = member.space(), Counter[str]()
        while counted.total() < self.increments:
            path = f"/counters/{member.rng.randrange(self.files)}"
            content = ws.pin(path)
            value = int(content.read(0, 100)) + 1
            # Whoever expects a Stat pins the identity of the file too.
            expect: Stat | int = content.stat
            if member.rng.random() < 0.5:
                expect = content.stat.revision
            with suppress(Conflict):
                ws.write(path, str(value), expect=expect)
                counted[path] += 1
        return counted

    def violations(self, store: keelfs.Store, answers: Sequence[Counter[str]]) -> Iterator[str]:
        counted, ws = sum(answers, Counter[str]()), _space(store)
        for number in range(self.files):
            path = f"/counters/{number}"
            value, revision = int(ws.read(path)), ws.stat(path).revision
            if not value == counted[path] == revision - 1:
                yield (
                    f"{path} is {value} at revision {revision}, "
                    f"and {counted[path]} increments were acknowledged"
                )


class Creating(Race, frozen=True, kw_only=True):
    """Everybody wants to be the one who makes a thing, by every verb that makes things."""

    rounds: int = 20

    def prepare(self, store: keelfs.Store) -> None:
        for number in range(self.threads * Crowd.processes):
            _space(store).write(f"/mine/{number}", str(number))

    def run(self, member: Member) -> list[int]:
        ws, won = member.space(), list[int]()
        for number in range(self.rounds):
            with suppress(Conflict, AlreadyExists):
                self._make(ws, number, f"/new/{number // 5}/{number}", str(member.number))
                won.append(number)
        return won

    def _make(self, ws: keelfs.Workspace, number: int, path: str, me: str) -> object:
        match number % 6:
            case 0:
                return ws.write(path, me, expect=ABSENT)
            case 1:
                return ws.append(path, me, expect=ABSENT)
            case 2:
                return ws.copy(f"/mine/{me}", path, parents=True)
            case 3:
                return ws.link(f"/mine/{me}", path, parents=True)
            case 4:
                return ws.symlink(f"/mine/{me}", path, parents=True)
            case _:
                return ws.batch([ops.Mkdir(path, parents=True), ops.Write(f"{path}/by", me)])

    def violations(self, store: keelfs.Store, answers: Sequence[list[int]]) -> Iterator[str]:
        ws = _space(store)
        for number in range(self.rounds):
            path = f"/new/{number // 5}/{number}"
            winners = [str(who) for who, won in enumerate(answers) if number in won]
            found = ws.read_text(path if number % 6 < 5 else f"{path}/by")
            if winners != [found]:
                yield f"{path} is made by {found}, and {winners} were told that they made it"


class Appending(Race, frozen=True, kw_only=True):
    """Everybody adds records of very different sizes to shared files."""

    files: int = 3
    records: int = 6

    def run(self, member: Member) -> list[tuple[str, int]]:
        ws, rng, done = member.space(), member.rng, list[tuple[str, int]]()
        for turn in range(self.records):
            path = f"/logs/{rng.randrange(self.files)}"
            size = rng.choices((10, 900, 5_000, 300_000), (60, 25, 14, 1))[0]
            head = b"[%d %d %d " % (member.number, turn, size)
            ws.append(path, head + bytes([65 + member.number % 26]) * size + b"]")
            done.append((path, turn))
        return done

    def violations(
        self, store: keelfs.Store, answers: Sequence[list[tuple[str, int]]]
    ) -> Iterator[str]:
        expected: Counter[tuple[str, int, int]] = Counter(
            (path, number, turn) for number, done in enumerate(answers) for path, turn in done
        )
        found: Counter[tuple[str, int, int]] = Counter()
        for path in sorted({path for done in answers for path, _ in done}):
            turns: dict[int, int] = {}
            for record in _records(_space(store).read(path)):
                if record is None:
                    yield f"{path} holds bytes that are no record"
                    break
                number, turn = record
                found[path, number, turn] += 1
                if turn <= turns.get(number, -1):
                    yield f"{path} holds record {turn} of {number} behind its later ones"
                turns[number] = turn
        if found != expected:
            yield f"lost: {[*(expected - found)][:5]}; doubled: {[*(found - expected)][:5]}"


def _records(data: bytes) -> Iterator[tuple[int, int] | None]:
    """Writer and turn of each record; None where there should be one and is none."""
    at, head = 0, re.compile(rb"\[(\d+) (\d+) (\d+) ")
    while at < len(data):
        found = head.match(data, at)
        if found is None:
            yield None
            return
        number, turn, size = map(int, found.groups())
        body = bytes([65 + number % 26]) * size + b"]"
        if not data.startswith(body, found.end()):
            yield None
            return
        yield number, turn
        at = found.end() + len(body)


class Overwriting(Race, frozen=True, kw_only=True):
    """One overwrites a file again and again; all others read it in every way there is."""

    threads: int = 2
    overwrites: int = 100

    def prepare(self, store: keelfs.Store) -> None:
        # Copies of what is read, so that history does not fill the disk.
        _space(store).set_limits(Limits(history_count=3))
        _space(store).write("/file", written(1))

    def run(self, member: Member) -> int:
        """How many different revisions were read whole."""
        ws = member.space()
        if member.number == 0:
            for number in range(2, self.overwrites + 1):
                ws.write("/file", written(number))
            member.end()
            return 0
        seen: set[int] = set()
        latest = 0
        while not member.over or not seen:
            revision, data = self._read(ws, member)
            number = int(data[:8])
            assert data == written(number), f"a mixture of revision {number} and others was read"
            assert revision in {None, number}, f"revision {revision} has the bytes of {number}"
            assert number >= latest, f"revision {number} was read after {latest}"
            latest = number
            seen.add(number)
        return len(seen)

    def _read(self, ws: keelfs.Workspace, member: Member) -> tuple[int | None, bytes]:
        match member.rng.randrange(4):
            case 0:
                return None, ws.read("/file")
            case 1:
                return None, b"".join(ws.stream("/file", block=member.rng.choice((4096, 100_000))))
            case 2:
                content = ws.pin("/file")
                revision, size = content.stat.revision, content.stat.size
                first = content.read(0, size // 2)
                # A pinned revision stays readable when it is no longer the present one.
                while not member.over and ws.stat("/file").revision == revision:
                    pass
                return revision, first + content.read(size // 2, size)
            case _:
                with ws.open("/file", "rb") as file:
                    end = file.seek(0, 2)
                    file.seek(0)
                    return None, b"".join(file.read(50_000) for _ in range(end // 50_000 + 1))

    def violations(
        self,
        store: keelfs.Store,
        answers: Sequence[int],  # noqa: ARG002
    ) -> Iterator[str]:
        if _space(store).stat("/file").revision != self.overwrites:
            yield "overwrites are missing"


def written(number: int) -> bytes:
    """What overwrite `number` writes: its number, over and over."""
    size = LARGE if number % 12 == 0 else SIZES[number % len(SIZES)]
    return b"%08d" % number * (size // 8 + number % 3)


class Uprooting(Race, frozen=True, kw_only=True):
    """Some make directories and write into them while others tear the tree out."""

    turns: int = 10

    def run(self, member: Member) -> list[str]:
        ws, rng, done = member.space(), member.rng, list[str]()
        for turn in range(self.turns):
            name = f"{member.number}-{turn}"
            if member.number % 2:
                # Parents are made in the same transaction: nothing can keep this from succeeding.
                ws.write(f"/a/{rng.choice('xy')}/{rng.choice('pq')}/{name}", name)
                done.append(name)
                continue
            with suppress(NotFound):
                self._uproot(ws, rng.randrange(5), rng.choice(("/a", "/a/x", "/a/y/p")), name)
        return done

    def _uproot(self, ws: keelfs.Workspace, how: int, path: str, name: str) -> object:
        match how:
            case 0 | 1:
                ws.remove(path, recursive=True)
                return None
            case 2:
                return ws.trash(path)
            case 3:
                return ws.move(path, f"/moved/{name}", parents=True)
            case _:
                return ws.copy(path, f"/copied/{name}", recursive=True, parents=True)

    def violations(self, store: keelfs.Store, answers: Sequence[list[str]]) -> Iterator[str]:
        ws = _space(store)
        made: Counter[str] = Counter()
        for page in _journal(ws):
            made.update(
                change.path[-1]
                for change in page
                if change.kind == "create" and change.path and "-" in change.path[-1]
            )
        expected = Counter(name for names in answers for name in names)
        if made != expected:
            yield f"of the acknowledged writes, {expected - made} are not in the journal"
        for path, stat in ws.walk("/"):
            if stat.is_file and ws.read_text(f"/{path}") != path.rpartition("/")[2]:
                yield f"{path} holds the bytes of another file"


def _journal(ws: keelfs.Workspace) -> Iterator[list[keelfs.Change]]:
    after = 0
    while page := ws.changes("/", after=after, limit=1000).items:
        yield page
        after = page[-1].seq


class Batching(Race, frozen=True, kw_only=True):
    """Batches change several places at once; readers look for a moment in between."""

    turns: int = 12

    def prepare(self, store: keelfs.Store) -> None:
        _space(store).batch(
            [ops.Write("/l", "0"), ops.Write("/r", "0"), ops.Mkdir("/cur/0", parents=True)]
        )

    def run(self, member: Member) -> None:
        ws = member.space()
        for turn in range(self.turns):
            token = f"{member.number}-{turn}"
            match member.number % 4:
                case 0:
                    self._write(ws, token)
                case 1:
                    self._refused(ws)
                case 2:
                    self._look_in_turn(ws)
                case _:
                    self._look_at_once(ws)

    def _write(self, ws: keelfs.Workspace, token: str) -> None:
        ws.batch([
            ops.Write("/l", token),
            ops.Mkdir(f"/next/{token}", parents=True),
            ops.Move("/cur", f"/old/{token}", parents=True),
            ops.Move("/next", "/cur"),
            ops.Write("/r", token),
        ])  # fmt: skip

    def _refused(self, ws: keelfs.Workspace) -> None:
        with suppress(NotFound):
            ws.batch([ops.Write("/l", "no"), ops.Remove("/nothing"), ops.Write("/r", "no")])
            raise AssertionError("a batch with an impossible operation was accepted")

    def _look_in_turn(self, ws: keelfs.Workspace) -> None:
        """What is read later is as new or newer, and the directory is never gone."""
        left = ws.pin("/l")
        assert ws.stat("/cur").is_directory
        right = ws.pin("/r")
        assert left.read(0, 99) != b"no" != right.read(0, 99), "a refused batch has left its mark"
        assert right.stat.revision >= left.stat.revision, "half of a batch was seen"

    def _look_at_once(self, ws: keelfs.Workspace) -> None:
        left, listed, right = ws.batch([ops.Read("/l"), ops.List("/cur"), ops.Read("/r")])
        names = [entry.name for entry in listed.items]
        assert left == right == names[0].encode(), f"{left}, {right} and {names} at one moment"

    def violations(self, store: keelfs.Store, answers: Sequence[None]) -> Iterator[str]:
        ws = _space(store)
        writers = sum(1 for number in range(len(answers)) if number % 4 == 0)
        revisions = {ws.stat("/l").revision, ws.stat("/r").revision}
        if revisions != {writers * self.turns + 1}:
            yield f"{writers * self.turns} batches have made the revisions {revisions}"


class Recording(Race, frozen=True, kw_only=True):
    """Everybody does anything to a few files; their histories must fit one order of calls."""

    threads: int = 2
    files: int = 6
    turns: int = 40

    def run(self, member: Member) -> list[Call]:
        recorder = Recorder(member.space().handler)
        known: dict[str, int] = {}
        for turn in range(self.turns):
            path = f"/{member.rng.randrange(self.files)}"
            with suppress(Conflict, NotFound):
                self._call(recorder, known, path, b"%d-%d;" % (member.number, turn), member)
        return recorder.calls

    def _call(
        self, recorder: Recorder, known: dict[str, int], path: str, data: bytes, member: Member
    ) -> None:
        match member.rng.randrange(8):
            case 0:
                known[path] = recorder.write(path, data)
            case 1 | 2:
                known[path] = recorder.write(path, data, expect=known.get(path, ABSENT))
            case 3:
                known[path] = recorder.append(path, data)
            case 4:
                recorder.remove(path)
            case _:
                recorder.read(path)
                known[path] = recorder.calls[-1].revision or 0

    def violations(
        self,
        store: keelfs.Store,  # noqa: ARG002
        answers: Sequence[list[Call]],
    ) -> Iterator[str]:
        yield from map(str, violations(call for calls in answers for call in calls))
