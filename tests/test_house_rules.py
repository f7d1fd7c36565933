"""House rules that a machine can check; each is proved by a planted violation."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

import keelfs

ROOT = Path(__file__).resolve().parent.parent
LIBRARY = sorted((ROOT / "src").rglob("*.py"))
SOURCES = [
    *LIBRARY,
    *sorted((ROOT / "tests").rglob("*.py")),
    *sorted((ROOT / "bench").rglob("*.py")),
]

MOST_LINES, MOST_LINES_OF_TESTS, MOST_LINES_OF_A_FUNCTION = 400, 600, 40
#: Files that are longer, each with its reason.
LONGER = {
    "src/keelfs/ops.py": "a list of small classes, one for each verb, read one at a time",
    "tests/test_agent_tree.py": "a list of small tests, read one at a time",
}

BANNED_MODULES = {"utils", "util", "helpers", "helper", "common", "base", "manager", "misc"}
#: Synonyms of words in the glossary, with the word to use.
BANNED_WORDS = {
    r"sub-?folders?": "sub-tree, or directory",
    r"inodes?": "node",
    r"dirents?": "entry",
    r"hardlinks?": "hard link: another name of a node",
    r"recycle bin": "trash",
    r"blobs?(?!\.)": "content",
    r"namespaces?": "space",
    r"middleware": "gate",
    r"event log": "journal",
    r"hacks?": "say what it is",
}
#: Where a banned word is somebody else's, and no other could stand there.
BORROWED = {
    "blob": "a type of SQLite, and of git",
    "inode": "a folder of the host has them",
    "namespace": "argparse calls its answer so",
}
#: `print` and the environment belong to programs; these are programs, and what opens a store.
PRINTS = ("surfaces/cli/", "testing/workload.py", "testing/crowd.py")
ENVIRONMENT = ("config.py", "assembly.py")
#: What is started, or opened as a folder, and not imported.
ENTRIES = {"keelfs", "keelfs.__main__", "keelfs.store.migrations"}


parsed = cache(ast.parse)
nodes = cache(lambda text: tuple(ast.walk(parsed(text))))


@cache
def code(text: str) -> tuple[int, ...]:
    """Numbers of the lines that hold code: neither blank nor comment nor docstring."""
    prose: set[int] = set()
    for node in nodes(text):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            head = node.body[0] if node.body else None
            if isinstance(head, ast.Expr) and isinstance(head.value, ast.Constant):
                prose |= set(range(head.lineno, (head.end_lineno or head.lineno) + 1))
    return tuple(
        number
        for number, line in enumerate(text.splitlines(), 1)
        if number not in prose and line.strip() and not line.lstrip().startswith("#")
    )


# --- rules: each says of a file what is wrong with it

Rule = Callable[[str, str], Iterator[str]]


def is_short(name: str, text: str) -> Iterator[str]:
    lines = len(code(text))
    most = MOST_LINES_OF_TESTS if name.startswith("tests/") else MOST_LINES
    if lines > most and name not in LONGER:
        yield f"{lines} lines of code, and {most} are allowed"


def has_short_functions(name: str, text: str) -> Iterator[str]:
    for node in nodes(text):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            last = node.end_lineno or node.lineno
            lines = bisect_right(code(text), last) - bisect_left(code(text), node.lineno)
            if lines > MOST_LINES_OF_A_FUNCTION:
                yield f"{node.name} has {lines} lines of code"


def has_a_sign(name: str, text: str) -> Iterator[str]:
    sign = ast.get_docstring(parsed(text)) or ""
    if len(sign.split()) < 4:
        yield "no docstring says what lives here"


def has_a_good_name(name: str, text: str) -> Iterator[str]:
    for part in Path(name).with_suffix("").parts:
        if part in BANNED_MODULES:
            yield f"a module called {part!r} has no purpose: say what it is"


def uses_the_words_of_the_glossary(name: str, text: str) -> Iterator[str]:
    for word, better in BANNED_WORDS.items():
        for found in re.finditer(rf"\b{word}\b", _prose(text), re.IGNORECASE):
            if found[0].lower().rstrip("s") not in BORROWED:
                yield f"{found[0]!r}: say {better}"


def leaves_nothing_for_later(name: str, text: str) -> Iterator[str]:
    marks = "|".join(("TO" + "DO", "FIX" + "ME", "XX" + "X", "HA" + "CK"))
    for found in re.finditer(rf"\b({marks})\b", text):
        yield f"{found[0]}: do it, or say what would make us do it"


def prints_nothing(name: str, text: str) -> Iterator[str]:
    if any(place in name for place in PRINTS):
        return
    for node in nodes(text):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id == "print"
        ):
            yield f"prints in line {node.lineno}"


def reads_no_environment(name: str, text: str) -> Iterator[str]:
    if name.endswith(ENVIRONMENT) or "testing/" in name:
        return
    for node in nodes(text):
        if isinstance(node, ast.Attribute) and node.attr in {"environ", "getenv", "environb"}:
            yield f"reads the environment in line {node.lineno}"


def stays_below_the_loop(name: str, text: str) -> Iterator[str]:
    if any(place in name for place in ("/aio/", "/surfaces/", "/server/", "/agents/", "/testing/")):
        return
    for module in _imports(text):
        if module.split(".")[0] == "asyncio":
            yield "knows an event loop"


ALL_RULES: tuple[Rule, ...] = (
    is_short, has_a_good_name, leaves_nothing_for_later, has_a_sign,
)  # fmt: skip
LIBRARY_RULES: tuple[Rule, ...] = (
    has_short_functions, uses_the_words_of_the_glossary, prints_nothing, reads_no_environment,
    stays_below_the_loop,
)  # fmt: skip


def _prose(text: str) -> str:
    """Docstrings and comments: what is written for people."""
    kinds = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    signs = [ast.get_docstring(node) or "" for node in nodes(text) if isinstance(node, kinds)]
    return "\n".join([*signs, *re.findall(r"(?m)^\s*#:? (.*)$", text)])


@cache
def _named(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("rule", ALL_RULES, ids=lambda rule: rule.__name__)
def test_every_source(rule: Rule) -> None:
    assert not _violations(rule, SOURCES)


@pytest.mark.parametrize("rule", LIBRARY_RULES, ids=lambda rule: rule.__name__)
def test_the_library(rule: Rule) -> None:
    assert not _violations(rule, LIBRARY)


def _violations(rule: Rule, sources: list[Path]) -> list[str]:
    return [
        f"{_named(path)}: {what}"
        for path in sources
        for what in rule(_named(path), path.read_text(encoding="utf-8"))
    ]


def test_longer_files_are_still_longer() -> None:
    for name in LONGER:
        text = (ROOT / name).read_text(encoding="utf-8")
        most = MOST_LINES_OF_TESTS if name.startswith("tests/") else MOST_LINES
        assert len(code(text)) > most, f"{name} needs no excuse any more"


# --- what packages offer, and what nobody needs


def _imports(text: str) -> set[str]:
    """Modules that a source imports, anywhere in it, as absolute names."""
    found: set[str] = set()
    for node in nodes(text):
        if isinstance(node, ast.Import):
            found |= {each.name for each in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{each.name}" for each in node.names)}
        elif isinstance(node, ast.Constant) and re.fullmatch(
            r"keelfs(\.\w+)+(:\w+)?", str(node.value)
        ):
            found.add(str(node.value).partition(":")[0])
    return found


def _module_name(path: Path) -> str:
    parts = path.relative_to(ROOT / "src").with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def dead(sources: dict[str, str], users: list[str]) -> set[str]:
    """Modules that nothing imports: no other module, no test, no program."""
    used: set[str] = set()
    for name, text in sources.items():
        used |= _imports(text) - {name}
    for text in users:
        used |= _imports(text)
    packages = {name for name in sources if any(each.startswith(f"{name}.") for each in sources)}
    return set(sources) - used - packages - ENTRIES


def test_every_module_is_needed() -> None:
    sources = {_module_name(path): path.read_text(encoding="utf-8") for path in LIBRARY}
    users = [path.read_text(encoding="utf-8") for path in SOURCES if path not in LIBRARY]
    # What is started as a program, or loaded as a plugin, is named as text.
    started = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    found = dead(sources, users)
    assert not {name for name in found if not re.search(rf"\b{re.escape(name)}\b", started)}


@pytest.mark.parametrize(
    "name", ["keelfs", *(each.name for each in pkgutil.walk_packages(keelfs.__path__, "keelfs."))]
)
def test_what_is_exported_exists_and_nothing_else(name: str) -> None:
    if name.endswith("__main__"):
        return
    module = importlib.import_module(name)
    exported = getattr(module, "__all__", None)
    if exported is None:
        return
    assert len(set(exported)) == len(exported)
    for each in exported:
        assert hasattr(module, each), each
    if hasattr(module, "__path__"):
        imported = {
            (each.asname or each.name)
            for node in ast.parse(Path(str(module.__file__)).read_text(encoding="utf-8")).body
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("keelfs")
            for each in node.names
        }
        assert imported <= set(exported), "what a package imports by name, it offers"


# --- the tests of the rules

SIGN = '"""A module that is here to be found."""\n'
PLANTED: list[tuple[Rule, str, str]] = [
    (is_short, "src/keelfs/x.py", "x = 1\n" * (MOST_LINES + 1)),
    (is_short, "tests/x.py", "x = 1\n" * (MOST_LINES_OF_TESTS + 1)),
    (has_short_functions, "x.py", "def f():\n" + "    x = 1\n" * MOST_LINES_OF_A_FUNCTION),
    (has_short_functions, "x.py", "async def f():\n" + "    x = 1\n" * 40),
    (has_a_sign, "x.py", "x = 1\n"),
    (has_a_sign, "x.py", '"""."""\n'),
    (has_a_good_name, "src/keelfs/utils.py", ""),
    (has_a_good_name, "src/keelfs/helpers/x.py", ""),
    (uses_the_words_of_the_glossary, "x.py", '"""The dirent of a file."""\n'),
    (uses_the_words_of_the_glossary, "x.py", SIGN + "# A subfolder.\n"),
    (leaves_nothing_for_later, "x.py", "# TO" + "DO: later\n"),
    (prints_nothing, "src/keelfs/x.py", "print(1)\n"),
    (reads_no_environment, "src/keelfs/x.py", "import os\nos.environ['X']\n"),
    (stays_below_the_loop, "src/keelfs/x.py", "import asyncio\n"),
    (stays_below_the_loop, "src/keelfs/store/x.py", "from asyncio import sleep\n"),
]


@pytest.mark.parametrize(("rule", "name", "text"), PLANTED)
def test_a_violation_is_found(rule: Rule, name: str, text: str) -> None:
    assert list(rule(name, text))


@pytest.mark.parametrize("rule", [*ALL_RULES, *LIBRARY_RULES], ids=lambda rule: rule.__name__)
def test_what_is_in_order_passes(rule: Rule) -> None:
    text = SIGN + "\n\n# Why.\n" * 500 + "def f() -> int:\n    return 1\n"
    assert not list(rule("src/keelfs/x.py", text))


def test_every_rule_has_a_planted_violation() -> None:
    assert {rule for rule, _, _ in PLANTED} == {*ALL_RULES, *LIBRARY_RULES}


def test_a_dead_module_is_found() -> None:
    sources = {
        "keelfs": "", "keelfs.alive": "", "keelfs.dead": "import keelfs.dead",
        "keelfs.room": "", "keelfs.room.inner": "from keelfs import alive",
    }  # fmt: skip
    assert dead(sources, ["from keelfs.room import inner"]) == {"keelfs.dead"}
