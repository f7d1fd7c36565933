"""The contract of links, symbolic and hard, and of paths that lead through them."""

from __future__ import annotations

from typing import Any

import pytest

from keelfs.errors import (
    AlreadyExists,
    InvalidArgument,
    IsADirectory,
    LinkLoop,
    NotADirectory,
    NotFound,
)
from keelfs.model import Attrs, Kind
from keelfs.ops import (
    Append,
    Copy,
    GetStat,
    GetUsage,
    Link,
    List,
    Mkdir,
    Move,
    Op,
    Read,
    Readlink,
    Remove,
    SetAttrs,
    Symlink,
    Write,
)
from keelfs.testing.conformance.frame import Frame, each, names, needs, refused
from keelfs.testing.portrait import Perform


@needs("symlinks")
class SymbolicLinks(Frame):
    """Where links lead, and where they never do."""

    def test_symlink_answers_with_the_link(self, fs: Perform) -> None:
        """The stat of a new link is the link's, with mode 0777."""
        stat = fs(Symlink("nowhere", "/l"))
        assert (stat.kind, stat.mode, stat.target) == (Kind.SYMLINK, 0o777, "nowhere")

    @pytest.mark.parametrize("path", ["/a", "/d", "/l", "/"])
    def test_symlink_where_something_is(self, fs: Perform, path: str) -> None:
        """A taken name is refused, also if a dangling link holds it."""
        fs(Write("/a", "x"))
        fs(Mkdir("/d"))
        fs(Symlink("nowhere", "/l"))
        with refused(fs, AlreadyExists):
            fs(Symlink("x", path))

    def test_symlink_parents(self, fs: Perform) -> None:
        """A missing directory refuses, unless `parents`."""
        with refused(fs, NotFound):
            fs(Symlink("x", "/d/l"))
        fs(Symlink("x", "/d/l", parents=True))
        assert names(fs, "/d") == ["l"]

    @pytest.mark.parametrize("target", ["", "a\0b", "x" * 4096, "é" * 2048])
    def test_odd_targets(self, fs: Perform, target: str) -> None:
        """A target has 1 to 4,095 bytes and no NUL."""
        with refused(fs, InvalidArgument):
            fs(Symlink(target, "/l"))

    def test_the_longest_target(self, fs: Perform) -> None:
        """4,095 bytes are kept."""
        target = "x/" * 2047 + "y"
        fs(Symlink(target, "/l"))
        assert fs(Readlink("/l")) == target

    @pytest.mark.parametrize(
        "target",
        ["f", "./f", "//d/e/../f", "/d/f", "../d/f", "e/../f", "../../../../d/f", "/../../d/f"],
    )
    def test_where_a_target_leads(self, fs: Perform, target: str) -> None:
        """A relative target starts at the link's directory, an absolute one at the root, and
        `..` stops at the root.
        """
        fs(Write("/d/f", "here"))
        fs(Mkdir("/d/e"))
        fs(Symlink(target, "/d/l"))
        assert fs(Read("/d/l")) == b"here"

    def test_links_in_the_middle(self, fs: Perform) -> None:
        """Links in the middle of a path are followed by every verb."""
        fs(Mkdir("/real/sub", parents=True))
        fs(Symlink("real", "/l"))
        fs(Write("/l/sub/a", "1"))
        fs(Append("/l/sub/a", "2"))
        fs(Mkdir("/l/made"))
        fs(Copy("/l/sub/a", "/l/b"))
        fs(Move("/l/b", "/l/c"))
        fs(Remove("/l/made"))
        assert (names(fs, "/real"), fs(Read("/real/sub/a"))) == (["c", "sub"], b"12")

    def test_dot_dot_in_a_target_is_physical(self, fs: Perform) -> None:
        """`..` in a target leaves the real directory, not the link's name."""
        fs(Write("/real/f", "real"))
        fs(Write("/f", "wrong"))
        fs(Mkdir("/real/deep"))
        fs(Symlink("/real/deep", "/jump"))
        fs(Symlink("jump/../f", "/l"))
        assert fs(Read("/l")) == b"real"

    def test_a_link_to_a_link(self, fs: Perform) -> None:
        """Links are followed one after another, each from its own directory."""
        fs(Write("/d/f", "x"))
        fs(Symlink("f", "/d/one"))
        fs(Symlink("d/one", "/two"))
        fs(Symlink("/two", "/three"))
        assert fs(Read("/three")) == b"x"

    def test_a_link_through_a_file(self, fs: Perform) -> None:
        """A target that goes through a file raises NotADirectory."""
        fs(Write("/f", "x"))
        fs(Symlink("f/below", "/l"))
        fs(Symlink("f/../f", "/m"))
        for path in ("/l", "/m"):
            with pytest.raises(NotADirectory):
                fs(Read(path))

    @pytest.mark.parametrize("path", ["/one", "/self", "/self/below", "/one/x/y"])
    def test_loops(self, fs: Perform, path: str) -> None:
        """Links that lead in a circle raise LinkLoop, at the end and in the middle of a path."""
        fs(Symlink("two", "/one"))
        fs(Symlink("one", "/two"))
        fs(Symlink("self", "/self"))
        for op in each(GetStat(path), Read(path), List(path), Write(path, "x"), Append(path, "x")):
            with refused(fs, LinkLoop):
                fs(op)

    def test_forty_links_and_no_more(self, fs: Perform) -> None:
        """40 links are followed; the 41st raises LinkLoop."""
        fs(Write("/l0", "end"))
        for index in range(1, 42):
            fs(Symlink(f"l{index - 1}", f"/l{index}"))
        assert fs(Read("/l40")) == b"end"
        with pytest.raises(LinkLoop):
            fs(Read("/l41"))

    def test_hops_are_counted_over_the_whole_path(self, fs: Perform) -> None:
        """Links in the middle count towards the same 40."""
        fs(Mkdir("/d"))
        fs(Symlink(".", "/d/s"))
        fs(Write("/d/f", "x"))
        assert fs(Read("/d" + "/s" * 40 + "/f")) == b"x"
        with pytest.raises(LinkLoop):
            fs(Read("/d" + "/s" * 41 + "/f"))

    def test_remove_takes_the_link(self, fs: Perform) -> None:
        """Removing a link, also recursively, leaves its target alone."""
        fs(Write("/d/f", "x"))
        fs(Symlink("d", "/l"))
        fs(Symlink("d/f", "/m"))
        fs(Remove("/l", recursive=True))
        fs(Remove("/m"))
        assert (names(fs), names(fs, "/d")) == (["d"], ["f"])

    def test_remove_does_not_walk_through_links(self, fs: Perform) -> None:
        """Removing a tree removes the links in it, and nothing that they lead to."""
        fs(Write("/keep/f", "x"))
        fs(Symlink("/keep", "/d/l", parents=True))
        fs(Symlink("..", "/d/up"))
        fs(Remove("/d", recursive=True))
        assert (names(fs), fs(Read("/keep/f"))) == (["keep"], b"x")

    def test_dot_dot_in_a_path_is_lexical(self, fs: Perform) -> None:
        """`..` in a path that is asked for is resolved before any link is followed."""
        fs(Write("/f", "lexical"))
        fs(Write("/real/f", "physical"))
        fs(Mkdir("/real/deep"))
        fs(Symlink("/real/deep", "/jump"))
        assert fs(Read("/jump/../f")) == b"lexical"

    def test_missing_below_a_dangling_link(self, fs: Perform) -> None:
        """A path through a dangling link finds nothing."""
        fs(Symlink("nowhere", "/l"))
        with pytest.raises(NotFound):
            fs(Read("/l/a"))
        with refused(fs, NotFound):
            fs(Write("/l/a", "x", parents=False))

    @needs("owners")
    def test_attributes_follow_when_asked(self, fs: Perform) -> None:
        """Attributes are set on the target, or on the link itself if `follow` is off."""
        fs(Write("/a", "x"))
        fs(Symlink("a", "/l"))
        fs(SetAttrs("/l", Attrs(uid=5)))
        fs(SetAttrs("/l", Attrs(uid=6), follow=False))
        assert (fs(GetStat("/a")).uid, fs(GetStat("/l", follow=False)).uid) == (5, 6)


