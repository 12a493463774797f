"""`python -m tests.bench NAME [--quick] [--runs N]`: a card for people, then the result as one line of JSON."""

from __future__ import annotations

import argparse
import sys

import msgspec

from tests.bench.catalogue import ALL, BENCHES
from tests.bench.harness import Options, run


def main() -> int:
    """Return 0 when the bound holds, 1 when it does not, 3 when it could not be measured."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("name", nargs="?", choices=list(BENCHES), metavar="NAME", help="see --list")
    parser.add_argument("--list", action="store_true", help="name all benchmarks")
    parser.add_argument("--quick", action="store_true", help="few and short runs")
    parser.add_argument("--runs", type=int, metavar="N", help="runs of each side")
    arguments = parser.parse_args()
    if arguments.list:
        for bench in ALL:
            print(f"{bench.name:20} {bench.bounded} <= {bench.bound:<5g} {bench.a}{' / ' if bench.b else ''}{bench.b}")
        return 0
    if arguments.name is None:
        parser.error("name a benchmark, or ask for --list")
    if arguments.runs is not None and arguments.runs < 1:
        parser.error("--runs is at least 1")
    card, found = run(BENCHES[arguments.name], Options(arguments.quick, arguments.runs))
    print(card)
    print(msgspec.json.encode(found).decode(), flush=True)
    return 3 if found.ok is None else 0 if found.ok else 1


if __name__ == "__main__":
    sys.exit(main())
