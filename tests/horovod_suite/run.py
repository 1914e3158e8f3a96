"""Runs Horovod's own tests of its TensorFlow and Keras API against Paceline, with only their import changed.

    python run.py [--horovod CHECKOUT] [--ranks N] [--failures-only] [FILE...] [-- OPTION OF PYTEST...]

FILE: test_tensorflow, keras-2/test_tensorflow2_keras …; by default all of them. As in Horovod's CI, pytest runs in each
rank. Ends with `N passed, N failed, N skipped`; skips.toml has the reason for everything that is skipped.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from borrowed_suite import Outcome, conclude, read_skips, show
from checkout import copied

HERE = Path(__file__).resolve().parent

FILES = [
    "test_tensorflow",
    "test_tensorflow_process_sets",
    "test_tensorflow_process_sets_dynamic",
    "test_process_sets_static",
    "test_process_sets_multi_comm",
    "test_adasum_tensorflow",
    "test_compute_worker",
    "test_xla",
    "test_xla_process_sets",
]
KERAS = ["test_keras", "test_tensorflow_keras", "test_tensorflow2_keras", "test_tensorflow2_keras_process_sets"]
JOBS = [*FILES, *(f"keras-{version}/{file}" for version in (2, 3) for file in KERAS)]
TEST_DEADLINE = 1200
"""Seconds for one test in a rank; some take minutes on a machine with much else to do."""
FILE_DEADLINE = 7200
"""Seconds for a file: a rank that is stuck where nothing interrupts it ends with the job."""
BEGUN = "the rank ended in the midst of it"
"""What a rank writes before a test, and replaces after it."""
RANK = {state: number for number, state in enumerate(("passed", "skipped", "failed"))}


def main() -> int:
    parser = argparse.ArgumentParser(description="Horovod's own tests of TensorFlow and Keras on paceline")
    parser.add_argument("--horovod", type=Path, default=HERE.parents[1] / "build/horovod", help="a checkout of Horovod")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--failures-only", action="store_true", help="do not print passed tests")
    parser.add_argument("files", nargs="*", metavar="FILE", help=f"of {', '.join(JOBS)}")
    own = sys.argv[1:]
    cut = own.index("--") if "--" in own else len(own)
    arguments = parser.parse_args(own[:cut])
    if unknown := [file for file in arguments.files if file not in JOBS]:
        parser.error(f"there is no {unknown[0]}; the files are {', '.join(JOBS)}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # and so the job of ranks is ended, too
    skips = read_skips(HERE / "skips.toml")
    outcomes: list[Outcome] = []
    with tempfile.TemporaryDirectory() as folder:
        copied(arguments.horovod, "test", Path(folder, "test"))
        for job in arguments.files or JOBS:
            whole = skips.of(f"{job}/")
            if whole is not None and not whole.run:
                found = [Outcome(f"{job}/", "skipped", whole.reason, 0.0)]
            else:
                found = run_job(Path(folder), job, arguments.ranks, own[cut + 1 :])
            for outcome in found:
                judged = skips.judge(outcome)
                show(judged, arguments.failures_only)
                outcomes.append(judged)
    if not arguments.files:
        for name in skips.unused([outcome.name for outcome in outcomes]):
            print(f"warning: skips.toml lists {name}, which Horovod's suite does not have")
    return conclude(outcomes)


def run_job(folder: Path, job: str, ranks: int, options: list[str]) -> list[Outcome]:
    """One file's outcomes: of each test the worst of all ranks."""
    prefix, file = job.rpartition("/")[::2]
    found = folder / job
    found.mkdir(parents=True)
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(map(str, (HERE, HERE / "stand_in", HERE.parent))),
        "PACELINE_TIMEOUT": "600",
        "TF_CPP_MIN_LOG_LEVEL": "2",
        "TF_USE_LEGACY_KERAS": str(int(prefix != "keras-3")),
        "TMPDIR": str(found),
        "SUITE_OUTCOMES": str(found),
        "SUITE_PREFIX": f"{prefix}/" if prefix else "",
    }
    launcher = [sys.executable, "-m", "paceline.horovod.run", "-np", str(ranks)]
    pytest = [sys.executable, "-m", "pytest", "-p", "rank_outcomes", "-p", "no:cacheprovider", "-q", "--tb=short"]
    deadline = [f"--timeout={TEST_DEADLINE}", "-W", "ignore"]
    with (found / "printed").open("w+", errors="replace") as printed:
        process = subprocess.Popen(
            [*launcher, *pytest, *deadline, *options, f"test/parallel/{file}.py"],
            cwd=folder,
            env=environment,
            stdout=printed,
            stderr=subprocess.STDOUT,
        )
        try:
            code = process.wait(FILE_DEADLINE)
        finally:
            process.terminate()
            process.wait()
        printed.seek(0)
        told = [read(found / f"rank-{rank}") for rank in range(ranks)]
        if code != 0 or not any(told):
            told.append({job: Outcome(job, "failed", f"the job ended with code {code}:\n{printed.read()}", 0.0)})
    names = dict.fromkeys(name for outcomes in told for name in outcomes)
    return [max((each[name] for each in told if name in each), key=lambda one: RANK[one.state]) for name in names]


def read(file: Path) -> dict[str, Outcome]:
    """What a rank wrote of each test. What passes after a part of it has failed does not make up for that."""
    outcomes: dict[str, Outcome] = {}
    for line in file.read_text().splitlines() if file.exists() else ():
        outcome = Outcome(*json.loads(line))
        before = outcomes.get(outcome.name)
        if before is None or before.state != "failed" or before.detail == BEGUN:
            outcomes[outcome.name] = outcome
    return outcomes


if __name__ == "__main__":
    sys.exit(main())
