"""The shell of agents over real trees: it works as bash does, and its writes are the tree's."""

from __future__ import annotations

import asyncio
import gc
import random
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import keelfs
from keelfs import aio, ops
from keelfs.agents.shell import Shell, ShellLimits, Stopped, abi
from keelfs.agents.shell.mount import Mount
from keelfs.errors import InvalidArgument, TooLarge
from keelfs.gates.policy import Policy
from keelfs.model import ChangeKind, Principal
from shells import FOLDER, in_bash, scripts, shown, shown_on_host

ACCEPTANCE = (FOLDER / "acceptance.sh").read_text()
LIKE_BASH, UNLIKE_BASH = scripts("like_bash.txt"), scripts("unlike_bash.txt")
AGENT = Principal("agent", "ada")


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest) -> Iterator[keelfs.Store]:
    url = request.getfixturevalue(f"{request.param}_url")
    with keelfs.open(url, durability="relaxed") as store:
        yield store
        assert store.check().ok


@pytest.fixture
def tree(store: keelfs.Store) -> keelfs.Space:
    return store.tenant("acme").space("session", "chat", principal=AGENT)


@pytest.fixture
def memory() -> keelfs.Space:
    return in_memory()


def in_memory() -> keelfs.Space:
    return keelfs.open("memory:").tenant("acme").space("session", "chat", principal=AGENT)


# -- like bash -------------------------------------------------------------------------------------


def test_what_an_agent_writes_runs_as_in_bash(tree: keelfs.Space, tmp_path: Path) -> None:
    folder = tmp_path / "real"
    folder.mkdir()
    assert len([line for line in ACCEPTANCE.splitlines() if line.strip()]) > 100
    expected = in_bash(ACCEPTANCE, folder)
    with Shell(tree) as shell:
        result = shell.run(ACCEPTANCE)
    assert result == expected
    assert result.stdout.count("\n") > 60
    assert shown(tree) == shown_on_host(folder)


def compare(space: keelfs.Workspace, script: str, folder: Path) -> None:
    expected = in_bash(script, folder)
    with Shell(space) as shell:
        result = shell.run(script)
    assert (result.stdout, result.exit_code) == (expected.stdout, expected.exit_code), result.stderr
    assert shown(space) == shown_on_host(folder)


@pytest.mark.parametrize("script", LIKE_BASH.values(), ids=LIKE_BASH.keys())
def test_it_does_what_bash_does(memory: keelfs.Space, tmp_path: Path, script: str) -> None:
    compare(memory, script, tmp_path)


@pytest.mark.parametrize("script", UNLIKE_BASH.values(), ids=UNLIKE_BASH.keys())
def test_a_named_difference_is_one(memory: keelfs.Space, tmp_path: Path, script: str) -> None:
    expected = in_bash(script, tmp_path)
    with Shell(memory) as shell:
        result = shell.run(script)
    assert (result.stdout, result.exit_code) != (expected.stdout, expected.exit_code)


def test_every_difference_is_documented() -> None:
    document = (Path(__file__).parent.parent / "docs" / "shell.md").read_text()
    assert [title for title in UNLIKE_BASH if title not in document] == []


def test_pipes_over_a_thousand_files(memory: keelfs.Space) -> None:
    memory.batch([ops.Write(f"/d{n % 10}/f{n}.txt", f"{n}\n" * 3) for n in range(1000)])
    with Shell(memory) as shell:
        result = shell.run(
            "cat d*/*.txt | sort -n | uniq -c | awk '{s+=$1*$2} END{print s}'\n"
            "find . -name '*.txt' | xargs wc -l | grep -c txt\n"
            "grep -rln 77 . | sort | tail -n 1\n"
            'for f in d7/*; do echo "${f##*/}"; done | sort | tail -n 1'
        )
    assert result.stdout.split("\n") == ["1498500", "1000", "./d9/f779.txt", "f997.txt", ""]


# -- what it does to the tree ----------------------------------------------------------------------


def check_journal(space: keelfs.Space) -> None:
    with Shell(space) as shell:
        shell.run("echo one > f; echo two >> f; chmod 600 f; mv f g; cp g h; mkdir d; rm h")
        shell.run("echo x > t; mv t g")
    changes = space.changes().items
    assert [(change.kind, change.path, change.to) for change in changes] == [
        (ChangeKind.CREATE, ("f",), None),
        (ChangeKind.WRITE, ("f",), None),
        (ChangeKind.ATTRS, ("f",), None),
        (ChangeKind.MOVE, ("f",), ("g",)),
        (ChangeKind.COPY, ("g",), ("h",)),
        (ChangeKind.CREATE, ("d",), None),
        (ChangeKind.REMOVE, ("h",), None),
        (ChangeKind.CREATE, ("t",), None),
        (ChangeKind.REMOVE, ("g",), None),
        (ChangeKind.MOVE, ("t",), ("g",)),
    ]
    assert {change.by for change in changes} == {"agent:ada"}


