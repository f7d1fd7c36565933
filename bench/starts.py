"""What is paid before the first verb, and on the way to PostgreSQL."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable

import keelfs
from bench.row import POSTGRES, SQLITE, Measured, at_most, row
from bench.site import Site
from bench.small import DEPTH_4, SMALL
from bench.timing import Timed, by_turns
from keelfs import Space
from keelfs.testing.tcp_counter import Relay

_NO_BYTECODE = "PYTHONDONTWRITEBYTECODE"
_TIMED = """
import sys, time
{before}
started = time.perf_counter()
{work}
print(time.perf_counter() - started)
"""


def _in_a_new_process(work: str, before: str = "") -> Timed:
    """What `work` takes in an interpreter that has just started; that start is not counted."""
    program = _TIMED.format(before=before, work=work)
    # Modules are compiled already, as after an installation; the forgotten round sees to it.
    environment = {key: value for key, value in os.environ.items() if key != _NO_BYTECODE}

    def timed() -> float:
        done = subprocess.run(
            [sys.executable, "-c", program],
            capture_output=True, text=True, check=True, env=environment,
        )  # fmt: skip
        return float(done.stdout)

    return timed


@row("import-keelfs", "import keelfs", "import apsw", at_most(80, "ms"), on=(SQLITE,))
def import_keelfs(site: Site, database: str) -> Measured:
    return by_turns(
        _in_a_new_process("import keelfs"), _in_a_new_process("import apsw"),
        site.pick(15, 2), "ms",
    )  # fmt: skip


@row("open-store", "open an existing store, first in its process",
     "driver loaded and connected, one SELECT", at_most(30, "ms"))  # fmt: skip
def open_store(site: Site, database: str) -> Measured:
    url = site.new_url(database)
    with keelfs.open(url) as store:
        store.tenant("acme").space("session", "bench").write("/f", SMALL)
    if database == SQLITE:
        bare = f"import apsw; c = apsw.Connection({url.removeprefix('sqlite:///')!r})"
    else:
        bare = f"import psycopg; c = psycopg.connect({url!r})"
    return by_turns(
        _in_a_new_process(f"store = keelfs.open({url!r})", "import keelfs"),
        _in_a_new_process(f"{bare}; c.execute('SELECT count(*) FROM tenants').fetchall()"),
        site.pick(15, 2), "ms",
    )  # fmt: skip


@row("round-trips", "the dearest of 20 verbs, in round trips", "one trip of one SELECT",
     at_most(2, "trips"), on=(POSTGRES,))  # fmt: skip
def round_trips(site: Site, database: str) -> Measured:
    with Relay(site.new_database()) as relay, keelfs.open(relay.url) as store:
        space = store.tenant("acme").space("session", "bench")
        for _, verb in _verbs(space, "warm"):
            verb()
        worst = max(_trips(relay, verb) for _, verb in _verbs(space, "counted"))
    return Measured(worst, 1, "trips", worst)


def _trips(relay: Relay, verb: Callable[[], object]) -> int:
    with relay.counting() as count:
        verb()
    return count.round_trips


def _verbs(space: Space, top: str) -> list[tuple[str, Callable[[], object]]]:
    """Ordinary verbs on plain paths, each of them once; they make what the next ones need."""
    at = f"/{top}{DEPTH_4}"
    return [
        ("mkdir", lambda: space.mkdir(at, parents=True)),
        ("create", lambda: space.write(f"{at}/f", SMALL)),
        ("overwrite", lambda: space.write(f"{at}/f", SMALL)),
        ("expecting", lambda: space.write(f"{at}/f", SMALL, expect=2)),
        ("append", lambda: space.append(f"{at}/f", SMALL)),
        ("patch", lambda: space.patch(f"{at}/f", 7, b"seven")),
        ("truncate", lambda: space.truncate(f"{at}/f", 100)),
        ("set_attrs", lambda: space.set_attrs(f"{at}/f", mode=0o600)),
        ("read", lambda: space.read(f"{at}/f")),
        ("stat", lambda: space.stat(f"{at}/f")),
        ("exists", lambda: space.exists(f"{at}/g")),
        ("copy", lambda: space.copy(f"{at}/f", f"{at}/g")),
        ("move", lambda: space.move(f"{at}/g", f"{at}/h")),
        ("link", lambda: space.link(f"{at}/f", f"{at}/i")),
        ("symlink", lambda: space.symlink("f", f"{at}/s")),
        ("readlink", lambda: space.readlink(f"{at}/s")),
        ("remove", lambda: space.remove(f"{at}/h")),
        ("trash", lambda: space.trash(f"{at}/s")),
        ("changes", lambda: space.changes(after=0, limit=10)),
        ("usage", lambda: space.usage()),
    ]
