"""`python -m bench`: measures and prints the table, row by row."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from bench import crowds, flows, peers, report, shapes, shells, small, starts, trees
from bench.row import BOTH, ROWS, Absent, Measured, Row
from bench.site import Site

#: Each of them puts its rows into the table when it is imported.
SUBJECTS = (small, crowds, shapes, flows, shells, starts, trees, peers)


def _arguments(given: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes and few rounds")
    parser.add_argument("--only", nargs="+", metavar="NAME", choices=ROWS, default=list(ROWS))
    parser.add_argument("--database", choices=[*BOTH, "both"], default="both")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the table here")
    parser.add_argument("--folder", type=Path, help="where databases lie meanwhile")
    parser.add_argument("--list", action="store_true", help="print the names of the rows")
    return parser.parse_args(given)


def _measured(site: Site, row: Row, database: str) -> Measured | str:
    try:
        return row.measure(site, database)
    except Absent as reason:
        return str(reason)


def main(given: list[str] | None = None) -> int:
    arguments = _arguments(given)
    if arguments.list:
        print("\n".join(ROWS))
        return 0
    lines: list[report.Line] = []
    with Site(arguments.folder, quick=arguments.quick) as site:
        machine = report.machine(site.fsync_ms(), quick=arguments.quick)
        print(f"{machine}\n\n{report.heading()}", flush=True)
        for name in arguments.only:
            row = ROWS[name]
            for database in row.databases:
                if arguments.database in {database, "both"}:
                    lines.append(report.line(row, database, _measured(site, row, database)))
                    print(report.printed(lines[-1]), flush=True)
    if arguments.json is not None:
        arguments.json.write_bytes(report.encoded(machine, lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
