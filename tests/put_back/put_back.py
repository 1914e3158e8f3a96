"""Puts faults of the past back one by one, each into a copy of this checkout, and tells which the machines find.

    python tests/put_back/put_back.py --seed 1 --minutes 3 --json rows.json

The machines are those of tests/differential and tests/campaign. A patch in this folder puts one fault back. Above its
changes it says in a sentence what goes wrong, and then `found by: differential torch` or `found by: campaign kill`.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from copied import Copy, Unusable

PATCHES = Path(__file__).parent
FOUND_BY = "found by: "
MARGIN = 900.0
"""Seconds beyond its limit in which a machine must have ended: what it has begun, it ends."""
LINE = "{:28}{:13}{:20}{:>5}  {:6}{:>8}{:>10}"


@dataclass(frozen=True)
class Patch:
    """machine: "differential" or "campaign". kind: of its programs or faults."""

    file: Path
    sentence: str
    machine: str
    kind: str

    @property
    def fault(self) -> str:
        """Its name."""
        return self.file.stem

    @property
    def of_engine(self) -> bool:
        """Whether the engine has to be built for it."""
        return "\n+++ b/engine/" in self.file.read_text()


@dataclass
class Row:
    """What came of a patch. seconds, programs: until it was found, or in vain. told: how it was told."""

    fault: str
    machine: str
    kind: str
    seed: int
    found: bool = False
    seconds: float = 0.0
    programs: int = 0
    told: str = ""


def patches() -> list[Patch]:
    """All of them. Raises ValueError for one that does not say what it does, or who finds it."""
    return [_read(file) for file in sorted(PATCHES.glob("*.patch"))]


def _read(file: Path) -> Patch:
    above = file.read_text().partition("diff --git ")[0].strip().splitlines()
    *words, last = above or [""]
    machine, _, kind = last.removeprefix(FOUND_BY).partition(" ")
    if not words or machine not in _COMMANDS or not kind:
        raise ValueError(f"{file.name} does not begin with a sentence and a line `{FOUND_BY}MACHINE KIND`")
    return Patch(file, " ".join(words).strip(), machine, kind)


_COMMANDS = {
    "differential": ("tests/differential/machine.py", "--kinds"),
    "campaign": ("tests/campaign/campaign.py", "--faults"),
}


def tried(patch: Patch, seed: int, minutes: float) -> Row:
    """Put the fault back and let its machine look for it. Raises Unusable if that cannot be done."""
    row = Row(patch.fault, patch.machine, patch.kind, seed)
    with tempfile.TemporaryDirectory(prefix="put-back-") as folder:
        copy = Copy(Path(folder))
        copy.apply(patch.file)
        if patch.of_engine:
            copy.build_engine()
        script, option = _COMMANDS[patch.machine]
        told = copy.folder / "rows.json"
        options = ["--seed", str(seed), "--minutes", str(minutes), option, patch.kind, "--first", "--json", str(told)]
        begin = time.monotonic()
        output = copy.run([sys.executable, script, *options], 60 * minutes + MARGIN)
        row.seconds = round(time.monotonic() - begin, 1)
        if not told.exists():
            raise Unusable(f"{patch.machine} ended without a result: {output[-2000:]}")
        _count(row, json.loads(told.read_text()), output)
    return row


def _count(row: Row, rows: Sequence[dict[str, Any]], output: str) -> None:
    row.programs = sum(one["programs" if row.machine == "differential" else "trials"] for one in rows)
    wrong = [str(text) for one in rows for text in one.get("found", []) or one.get("failing", [])]
    row.found = bool(wrong)
    row.told = (wrong[0] if row.machine == "differential" else output)[:3000] if wrong else ""


def main() -> int:
    """Try the patches in turn, and return 1 unless every fault was found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=3.0, help="for each fault")
    parser.add_argument("--only", nargs="+", metavar="FAULT", help="only these")
    parser.add_argument("--json", type=Path, help="write the rows here, too")
    asked = parser.parse_args()
    known = patches()
    if unknown := set(asked.only or []) - {patch.fault for patch in known}:
        parser.error(f"there are the faults {', '.join(patch.fault for patch in known)}, not {', '.join(unknown)}")
    print(LINE.format("fault", "machine", "kind", "seed", "found", "seconds", "programs"), flush=True)
    rows: list[Row] = []
    for patch in known:
        if asked.only and patch.fault not in asked.only:
            continue
        try:
            row = tried(patch, asked.seed, asked.minutes)
        except Unusable as error:
            sys.exit(f"{patch.fault}: {error}")
        rows.append(row)
        words = (row.seed, "yes" if row.found else "no", row.seconds, row.programs)
        print(LINE.format(row.fault, row.machine, row.kind, *words), flush=True)
        if asked.json:
            asked.json.write_text(json.dumps([asdict(one) for one in rows], indent=1) + "\n")
    print(f"{sum(row.found for row in rows)} of {len(rows)} found")
    return int(not all(row.found for row in rows))


if __name__ == "__main__":
    sys.exit(main())
