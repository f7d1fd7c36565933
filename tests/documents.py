"""Documents taken apart, and a place to look up what they name.

A `Lookup` knows what the project has: files, make targets, modules, classes, functions, fields,
constants, tables and columns, settings, invariants, tests. It says of a code span why it is
unknown, or nothing.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import keelfs
from keelfs.config import Settings
from keelfs.model import Limits
from keelfs.store.schema import POSTGRES, SQLITE
from keelfs.surfaces.cli.main import COMMANDS

ROOT: Final = Path(__file__).resolve().parent.parent
DOCUMENTS: Final = sorted(
    page.relative_to(ROOT)
    for page in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"))
)  # fmt: skip

#: Words of SQL and of its two databases that are no names of ours.
SQL_WORDS: Final = frozenset(
    {
        "BEGIN", "COMMIT", "ROLLBACK", "SELECT", "LIKE", "UPDATE", "INSERT", "DELETE", "SET",
        "NULL", "FORCE", "NORMAL", "FULL", "OFF", "WAL", "CTE", "COPY",
    }
)  # fmt: skip
#: What documents name and somebody else defines.
FOREIGN: Final = frozenset(
    {
        "kill -9", "rm -r", "mkdir -p", "cp", "mkdir", "sqlite3", "tarfile", "fnmatch", "re",
        "unnest", "executemany", "synchronous", "security_invoker", "current_setting", "with",
        "pg_dump", "SQLITE_DBCONFIG_ENABLE_QPSG", "filter", "__all__", "lint-imports",
        "Class.test_name", "agentfs-sdk",
        "time.process_time", "utils", "helpers", "common", "base", "manager", "misc",
    }
)  # fmt: skip
#: Headers and values of HTTP, and texts that begin or stand for something of ours.
PROTOCOL: Final = frozenset(
    {
        "Accept: application/octet-stream", "ETag", "If-Match", "If-None-Match", "Idempotency-Key",
        "Retry-After", "Last-Event-ID", "nosniff", "text/event-stream", "pg_notify", "keel_",
        "_", "_actions", "%FF", "%2F", "uvicorn", "httptools", "uvloop", "default", "data",
    }
)  # fmt: skip
#: Programs of a shell, named with or without options.
PROGRAMS: Final = frozenset(
    {
        "awk", "base64", "bash", "cat", "cp", "curl", "diff", "find", "git", "grep", "gzip",
        "head", "jq", "ls", "mkdir", "mv", "ps", "python3", "rm", "sed", "sort", "ssh", "tail",
        "tar", "touch", "xargs",
    }
)  # fmt: skip
#: What the examples call the things they work with.
ACTORS: Final = {
    "ws": "Workspace", "space": "Space", "twin": "Space", "store": "Store", "tenant": "Tenant",
    "acme": "Tenant", "error": "KeelError", "change": "Change", "stat": "Stat", "op": "Op",
}  # fmt: skip
#: What a shell says of an error, in words that are not ours.
MESSAGES: Final = frozenset({"File too large"})
_COMMANDS: Final = (".venv/bin/", "pip install ", "git ")


def outside_of_blocks(text: str) -> Iterator[tuple[int, str]]:
    """Lines that are not in a fenced block, with their numbers."""
    inside = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("```"):
            inside = not inside
        elif not inside:
            yield number, line


def spans(text: str) -> list[tuple[int, str]]:
    """Code spans, also those that go over the end of a line, with the number of their line."""
    lines = dict(outside_of_blocks(text))
    plain = "\n".join(lines.get(number, "") for number in range(1, len(text.splitlines()) + 1))
    return [
        (plain.count("\n", 0, found.start()) + 1, " ".join(found[1].split()))
        for found in re.finditer(r"`([^`]+)`", plain)
    ]


def links(text: str) -> list[str]:
    """Targets of links to other places of the project."""
    plain = "\n".join(line for _, line in outside_of_blocks(text))
    targets = re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`]*`", "``", plain))
    return [target for target in targets if not re.match(r"[a-z]+:", target)]


def anchors(text: str) -> set[str]:
    """What links into a page may name."""
    headings = [line.lstrip("#") for _, line in outside_of_blocks(text) if line.startswith("#")]
    plain = [re.sub(r"[^\w\- ]", "", heading.strip().lower()) for heading in headings]
    return {heading.replace(" ", "-") for heading in plain}


def tables(text: str) -> list[list[list[str]]]:
    """Tables as rows of cells, without the line below their heads."""
    found: list[list[list[str]]] = []
    before = 0
    for number, line in outside_of_blocks(text):
        if not line.startswith("|"):
            continue
        if number != before + 1:
            found.append([])
        before = number
        cells = re.split(r"(?<!\\)\|", line.strip().strip("|"))
        if not all(re.fullmatch(r"\s*:?-+:?\s*", cell) for cell in cells):
            found[-1].append([cell.strip().replace("\\|", "|") for cell in cells])
    return found


def rows(text: str) -> list[list[str]]:
    return [row for table in tables(text) for row in table]


def _modules() -> dict[str, ModuleType]:
    names = [
        each.name for each in pkgutil.walk_packages(keelfs.__path__, "keelfs.")
        if not each.name.endswith("__main__")
    ]  # fmt: skip
    return {name: importlib.import_module(name) for name in ("keelfs", *names)}


class Lookup:
    """See the module."""

    def __init__(self) -> None:
        self.modules = _modules()
        self.classes: dict[str, list[type]] = {}
        self.words: set[str] = set()
        self.parameters: set[str] = set()
        for module in self.modules.values():
            self._learn(module)
        self._learn_sql()
        self.invariants = set(
            re.findall(
                r'(?:asked\(\s*|Invariant\()"([a-z0-9-]+)"', _sources("src/keelfs/store/fsck")
            )
        )
        self.targets = set(
            re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M)
        )
        self.benchmarks = _sources("bench")
        self.options = set(re.findall(r'"(--[a-z-]+)"', _sources("bench") + _sources("src")))
        self.words |= set(re.findall(r"^([A-Z_]+) = ", _sources("tests"), re.M))
        self.words |= set(re.findall(r'^    "(\w+): ', (ROOT / "pyproject.toml").read_text(), re.M))
        self.tests = set(re.findall(r"def (test_\w+)", _sources("tests") + _sources("src")))

    def _learn(self, module: ModuleType) -> None:
        """Every class, function, field, argument and constant of a module."""
        tree = ast.parse(inspect.getsource(module))
        for node in ast.walk(tree):
            match node:
                case ast.ClassDef():
                    found = getattr(module, node.name, None)
                    if isinstance(found, type):
                        self.classes.setdefault(node.name, []).append(found)
                case ast.FunctionDef() | ast.AsyncFunctionDef():
                    self.words.add(node.name)
                    arguments = node.args
                    for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
                        self.parameters.add(each.arg)
                case ast.AnnAssign(target=ast.Name(id=name)):
                    self.words.add(name)
                    self.parameters.add(name)
                case ast.AnnAssign(target=ast.Attribute(attr=name)) | ast.Attribute(attr=name):
                    self.words.add(name)
                case ast.Subscript(value=ast.Name(id="Literal"), slice=held):
                    told = [each for each in ast.walk(held) if isinstance(each, ast.Constant)]
                    self.words |= {str(each.value) for each in told}
                case ast.Assign(value=ast.Constant(value=str(name))):
                    self.words.add(name)
                case ast.Name(id=name, ctx=ast.Store()):
                    self.words.add(name)
                case _:
                    pass
        self.words |= {name.rpartition(".")[2] for name in self.modules}
        for kind in (keelfs.KeelError, *_below(keelfs.KeelError)):
            self.words.add(kind.code)

    def _learn_sql(self) -> None:
        for migrations in (SQLITE, POSTGRES):
            for _, text in migrations.after(0):
                self.words |= set(re.findall(r"\b[a-z][a-z0-9_]+\b", text))

    # -- one way for each sort of span

    def complaint(self, span: str) -> str:
        """Why nothing of this name is known; "" if something is."""
        if span in FOREIGN | PROTOCOL or span in self.words or span in self.invariants:
            return ""
        if span.split(" ")[0] in PROGRAMS or span in MESSAGES:
            return ""
        if span.endswith("-*"):
            return "" if f'"{span[:-1]}' in self.benchmarks else "no row of the table begins so"
        if imported := re.fullmatch(r"import (keelfs[\w.]*)", span):
            return "" if imported[1] in self.modules else "no such module"
        if span.startswith("--"):
            return "" if span.split()[0] in self.options else "no command has this option"
        for looks, look in (
            (self._is_command, self._command),
            (self._is_test_id, self._test),
            (self._is_file, self._file),
            (self._is_text, lambda _: ""),
            (self._is_sql, lambda _: ""),
        ):
            if looks(span):
                return look(span)
        return self._expression(span)

    def is_test(self, span: str) -> bool:
        return self._is_test_id(span) and not self._test(span)

    @staticmethod
    def _is_command(span: str) -> bool:
        return span.startswith(("make ", "python -m ", "keelfs ", *_COMMANDS))

    def _command(self, span: str) -> str:
        if span.startswith("keelfs "):
            return "" if span.split()[1] in COMMANDS else "no such command"
        if span.startswith("make "):
            return "" if span[5:] in self.targets else "no such target of make"
        if "python -m " in span:
            module = span.partition("python -m ")[2].split()[0]
            place = ROOT / "src" if module.startswith("keelfs") else ROOT
            path = place / module.replace(".", "/")
            there = path.with_suffix(".py").is_file() or (path / "__main__.py").is_file()
            return "" if there else "no such module to run"
        files = [word for word in span.split() if re.match(r"(tests|src|docs|bench)/", word)]
        return next((why for file in files if (why := self._file(file))), "")

    @staticmethod
    def _is_test_id(span: str) -> bool:
        return bool(re.fullmatch(r"(\S+\.py::|\w+\.)?test_\w+(::test_\w+)?", span)) and not (
            span.startswith("keelfs.")
        )

    def _test(self, span: str) -> str:
        if "::" in span:
            file, _, name = span.partition("::")
            if not (ROOT / file).is_file():
                return "no such file of tests"
            text = (ROOT / file).read_text(encoding="utf-8")
            return "" if re.search(rf"def {name}\b", text) else "no such test in this file"
        group, _, name = span.rpartition(".")
        if group:
            kinds = self.classes.get(group, [])
            return "" if any(hasattr(kind, name) for kind in kinds) else "no such test in a group"
        known = name in self.tests or (ROOT / "tests" / f"{name}.py").exists()
        return "" if known else "no such test"

    @staticmethod
    def _is_file(span: str) -> bool:
        return bool(
            re.match(r"(src|tests|docs|bench|\.ci)(/|$)", span)
            or re.fullmatch(r"[\w.-]+\.(md|toml|ini)|Makefile|LICENSE|\.importlinter|\.venv", span)
        )

    @staticmethod
    def _file(span: str) -> str:
        if span == ".venv":
            return ""
        there = (ROOT / span).is_dir() if span.endswith("/") else (ROOT / span).exists()
        return "" if there else "no such file or folder"

    @staticmethod
    def _is_text(span: str) -> bool:
        """Paths of trees, patterns, bits of punctuation: nothing that could be looked up."""
        return "://" in span or bool(
            span.startswith(("/", ".", "NNNN_", "# "))
            or "<" in span
            or re.fullmatch(r"[^A-Za-z]*|\(a\+\)\+\$|name( \(1\))?\.ext", span)
        )

    @staticmethod
    def _is_sql(span: str) -> bool:
        words = re.split(r"[\s=,();]+", span)
        return (
            words[0] in SQL_WORDS
            or span.split()[0] in {"VACUUM", "ON", "STORAGE", "database"}
            or (span.startswith(("synchronous=", "synchronous_commit")))
        )

    def _expression(self, span: str) -> str:
        """Python: names are resolved, methods and keywords must exist somewhere."""
        parsed = None
        for form in (span, f"_({span})"):
            try:
                parsed = ast.parse(form, mode="eval").body
                break
            except SyntaxError:
                continue
        if parsed is None and re.fullmatch(r"[\w.]+\((\w+=,? ?)+\)", span):
            return self._expression(re.sub(r"=(?=[,)])", "=0", span))
        if parsed is None:
            return "neither a name nor a file nor a command"
        return next((why for node in ast.walk(parsed) if (why := self._node(node))), "")

    def _node(self, node: ast.AST) -> str:
        match node:
            case ast.keyword(arg=str(name)) if name not in self.parameters | FOREIGN:
                return f"nothing takes an argument {name!r}"
            case ast.Attribute():
                return self._dotted(node)
            case ast.Call(func=ast.Name(id=name)) if name != "_":
                return "" if name in self.words or name in self.classes else f"no function {name}"
            case ast.Name(id=name) if name != "_":
                return self._word(name)
            case _:
                return ""

    def _word(self, name: str) -> str:
        known = name in self.words or name in self.classes or name in self.parameters
        if known or name in ACTORS or name in FOREIGN or name in SQL_WORDS or hasattr(keelfs, name):
            return ""
        if name.startswith("KEELFS_LIMIT_"):
            fields = Limits.__struct_fields__
            return "" if name[13:].lower() in fields else "no such limit"
        if name.startswith("KEELFS_"):
            return "" if name[7:].lower() in Settings.__struct_fields__ else "no such setting"
        return f"nothing is called {name}"

    def _dotted(self, node: ast.Attribute) -> str:
        chain: list[str] = [node.attr]
        inner: Any = node.value
        while isinstance(inner, ast.Attribute):
            chain.append(inner.attr)
            inner = inner.value
        if not isinstance(inner, ast.Name):
            return "" if node.attr in self.words else f"nothing has a {node.attr}"
        first, *rest = [inner.id, *reversed(chain)]
        owners: list[Any] = [*self.classes.get(ACTORS.get(first, first), [])]
        owners += [self.modules[name] for name in self.modules if name.split(".")[-1] == first]
        for name in rest:
            owners = [found for owner in owners if (found := _member(owner, name)) is not None]
        if owners:
            return ""
        is_row = first in self.words and all(name in self.words for name in rest)
        table = re.search(rf"CREATE TABLE {first} ", _migrations())
        return "" if table and is_row else f"{first} has no {'.'.join(rest)}"


def _member(owner: Any, name: str) -> Any:
    if hasattr(owner, name):
        return getattr(owner, name)
    if isinstance(owner, ModuleType):
        return None
    annotated = any(name in vars(kind).get("__annotations__", {}) for kind in owner.__mro__)
    if annotated:
        return object
    # What only __init__ sets.
    text = inspect.getsource(owner)
    return object if re.search(rf"self\.{name}\b", text) else None


def _below(kind: type[keelfs.KeelError]) -> Iterator[type[keelfs.KeelError]]:
    for child in kind.__subclasses__():
        yield child
        yield from _below(child)


def _sources(folder: str) -> str:
    pages = sorted((ROOT / folder).rglob("*.py"))
    return "\n".join(page.read_text(encoding="utf-8") for page in pages)


def _migrations() -> str:
    return "\n".join(text for _, text in SQLITE.after(0))
