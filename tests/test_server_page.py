"""The pages about the server tell the truth: the session runs as printed, all routes are there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from keelfs.surfaces.rest.routes import ROUTES
from serving import Served
from test_readme import README, blocks_of

PAGE = README.parent / "docs" / "server.md"
FS = "/v1/agents/{agent}/sessions/{session}/fs"


def steps(text: str) -> Iterator[tuple[str, str]]:
    """Commands, and what each is said to print; an ellipsis stands for anything."""
    command: list[str] = []
    for line in [*text.splitlines(), ""]:
        if line.startswith("# "):
            yield "\n".join(command), line[2:]
            command = []
        else:
            command.append(line)
    assert not "".join(command).strip(), "the last command has no answer"


def test_the_session_of_the_readme_runs_as_printed(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    server = Served(f"sqlite:///{tmp_path / 'data' / 'keelfs.db'}")
    blocks = [text for _, text in blocks_of(README.read_text(encoding="utf-8"), "sh")]
    (session,) = [text for text in blocks if "api()" in text]
    session = session.replace("127.0.0.1:8420", f"127.0.0.1:{server.port}")
    shell = subprocess.Popen(
        ["bash"], cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env={**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
    )  # fmt: skip
    assert shell.stdin is not None
    assert shell.stdout is not None
    seen = 0
    for command, printed in steps(session):
        shell.stdin.write(f"{command}\necho; echo end-of-answer\n")
        shell.stdin.flush()
        lines = []
        while (line := shell.stdout.readline()) != "end-of-answer\n":
            assert line, "the shell has ended"
            lines.append(line)
        answer = "".join(lines).strip()
        pattern = ".*".join(re.escape(piece) for piece in printed.split("..."))
        assert re.fullmatch(pattern, answer), (command, answer)
        seen += 1
    assert seen == session.count("\n# ") >= 7
    shell.stdin.close()
    shell.wait(30)
    server.stop()
    server.store.close()


def test_the_page_has_every_route_and_no_other() -> None:
    (block,) = [text for _, text in blocks_of(PAGE.read_text(encoding="utf-8"), "routes")]
    told = {
        (method, template.replace("FS", FS, 1) if template.startswith("FS") else template)
        for template, *methods in (line.split() for line in block.splitlines())
        for method in methods
    }
    known = {(route.method, route.template) for route in ROUTES}
    assert told == {(method, path) for method, path in known if "/_actions/" not in path}
    aliases = {path for _, path in known if "/_actions/" in path}
    assert aliases == {f"{FS}/_actions/{name}" for name in ("stat", "move", "copy", "grep")}


def test_every_route_says_what_it_does() -> None:
    for route in ROUTES:
        assert route.says.endswith((".", ",")) or len(route.says) > 10
        assert (route.body is None) == (route.intake in {"none", "stream"}), route.template
