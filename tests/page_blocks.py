"""The blocks of shell and of Python on the pages: which of them tests run, and why the others do not run."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = sorted(
    page
    for page in (ROOT / "README.md", *ROOT.glob("docs/**/*.md"))
    if "design" not in page.parts and page.name not in ("api.md", "cli.md")
)
BLOCK = re.compile(r"^```(sh|python|yaml)\n(.*?)^```", re.MULTILINE | re.DOTALL)

NOT_RUN = {
    "docs/benchmarks.md": "it installs, and benchmarks take minutes; tests/bench runs them briefly",
    "docs/frameworks/gpu.md": "cupy needs a GPU",
    "docs/frameworks/jax.md": "it has its own environment; tests/frameworks/jax makes the same calls",
    "docs/frameworks/tensorflow.md": "it has its own environment; tests/frameworks/tensorflow makes the same calls",
    "docs/frameworks/trainers.md": "they have their own environment; tests/frameworks/trainers runs the examples",
    "docs/run/lab.md": "labs need root, and one block iperf3; tests/lab makes labs",
    "docs/start/two-machines.md": "it takes two machines",
    "README.md sh 0": "make demo and make test take minutes; tests/demo runs the demo",
    "README.md sh 1": "it installs; tests/doctor runs the doctor",
    "README.md sh 3": "`top` is live; docs/diagnose/slow.md has the other lines",
    "docs/diagnose/errors.md sh 0": "it asks a running job; tests/monitor does",
    "docs/diagnose/slow.md sh 0": "it is live until Ctrl-C; tests/top runs it",
    "docs/diagnose/trace.md sh 0": "it asks a running job; tests/monitor does",
    "docs/diagnose/trace.md sh 3": "it installs; tests/metrics asks the servers",
    "docs/faster/cores.md sh 0": "a search takes a minute; tests/tune runs one",
    "docs/faster/cores.md sh 1": "it needs the result of that search",
    "docs/reference/horovod.md sh 0": "tests/horovod runs this launcher",
    "docs/reference/horovod.md sh 1": "tests/horovod runs elastic jobs",
    "docs/run/launch.md sh 1": "it takes two machines",
    "docs/run/network.md sh 0": "links between machines; tests/measure runs it",
    "docs/run/predict.md sh 3": "256 ranks of ResNet-50 take several seconds; the block before it asks the same",
    "docs/start/first-job.md sh 2": "it asks a running job; tests/top does",
    "docs/start/first-job.md sh 3": "it asks a running job; tests/monitor does",
    "docs/start/from-horovod.md sh 0": "tests/horovod runs this launcher",
    "docs/start/install.md sh 0": "it installs; make door does",
    "docs/start/install.md sh 1": "it builds a wheel; make wheel-check does",
    "docs/start/install.md sh 2": "tests/doctor runs the doctor",
}
"""Blocks, or all of a page, and why they do not run here."""

SHELL = {
    "README.md": (2,),
    "docs/diagnose/slow.md": (1, 2, 3),
    "docs/diagnose/trace.md": (1, 2),
    "docs/faster/compress.md": (0, 1),
    "docs/faster/cores.md": (2,),
    "docs/faster/pipeline.md": (0,),
    "docs/frameworks/arrays.md": (0, 1),
    "docs/frameworks/pytorch.md": (0,),
    "docs/reference/settings.md": (0, 1, 2, 3),
    "docs/run/launch.md": (0,),
    "docs/run/network.md": (1, 2),
    "docs/run/predict.md": (0, 1, 2, 4, 5),
    "docs/start/first-job.md": (0, 1),
    "docs/start/from-horovod.md": (1,),
    "docs/understand/algorithms.md": (0,),
}
"""The blocks of shell that run, by page."""

GUIDES = [
    ("docs/faster/zero-copy.md", (0, 1)),
    ("docs/faster/sharded-optimizer.md", (0, 1, 2)),
    ("docs/faster/pipeline.md", (0, 2, 1)),  # the second is in place of the first
    ("docs/faster/data.md", (0, 1)),
    ("docs/faster/compress.md", (0, 1)),
    ("docs/faster/compress.md", (2,)),
]
"""Python that trains with torch; each row is a job."""
HOROVOD = [("docs/reference/horovod.md", 0), ("docs/faster/compress.md", 3), ("docs/faster/data.md", 2)]
OPENINGS = [
    ("README.md", 0), ("docs/index.md", 0), ("docs/start/first-job.md", 0), ("docs/frameworks/pytorch.md", 0),
]  # fmt: skip
"""One line that makes the process group."""
ARRAYS = [
    ("docs/start/first-job.md", 1, 1), ("docs/frameworks/arrays.md", 0, 1), ("docs/frameworks/arrays.md", 1, 1),
    ("docs/diagnose/errors.md", 0, 2), ("docs/reference/exceptions.md", 0, 2), ("docs/diagnose/trace.md", 0, 1),
    ("docs/faster/compress.md", 4, 1), ("docs/understand/algorithms.md", 0, 2),
]  # fmt: skip
"""Python on arrays, with what an element of `gradient` is afterwards on two ranks that began with 1."""


def name_of(page: Path) -> str:
    """The page as the tables name it."""
    return str(page.relative_to(ROOT))


def blocks(page: str, language: str) -> list[str]:
    """The page's blocks of this language, in order."""
    return [text for found, text in BLOCK.findall((ROOT / page).read_text()) if found == language]
