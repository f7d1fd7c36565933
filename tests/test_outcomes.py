"""Every error has one outcome, and what is no error of ours shows nothing of itself."""

from __future__ import annotations

import errno
import logging
from collections.abc import Iterator

import pytest

from keelfs import errors
from keelfs.errors import KeelError
from keelfs.surfaces.outcomes import OUTCOMES, Outcome, known, outcome_of


def tree(root: type[KeelError] = KeelError) -> Iterator[type[KeelError]]:
    yield root
    for child in root.__subclasses__():
        if child.__module__ == errors.__name__:
            yield from tree(child)


def test_the_table_is_total() -> None:
    assert set(OUTCOMES) == set(tree())


@pytest.mark.parametrize("kind", OUTCOMES, ids=lambda kind: kind.__name__)
def test_an_outcome_means_something_everywhere(kind: type[KeelError]) -> None:
    outcome = outcome_of(kind())
    assert 400 <= outcome.status < 600
    assert outcome.errno in errno.errorcode
    assert outcome.exit in {1, 2, 3, 4, 5, 6, 8, 70}
    assert outcome.retry <= (outcome.status in {429, 503, 507})


def test_only_our_own_defects_look_like_ours() -> None:
    broken = {kind for kind, outcome in OUTCOMES.items() if outcome.status == 500}
    assert broken == {KeelError, *tree(errors.Broken)}


def test_an_error_of_another_volume_looks_like_its_family() -> None:
    class Foreign(errors.Missing):
        """Nowhere to be found."""

    assert outcome_of(Foreign()) == OUTCOMES[errors.Missing]


def test_an_unknown_failure_shows_only_an_id(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        shown = known(ValueError("SELECT secret FROM /home/x"))
    assert isinstance(shown, errors.UnknownFailure)
    assert "secret" not in str(shown)
    number = str(shown).split()[-1]
    assert number in caplog.text
    assert "secret" in caplog.text


def test_our_own_errors_pass() -> None:
    error = errors.NotFound()
    assert known(error) is error
    assert isinstance(outcome_of(error), Outcome)