@needs("hard_links")
class HardLinks(Frame):
    """Several names of one node."""

    def test_two_names_of_one_node(self, fs: Perform) -> None:
        """Both names have one identity and count two links."""
        made = fs(Write("/a", "x"))
        stat = fs(Link("/a", "/b"))
        assert (stat.id, stat.nlink, fs(GetStat("/a")).nlink) == (made.id, 2, 2)

    @needs("shared_bytes")
    def test_changes_show_under_every_name(self, fs: Perform) -> None:
        """Bytes and revision are the node's."""
        fs(Write("/a", "1"))
        fs(Link("/a", "/b"))
        fs(Append("/b", "2"))
        assert (fs(Read("/a")), fs(GetStat("/a"))) == (b"12", fs(GetStat("/b")))

    def test_a_node_lives_as_long_as_its_last_name(self, fs: Perform) -> None:
        """Removing one name leaves the other; the count goes down."""
        fs(Write("/a", "x"))
        fs(Link("/a", "/b"))
        fs(Remove("/a"))
        assert (fs(Read("/b")), fs(GetStat("/b")).nlink) == (b"x", 1)

    def test_removing_a_tree_with_one_of_the_names(self, fs: Perform) -> None:
        """A name outside of a removed tree keeps the node, both names inside do not."""
        fs(Write("/d/a", "x"))
        fs(Link("/d/a", "/d/b"))
        fs(Link("/d/a", "/c"))
        assert fs(GetStat("/c")).nlink == 3
        fs(Remove("/d", recursive=True))
        assert (fs(Read("/c")), fs(GetStat("/c")).nlink) == (b"x", 1)

    def test_removing_a_tree_with_all_of_the_names(self, fs: Perform) -> None:
        """A node goes once, however many names of it lie in a removed tree, and wherever."""
        fs(Write("/d/a", "x"))
        for name in ("/d/b", "/d/e/a", "/d/e/f/b"):
            fs(Link("/d/a", name, parents=True))
        fs(Remove("/d", recursive=True))
        usage = fs(GetUsage())
        assert (names(fs), usage.bytes, usage.nodes) == ([], 0, 0)

    def test_replacing_one_name_leaves_the_other(self, fs: Perform) -> None:
        """A move onto one name takes that name only."""
        fs(Write("/a", "old"))
        fs(Link("/a", "/b"))
        fs(Write("/c", "new"))
        fs(Move("/c", "/b", replace=True))
        assert (fs(Read("/a")), fs(Read("/b")), fs(GetStat("/a")).nlink) == (b"old", b"new", 1)

    def test_directories_have_one_name(self, fs: Perform) -> None:
        """A directory cannot be linked."""
        fs(Mkdir("/d"))
        for path in ("/d", "/"):
            with refused(fs, IsADirectory):
                fs(Link(path, "/e"))

    @pytest.mark.parametrize("op", [Link("/a", "/b"), Link("/a", "/a"), Link("/a", "/")])
    def test_a_taken_place(self, fs: Perform, op: Op[Any]) -> None:
        """A link never replaces anything."""
        fs(Write("/a", "x"))
        fs(Write("/b", "x"))
        with refused(fs, AlreadyExists):
            fs(op)

    def test_link_parents(self, fs: Perform) -> None:
        """A missing directory refuses, unless `parents`; a missing source always."""
        fs(Write("/a", "x"))
        with refused(fs, NotFound):
            fs(Link("/a", "/d/b"))
        with refused(fs, NotFound):
            fs(Link("/nothing", "/d/b", parents=True))
        fs(Link("/a", "/d/b", parents=True))
        assert fs(GetStat("/d/b")).nlink == 2

    @needs("symlinks")
    def test_link_takes_the_symbolic_link(self, fs: Perform) -> None:
        """A symbolic link at the end of the source is linked itself."""
        fs(Write("/a", "x"))
        fs(Symlink("a", "/l"))
        assert fs(Link("/l", "/m")).kind is Kind.SYMLINK
        assert fs(Readlink("/m")) == "a"
