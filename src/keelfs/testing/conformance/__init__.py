"""The whole contract of a volume as tests that anyone can run over a volume of theirs.

    from keelfs.testing.conformance import ConformanceSuite, Subject

    class TestMine(ConformanceSuite):
        @pytest.fixture
        def subject(self):
            return Subject("mine", lambda setting: MyVolume(), cannot={"trash": "keeps none"})

Each group is a class of its own; `ConformanceSuite` is all of them. Operations go in through
`perform(op)` only, so that spaces, gates, overlays and surfaces are examined alike.
"""

import pytest

_GROUPS = (
    "attributes", "confining", "copying", "entering", "frame", "history", "honesty", "joining",
    "judging", "linking", "metering", "naming", "reading", "snapshotting", "telling", "trashing",
    "undoing", "writing",
)  # fmt: skip
# Before the groups are imported: a plain assert tells what it compared only if it is rewritten.
pytest.register_assert_rewrite(*(f"{__name__}.{group}" for group in _GROUPS))

from keelfs.testing.conformance.attributes import Attributes, Expecting  # noqa: E402
from keelfs.testing.conformance.confining import Confined  # noqa: E402
from keelfs.testing.conformance.copying import Copying  # noqa: E402
from keelfs.testing.conformance.entering import Entering  # noqa: E402
from keelfs.testing.conformance.frame import Frame, needs  # noqa: E402
from keelfs.testing.conformance.history import Histories  # noqa: E402
from keelfs.testing.conformance.honesty import Honesty  # noqa: E402
from keelfs.testing.conformance.joining import Batches, Requests  # noqa: E402
from keelfs.testing.conformance.judging import Judges  # noqa: E402
from keelfs.testing.conformance.linking import HardLinks, SymbolicLinks  # noqa: E402
from keelfs.testing.conformance.metering import Ledger, Limited  # noqa: E402
from keelfs.testing.conformance.naming import HostileNames, Paths  # noqa: E402
from keelfs.testing.conformance.reading import Reading  # noqa: E402
from keelfs.testing.conformance.snapshotting import Snapshotting  # noqa: E402
from keelfs.testing.conformance.subjects import (  # noqa: E402
    ABILITIES,
    Setting,
    Subject,
    register,
    registered,
)
from keelfs.testing.conformance.telling import Journals  # noqa: E402
from keelfs.testing.conformance.trashing import Trashing  # noqa: E402
from keelfs.testing.conformance.undoing import Undoing  # noqa: E402
from keelfs.testing.conformance.writing import Writing  # noqa: E402


def _each_once(groups: tuple[type, ...]) -> None:
    """Refuses two groups with a test of the same name, of which one would never run."""
    seen: dict[str, type] = {}
    for group in groups:
        for name in vars(group):
            if not name.startswith("__") and seen.setdefault(name, group) is not group:
                raise TypeError(f"{group.__name__}.{name} hides {seen[name].__name__}.{name}")


class ConformanceSuite(
    Reading, Writing, Entering, Copying, SymbolicLinks, HardLinks, Attributes, Expecting,
    Histories, Trashing, Snapshotting, Journals, Undoing, Ledger, Limited, HostileNames, Paths,
    Batches, Requests, Judges, Confined, Honesty,
):  # fmt: skip
    """Every group."""


_each_once(ConformanceSuite.__bases__)


__all__ = [
    "ABILITIES",
    "Attributes",
    "Batches",
    "Confined",
    "ConformanceSuite",
    "Copying",
    "Entering",
    "Expecting",
    "Frame",
    "HardLinks",
    "Histories",
    "Honesty",
    "HostileNames",
    "Journals",
    "Judges",
    "Ledger",
    "Limited",
    "Paths",
    "Reading",
    "Requests",
    "Setting",
    "Snapshotting",
    "Subject",
    "SymbolicLinks",
    "Trashing",
    "Undoing",
    "Writing",
    "needs",
    "register",
    "registered",
]
