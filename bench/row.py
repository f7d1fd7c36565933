"""What a row of the table is: a name, the work, its goal, and how it is measured."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from msgspec import Struct

if TYPE_CHECKING:
    from bench.site import Site

SQLITE: Final = "sqlite"
POSTGRES: Final = "postgres"
BOTH: Final = (SQLITE, POSTGRES)


class Measured(Struct, frozen=True):
    """Medians of a subject and of its floor, in the same unit, and the ratio of the two."""

    subject: float
    floor: float
    unit: str
    ratio: float


class Goal(Struct, frozen=True):
    """What a row should reach: a bound of the ratio, or of the subject where `unit` is given."""

    bound: float
    at_most: bool
    unit: str = ""

    def __str__(self) -> str:
        return f"{'≤' if self.at_most else '≥'} {self.bound:g}{self.unit and ' ' + self.unit}"

    def reached(self, measured: Measured) -> bool:
        value = measured.subject if self.unit else measured.ratio
        return value <= self.bound if self.at_most else value >= self.bound


def at_most(bound: float, unit: str = "") -> Goal:
    return Goal(bound, True, unit)


def at_least(bound: float, unit: str = "") -> Goal:
    return Goal(bound, False, unit)


class Absent(Exception):
    """A row cannot be measured here; its message says why, and the table repeats it."""


#: Measures a row on one database.
Measure = Callable[["Site", str], Measured]


class Row(Struct, frozen=True):
    name: str
    work: str
    #: What the ratio is taken against.
    against: str
    #: None for what is there for scale only.
    goal: Goal | None
    measure: Measure
    databases: tuple[str, ...] = BOTH


#: Every row by its name, in the order of the table.
ROWS: Final[dict[str, Row]] = {}


def row(
    name: str, work: str, against: str, goal: Goal | None, *, on: tuple[str, ...] = BOTH
) -> Callable[[Measure], Measure]:
    """Puts a function that measures into the table."""

    def put(measure: Measure) -> Measure:
        assert name not in ROWS, name
        ROWS[name] = Row(name, work, against, goal, measure, on)
        return measure

    return put
