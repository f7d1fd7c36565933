"""The table: one line per row and database, for people and as JSON."""

from __future__ import annotations

import os
import platform
from typing import Final

import apsw
import msgspec
from msgspec import Struct

from bench.row import Measured, Row

COLUMNS: Final = (
    "row", "database", "work", "against", "subject", "floor", "ratio", "goal", "reached",
)  # fmt: skip


class Line(Struct, frozen=True):
    """One row as it was measured on one database; `absent` says why it was not."""

    name: str
    database: str
    work: str
    against: str
    goal: str
    measured: Measured | None = None
    reached: bool | None = None
    absent: str = ""


class Machine(Struct, frozen=True):
    """What the numbers depend on."""

    cores: int
    fsync_ms: float
    python: str
    sqlite: str
    quick: bool

    def __str__(self) -> str:
        sizes = "; quick: small sizes, few rounds, ratios only hint" if self.quick else ""
        return (
            f"{self.cores} cores, 8 KiB written and synced in {self.fsync_ms:.2f} ms, "
            f"Python {self.python}, SQLite {self.sqlite}{sizes}"
        )


def machine(fsync_ms: float, *, quick: bool) -> Machine:
    cores = os.cpu_count() or 1
    return Machine(cores, fsync_ms, platform.python_version(), apsw.sqlite_lib_version(), quick)


def line(row: Row, database: str, measured: Measured | str) -> Line:
    goal = "for scale" if row.goal is None else str(row.goal)
    if isinstance(measured, str):
        return Line(row.name, database, row.work, row.against, goal, absent=measured)
    reached = None if row.goal is None else row.goal.reached(measured)
    return Line(row.name, database, row.work, row.against, goal, measured, reached)


def _cells(line: Line) -> tuple[str, ...]:
    begin = (line.name, line.database, line.work, line.against)
    if line.measured is None:
        return (*begin, "-", "-", "-", line.goal, line.absent)
    unit = line.measured.unit
    reached = {True: "yes", False: "no", None: "-"}[line.reached]
    return (
        *begin,
        f"{_short(line.measured.subject)} {unit}",
        f"{_short(line.measured.floor)} {unit}",
        f"{line.measured.ratio:.2f}",
        line.goal,
        reached,
    )


def _short(number: float) -> str:
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"


def heading() -> str:
    """The first two lines of the table, which is Markdown."""
    return f"| {' | '.join(COLUMNS)} |\n|{' --- |' * len(COLUMNS)}"


def printed(line: Line) -> str:
    return f"| {' | '.join(_cells(line))} |"


def encoded(machine: Machine, lines: list[Line]) -> bytes:
    whole = {"machine": machine, "lines": lines}
    return msgspec.json.format(msgspec.json.encode(whole)) + b"\n"
