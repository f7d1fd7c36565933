"""Glob patterns over the components of a path.

A pattern without "/" is matched against the last name at any depth, one with "/" against the whole
path below the directory that is searched. `*` and `?` stay within a name, `**` as a whole component
stands for any number of them, `[a-z]` and `[!a-z]` for one character, `{a,b}` for alternatives, a
backslash takes the next character literally. Names that begin with a dot are matched like others.

Matching takes time linear in the name, whatever the pattern. Searches and validators call.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Final

from keelfs.errors import InvalidPattern

#: No pattern that a person writes comes near; together they bound the work per name.
MAX_PATTERN: Final = 4096
MAX_ALTERNATIVES: Final = 256
_MAX_NESTING: Final = 16
_MAX_KNOWN: Final = 1024


class GlobPattern:
    """A compiled pattern."""

    __slots__ = ("_routes", "text")

    def __init__(self, text: str) -> None:
        if len(text) > MAX_PATTERN:
            raise InvalidPattern(f"a glob pattern may have {MAX_PATTERN} characters")
        self.text = text
        deep = "/" not in text
        self._routes = [_Route(each, deep) for each in dict.fromkeys(_alternatives(text, 0))]

    def __repr__(self) -> str:
        return f"GlobPattern({self.text!r})"

    def matches(self, parts: tuple[str, ...]) -> bool:
        """Whether the path of these names, seen from where the search begins, is meant."""
        return any(route.matches(parts) for route in self._routes)

    def may_match_below(self, parts: tuple[str, ...]) -> bool:
        """Whether anything below this directory could match; False prunes it."""
        return any(route.states(parts) & route.unfinished for route in self._routes)

    def concerns(self, parts: tuple[str, ...]) -> bool:
        """Whether it could matter at all what is at this path; False settles the other three."""
        return any(route.concerns(parts) for route in self._routes)

    def pins(self, parts: tuple[str, ...]) -> bool:
        """Whether it matters to the pattern that these names lead here, and not others.

        Where it does not, what lies below matches by its own names as well, from wherever it is
        looked at: `**/x` pins nothing but the names `x`.
        """
        return any(route.states(parts) & ~route.everywhere for route in self._routes)

    @property
    def literal_prefix(self) -> tuple[str, ...]:
        """The directories that everything that matches lies below."""
        prefix = self._routes[0].literal_prefix
        for route in self._routes[1:]:
            shared = zip(prefix, route.literal_prefix, strict=False)
            different = [at for at, (mine, theirs) in enumerate(shared) if mine != theirs]
            prefix = prefix[: min([len(prefix), len(route.literal_prefix), *different])]
        return prefix


class _Route:
    """One alternative: name patterns in order; None stands for `**`.

    A set of states is an integer: bit `i` says that the first `i` steps are taken.
    """

    __slots__ = ("_steps", "everywhere", "literal_prefix", "unfinished")

    def __init__(self, text: str, deep: bool) -> None:
        names = [name for name in text.split("/") if name not in {"", "."}]
        if not names:
            raise InvalidPattern("the glob pattern is empty")
        if ".." in names:
            raise InvalidPattern('a glob pattern cannot contain ".."')
        steps = [None if name == "**" else _Name(name) for name in (["**"] * deep + names)]
        if steps[-1] is None:
            steps.append(_Name("*"))
        self._steps = [steps[0]]
        self._steps += [step for before, step in pairwise(steps) if before or step]
        self.unfinished = (1 << len(self._steps)) - 1
        self.everywhere = 0b11 if self._steps[0] is None else 0
        prefix: list[str] = []
        for step in self._steps[:-1]:
            if step is None or step.literal is None:
                break
            prefix.append(step.literal)
        self.literal_prefix = tuple(prefix)

    def matches(self, parts: tuple[str, ...]) -> bool:
        match self._steps:
            case [None, _Name() as last]:
                return bool(parts) and last.matches(parts[-1])
            case steps:
                return bool(self.states(parts) >> len(steps))

    def concerns(self, parts: tuple[str, ...]) -> bool:
        """Whether anything comes of these names; the literal ones decide nearly always."""
        for mine, theirs in zip(self.literal_prefix, parts, strict=False):
            if mine != theirs:
                return False
        return self.states(parts) != 0

    def states(self, parts: tuple[str, ...]) -> int:
        """Where one can be after these names."""
        states = self._closed(1)
        for name in parts:
            after = 0
            for at, step in enumerate(self._steps):
                if not states >> at & 1:
                    continue
                if step is None:
                    after |= 1 << at
                elif step.matches(name):
                    after |= 2 << at
            states = self._closed(after)
            if not states:
                break
        return states

    def _closed(self, states: int) -> int:
        """With the states that are reached by letting a `**` stand for nothing."""
        for at, step in enumerate(self._steps):
            if step is None and states >> at & 1:
                states |= 2 << at
        return states


class _Name:
    """The pattern of one name, run as a set of states in one integer."""

    __slots__ = ("_known", "_loops", "_stars", "_tests", "literal")

    def __init__(self, text: str) -> None:
        self._tests: list[str | _OneOf | None] = []
        self._loops = 0
        self._known: dict[str, int] = {}
        at = 0
        while at < len(text):
            char, at = text[at], at + 1
            if char == "*":
                self._loops |= 1 << len(self._tests)
            elif char == "?":
                self._tests.append(None)
            elif char == "[":
                end = _class_end(text, at - 1)
                self._tests.append(_OneOf(text[at : end - 1]))
                at = end
            elif char == "\\":
                self._tests.append(_escaped(text, at))
                at += 1
            else:
                self._tests.append(char)
        plain = all(isinstance(test, str) for test in self._tests)
        chars = "".join(test for test in self._tests if isinstance(test, str))
        self.literal = chars if plain and not self._loops else None
        #: The text before and after the only star, where nothing else is special: most patterns.
        self._stars: tuple[str, str] | None = None
        if plain and self._loops.bit_count() == 1:
            at = self._loops.bit_length() - 1
            self._stars = chars[:at], chars[at:]

    def matches(self, name: str) -> bool:
        if self.literal is not None:
            return name == self.literal
        if self._stars is not None:
            before, after = self._stars
            long_enough = len(name) >= len(before) + len(after)
            return long_enough and name.startswith(before) and name.endswith(after)
        states = 1
        for char in name:
            states = (states & self._accepting(char)) << 1 | states & self._loops
            if not states:
                return False
        return bool(states >> len(self._tests))

    def _accepting(self, char: str) -> int:
        """The states from which this character leads on."""
        known = self._known.get(char)
        if known is None:
            known = sum(
                1 << at
                for at, test in enumerate(self._tests)
                if test is None or (char == test if isinstance(test, str) else test.accepts(char))
            )
            if len(self._known) >= _MAX_KNOWN:
                self._known.clear()
            self._known[char] = known
        return known


class _OneOf:
    """A class of characters: what stands between the brackets."""

    __slots__ = ("_negated", "_ranges")

    def __init__(self, text: str) -> None:
        self._negated = text[0] in "!^"
        self._ranges: list[tuple[str, str]] = []
        at = int(self._negated)
        while at < len(text):
            first, at = _class_char(text, at)
            last = first
            if text[at : at + 1] == "-" and at + 1 < len(text):
                last, at = _class_char(text, at + 1)
            if first > last:
                raise InvalidPattern(f"the range {first}-{last} is empty")
            self._ranges.append((first, last))

    def accepts(self, char: str) -> bool:
        return any(first <= char <= last for first, last in self._ranges) != self._negated


def _escaped(text: str, at: int) -> str:
    if at >= len(text):
        raise InvalidPattern("the glob pattern, or one of its components, ends with a backslash")
    return text[at]


def _class_char(text: str, at: int) -> tuple[str, int]:
    if text[at] == "\\":
        return _escaped(text, at + 1), at + 2
    return text[at], at + 1


def _class_end(text: str, start: int) -> int:
    """The place after the bracket that closes the class opened at `start`."""
    at = start + 1
    at += text[at : at + 1] in {"!", "^"}
    first = at
    while at < len(text):
        if text[at] == "]" and at > first:
            return at + 1
        at += 2 if text[at] == "\\" else 1
    raise InvalidPattern("a [ is not closed; write \\[ for the character itself")


def _pieces(text: str, start: int) -> tuple[list[str], int]:
    """The alternatives in the braces that open at `start`, and the place after them."""
    pieces, depth, at, begin = list[str](), 0, start, start + 1
    while at < len(text):
        char = text[at]
        if char == "\\":
            at += 1
        elif char == "[":
            at = _class_end(text, at) - 1
        elif char == "{":
            depth += 1
        elif char == "," and depth == 1:
            pieces.append(text[begin:at])
            begin = at + 1
        elif char == "}":
            depth -= 1
            if depth == 0:
                return [*pieces, text[begin:at]], at + 1
        at += 1
    raise InvalidPattern("a { is not closed; write \\{ for the character itself")


def _alternatives(text: str, nesting: int) -> list[str]:
    """The pattern written out without braces."""
    if nesting > _MAX_NESTING:
        raise InvalidPattern(f"braces may be nested {_MAX_NESTING} deep")
    whole, at, begin = [""], 0, 0
    while at < len(text):
        if text[at] == "{":
            pieces, end = _pieces(text, at)
            inner = [each for piece in pieces for each in _alternatives(piece, nesting + 1)]
            if len(whole) * len(inner) > MAX_ALTERNATIVES:
                raise InvalidPattern(f"braces may stand for {MAX_ALTERNATIVES} alternatives")
            before = text[begin:at]
            whole = [done + before + each for done in whole for each in inner]
            at = begin = end
        elif text[at] == "\\":
            at += 2
        else:
            at = _class_end(text, at) if text[at] == "[" else at + 1
    return [done + text[begin:] for done in whole]
