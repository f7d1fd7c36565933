"""The shell of agents under attack: it stops, nothing foreign is seen, and the tree stays sound."""

from __future__ import annotations

import ctypes
import os
import struct
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import keelfs
from keelfs import ops
from keelfs.agents.shell import Shell, ShellLimits, Stopped
from keelfs.errors import PermissionDenied, ValidationFailed
from keelfs.gates.policy import Policy
from keelfs.gates.validate import Validate, ValidatorRegistry
from keelfs.model import Content, Kind, Limits
from shells import scripts, shown

MIB = 2**20
NARROW = ShellLimits(commands=2000, loop_iterations=1900, output_bytes=MIB // 4, memory_bytes=MIB)
BRIEF = replace(NARROW, seconds=1.0)


@pytest.fixture
def store(sqlite_url: str) -> Iterator[keelfs.Store]:
    with keelfs.open(sqlite_url, durability="relaxed") as store:
        yield store
        assert store.check().ok


@pytest.fixture
def tree(store: keelfs.Store) -> keelfs.Space:
    return store.tenant("acme").space("session", "chat")


# -- limits ----------------------------------------------------------------------------------------

STOPPED: dict[str, tuple[str, Stopped]] = {
    "an endless loop": ("while :; do :; done", Stopped.COMMANDS),
    "a loop of nothing": ("for ((;;)); do { { :; }; }; done", Stopped.COMMANDS),
    "a loop of many rounds": ("for i in {1..2000}; do :; done", Stopped.LOOPS),
    "an endless wait": ("sleep 100000", Stopped.TIME),
    "a loop of waits": ("while :; do sleep 0.1; done", Stopped.TIME),
    "waiting for a job": ("sleep 100000 & wait", Stopped.TIME),
    "endless output": ("while :; do printf '%4000s' x; done", Stopped.OUTPUT),
    "endless errors": ("while :; do printf '%4000s' x >&2; done", Stopped.OUTPUT),
    "a variable that doubles": ("x=xxxxxxxx; while :; do x=$x$x; done", Stopped.MEMORY),
    "a file that grows": (
        "printf '%9999s' x > a; while :; do cat $(printf 'a %.0s' {1..60}) > b; mv b a; done",
        Stopped.MEMORY,
    ),
    "endless recursion": ("f() { f; }; f", Stopped.WORK),
    "too many words": ("echo {1..1000000000}", Stopped.WORK),
    "a command for each line": ("seq 100000 | xargs -n1 echo > /dev/null", Stopped.COMMANDS),
}  # fmt: skip


@pytest.mark.parametrize(("script", "stopped"), STOPPED.values(), ids=STOPPED.keys())
def test_a_limit_stops_it(tree: keelfs.Space, script: str, stopped: Stopped) -> None:
    with Shell(tree, BRIEF if stopped is Stopped.TIME else NARROW) as shell:
        result = shell.run(f"echo before; {script}; echo after")
        assert result.stopped is stopped
        assert result.exit_code == {Stopped.TIME: 124}.get(stopped, 137)
        assert result.stdout.startswith("before\n") or stopped is Stopped.WORK
        assert "after" not in result.stdout
        assert "bash: " in result.stderr
        assert len((result.stdout + result.stderr).encode()) < MIB // 4 + 1000
        assert shell.run("echo alive").stdout == "alive\n"


def test_a_shell_full_of_variables_can_be_emptied(tree: keelfs.Space) -> None:
    with Shell(tree, NARROW) as shell:
        result = shell.run("echo before; x=xxxxxxxx; for i in {1..18}; do x=$x$x; done; echo after")
        assert (result.stopped, result.stdout) == (Stopped.MEMORY, "before\n")
        assert "unset what is large" in result.stderr
        assert shell.run("echo still").stopped is Stopped.MEMORY
        assert shell.run("unset x").ok
        assert shell.run("echo alive").stdout == "alive\n"


ENDED = scripts("hostile.txt")


@pytest.mark.parametrize("script", ENDED.values(), ids=ENDED.keys())
def test_it_ends_and_little_is_left(tree: keelfs.Space, script: str) -> None:
    tree.set_limits(Limits(bytes=4 * MIB, nodes=1000))
    with Shell(tree, BRIEF) as shell:
        shell.run(script)
        assert shell.run("echo alive").stdout == "alive\n"
    assert tree.usage().bytes <= 4 * MIB


def test_a_search_that_never_pauses_is_stopped_between_two_answers(tree: keelfs.Space) -> None:
    tree.batch([ops.Write(f"/d{n % 20}/f{n}", "x\n") for n in range(400)])
    ticks = iter(range(10**9))
    with Shell(tree, ShellLimits(seconds=10), now=lambda: float(next(ticks))) as shell:
        for script in ("find / -type f", "grep -rn x /", "rm -r /*; ls"):
            result = shell.run(f"{script}; touch /reached; echo reached")
            assert (result.stopped, result.exit_code) == (Stopped.TIME, 124)
            assert "reached" not in result.stdout
    assert not tree.exists("/reached")


def test_less_time_can_be_given_to_one_command(tree: keelfs.Space) -> None:
    with Shell(tree) as shell:
        result = shell.run("while :; do sleep 0.01; done", seconds=0.2)
        assert (result.stopped, result.exit_code) == (Stopped.TIME, 124)
        assert shell.run("while :; do break; done; echo fine", seconds=20).stdout == "fine\n"


def test_what_was_done_before_the_stop_is_kept_whole(tree: keelfs.Space) -> None:
    with Shell(tree, NARROW) as shell:
        shell.run("n=0; while :; do n=$((n + 1)); echo $n >> log; done")
    lines = tree.read_text("/log").split()
    assert lines == [str(n) for n in range(1, len(lines) + 1)]
    assert len(lines) > 100


def test_large_files_and_directories_are_refused_and_still_moved(tree: keelfs.Space) -> None:
    tree.write("/big", (b"x" * 65_536 for _ in range(512)))
    tree.batch([ops.Write(f"/many/{n}", b"") for n in range(200)])
    limits = ShellLimits(file_bytes=MIB, directory_entries=100)
    with Shell(tree, limits) as shell, Peak() as peak:
        result = shell.run("cat big; echo $?; cp big copy && mv copy moved && stat -c %s moved")
        assert result.stdout == "1\n33554432\n"
        assert "File too large: a command reads files of up to 1048576 bytes" in result.stderr
        result = shell.run("ls many; echo $?; rm -r many && echo gone")
        assert result.stdout == "2\ngone\n"
        assert "up to 100 entries" in result.stderr
    assert peak.bytes < 8 * MIB


def test_memory_is_bounded_by_the_limits_of_one_command(tree: keelfs.Space) -> None:
    tree.write("/big", (b"0123456789abcde\n" * 4096 for _ in range(128)))
    with Shell(tree, ShellLimits(file_bytes=8 * MIB)) as shell:
        for script in ("wc -l big", "cat big > copy", "sort big | uniq -c", "sed -i s,a,b, big"):
            with Peak() as peak:
                shell.run(script)
            assert peak.bytes < 128 * MIB, script


class Peak:
    """The most memory that the process has held meanwhile, beyond what it had."""

    def __enter__(self) -> Peak:
        Path("/proc/self/clear_refs").write_text("5")
        self._before = self._highest()
        return self

    def __exit__(self, *_: object) -> None:
        self.bytes = self._highest() - self._before

    @staticmethod
    def _highest() -> int:
        status = Path("/proc/self/status").read_text()
        return int(status.partition("VmHWM:")[2].split()[0]) * 1024


# -- the host --------------------------------------------------------------------------------------


class Inotify:
    """Whether anything in a folder was looked at, by whatever part of the process."""

    def __init__(self, folder: Path) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        self._fd = libc.inotify_init1(os.O_NONBLOCK)
        assert self._fd >= 0
        assert libc.inotify_add_watch(self._fd, os.fsencode(folder), 0xFFF) >= 0

    def events(self) -> list[int]:
        try:
            data = os.read(self._fd, 65_536)
        except BlockingIOError:
            return []
        return [struct.unpack_from("iI", data)[1]]

    def close(self) -> None:
        os.close(self._fd)


_opened: list[str] = []
_audited = threading.local()


def audit(event: str, arguments: tuple[Any, ...]) -> None:
    if getattr(_audited, "on", False) and event.split(".")[0] in {"open", "os", "socket"}:
        _opened.append(f"{event} {arguments}")


@pytest.fixture(scope="module", autouse=True)
def _hook() -> None:
    sys.addaudithook(audit)


def test_no_host_file_is_reached(tmp_path: Path) -> None:
    space = keelfs.open("memory:").tenant("acme").space("session", "chat")
    host = tmp_path / "host"
    host.mkdir()
    (host / "secret.txt").write_text("PRIVATE-7431")
    up = "../" * 40
    watch = Inotify(host)
    script = f"""
        for place in {host} {up}{host} /proc/self/cwd{host} /proc/self/root{host} file://{host}; do
          cat "$place/secret.txt" $place/*; ls -la "$place"; source "$place/secret.txt"
          echo x > "$place/new.txt"; cp "$place/secret.txt" stolen; find "$place" -type f
          ln -s "$place/secret.txt" link; cat link; echo x > link; rm -f link
          ln "$place/secret.txt" hard; tar cf t.tar "$place"; grep -r PRIVATE "$place" /
          . "$place/secret.txt"; cd "$place" && pwd; cd /; mapfile -t a < "$place/secret.txt"
          jq . "$place/secret.txt"; awk 1 "$place/secret.txt"; sed -i s/P/Q/ "$place/secret.txt"
          curl "file://$place/secret.txt"; wget "$place"; bash "$place/secret.txt"; "$place/run"
          exec 5< "$place/secret.txt"; read -u 5 line; echo "$line"; touch -r "$place/secret.txt" z
          diff "$place/secret.txt" z; split "$place/secret.txt"; gzip -k "$place/secret.txt"
        done
        ln -s {up}.. out; ls out/; ln -s / root; ls root/root/; cat root{host}/secret.txt
        for f in /etc/passwd /etc/shadow /proc/1/environ /proc/self/maps /dev/mem /root/.ssh; do
          cat $f; head -c 10 $f; test -e $f && echo "$f is there"
        done
        exec 3<>/dev/tcp/127.0.0.1/22; echo > /dev/udp/127.0.0.1/53; cat < /dev/tcp/127.0.0.1/80
        curl http://127.0.0.1; wget http://127.0.0.1; http GET 127.0.0.1; nc 127.0.0.1 80; ssh x
        python3 -c 'open("{host}/secret.txt")'; perl -e 1; sqlite3 x.db .tables; kill -9 1
    """
    with Shell(space, ShellLimits(output_bytes=4 * MIB)) as shell:
        shell.run("true")
        _audited.on = True
        try:
            result = shell.run(script)
        finally:
            _audited.on = False
    seen = result.stdout + result.stderr
    stored = b"".join(space.read(f"/{path}") for path, stat in space.walk() if stat.is_file)
    assert result.stopped is None
    assert "PRIVATE-7431" not in seen
    assert b"PRIVATE-7431" not in stored
    assert "root:" not in seen
    assert "is there" not in seen
    assert _opened == []
    assert watch.events() == []
    watch.close()
    assert [path.name for path in host.iterdir()] == ["secret.txt"]
    assert os.environ.get("PATH", "") not in Shell(space).run("env; set; export -p").stdout


def test_a_look_at_the_host_would_be_noticed(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    watch = Inotify(tmp_path)
    _audited.on = True
    (tmp_path / "file").read_text()
    _audited.on = False
    assert watch.events() != []
    assert _opened.pop().startswith("open")
    _opened.clear()
    watch.close()


def test_nothing_above_a_subtree_is_seen(tree: keelfs.Space) -> None:
    tree.write("/secret", "PRIVATE")
    tree.mkdir("/home")
    tree.symlink("/secret", "/home/link")
    tree.symlink("../secret", "/home/up")
    with Shell(tree.subtree("/home")) as shell:
        result = shell.run(
            "cat link up /secret ../secret ../../secret; ls -a / ..; echo x > /secret"
        )
    assert "PRIVATE" not in result.stdout
    assert tree.read("/secret") == b"PRIVATE"
    assert tree.read("/home/secret") == b"x\n"


# -- what the tree refuses -------------------------------------------------------------------------

#: Each writes to /f.json, or under this name, in a way of its own.
WAYS_IN = {
    "write": "echo bad > f.json",
    "append": "echo bad >> f.json",
    "in a block": "{ echo bad; echo worse; } > f.json",
    "edit in place": "sed -i 's/.*/bad/' f.json",
    "move": "mv bad.txt f.json",
    "copy": "cp bad.txt f.json",
    "archive": "tar xf bad.tar",
    "tee": "cat bad.txt | tee f.json",
    "sort": "sort -o f.json bad.txt",
    "awk": "awk '{ print > \"f.json\" }' bad.txt",
    "descriptor": "exec 3> f.json; echo bad >&3; exec 3>&-",
    "truncate": "truncate -s 1 f.json",
    "dd": "dd if=bad.txt of=f.json",
    "link": "ln -sf bad.txt f.json",
    "second name": "ln -f bad.txt f.json",
    "directory": "mkdir d; cp bad.txt d/f.json; mv d/f.json f.json",
    "patch": "printf -- '--- f.json\\n+++ f.json\\n@@ -1 +1 @@\\n-{}\\n+bad\\n' | patch -p0",
}


def prepared(tree: keelfs.Space) -> dict[str, object]:
    with Shell(tree) as shell:
        assert shell.run(
            "mkdir x; cd x; echo bad > f.json; tar cf ../bad.tar f.json; cd ..; rm -r x\n"
            "echo '{}' > f.json; echo bad > bad.txt"
        ).ok
    return shown(tree)


def braces(content: Content) -> None:
    if not content.read(0, 10).startswith(b"{}") or content.stat.size != 3:
        raise ValidationFailed("line 1 is not an object")


@pytest.mark.parametrize("script", WAYS_IN.values(), ids=WAYS_IN.keys())
def test_a_validator_holds_on_every_way_in(tree: keelfs.Space, script: str) -> None:
    before = prepared(tree)
    registry = ValidatorRegistry()
    registry.register("**/f.json", braces)
    with Shell(keelfs.Workspace(Validate(tree.handler, registry))) as shell:
        result = shell.run(script)
    assert "Invalid argument: " in result.stderr
    assert {path: held for path, held in shown(tree).items() if path != "d"} == before


@pytest.mark.parametrize("script", WAYS_IN.values(), ids=WAYS_IN.keys())
def test_nothing_changes_a_readonly_tree(tree: keelfs.Space, script: str) -> None:
    before = prepared(tree)
    with Shell(tree.readonly()) as shell:
        result = shell.run(f"{script}; touch bad.txt; rm bad.txt; mkdir y; chmod 600 bad.txt")
    assert "Read-only file system: " in result.stderr or "Permission denied" in result.stderr
    assert shown(tree) == before


@pytest.mark.parametrize("script", WAYS_IN.values(), ids=WAYS_IN.keys())
def test_a_policy_is_asked_about_every_way_in(tree: keelfs.Space, script: str) -> None:
    before = prepared(tree)

    def reading(op: ops.Op[Any]) -> None:
        if op.mutates:
            raise PermissionDenied("agents only read here")

    with Shell(keelfs.Workspace(Policy(tree.handler, reading))) as shell:
        result = shell.run(script)
    assert "Permission denied: agents only read here" in result.stderr
    assert shown(tree) == before


FILLING = {
    "write": "printf '%9000s' x > new",
    "append": "printf '%9000s' x >> old",
    "edit in place": "sed -i \"s/x/$(printf '%9000s' x)/\" old",
    "copy": "cp half new",
    "copies": "cp -r dir new",
    "tee": "printf '%9000s' x | tee new > /dev/null",
    "archive": "tar cf new.tar half",
    "pack": "cat half half half | gzip -1 > /dev/null; cat half half > new",
}


@pytest.mark.parametrize("script", FILLING.values(), ids=FILLING.keys())
def test_a_quota_holds_to_the_byte(tree: keelfs.Space, script: str) -> None:
    tree.set_limits(Limits(bytes=10_000))
    tree.write("/old", "x")
    tree.write("/half", "h" * 5500)
    tree.write("/dir/half", "h" * 4400)
    before = shown(tree)
    with Shell(tree) as shell:
        assert "9901" not in shell.run("df").stdout
        result = shell.run(script)
        assert "Disk quota exceeded: " in result.stderr
        assert {path: held for path, held in shown(tree).items() if path != "new"} == before
        assert not tree.exists("/new") or tree.stat("/new").kind is Kind.DIRECTORY
        assert shell.run("rm half; echo fits > small && cat small").stdout == "fits\n"
    assert tree.usage().bytes <= 10_000


def test_limits_of_names_are_told(tree: keelfs.Space) -> None:
    tree.set_limits(Limits(nodes=3))
    with Shell(tree) as shell:
        result = shell.run("touch a b c d; mkdir e; ln -s a f; ls")
    assert result.stdout == "a\nb\nc\n"
    assert result.stderr.count("Disk quota exceeded") == 3


def test_errors_are_those_of_posix(tree: keelfs.Space) -> None:
    tree.write("/locked", "x")
    tree.set_attrs("/locked", readonly=True)
    with Shell(tree, env={"A": "1"}) as shell:
        result = shell.run(
            "cat nope; mkdir d; mkdir d; rmdir locked; cat d; echo x > locked; echo x > nope/f\n"
            "echo x >> nope/f; ln -s b a; ln -s a b; cat a; touch -d never f; ln; touch; ln -s x"
        )
    assert result.stderr.splitlines() == [
        "cat: nope: No such file or directory",
        "mkdir: cannot create directory 'd': File exists",
        "rmdir: failed to remove 'locked': Not a directory",
        "cat: d: Is a directory",
        "bash: line 1: locked: Read-only file system: The file, or the whole tree, is read-only",
        "bash: line 1: nope/f: No such file or directory",
        "bash: line 2: nope/f: No such file or directory",
        "cat: a: Too many levels of symbolic links",
        "touch: invalid date format 'never'",
        "ln: missing file operand",
        "touch: missing file operand",
    ]
