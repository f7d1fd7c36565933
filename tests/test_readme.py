"""The README runs: every block of Python in it, in order, on a real SQLite store, as printed.

`# -> value` behind a statement is compared with what the statement gives, `# raises Name` with the
error that comes, and comment lines below a `print` with what was printed. The test fails as well
if a promise was never reached, or if a verb of the library has no example.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import keelfs
from keelfs import errors
from serving import serving

README = Path(__file__).parent.parent / "README.md"

Blocks = list[tuple[int, str]]
#: A line of code, and the promise behind it.
PROMISE = re.compile(r"\s*\S.*?\s# (->|raises) (.*)$")
#: Verbs without an example of their own: the ground that `watch` stands on.
UNSHOWN = {"watcher"}


def blocks_of(text: str, language: str) -> Blocks:
    """Fenced blocks of a language: the number of their first line, and the text."""
    found: Blocks = []
    lines = text.splitlines()
    inside: str | None = None
    start = 0
    for number, line in enumerate(lines, 1):
        if not line.startswith("```"):
            continue
        if inside is None:
            inside, start = line[3:].strip(), number
        else:
            if inside == language:
                found.append((start + 1, "\n".join(lines[start : number - 1]) + "\n"))
            inside = None
    assert inside is None, "a block of code is not closed"
    return found


class Promises(ast.NodeTransformer):
    """Rewrites statements with a promise behind them into calls that keep it to its word."""

    def __init__(self, lines: list[str]) -> None:
        self._lines = lines
        self.found: set[int] = set()

    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        promise = PROMISE.match(self._lines[node.end_lineno - 1])  # type: ignore[operator]
        if promise is None:
            return node
        self.found.add(node.end_lineno)  # type: ignore[arg-type]
        kind, text = promise.groups()
        if kind == "raises":
            call = f"_raises({node.end_lineno}, {text!r}, lambda: 0)"
        else:
            call = f"_gives({node.end_lineno}, {text!r}, 0)"
        made = ast.parse(call, mode="eval").body
        assert isinstance(made, ast.Call)
        if kind == "raises":
            assert isinstance(made.args[2], ast.Lambda)
            made.args[2].body = node.value
        else:
            made.args[2] = node.value
        return ast.copy_location(ast.Expr(made), node)


class Run:
    """The examples, and what they printed and gave."""

    def __init__(self) -> None:
        self.kept: set[int] = set()
        self.printed: list[str] = []
        self.names: dict[str, Any] = {
            "__name__": "__main__",
            "_gives": self.gives,
            "_raises": self.raises,
            "print": self.print,
        }

    def gives(self, line: int, promised: str, given: object) -> None:
        self.kept.add(line)
        assert repr(given) == promised.strip()

    def raises(self, line: int, promised: str, call: Callable[[], object]) -> None:
        self.kept.add(line)
        kind = getattr(errors, promised.strip())
        with pytest.raises(kind) as caught:
            call()
        assert type(caught.value) is kind

    def print(self, *values: object) -> None:
        self.printed += " ".join(str(value) for value in values).splitlines()

    def block(self, first_line: int, text: str) -> None:
        self.kept.clear()
        self.printed.clear()
        lines = text.splitlines()
        promises = Promises(lines)
        tree = promises.visit(ast.parse(text))
        ast.fix_missing_locations(tree)
        ast.increment_lineno(tree, first_line - 1)
        exec(compile(tree, str(README), "exec"), self.names)
        promised = {at for at, line in enumerate(lines, 1) if PROMISE.match(line)}
        assert promised == promises.found, "a promise stands behind something else than a statement"
        assert promises.found == self.kept, "a promise was never reached"
        comments = [line.strip() for line in lines if line.strip().startswith("#")]
        assert self.printed == [re.sub("^# ?", "", comment) for comment in comments]


def test_every_example_runs_and_keeps_its_word(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = blocks_of(README.read_text(encoding="utf-8"), "python")
    assert len(blocks) > 20
    run = Run()
    with serving(f"sqlite:///{tmp_path / 'served.db'}", "--no-log-requests") as served:
        run.names["token"] = served.token("acme")
        for first_line, text in blocks:
            try:
                run.block(first_line, text.replace("127.0.0.1:8420", f"127.0.0.1:{served.port}"))
            except BaseException as error:
                error.add_note(f"in the block that begins in line {first_line} of the README")
                raise
    assert (tmp_path / "agents.db").exists()


def test_every_verb_has_an_example() -> None:
    called = {
        node.func.attr
        for _, text in blocks_of(README.read_text(encoding="utf-8"), "python")
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    }
    verbs = {
        name
        for kind in (keelfs.Workspace, keelfs.Space, keelfs.Tenant, keelfs.Store)
        for name, _ in inspect.getmembers(kind, inspect.isfunction)
        if not name.startswith("_")
    } | {"open", "restore"}
    assert not verbs - called - UNSHOWN
    assert verbs >= UNSHOWN


BROKEN = {
    "1 + 1  # -> 3\n": AssertionError,
    "if False:\n    1 + 1  # -> 2\n": AssertionError,
    "x = 1  # -> 1\n": AssertionError,
    "print(1)\n": AssertionError,
    "print(1)\n# 2\n": AssertionError,
    "1 + 1  # raises NotFound\n": pytest.fail.Exception,
}


@pytest.mark.parametrize("text", BROKEN)
def test_a_broken_promise_is_noticed(text: str) -> None:
    with pytest.raises(BROKEN[text]):
        Run().block(1, text)


def test_promises_are_kept_also_after_an_await() -> None:
    text = """import asyncio
async def one() -> int:
    return 1
async def main() -> None:
    await one()  # -> 1
asyncio.run(main())
"""
    Run().block(1, text)
    with pytest.raises(AssertionError):
        Run().block(1, text.replace("-> 1", "-> 2"))
