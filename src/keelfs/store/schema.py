"""Which migrations exist, and in what order.

A migration is one SQL file per database, `NNNN_name.sqlite.sql` and `NNNN_name.postgres.sql`,
applied whole in one transaction under the database's own lock and never changed once released.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Final

from keelfs.errors import InvalidArgument

#: A folder on the disk: `importlib.resources` takes longer to load than a store to open.
_FOLDER: Final = Path(__file__).parent / "migrations"


class Migrations:
    """The migrations of one database."""

    def __init__(self, dialect: str) -> None:
        self.dialect = dialect

    @cached_property
    def numbers(self) -> list[int]:
        ending = f".{self.dialect}.sql"
        return sorted(int(file.name[:4]) for file in _FOLDER.glob(f"*{ending}"))

    @property
    def newest(self) -> int:
        return self.numbers[-1]

    def after(self, version: int) -> Iterator[tuple[int, str]]:
        """The migrations that a database at `version` still needs."""
        for number in self.numbers:
            if number > version:
                (file,) = _FOLDER.glob(f"{number:04}_*.{self.dialect}.sql")
                yield number, file.read_text(encoding="utf-8")


def refuse_newer(version: int, known: Migrations) -> None:
    """An older program must not write into a newer store."""
    if version > known.newest:
        raise InvalidArgument(
            f"the store has schema {version}, this program knows {known.newest}; upgrade keelfs"
        )


SQLITE = Migrations("sqlite")
POSTGRES = Migrations("postgres")
