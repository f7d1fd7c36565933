"""Where the command line begins: options for all commands, and which commands there are.

Each command is named here by module and function, as text, so that asking for one loads no other.
`serve` starts what stands above all surfaces, and is named for the same reason.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Final

import click

COMMANDS: Final = {
    "serve": "keelfs.server.command:serve",
    "token": "keelfs.surfaces.cli.token:token",
}


class Commands(click.Group):
    """Commands that are imported when they are used."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in COMMANDS:
            return None
        module, _, name = COMMANDS[cmd_name].partition(":")
        command = getattr(import_module(module), name)
        assert isinstance(command, click.Command)
        return command


@click.command(cls=Commands)
@click.option(
    "--data", type=click.Path(file_okay=False, path_type=Path), default=None,
    help="The data folder: its store is the SQLite file keelfs.db in it.",
)  # fmt: skip
@click.option("--store", default=None, help="The URL of a store, instead of a data folder.")
@click.pass_context
def main(ctx: click.Context, data: Path | None, store: str | None) -> None:
    """Keelfs: file trees for agents, in one database."""
    ctx.obj = Where(data, store)


class Where:
    """Which store a command is about."""

    def __init__(self, data: Path | None, store: str | None) -> None:
        self.data, self.store = data, store

    def url(self, data: Path | None = None, store: str | None = None) -> str | None:
        """What is said behind the command wins; None leaves it to the environment."""
        data, store = data or self.data, store or self.store
        if store is not None or data is None:
            return store
        data.mkdir(parents=True, exist_ok=True)
        return f"sqlite:///{data.absolute() / 'keelfs.db'}"
