"""Memory is bounded by pages and chunks, never by the size of a file, a directory or a result.

Every piece of work runs in a process of its own and tells by how much that process grew. The store
is as `bounded` leaves it, one work after the other, so the order of `WORKS` matters.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import bounded
from keelfs.testing.cluster import PostgresCluster

MIB = 2**20
#: What any work may take, whatever its size.
MOST = 48 * MIB
ENGINES = ("sqlite", "postgres")
#: By engine: nodes of a directory, and again of a tree, that fit into the default run.
FEW = {"sqlite": 20_000, "postgres": 2000}
FILES = ("write", "read", "append", "patch", "copy", "checksum", "export")
TREES = ("plant", "page", "walk", "remove", "sweep", "check")


@pytest.fixture
def url(engine: str, request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if engine == "sqlite":
        return f"sqlite:///{tmp_path / 'store.db'}"
    cluster: PostgresCluster = request.getfixturevalue("postgres_cluster")
    return cluster.create_database()


def growth(url: str, work: str, size: int) -> int:
    command = [sys.executable, bounded.__file__, url, work, str(size)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


def bounded_growth(url: str, works: tuple[str, ...], size: int) -> None:
    grown = {work: growth(url, work, size) for work in works}
    print(", ".join(f"{work} {bytes_ / MIB:.1f} MiB" for work, bytes_ in grown.items()))
    assert {work: bytes_ for work, bytes_ in grown.items() if bytes_ >= MOST} == {}


def test_every_work_is_measured() -> None:
    assert {*FILES, *TREES} == set(bounded.WORKS)


def test_what_is_kept_shows() -> None:
    """The measurement convicts who holds a whole file in memory."""
    program = (
        f"import sys; sys.path.insert(0, {str(Path(bounded.__file__).parent)!r}); import bounded;"
        "before = bounded.peak(); kept = b''.join(bounded.blocks(96 * 2**20));"
        "print(bounded.peak() - before)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert int(done.stdout) > 90 * MIB


@pytest.mark.parametrize("engine", ENGINES)
def test_files_of_96_mib(url: str, engine: str) -> None:
    bounded_growth(url, FILES, 96 * MIB)


@pytest.mark.parametrize("engine", ENGINES)
def test_trees_of_thousands(url: str, engine: str) -> None:
    bounded_growth(url, TREES, FEW[engine])


@pytest.mark.torture
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("engine", ENGINES)
def test_files_of_1_gib(url: str, engine: str) -> None:
    bounded_growth(url, FILES, 1024 * MIB)


@pytest.mark.torture
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("engine", ENGINES)
def test_trees_of_200_000_nodes(url: str, engine: str) -> None:
    bounded_growth(url, TREES, 200_000)
