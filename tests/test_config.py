"""Settings: which forms a URL has, and what the environment may say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from keelfs.config import Location, Settings, from_environment, parse_url, settings
from keelfs.errors import InvalidArgument
from keelfs.model import Limits


@pytest.mark.parametrize(
    ("url", "location"),
    [
        ("memory:", Location("memory")),
        ("memory://", Location("memory")),
        ("sqlite:///agents.db", Location("sqlite", path=Path("agents.db"))),
        ("sqlite:///sub/agents.db", Location("sqlite", path=Path("sub/agents.db"))),
        ("sqlite:////var/agents.db", Location("sqlite", path=Path("/var/agents.db"))),
        ("SQLite:///a%20b%3F.db", Location("sqlite", path=Path("a b?.db"))),
        (
            "postgresql://me:secret@host:5433/db?sslmode=require",
            Location("postgresql", dsn="postgresql://me:secret@host:5433/db?sslmode=require"),
        ),
        ("postgres://host/db", Location("postgresql", dsn="postgresql://host/db")),
        ("postgresql:///db", Location("postgresql", dsn="postgresql:///db")),
    ],
)
def test_a_url_says_where_the_store_is(url: str, location: Location) -> None:
    assert parse_url(url) == location
    assert Settings(url=url).location == location


@pytest.mark.parametrize(
    "url",
    ["", "agents.db", "sqlite:", "sqlite://", "sqlite:///", "sqlite:agents.db", "sqlite://a/b.db",
     "sqlite:///dir/", "sqlite:///..", "sqlite:///a.db?mode=ro", "memory:name", "mysql://host/db",
     "postgresql:db", "sqlite:///a\0b", "/var/agents.db", None, 5, Path("agents.db")],
)  # fmt: skip
def test_another_url_is_told_the_forms(url: Any) -> None:
    with pytest.raises(InvalidArgument) as caught:
        parse_url(url)
    assert "sqlite" in caught.value.message


def test_a_password_is_not_repeated() -> None:
    with pytest.raises(InvalidArgument) as caught:
        parse_url("mysql://me:secret@host/db")
    assert "secret" not in caught.value.message


def test_the_environment_is_read() -> None:
    found = from_environment(
        {
            "KEELFS_URL": "memory:", "KEELFS_DURABILITY": "relaxed", "KEELFS_POOL_SIZE": "3",
            "KEELFS_GRACE_S": "1.5", "KEELFS_LIMIT_BYTES": "1000", "KEELFS_LIMIT_DEPTH": "none",
            "KEELFS_TOKEN": "of somebody else", "PATH": "/bin",
        },
        pool_size=5,
    )  # fmt: skip
    assert found == Settings(
        url="memory:", durability="relaxed", pool_size=5, grace_s=1.5,
        limits=Limits(bytes=1000, depth=None),
    )  # fmt: skip
    assert from_environment({}) == Settings()
    given = from_environment({"KEELFS_LIMIT_BYTES": "1"}, limits=Limits(bytes=2))
    assert given.limits == Limits(bytes=2)


def test_the_process_environment_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEELFS_URL", "memory:")
    assert from_environment().url == "memory:"


@pytest.mark.parametrize(
    "environ",
    [{"KEELFS_LIMIT_BYTE": "5"}, {"KEELFS_LIMIT_BYTES": "much"}, {"KEELFS_DURABILITY": "maybe"},
     {"KEELFS_POOL_SIZE": "0"}, {"KEELFS_POOL_SIZE": "x"}, {"KEELFS_URL": "nowhere"},
     {"KEELFS_GRACE_S": "nan"}, {"KEELFS_BUSY_TIMEOUT_S": "-1"}, {"KEELFS_WORKERS": "0"}],
)  # fmt: skip
def test_a_wrong_environment_is_refused(environ: dict[str, str]) -> None:
    with pytest.raises(InvalidArgument):
        from_environment(environ)


def test_wrong_settings_are_refused() -> None:
    with pytest.raises(InvalidArgument):
        settings(colour="blue")
    for wrong in ({"durability": "maybe"}, {"pool_size": True}, {"workers": "many"}):
        with pytest.raises(InvalidArgument):
            Settings(**wrong)  # type: ignore[arg-type]
