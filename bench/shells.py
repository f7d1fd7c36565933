"""The shell of agents, beside the library doing the same by itself."""

from __future__ import annotations

from bench.row import Measured, at_most, row
from bench.site import Site
from bench.timing import by_turns, once
from keelfs.agents.shell import Shell

FILES = 200


@row("shell", f"one shell call: write and read {FILES} files, FULL", "the verbs", at_most(5.0))
def shell(site: Site, database: str) -> Measured:
    return _written_and_read(site, database, "full")


@row(
    "shell-relaxed", f"one shell call: write and read {FILES} files, relaxed", "the verbs",
    at_most(5.0),
)  # fmt: skip
def relaxed(site: Site, database: str) -> Measured:
    return _written_and_read(site, database, "relaxed")


def _written_and_read(site: Site, database: str, durability: str) -> Measured:
    with (
        site.workspace(database, durability=durability) as space,
        site.workspace(database, durability=durability) as other,
        Shell(space) as bash,
    ):

        def script(turn: int) -> None:
            result = bash.run(
                f"mkdir t{turn}; for n in {{1..{FILES}}}; do echo line $n > t{turn}/f$n; done\n"
                f"for n in {{1..{FILES}}}; do cat t{turn}/f$n; done"
            )
            assert result.stdout.count("\n") == FILES, result

        def verbs(turn: int) -> None:
            other.mkdir(f"/t{turn}")
            for n in range(FILES):
                other.write(f"/t{turn}/f{n}", f"line {n}\n")
            for n in range(FILES):
                other.read(f"/t{turn}/f{n}")

        return by_turns(once(script), once(verbs), site.pick(9, 3), "ms")
