"""The shell of agents over real trees: it works as bash does, and its writes are the tree's."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import keelfs
from keelfs.agents.shell import Shell, ShellResult
from keelfs.model import ChangeKind, Kind, Principal

FOLDER = Path(__file__).parent / "scripts"
ACCEPTANCE = (FOLDER / "acceptance.sh").read_text()
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
    return keelfs.open("memory:").tenant("acme").space("session", "chat", principal=AGENT)


def shown(space: keelfs.Workspace) -> dict[str, object]:
    """Everything in a tree: modes, targets and bytes by path."""
    found: dict[str, object] = {}
    for path, stat in space.walk("/"):
        held = stat.target if stat.kind is Kind.SYMLINK else stat.mode
        found[path] = (stat.kind, held, space.read(f"/{path}") if stat.is_file else b"")
    return found


def shown_on_host(folder: Path) -> dict[str, object]:
    found: dict[str, object] = {}
    for path in folder.rglob("*"):
        name = str(path.relative_to(folder))
        mode = path.lstat().st_mode & 0o7777
        if path.is_symlink():
            found[name] = (Kind.SYMLINK, os.readlink(path), b"")
        elif path.is_dir():
            found[name] = (Kind.DIRECTORY, mode, b"")
        else:
            found[name] = (Kind.FILE, mode, path.read_bytes())
    return found


def in_bash(script: str, folder: Path) -> ShellResult:
    env = {"PATH": "/usr/bin:/bin", "LC_ALL": "C", "HOME": "/"}
    done = subprocess.run(
        ["/bin/bash", "-c", script],
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        umask=0o022,
    )
    return ShellResult(stdout=done.stdout, stderr=done.stderr, exit_code=done.returncode)


# -- like bash -----------------------------------------------------------------------------------


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


SCRIPTS = re.split(r"^### (.*)\n", (FOLDER / "like_bash.txt").read_text(), flags=re.MULTILINE)[1:]
LIKE_BASH = dict(zip(SCRIPTS[::2], SCRIPTS[1::2], strict=True))


@pytest.mark.parametrize("script", LIKE_BASH.values(), ids=LIKE_BASH.keys())
def test_it_does_what_bash_does(memory: keelfs.Space, tmp_path: Path, script: str) -> None:
    expected = in_bash(script, tmp_path)
    with Shell(memory) as shell:
        result = shell.run(script)
    assert (result.stdout, result.exit_code) == (expected.stdout, expected.exit_code), result.stderr
    assert shown(memory) == shown_on_host(tmp_path)


# -- what it does to the tree ----------------------------------------------------------------------


def test_an_append_is_an_append_and_a_rename_a_move(tree: keelfs.Space) -> None:
    with Shell(tree) as shell:
        shell.run("echo one > f; echo two >> f; chmod 600 f; mv f g; cp g h; mkdir d; rm h")
    kinds = [(change.kind, change.path, change.to) for change in tree.changes().items]
    assert kinds == [
        (ChangeKind.CREATE, ("f",), None),
        (ChangeKind.WRITE, ("f",), None),
        (ChangeKind.ATTRS, ("f",), None),
        (ChangeKind.MOVE, ("f",), ("g",)),
        (ChangeKind.COPY, ("g",), ("h",)),
        (ChangeKind.CREATE, ("d",), None),
        (ChangeKind.REMOVE, ("h",), None),
    ]
    assert {change.by for change in tree.changes().items} == {"agent:ada"}
    assert tree.read("/g") == b"one\ntwo\n"
    assert [tree.read("/g", revision=number) for number in (1, 2)] == [b"one\n", b"one\ntwo\n"]
