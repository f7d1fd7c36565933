"""`keelfs serve`: starts a process and says where it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from keelfs import assembly
from keelfs.errors import KeelError
from keelfs.server.app import Told
from keelfs.server.process import Process, Settings
from keelfs.server.protocol import HEAD_S
from keelfs.server.upkeep import EVERY_S
from keelfs.surfaces.outcomes import outcome_of
from keelfs.surfaces.rest.bounds import Bounds


@click.command()
@click.option("--data", type=click.Path(file_okay=False, path_type=Path), help="See `keelfs`.")
@click.option("--store", help="See `keelfs`.")
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option("--port", default=8420, show_default=True, type=click.IntRange(0, 65_535),
              help="0 takes a free one.")  # fmt: skip
@click.option("--allow-host", "hosts", multiple=True,
              help="A name under which clients reach it; '*' is any. May be repeated.")  # fmt: skip
@click.option("--metrics", type=click.Choice(["local", "all", "none"]), default="local",
              show_default=True, help="Who may read /metrics.")  # fmt: skip
@click.option("--log-requests/--no-log-requests", default=True, show_default=True,
              help="Whether each request is a line of the log.")  # fmt: skip
@click.option("--rate", default=Bounds().requests_per_s, show_default=True,
              help="Requests a second of one user or agent; 0 is no limit.")  # fmt: skip
@click.option("--patience-seconds", default=Bounds().patience_s, show_default=True,
              help="How long a client may be silent within a body.")  # fmt: skip
@click.option("--head-seconds", default=HEAD_S, show_default=True,
              help="How long the head of a request may take.")  # fmt: skip
@click.option("--stop-seconds", default=20, show_default=True, type=click.IntRange(1),
              help="Given to requests that are under way when the process is stopped.")  # fmt: skip
@click.option("--sweep-seconds", default=EVERY_S, show_default=True,
              help="Between two sweeps of the store; 0 is never.")  # fmt: skip
@click.pass_obj
def serve(where: Any, /, data: Path | None, store: str | None, **given: Any) -> None:
    """Serves a store over HTTP."""
    try:
        with assembly.open(where.url(data, store)) as opened:
            Process(opened, _settings(**given)).run()
    except KeelError as error:
        click.echo(f"{error}\n{error.remedy}", err=True)
        raise SystemExit(outcome_of(error).exit) from None


def _settings(
    host: str, port: int, hosts: tuple[str, ...], metrics: Told, log_requests: bool, rate: float,
    patience_seconds: float, head_seconds: float, stop_seconds: int, sweep_seconds: float,
) -> Settings:  # fmt: skip
    names = Bounds().hosts | {host.lower(), f"[{host.lower()}]"} | {name.lower() for name in hosts}
    bounds = Bounds(
        hosts=names, requests_per_s=rate, burst=max(2 * rate, 1), patience_s=patience_seconds
    )
    return Settings(
        host=host, port=port, bounds=bounds, metrics=metrics, log_requests=log_requests,
        stop_s=stop_seconds, sweep_s=sweep_seconds, head_s=head_seconds,
    )  # fmt: skip
