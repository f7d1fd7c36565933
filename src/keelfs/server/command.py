"""`keelfs serve`: starts a process and says where it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from keelfs import assembly
from keelfs.errors import KeelError
from keelfs.server.process import Process
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
@click.pass_obj
def serve(
    where: Any, data: Path | None, store: str | None, host: str, port: int, hosts: tuple[str, ...]
) -> None:
    """Serves a store over HTTP."""
    url = where.url(data, store)
    defaults = Bounds()
    bounds = Bounds(hosts=defaults.hosts | {host, f"[{host}]"} | set(hosts))
    try:
        opened = assembly.open(url)
    except KeelError as error:
        click.echo(f"{error}\n{error.remedy}", err=True)
        raise SystemExit(outcome_of(error).exit) from None
    with opened:
        Process(opened, bounds, host, port).run()
