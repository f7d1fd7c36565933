"""`keelfs token`: tokens out of the hands of whoever may open the store itself."""

from __future__ import annotations

import time
from typing import Any

import click

from keelfs import assembly
from keelfs.errors import KeelError
from keelfs.grant import Grant, Role
from keelfs.identity import READING, Authority
from keelfs.path import parse
from keelfs.surfaces.outcomes import outcome_of


@click.group()
def token() -> None:
    """Tokens of a tenant."""


@token.command("new")
@click.option("--tenant", required=True, help="Made on first use.")
@click.option("--role", type=click.Choice([role.value for role in Role]), required=True)
@click.option("--name", help="Of the user; of the operator, if not 'operator'.")
@click.option("--agent", help="The id of an agent: its own token, or a limit.")
@click.option("--session", help="The id of a session: a limit.")
@click.option("--user", help="A limit to the sessions of this user.")
@click.option("--path", "paths", multiple=True, help="A limit to what lies below; may be repeated.")
@click.option("--verb", "verbs", multiple=True, help="A limit to this verb; may be repeated.")
@click.option("--readonly", is_flag=True, help="A limit to the verbs that change nothing.")
@click.option("--expires", type=click.IntRange(1), help="Seconds until it is worth nothing.")
@click.option("--label", default="", help="A note on what it is for.")
@click.pass_obj
def new(where: Any, /, tenant: str, label: str, **given: Any) -> None:
    """Prints a new token, and nothing else."""
    try:
        with assembly.open(where.url()) as store:
            click.echo(Authority(store).issue(tenant, _grant(**given), label))
    except KeelError as error:
        click.echo(f"{error}\n{error.remedy}", err=True)
        raise SystemExit(outcome_of(error).exit) from None


def _grant(
    role: str, name: str | None, agent: str | None, session: str | None, user: str | None,
    paths: tuple[str, ...], verbs: tuple[str, ...], readonly: bool, expires: int | None,
) -> Grant:  # fmt: skip
    names = {Role.OPERATOR: name or "operator", Role.USER: name or "", Role.AGENT: agent or ""}
    allowed = READING.union(verbs) if readonly else frozenset(verbs)
    return Grant(
        role=Role(role), name=names[Role(role)], owner=name if role == "user" else user,
        agent=agent, session=session,
        paths=tuple(parse(path).parts for path in paths) or None,
        verbs=allowed or None,
        expires_ns=None if expires is None else time.time_ns() + expires * 10**9,
    )  # fmt: skip
