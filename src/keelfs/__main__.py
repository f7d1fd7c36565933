"""`python -m keelfs` is the command `keelfs`."""

from keelfs.surfaces.cli.main import main

if __name__ == "__main__":
    main(prog_name="keelfs")
