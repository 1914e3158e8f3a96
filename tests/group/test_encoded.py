"""Messages between machines that are encoded: right, the same on all ranks, and named where ranks differ."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from fault_trial import trial
from jobs import PROGRAMS, job, run, words

from paceline import _engine
from paceline.calibration.plan import DECODE_RATE, ENCODE_RATE
from paceline.plan.codecs import CODECS
from paceline.settings.names import NONE


def test_the_cost_model_knows_the_codecs_of_the_engine() -> None:
    assert list(_engine.CODECS) == [NONE, *CODECS]
    assert list(ENCODE_RATE) == list(DECODE_RATE) == [*CODECS]


@pytest.mark.parametrize("machines", ["01", "011", "00111", "0122"])
def test_every_codec(machines: str, tmp_path: Path) -> None:
    run(len(machines), PROGRAMS / "encoded.py", machines, output=tmp_path)


@pytest.mark.parametrize("algorithm", ["ring", "halving_doubling", "flexreduce", "double_tree"])
def test_every_codec_by_other_plans(algorithm: str, tmp_path: Path) -> None:
    run(5, PROGRAMS / "encoded.py", "00111", "100003", output=tmp_path, env={"PACELINE_ALGORITHM": algorithm})


@pytest.mark.parametrize("machines", ["01", "00111"])
@pytest.mark.parametrize("seed", [1, 2])
def test_a_rank_that_is_killed_is_named(machines: str, seed: int, tmp_path: Path) -> None:
    trial("kill", machines, seed, tmp_path)


SETTING = """
import os, sys
rank = int(os.environ["RANK"])
os.environ["PACELINE_MACHINE"] = f"machine-{rank}"
os.environ["PACELINE_COMPRESS"] = sys.argv[1 + rank]
import numpy as np, paceline
group = paceline.init(timeout=100)
small, large = np.full(9, 1 + 2.0**-20, np.float32), np.full(20_000, 1 + 2.0**-20, np.float32)
group.all_reduce(small)
group.all_reduce(np.ones(20_000))  # float64 has no codec
plain = large.copy()
group.all_reduce(plain, codec="none")
try:
    group.all_reduce(large)
except Exception as error:
    print(type(error).__name__, error)
else:
    assert (small == plain[0]).all() and (plain > 2).all()
    print((large == 2).all())
"""


@pytest.mark.parametrize(("setting", "said"), [("bf16", "True"), ("off", "False")])
def test_the_setting(setting: str, said: str, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(SETTING)
    output = tmp_path / "out"
    output.mkdir()
    with job(2, program, setting, setting, output=output) as running:
        running.wait(150)
    lines = [path.read_text().strip() for path in sorted(output.glob("*out*"))]
    assert len(lines) == 2 and all(re.match(said, line) for line in lines), words(output)


AUTO = """
import os, sys
rank = int(os.environ["RANK"])
os.environ.update(
    PACELINE_MACHINE="machine-" + sys.argv[1][rank], PACELINE_COMPRESS=sys.argv[3], PACELINE_TOPOLOGY=sys.argv[2]
)
import numpy as np, paceline
group = paceline.init(timeout=100)
print(group.native.codec, group.native.coded_from)
data = np.full(1_000_000, 1 + 2.0**-20, np.float32)
if sys.argv[3] == "auto":
    group.all_reduce(data)
else:
    large = np.ones(1_000_000)
    group.all_reduce(large, codec="auto")  # float64 has no codec
    assert (large == 2).all()
    group.all_reduce(data, codec="auto")
print((data == 2).all())
"""


@pytest.mark.parametrize(
    ("machines", "uplink", "found", "said"),
    [
        ("01", "499 Mbit/s", "0 0 True", 'codec="auto": sums and means of float32 go as bf16 from 128 KiB on, because'),
        ("00", "499 Mbit/s", "0 0 False", 'codec="auto": nothing is encoded, because all ranks are on one machine'),
        (
            "01",
            "500 Mbit/s",
            "1 131072 True",
            "PACELINE_COMPRESS=auto: sums and means of float32 go as bf16 from 128 KiB on, because",
        ),
        (
            "01",
            "400 Gbit/s",
            "0 0 False",
            "PACELINE_COMPRESS=auto: nothing is encoded, because by the cost model an all-reduce of 1 GiB takes",
        ),
        (
            "00",
            "500 Mbit/s",
            "0 0 False",
            "PACELINE_COMPRESS=auto: nothing is encoded, because all ranks are on one machine",
        ),
    ],
)
def test_the_cost_model_decides(machines: str, uplink: str, found: str, said: str, tmp_path: Path) -> None:
    """All ranks alike, for all calls or for one, and the first one says so once."""
    setting = "auto" if said.startswith("PACELINE") else "off"
    program, topology = tmp_path / "program.py", tmp_path / "topology.yaml"
    program.write_text(AUTO)
    ranks = [machines.count(name) for name in sorted(set(machines))]
    speed = f"uplink: {uplink}, local: 400 Gbit/s"
    lines = (f"  - {{machine: m{at}, ranks: {count}, {speed}}}\n" for at, count in enumerate(ranks))
    topology.write_text("children:\n" + "".join(lines))
    output = tmp_path / "out"
    output.mkdir()
    with job(2, program, machines, str(topology), setting, output=output) as running:
        running.wait(150)
    printed = [path.read_text().split() for path in sorted(output.glob("*out*"))]
    assert printed == [found.split()] * 2, words(output)
    errors = "".join(path.read_text() for path in output.glob("*err*"))
    assert errors.count("auto") == 1, errors
    assert said in errors
