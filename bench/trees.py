"""What the tree of an agent costs above the bare space: its gates, and putting it together."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from bench.row import Measured, at_most, row
from bench.site import Site
from bench.small import SMALL
from bench.timing import Timed, block, by_turns
from keelfs import Workspace
from keelfs.agents import AgentTree

#: Deep enough that routing by component has something to do.
PATH = "/notes/2026/plan.md"


@contextmanager
def _both(site: Site, database: str) -> Iterator[tuple[AgentTree, Workspace]]:
    """A full tree, and the space of its session bare; the same bytes on the same disk."""
    with site.store(database) as store:
        acme = store.tenant("acme")
        skills = {"onboarding": _skill(site)}
        tree = acme.agent_tree(session="s", agent="a", user="u", skills=skills)
        tree.write(PATH, SMALL)
        yield tree, acme.space("session", "s")


def _skill(site: Site) -> Path:
    folder = site.folder / "skill"
    folder.mkdir(exist_ok=True)
    (folder / "SKILL.md").write_text("1. Ask\n")
    return folder


@row("tree-read", "what the gates of a full agent tree add to a read", "the read of a bare space",
     at_most(25, "µs"))  # fmt: skip
def tree_read(site: Site, database: str) -> Measured:
    with _both(site, database) as (tree, space):
        return _added(site, lambda ws: block(200, lambda _: ws.read(PATH)), tree, space)


@row("tree-write", "what they add to a write", "the write of a bare space", at_most(40, "µs"))
def tree_write(site: Site, database: str) -> Measured:
    """Without waiting for the disk, whose moods are longer than what is measured here."""
    with site.store(database, durability="relaxed") as store:
        acme = store.tenant("acme")
        tree = acme.agent_tree(session="s", agent="a", user="u", skills={"s": _skill(site)})
        tree.write(PATH, SMALL)
        space = acme.space("session", "s")

        def write(ws: Workspace) -> Timed:
            return block(100, lambda at: ws.write(PATH, SMALL[: 2000 + at % 7]))

        return _added(site, write, tree, space)


def _added(
    site: Site, timed: Callable[[Workspace], Timed], tree: Workspace, space: Workspace
) -> Measured:
    """The median of the differences: each round measures both within a few milliseconds."""
    subject, floor = timed(tree), timed(space)
    rounds = [(subject(), floor()) for _ in range(site.pick(60, 5) + 1)][1:]
    more = median(mine - bare for mine, bare in rounds) * 1e6
    bare = median(bare for _, bare in rounds) * 1e6
    return Measured(more, bare, "µs", (more + bare) / bare)


@row("tree-open", "putting a full agent tree together", "opening its session's space alone",
     at_most(2, "ms"))  # fmt: skip
def tree_open(site: Site, database: str) -> Measured:
    with site.store(database) as store:
        acme = store.tenant("acme")
        skill = _skill(site)

        def build(_: int) -> object:
            return acme.agent_tree(session="s", agent="a", user="u", skills={"onboarding": skill})

        build(0)
        return by_turns(
            block(20, build), block(20, lambda _: acme.space("session", "s")),
            site.pick(25, 3), "ms",
        )  # fmt: skip