def test_what_it_does_is_in_the_journal_under_its_name(tree: keelfs.Space) -> None:
    check_journal(tree)


def check_history(space: keelfs.Space) -> None:
    with Shell(space) as shell:
        shell.run(
            "echo one > f; ln f twin; sed -i s/one/two/ f; echo three >> f; sed -i.old s/t/T/ f"
        )
    assert [space.read("/f", revision=number) for number in (1, 2, 3, 4)] == [
        b"one\n", b"two\n", b"two\nthree\n", b"Two\nThree\n",
    ]  # fmt: skip
    assert [name for name, _ in space.walk()] == ["f", "f.old", "twin"]
    assert space.stat("/twin").id == space.stat("/f").id


def test_editing_in_place_keeps_the_history(tree: keelfs.Space) -> None:
    check_history(tree)


def test_bytes_go_through_unchanged(memory: keelfs.Space) -> None:
    data = random.Random(1).randbytes(300_000)
    memory.write("/data", data)
    with Shell(memory) as shell:
        result = shell.run(
            "cat data > a; cat data | cat > b; cp data c; gzip -kc data > z; gunzip -c z > d\n"
            "tar cf t.tar data; mkdir x; tar xf t.tar -C x; base64 data | base64 -d > e\n"
            "head -c 300000 data > f; cat data >> a; dd if=data of=g"
        )
    assert "error" not in result.stderr
    assert memory.read("/a") == data * 2
    same = ("/b", "/c", "/d", "/e", "/f", "/g", "/x/data")
    assert [path for path in same if memory.read(path) != data] == []


def test_each_write_is_seen_before_the_next(tree: keelfs.Space) -> None:
    seen: list[list[str]] = []

    def look(op: ops.Op[Any]) -> None:
        if isinstance(op, ops.Write):
            seen.append([entry.name for entry in tree.entries()])

    with Shell(keelfs.Workspace(Policy(tree.handler, look))) as shell, Shell(tree) as other:
        shell.run("for n in 1 2 3; do echo $n > f$n; done")
        assert other.run("cat f*").stdout == "1\n2\n3\n"
    assert seen == [[], ["f1"], ["f1", "f2"]]


PLANTED: dict[str, tuple[str, Callable[..., None]]] = {
    "an append that overwrites": ("append_file", Mount.write_file),
    "a rename that copies": ("rename", lambda mount, path, to: mount.copy(path, to)),
    "a rename that keeps what is there": (
        "rename", lambda mount, path, to: mount.perform(ops.Move(path, to)),
    ),
    "a place taken by a new file": (
        "_take_place", lambda mount, path, to: mount.perform(ops.Move(path, to, replace=True)),
    ),
    "a stat that follows links": (
        "stat",
        lambda mount, path, into: setattr(into, "type", int(path != "/" and "." in path)),
    ),
    "links that are forgotten": ("symlink", lambda mount, target, path: None),
    "modes that are forgotten": ("chmod", lambda mount, path, mode: None),
}  # fmt: skip


@pytest.mark.parametrize(("name", "broken"), PLANTED.values(), ids=PLANTED.keys())
def test_a_broken_mount_is_caught(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, broken: Callable[..., None]
) -> None:
    def everything() -> None:
        check_journal(in_memory())
        check_history(in_memory())
        for number, script in enumerate(LIKE_BASH.values()):
            folder = tmp_path / str(number)
            folder.mkdir()
            compare(in_memory(), script, folder)

    monkeypatch.setattr(Mount, name, broken)
    with pytest.raises((AssertionError, keelfs.KeelError)):
        everything()


# -- over the tree of an agent ---------------------------------------------------------------------


@pytest.fixture
def agent(store: keelfs.Store, tmp_path: Path) -> keelfs.Workspace:
    skill = tmp_path / "skill"
    skill.mkdir()
    (skill / "steps.md").write_text("1. Ask\n")
    return store.tenant("acme").agent_tree(
        session="s", agent="ada", user="ann", skills={"onboarding": skill}
    )


