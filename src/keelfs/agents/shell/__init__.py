"""A bash whose whole world is one tree: no host file, no process, no network.

`shell` runs commands, `mount` answers what they ask of the tree, `commands` holds those that need
more of the tree than the interpreter can ask for, `abi` is the C interface in between, `limits` are
the values that go in and come out. Who calls: agents' tools, and whoever has a workspace.
"""

from keelfs.agents.shell.limits import ShellLimits, ShellResult, Stopped
from keelfs.agents.shell.shell import Shell

__all__ = ["Shell", "ShellLimits", "ShellResult", "Stopped"]
