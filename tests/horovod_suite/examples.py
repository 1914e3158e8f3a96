"""Runs the examples that Horovod publishes for TensorFlow and Keras on two ranks, with their import changed.

    python examples.py [--horovod CHECKOUT] [NAME...]

examples.toml says how each is made small enough for a test, and why others do not run. Ends with `N passed, N failed, N
skipped`. They run with Keras 2 (tf-keras): Keras 3 refuses what they pass to it.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from borrowed_suite import Outcome, conclude, show, tomllib
from checkout import copied

HERE = Path(__file__).resolve().parent

DEADLINE = 3600
"""Seconds for one example: on a machine with much else to do TensorFlow takes minutes to start."""


@dataclass(frozen=True)
class Example:
    file: str
    shows: str
    arguments: str = ""
    elastic: bool = False
    smaller: dict[str, str] = field(default_factory=dict)

    def run(self, examples: Path) -> Outcome:
        file = examples / self.file
        text = file.read_text()
        for before, after in self.smaller.items():
            if text.count(before) != 1:
                raise SystemExit(f"{self.file} should have {before!r} once, not {text.count(before)} times")
            text = text.replace(before, after)
        file.write_text(text)
        launcher = [sys.executable, "-m", "paceline.horovod.run", "-np", "2", *["--min-np", "1"][: 2 * self.elastic]]
        command = [*launcher, sys.executable, str(HERE / "example_rank.py"), str(file), *self.arguments.split()]
        start = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            environment = {**os.environ, "TMPDIR": folder, "TF_CPP_MIN_LOG_LEVEL": "2", "TF_USE_LEGACY_KERAS": "1"}
            done = subprocess.run(
                command,
                cwd=folder,
                env={**environment, "PACELINE_TIMEOUT": "600"},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                timeout=DEADLINE,
            )
        state = "passed" if done.returncode == 0 and re.search(self.shows, done.stdout) else "failed"
        return Outcome(self.file, state, f"exit code {done.returncode}\n{done.stdout}", time.monotonic() - start)


def main() -> int:
    parser = argparse.ArgumentParser(description="Horovod's own examples for TensorFlow and Keras on paceline")
    parser.add_argument("--horovod", type=Path, default=HERE.parents[1] / "build/horovod", help="a checkout of Horovod")
    parser.add_argument("names", nargs="*", metavar="NAME", help="a part of an example's name; by default all run")
    arguments = parser.parse_args()
    listed = tomllib.loads((HERE / "examples.toml").read_text())
    left_out = {file: group["reason"] for group in listed["left_out"] for file in group["files"]}
    outcomes = [Outcome(file, "skipped", reason, 0.0) for file, reason in left_out.items()]
    with tempfile.TemporaryDirectory() as folder:
        examples = Path(folder) / "examples"
        copied(arguments.horovod, "examples", examples)
        found = {str(file.relative_to(examples)) for file in examples.rglob("*.py")}
        ours = {file for file in found if re.search("keras|tensorflow", file)}
        if lost := ours ^ {*left_out, *(each["file"] for each in listed["example"])}:
            raise SystemExit(f"examples.toml and Horovod's folder of examples differ in {', '.join(sorted(lost))}")
        for each in listed["example"]:
            if not arguments.names or any(name in each["file"] for name in arguments.names):
                outcomes.append(Example(**each).run(examples))
                show(outcomes[-1], failures_only=False)
    return conclude(outcomes)


if __name__ == "__main__":
    sys.exit(main())