def test_it_works_across_the_mounts_of_an_agent(
    agent: Any, store: keelfs.Store, tmp_path: Path
) -> None:
    with agent.shell(cwd="/work") as shell:
        result = shell.run(
            "mkdir -p /work/d/e; cd /work; echo a > a; chmod 750 a; echo b > d/e/b\n"
            "mv a /.agent/a; cp -p /.agent/a /.user/a; stat -c %a /.user/a\n"
            "mv -f /.agent/a /.user/a; cp -r d /.agent/d; mv d /.user/d\n"
            "find / -type f | sort; ls /work /.agent\n"
            "cat /skills/*/steps.md; echo '2. Do' >> /skills/onboarding/steps.md\n"
            "sed -i s/Ask/Listen/ /skills/onboarding/steps.md; cat /skills/onboarding/steps.md\n"
            "cat /.user/memory/MEMORY.md | head -n 1; ls -A /.user\n"
            "tar cf /artifacts/t.tar /.user\n"
            'ln /.user/a /a; echo \'{"type": "nope"}\' >> /.agent/fragments.jsonl; mv /.agent /x'
        )
    assert result.stdout.splitlines() == [
        "750", "/.agent/d/e/b", "/.user/a", "/.user/d/e/b", "/skills/onboarding/steps.md",
        "/work:", "", "/.agent:", "d", "1. Ask", "1. Listen", "2. Do", "# Memory", "a", "d",
    ]  # fmt: skip
    assert "failed to create hard link '/a': Invalid cross-device link" in result.stderr
    assert "Invalid argument: line 1, type 'nope'" in result.stderr
    assert "Device or resource busy" in result.stderr
    assert (tmp_path / "skill" / "steps.md").read_text() == "1. Ask\n"
    assert {change.by for change in agent.changes().items} == {"agent:ada"}
    tenant = store.tenant("acme")
    for other in ({"session": "t"}, {"user": "bob"}, {"agent": "eve"}):
        tree = tenant.agent_tree(**{"session": "s", "agent": "ada", "user": "ann", **other})
        with tree.shell() as shell:
            seen = shell.run("find / -type f -o -type l").stdout.split()
        mine = {"session": "/artifacts", "user": "/.user", "agent": "/.agent"}
        assert not any(path.startswith(mine[next(iter(other))]) for path in seen)


def test_an_agent_has_a_shell_in_the_event_loop(tmp_path: Path) -> None:
    async def main() -> None:
        async with await aio.open(f"sqlite:///{tmp_path}/a.db") as store:
            tenant = await store.tenant("acme")
            tree = await tenant.agent_tree(session="s", agent="ada", user="ann")
            async with await tree.shell(ShellLimits(commands=5), env={"A": "b"}) as shell:
                assert (await shell.run("echo $A > /.agent/f; cat /.agent/f")).stdout == "b\n"
                assert (await shell.run("while :; do :; done")).stopped is Stopped.COMMANDS

    asyncio.run(main())


# -- its state -------------------------------------------------------------------------------------


def test_its_state_lasts_as_long_as_the_shell(memory: keelfs.Space) -> None:
    memory.mkdir("/work/deep", parents=True)
    with Shell(memory, cwd="/work", env={"LEVEL": "1"}, user="ada") as shell:
        assert shell.run("pwd; echo $LEVEL $HOME; whoami").stdout == "/work\n1 /\nada\n"
        assert shell.run("cd deep; x=5; f() { echo f$1; }; export LEVEL=2; exit 7").exit_code == 7
        assert shell.cwd == "/work/deep"
        assert shell.run("f $x; env | grep LEVEL; echo hi > here").stdout == "f5\nLEVEL=2\n"
        with Shell(memory) as other:
            assert other.run('echo "$x"; f').stdout == "\n"
    assert memory.read("/work/deep/here") == b"hi\n"


def test_more_than_a_thousand_commands_in_one_shell(memory: keelfs.Space) -> None:
    with Shell(memory) as shell:
        for _ in range(1200):
            result = shell.run("n=$((n + 1)); : $n $n $n")
        assert shell.run("echo $n").stdout == "1200\n"
    assert result.ok


def test_shells_in_threads_write_side_by_side(tree: keelfs.Space) -> None:
    def work(number: int) -> None:
        with Shell(tree) as shell:
            result = shell.run(
                f"for n in $(seq 20); do echo {number}-$n >> log; echo $n > f{number}-$n; done"
            )
            assert result == shell.run("true")

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(tree.read_text("/log").split()) == sorted(
        f"{number}-{n}" for number in range(6) for n in range(1, 21)
    )
    assert tree.usage().nodes == 121


