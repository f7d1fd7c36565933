"""Trees and scripts for the tests of the shell."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import keelfs
from keelfs.agents.shell import ShellResult
from keelfs.model import Kind

FOLDER = Path(__file__).parent / "scripts"


def scripts(name: str) -> dict[str, str]:
    """The scripts of a file by their titles."""
    parts = re.split(r"^### (.*)\n", (FOLDER / name).read_text(), flags=re.MULTILINE)[1:]
    return dict(zip(parts[::2], parts[1::2], strict=True))


def shown(space: keelfs.Workspace) -> dict[str, object]:
    """Everything in a tree: kinds, modes or targets, and bytes, by path."""
    found: dict[str, object] = {}
    for path, stat in space.walk("/"):
        held = stat.target if stat.kind is Kind.SYMLINK else stat.mode
        found[path] = (stat.kind, held, space.read(f"/{path}") if stat.is_file else b"")
    return found


def shown_on_host(folder: Path) -> dict[str, object]:
    """The same of a folder."""
    found: dict[str, object] = {}
    for path in folder.rglob("*"):
        name = str(path.relative_to(folder))
        mode = path.lstat().st_mode & 0o7777
        if path.is_symlink():
            found[name] = (Kind.SYMLINK, os.readlink(path), b"")
        elif path.is_dir():
            found[name] = (Kind.DIRECTORY, mode, b"")
        else:
            found[name] = (Kind.FILE, mode, path.read_bytes())
    return found


def in_bash(script: str, folder: Path) -> ShellResult:
    """What /bin/bash makes of a script."""
    done = subprocess.run(
        ["/bin/bash", "-c", script],
        cwd=folder,
        env={"PATH": "/usr/bin:/bin", "LC_ALL": "C", "TZ": "UTC", "HOME": "/"},
        capture_output=True,
        text=True,
        errors="replace",
        umask=0o022,
    )
    return ShellResult(stdout=done.stdout, stderr=done.stderr, exit_code=done.returncode)
