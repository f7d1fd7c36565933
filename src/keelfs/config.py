"""What can be set, and how the environment sets it.

Together with `assembly` this is the only module that reads the environment. Settings are judged
here, before anything is opened; a store takes them as they are.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Literal
from urllib.parse import unquote

import msgspec
from msgspec import Struct

from keelfs.errors import InvalidArgument
from keelfs.model import Limits

PREFIX: Final = "KEELFS_"
LIMITS_PREFIX: Final = "KEELFS_LIMIT_"

_FORMS: Final = (
    'a store is opened by "sqlite:///relative.db", "sqlite:////absolute/path.db", '
    '"postgresql://user@host/database" or "memory:"'
)


class Location(Struct, frozen=True):
    """Where a store is, taken out of its URL."""

    engine: Literal["sqlite", "postgresql", "memory"]
    #: The file of SQLite.
    path: Path | None = None
    #: The connection string of PostgreSQL, as its driver takes it.
    dsn: str | None = None


class Settings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a store is opened."""

    url: str = "sqlite:///keelfs.db"
    #: "full": an acknowledged write survives the power cut. "relaxed": it survives `kill -9`, but
    #: a power cut may lose the last writes; the store stays sound.
    durability: Literal["full", "relaxed"] = "full"
    #: What bounds each space, unless its tenant or itself is bounded further.
    limits: Limits = Limits()
    #: How long a write waits for other writers before it is refused as `StoreBusy`.
    busy_timeout_s: float = 30.0
    #: Connections to PostgreSQL that one process may hold.
    pool_size: int = 16
    #: Content that nothing refers to is kept this long, for readers that are pinned to it.
    grace_s: float = 3600.0
    #: The SQLite VFS to open files through, for tests that cut the power.
    vfs: str | None = None
    #: Threads of the asynchronous interface.
    workers: int = 16

    def __post_init__(self) -> None:
        parse_url(self.url)
        self._within("busy_timeout_s", 0, 3600)
        self._within("pool_size", 1, 1000)
        self._within("grace_s", 0, 366 * 86_400)
        self._within("workers", 1, 1000)
        if self.durability not in {"full", "relaxed"}:
            raise InvalidArgument('durability is "full" or "relaxed"')

    def _within(self, name: str, low: float, high: float) -> None:
        value: Any = getattr(self, name)
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not number or not low <= value <= high:
            raise InvalidArgument(f"{name} lies between {low} and {high}, not {value!r:.40}")

    @property
    def location(self) -> Location:
        return parse_url(self.url)


def parse_url(text: str) -> Location:
    """Where the store of this URL is; a message that says which forms exist, if it is none."""
    if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidArgument(f"{_FORMS}, not by {type(text).__name__}")
    scheme, colon, rest = text.partition(":")
    if not colon or "\0" in text:
        raise InvalidArgument(f"{_FORMS}, not by {text!r:.80}")
    match scheme.lower():
        case "memory" if rest in {"", "//"}:
            return Location("memory")
        case "sqlite" if rest.startswith("///") and len(rest) > 3:
            return Location("sqlite", path=_file(rest[3:]))
        case "postgresql" | "postgres" if rest.startswith("//"):
            return Location("postgresql", dsn=f"postgresql:{rest}")
        case _:
            # A URL may hold a password: none of it but its scheme is repeated.
            raise InvalidArgument(f"{_FORMS}, not by {scheme!r:.20} followed by something else")


def _file(text: str) -> Path:
    if "?" in text:
        raise InvalidArgument("a sqlite URL has no options; pass them as settings, write ? as %3F")
    path = Path(unquote(text))
    if text.endswith("/") or path.name in {"", ".."}:
        raise InvalidArgument(f"{_FORMS}; this one names a directory")
    return path


def from_environment(environ: Mapping[str, str] | None = None, **given: Any) -> Settings:
    """Settings out of `KEELFS_URL`, `KEELFS_DURABILITY`, ..., `KEELFS_LIMIT_BYTES`, ...

    What is given as an argument wins. "none" takes a limit away. Variables that name no setting
    belong to others and are left alone, except under `KEELFS_LIMIT_`: a limit that is misspelled
    would limit nothing.
    """
    found = os.environ if environ is None else environ
    values: dict[str, Any] = {
        name: found[PREFIX + name.upper()]
        for name in Settings.__struct_fields__
        if name != "limits" and PREFIX + name.upper() in found
    }
    limits: dict[str, str | None] = {
        name.removeprefix(LIMITS_PREFIX).lower(): None if value.lower() == "none" else value
        for name, value in found.items()
        if name.startswith(LIMITS_PREFIX)
    }
    if unknown := sorted(set(limits) - set(Limits.__struct_fields__)):
        known = ", ".join(Limits.__struct_fields__)
        raise InvalidArgument(f"there is no limit {unknown[0]!r}; limits are {known}")
    return settings(**{**values, **({"limits": limits} if limits else {}), **given})


def settings(**given: Any) -> Settings:
    """Settings out of plain values, numbers also as text."""
    try:
        return msgspec.convert(given, Settings, strict=False)
    except msgspec.ValidationError as error:
        raise InvalidArgument(f"the settings are wrong: {error}") from None