def test_threads_share_one_shell(memory: keelfs.Space) -> None:
    with Shell(memory) as shell:
        threads = [
            threading.Thread(target=shell.run, args=("x=$((x + 1)); y=$x; x=$y",))
            for _ in range(20)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert shell.run("echo $x").stdout == "20\n"


def test_a_closed_shell_and_a_forgotten_one_let_go_of_the_tree(memory: keelfs.Space) -> None:
    def held() -> tuple[int, int]:
        gc.collect()
        return abi.seats(), sum(isinstance(each, Mount) for each in gc.get_objects())

    seats, mounts = held()
    shell = Shell(memory)
    assert held() == (seats + 1, mounts + 1)
    shell.run("echo x > f; cat f f f")
    shell.close()
    shell.close()
    with pytest.raises(InvalidArgument):
        shell.run("echo x")
    assert held() == (seats, mounts + 1)
    del shell
    Shell(memory).run("echo x")
    assert held() == (seats, mounts)


def test_an_interrupt_ends_the_command_and_reaches_the_caller(memory: keelfs.Space) -> None:
    memory.write("/f", "x")

    def interrupt(op: ops.Op[Any]) -> None:
        if isinstance(op, ops.Append):
            raise KeyboardInterrupt

    with Shell(keelfs.Workspace(Policy(memory.handler, interrupt))) as shell:
        with pytest.raises(KeyboardInterrupt):
            shell.run("echo a > a; echo x >> f; echo b > b")
        assert shell.run("ls").stdout == "a\nf\n"


def test_a_defect_shows_nothing_but_its_number(memory: keelfs.Space) -> None:
    def fail(op: ops.Op[Any]) -> None:
        if isinstance(op, ops.Write):
            raise RuntimeError("secret of the host")

    with Shell(keelfs.Workspace(Policy(memory.handler, fail))) as shell:
        result = shell.run("echo x > f; touch g; echo $?")
    assert "Input/output error: an unexpected failure; it is in the log as" in result.stderr
    assert "secret" not in result.stderr
    assert result.stdout == "1\n"


@pytest.mark.parametrize(
    "wrong",
    [
        {"commands": 0},
        {"seconds": float("nan")},
        {"output_bytes": 2**30},
        {"memory_bytes": 1.5},
        {"file_bytes": True},
        {"seconds": "1"},
    ],
)
def test_limits_are_checked(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument):
        ShellLimits(**wrong)


def test_arguments_are_checked(memory: keelfs.Space) -> None:
    with Shell(memory, ShellLimits(script_bytes=100)) as shell:
        with pytest.raises(TooLarge):
            shell.run("#" * 101)
        with pytest.raises(InvalidArgument):
            shell.run(b"ls")  # type: ignore[arg-type]
        for seconds in (0, float("nan"), "1"):
            with pytest.raises(InvalidArgument):
                shell.run("ls", seconds=seconds)  # type: ignore[arg-type]
        with pytest.raises(InvalidArgument):
            shell.run("echo \ud800")
        assert shell.run("if").exit_code == 2
    wrong: list[dict[str, Any]] = [{"cwd": 5}, {"env": {"A": 1}}, {"user": "a\0"}]
    for each in wrong:
        with pytest.raises(InvalidArgument):
            Shell(memory, **each)


def test_closing_awaits_the_write_that_is_under_way(memory: keelfs.Space) -> None:
    begun, free = threading.Event(), threading.Event()

    def wait(op: ops.Op[Any]) -> None:
        if isinstance(op, ops.Append):
            begun.set()
            assert free.wait(60)

    shell = Shell(keelfs.Workspace(Policy(memory.handler, wait)))
    running = threading.Thread(target=shell.run, args=("echo x >> log; echo y > never",))
    running.start()
    assert begun.wait(60)
    closing = threading.Thread(target=shell.close)
    closing.start()
    closing.join(0.1)
    assert closing.is_alive()
    free.set()
    closing.join()
    running.join()
    assert [entry.name for entry in memory.entries()] == ["log"]


# -- for the event loop ----------------------------------------------------------------------------


def test_the_event_loop_goes_on_meanwhile(tree: keelfs.Space) -> None:
    async def main() -> None:
        async with aio.Shell(Shell(tree)) as shell:
            result = await shell.run("echo hi > f; cat f")
            assert (result.stdout, shell.cwd) == ("hi\n", "/")
            running = asyncio.ensure_future(shell.run("while [ ! -e stop ]; do sleep 0.01; done"))
            await asyncio.sleep(0.05)
            assert not running.done()
            await asyncio.to_thread(tree.write, "/stop", b"")
            assert (await running).ok
            several = [aio.Shell(Shell(tree)) for _ in range(4)]
            await asyncio.gather(*(each.run("echo x >> log") for each in several))
            assert tree.read("/log") == b"x\n" * 4

    asyncio.run(main())


def test_cancelling_stops_the_command(memory: keelfs.Space) -> None:
    async def main() -> None:
        shell = aio.Shell(Shell(memory))
        long = "for n in {1..9000}; do echo $n > begun; done; echo x > ended"
        running = asyncio.ensure_future(shell.run(long))
        while not memory.exists("/begun"):
            await asyncio.sleep(0.001)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        # The next command waits for the one before.
        assert (await shell.run("ls; rm begun")).stdout == "begun\n"
        running = asyncio.ensure_future(shell.run(long))
        while not memory.exists("/begun"):
            await asyncio.sleep(0.001)
        shell.stop()
        result = await running
        assert (result.stopped, result.exit_code) == (Stopped.ASKED, 130)

    asyncio.run(main())
