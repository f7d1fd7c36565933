"""What keeps a run of the suite from being green because nothing was examined.

Loaded with `-p keelfs.testing.conformance.plugin`. Always: a conformance test that was skipped
without an ability that its subject names fails the run. With `--conformance-subjects N`: so does a
run in which fewer than N subjects are registered, or a registered one passed no test.

Works with xdist: reports, with their properties, come to the process that decides.
"""

from __future__ import annotations

import pytest

from keelfs.testing.conformance import Frame, registered

OPTION = "--conformance-subjects"
#: Marks reports of conformance tests; set when they are collected, so that a skip by any fixture
#: is seen, also one that comes before those of the suite.
EXAMINED = "conformance"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the option that asks for a full run."""
    parser.addoption(
        OPTION, type=int, default=None, metavar="N",
        help="fail unless at least N registered subjects were examined, and all that are",
    )  # fmt: skip


def pytest_configure(config: pytest.Config) -> None:
    """Begins a count of its own for each run."""
    config.pluginmanager.register(Roll(config), "conformance-roll")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks the tests of the suite."""
    for item in items:
        if isinstance(item, pytest.Function) and item.cls and issubclass(item.cls, Frame):
            item.user_properties.append((EXAMINED, item.cls.__name__))


class Roll:
    """Who was examined, and what was skipped without a name."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self.examined: set[str] = set()
        self.unnamed: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Counts one report."""
        told = dict(report.user_properties)
        if EXAMINED not in told:
            return
        if report.skipped and "conformance_cannot" not in told:
            self.unnamed.append(report.nodeid)
        if report.when == "call" and report.passed:
            self.examined.add(str(told.get("conformance_subject")))

    def complaints(self) -> list[str]:
        """Why the run is not what it seems."""
        found = [f"skipped without an ability that is named: {test}" for test in self.unnamed]
        wanted: int | None = self._config.getoption(OPTION)
        if wanted is not None:
            names = set(registered()) | self.examined
            if len(names) < wanted:
                found.append(f"{wanted} subjects are expected, {len(names)} are registered")
            found += [f"never examined: {name}" for name in sorted(names - self.examined)]
        return found

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Turns a green run red."""
        if (
            not hasattr(self._config, "workerinput")
            and self.complaints()
            and not session.exitstatus
        ):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Says why."""
        for complaint in self.complaints():
            terminalreporter.write_line(f"conformance: {complaint}", red=True)
