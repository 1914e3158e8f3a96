"""`paceline simulate`: the rows that programs read, and one sentence for questions that make no sense."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
import yaml
from recorded import report, without_network

from paceline.cli import main
from paceline.observe.report import to_json
from paceline.plan.algorithms import ALGORITHMS
from paceline.simulate.job import PARTS

COMPUTES = [[0.1 + 0.01 * ((step + rank) % 3) for rank in range(4)] for step in range(8)]
FEW = ["--steps", "2", "--runs", "2"]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "run.json"
    path.write_text(to_json(report((4 << 20, 1 << 20), COMPUTES, named=True)))
    return path


def ask(folder: Path, *words: object) -> list[dict[str, object]]:
    place = folder / "rows.json"
    with pytest.raises(SystemExit) as ended:
        main.main(["simulate", *map(str, words), *FEW, "--json", str(place)])
    assert ended.value.code == 0
    rows: list[dict[str, object]] = json.loads(place.read_text())
    return rows


def test_rows(run: Path, tmp_path: Path) -> None:
    rows = ask(tmp_path, "--from", run, "--ranks", "4:16", "--policy", "all")
    assert [(row["ranks"], row["policy"]) for row in rows] == [
        (ranks, policy) for ranks in (4, 8, 16) for policy in ("board", "graph", "cycle", "global_sleep", "nonblocking")
    ]
    for row in rows:
        assert row["low_ms"] <= row["step_ms"] <= row["high_ms"]  # type: ignore[operator]
        assert set(row["shares"]) == set(PARTS)  # type: ignore[call-overload]
        assert row["algorithm"] in ALGORITHMS and 0 < row["efficiency"] < 1  # type: ignore[operator]
    assert ask(tmp_path, "--from", run, "--ranks", "4:16", "--policy", "all") == rows, (
        "the same question, another answer"
    )


def test_links_and_computation_change_a_step_as_they_should(run: Path, tmp_path: Path) -> None:
    (usual,) = ask(tmp_path, "--from", run)
    slow, fast = ask(tmp_path, "--from", run, "--link", "uplink=250Mbit/s:500Mbit/s")
    assert {**fast, "network": usual["network"]} == usual
    assert slow["step_ms"] > usual["step_ms"]  # type: ignore[operator]
    (quick,) = ask(tmp_path, "--from", run, "--scale-compute", "0.1")
    assert quick["step_ms"] < usual["step_ms"]  # type: ignore[operator]
    weak, strong = (ask(tmp_path, "--from", run, "--ranks", "16", *more)[0] for more in ((), ("--strong",)))
    assert strong["step_ms"] < weak["step_ms"]  # type: ignore[operator]
    assert strong["throughput"] < weak["throughput"]  # type: ignore[operator]


def test_advice_is_ranked_by_its_gain(run: Path, tmp_path: Path) -> None:
    rows = ask(tmp_path, "--from", run, "--scale-compute", "0.1", "--advise")
    gains = [row["gain"] for row in rows]
    assert gains == sorted(gains, reverse=True)  # type: ignore[type-var]
    found = {row["change"]: row["gain"] for row in rows}
    assert found["codec int8 between machines"] > found["codec bf16 between machines"] > 0.5  # type: ignore[operator]
    assert found["links of twice the speed"] > 0.5  # type: ignore[operator]


def test_pictures_and_traces(run: Path, tmp_path: Path) -> None:
    picture, trace, goal = tmp_path / "answers.svg", tmp_path / "step.json", tmp_path / "step.goal"
    pictures = ("--draw", picture, "--trace", trace, "--goal", goal)
    ask(tmp_path, "--from", run, "--ranks", "4:16", "--policy", "all", *pictures)
    words = {element.text for element in ElementTree.parse(picture).iter() if element.text}
    assert {"board", "nonblocking", "4 ranks, board", "16 ranks, graph", "computation", "transfer", "ranks"} <= words
    events = json.loads(trace.read_text())["traceEvents"]
    spans = [event for event in events if event["ph"] == "X"]
    for rank in range(16):
        computes, waits = (event for event in spans if event["pid"] == rank)
        assert (computes["name"], waits["name"]) == ("computes", "waits for its gradients")
        assert waits["ts"] == pytest.approx(computes["ts"] + computes["dur"])
    carried = [event for event in spans if event["pid"] == 16 and event["tid"] == 0]
    assert sum(event["args"]["bytes"] for event in carried) == 5 << 20
    assert goal.read_text().startswith("num_ranks 16\nrank 0 {\nl1: calc ")
    ask(tmp_path, "--from", run, "--link", "uplink=1Gbit/s:2Gbit/s", "--draw", picture)
    words = {element.text for element in ElementTree.parse(picture).iter() if element.text}
    assert {"two, uplink 1 Gbit/s", "two, uplink 2 Gbit/s"} <= words


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--from", "crashed"], "did not end well: rank 1 gave no figures"),
        (["--from", "run", "--topology", "net", "--ranks", "64"], "has 2 ranks, but --ranks is 64"),
        (["--from", "run", "--link", "uplink=-5 Mbit/s"], "is not a speed"),
        (["--from", "run", "--link", "gamma=5 Mbit/s"], "no link called 'gamma'; choose one of uplink, alpha, beta"),
        (["--from", "alone", "--link", "uplink=1Gbit/s"], "all ranks are on one machine"),
        (["--from", "run", "--link", "uplink"], "write it like uplink=10Gbit/s"),
        (["--from", "run", "--model", "resnet50"], "leave out --model"),
        (["--from", "run", "--scale-compute", "0"], "must be above 0"),
        (["--from", "run", "--codec", "bf16", "--goal", "step.goal"], "leave out the codec bf16"),
        (["--from", "run", "--policy", "none", "--cores", "x"], "--cores is 'x'; choose one of shared, divided, or"),
        (["--from", "run", "--ranks", "8:4"], "a range that rises"),
        (["--from", "run", "--advise", "--policy", "all"], "this is 5 of them"),
        (["--from", "nothing"], "cannot read"),
        (["--ranks", "8", "--per-machine", "8"], "one machine"),
        ([], "say which network"),
    ],
)
def test_questions_that_make_no_sense(
    words: list[str], why: str, run: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    crashed = tmp_path / "crashed.json"
    crashed.write_text(to_json(replace(report((4 << 20,), COMPUTES), missing={1: "it was killed"})))
    alone = tmp_path / "alone.json"
    alone.write_text(to_json(without_network(report((4 << 20,), COMPUTES))))
    net = tmp_path / "net.yaml"
    net.write_text(
        yaml.dump({"name": "n", "children": [{"machine": m, "ranks": 1, "uplink": "1 Gbit/s"} for m in "ab"]})
    )
    files = {
        "run": str(run),
        "crashed": str(crashed),
        "alone": str(alone),
        "net": str(net),
        "nothing": str(tmp_path / "nothing.json"),
        "step.goal": str(tmp_path / "step.goal"),
    }
    with pytest.raises(SystemExit) as ended:
        main.main(["simulate", *(files.get(word, word) for word in words)])
    said = capfd.readouterr().err
    assert ended.value.code == 2
    assert why in " ".join(said.split()) and "Traceback" not in said
