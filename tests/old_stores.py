"""Stores as former versions wrote them, kept as SQL: the proof that they still open.

`python tests/old_stores.py` keeps one of the present version, on both databases, in `tests/data`.
Do so when a version is released, and never change a kept store.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

import apsw
import psycopg

from databases import Opened
from keelfs.model import Attrs
from keelfs.ops import Batch, Mkdir, SetAttrs, Symlink, Write
from keelfs.store.schema import POSTGRES, SQLITE
from keelfs.testing.cluster import PostgresCluster
from keelfs.testing.exercises import prepare
from keelfs.testing.portrait import Perform, portrait

DATA: Final = Path(__file__).parent / "data"


def _file(engine: str, version: int) -> Path:
    return DATA / f"store-{version}.{engine}.sql.gz"


def kept_versions(engine: str) -> list[int]:
    """The versions of which a store is kept."""
    return sorted(
        int(file.name.split(".")[0][6:]) for file in DATA.glob(f"store-*.{engine}.sql.gz")
    )


def revived(engine: str, version: int, url: str) -> None:
    """Makes an empty database the store that was kept of a version."""
    text = gzip.decompress(_file(engine, version).read_bytes()).decode()
    if engine == "sqlite":
        connection = apsw.Connection(url.removeprefix("sqlite:///"))
        connection.execute(text)
        connection.close()
        return
    with psycopg.connect(url, autocommit=True) as server:
        server.execute(text.encode())


def expected(engine: str, version: int) -> dict[str, list[Any]]:
    """What the space of a kept store holds, as it was described when it was kept."""
    told: dict[str, list[Any]] = json.loads(_file(engine, version).with_suffix("").with_suffix(
        ".json").read_text())  # fmt: skip
    return told


def described(perform: Perform) -> dict[str, list[Any]]:
    """A tree as JSON: what each path is, and the hash of its bytes."""
    return {
        path: [
            stat.kind.value, stat.id.hex(), stat.size, stat.revision, stat.mode, stat.nlink,
            stat.mtime_ns, stat.target, {name: value.hex() for name, value in stat.xattrs.items()},
            hashlib.sha256(data).hexdigest(),
        ]
        for path, (stat, data) in sorted(portrait(perform).items())
    }  # fmt: skip


# -- keeping one


def fill(perform: Perform) -> None:
    """Something of everything that a space can hold."""
    prepare(perform)
    perform(SetAttrs("/a", Attrs(mode=0o640, xattrs={"user.k": b"\0v"})))
    perform(Batch((Write("/é %_'\\", "hostile"), Mkdir("/n/o", parents=True))))
    perform(Symlink("../a", "/n/up"))


def keep(engine: str, url: str) -> None:
    """Writes the store of the present version, and what it holds."""
    opened = Opened(engine, url)
    space = opened.space(opened.tenant("kept"), "space")
    fill(space.perform)
    known = SQLITE if engine == "sqlite" else POSTGRES
    told = json.dumps(described(space.perform), ensure_ascii=False, indent=1)
    lines = [text for _number, text in known.after(0)]
    lines += _sqlite_rows(url) if engine == "sqlite" else _postgres_rows(opened)
    opened.close()
    if engine == "sqlite":
        lines.append(f"PRAGMA user_version = {known.newest};")
    else:
        lines.append("CREATE TABLE keelfs_schema (version bigint NOT NULL);")
        lines.append(f"INSERT INTO keelfs_schema VALUES ({known.newest});")
    file = _file(engine, known.newest)
    file.write_bytes(gzip.compress("\n".join(lines).encode(), mtime=0))
    file.with_suffix("").with_suffix(".json").write_text(told + "\n")


#: In the order of their foreign keys.
_ROWS: Final = (
    "tenants", "spaces", "nodes", "entries", "contents", "strands", "chunks", "revisions",
    "changes", "trash", "snapshots",
)  # fmt: skip


def _sqlite_rows(url: str) -> list[str]:
    connection = apsw.Connection(url.removeprefix("sqlite:///"))
    lines: list[str] = []
    for table in _ROWS:
        for row in connection.execute(f"SELECT * FROM {table}"):
            values = ", ".join(apsw.format_sql_value(value) for value in row)
            lines.append(f"INSERT INTO {table} VALUES ({values});")
    connection.close()
    return lines


def _postgres_rows(opened: Opened) -> list[str]:
    lines: list[str] = []
    for table in _ROWS:
        always = " OVERRIDING SYSTEM VALUE" if table in {"tenants", "spaces"} else ""
        for row in opened.execute(f"SELECT * FROM {table}"):
            values = ", ".join(psycopg.sql.Literal(value).as_string() for value in row)
            lines.append(f"INSERT INTO {table}{always} VALUES ({values});")
        if always:
            lines.append(
                f"SELECT setval(pg_get_serial_sequence('{table}', 'id'), max(id)) FROM {table};"
            )
    return lines


def main() -> None:
    DATA.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        keep("sqlite", f"sqlite:///{folder}/store.db")
    with PostgresCluster(durable=False) as cluster:
        keep("postgres", cluster.create_database())


if __name__ == "__main__":
    sys.exit(main())
