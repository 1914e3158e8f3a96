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


def said(capfd: pytest.CaptureFixture[str]) -> str:
    return " ".join(capfd.readouterr().out.split())


def test_overlap_counts(tmp_path: Path) -> None:
    """44.5 million gradients take 25 Gbit/s about 120 ms, and are ready over two thirds of 536."""
    what = ("--model", "resnet101", "--step", "536 ms", "--ranks", 16, "--per-machine", 4)
    (row,) = ask(tmp_path, *what, "--link", "uplink=25 Gbit/s")
    assert 0.94 <= row["efficiency"] <= 0.98  # type: ignore[operator]


def test_the_links_inside_machines_bind_where_they_are_slow(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """124 million gradients take 3.2 Tbit/s a few milliseconds, and 10 Gbit/s inside machines 740 ms."""
    what = ("--model", "gpt2", "--step", "112 ms", "--ranks", 16, "--per-machine", 8, "--link", "uplink=3200 Gbit/s")
    (row,) = ask(tmp_path, *what, "--link", "inner=nvlink4")
    assert 112 <= row["step_ms"] <= 125  # type: ignore[operator]
    capfd.readouterr()
    (row,) = ask(tmp_path, *what, "--link", "inner=10 Gbit/s,2us")
    shown = said(capfd)
    assert row["step_ms"] > 740  # type: ignore[operator]
    assert "the network, whose busiest links are those of 16 ranks inside their machines (10 Gbit/s), takes" in shown
    assert "inside its machine" not in str(row["assumed"])
    slow = tmp_path / "slow.yaml"
    machines = [{"machine": name, "ranks": 4, "uplink": "400 Gbit/s", "latency": "5 us"} for name in "ab"]
    slow.write_text(yaml.dump({"name": "slow", "children": machines}))
    (row,) = ask(tmp_path, "--model", "gpt2", "--step", "112 ms", "--late", "0", "--topology", slow)
    shown = said(capfd)
    assert "those of 8 ranks inside their machines (10 Gbit/s, which is assumed), takes most of the step" in shown
    assert "assumed: 10 Gbit/s and 1 us a message for each rank's link inside its machine (--link inner=" in shown


def test_what_nobody_said_is_printed_and_written(run: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (row,) = ask(tmp_path, "--ranks", 16)
    shown, lines = said(capfd), row["assumed"]
    assert isinstance(lines, list) and all(f"assumed: {line}" in shown for line in lines)
    of_links = ["--link uplink=SPEED,LATENCY", "--link inner=SPEED,LATENCY", "--link host=SPEED"]
    others = ["--model", "--dtype", "--step", "--late", "--per-machine", "--link-efficiency", "--link-share"]
    for option in [*others, *of_links]:
        assert sum(f"({option})" in line for line in lines) == 1
    told = ("--model", "resnet50", "--dtype", "float32", "--step", "300 ms", "--late", "6 ms", "--per-machine", 8)
    links = ("--link", "uplink=10Gbit/s,50us", "--link", "inner=100Gbit/s,1us", "--link", "host=pcie3")
    (row,) = ask(tmp_path, "--ranks", 16, *told, *links, "--link-efficiency", 1, "--link-share", 1)
    assert row["assumed"] == []
    (row,) = ask(tmp_path, "--from", run)
    assert row["assumed"] == []
    (row,) = ask(tmp_path, "--from", run, "--ranks", 8)
    assert [line.partition(" (")[0] for line in row["assumed"]] == [  # type: ignore[attr-defined]
        "2 ranks on each machine, as on the report's largest",
        "500 Mbit/s for each machine's link, as for the report's slowest",
        "links inside machines as fast as the report's ranks copied memory",
    ]


WHAT = ("--model", "vgg16", "--step", "10 ms", "--late", "0", "--ranks", 4, "--per-machine", 2, "--link", "uplink=10G")


def exposed(folder: Path, *words: object) -> float:
    (row,) = ask(folder, *words)
    return float(row["step_ms"]) - 10  # type: ignore[arg-type]


def test_what_is_told_of_gradients_and_transport_counts(tmp_path: Path) -> None:
    """Exchanges of 528 MiB take most of these steps, so that they take what their bytes and their links say."""
    whole = exposed(tmp_path, *WHAT)
    assert exposed(tmp_path, *WHAT, "--dtype", "bfloat16") == pytest.approx(whole / 2, rel=0.05)
    assert exposed(tmp_path, *WHAT, "--link-efficiency", 0.5) == pytest.approx(2 * whole, rel=0.05)
    assert exposed(tmp_path, *WHAT, "--link-share", 0.5) == pytest.approx(2 * whole, rel=0.05)
    half = exposed(tmp_path, *WHAT, "--link-share", 0.5, "--link-efficiency", 0.5)
    assert half == pytest.approx(4 * whole, rel=0.05)
    curve = tmp_path / "curve.txt"
    curve.write_text("# of a transport that needs large buffers\n1K 0.01\n4M, 0.5\n")
    assert exposed(tmp_path, *WHAT, "--link-efficiency", curve) == pytest.approx(2 * whole, rel=0.05)
    copies = 2 * 553.43e6 / 2e9 * 1e3
    assert exposed(tmp_path, *WHAT, "--link", "host=2GB/s") == pytest.approx(whole + copies, rel=0.05)


def test_the_interval_is_wider_by_what_is_assumed(tmp_path: Path) -> None:
    what = ("--model", "vgg16", "--step", "10 ms", "--ranks", 4, "--per-machine", 2, "--late", "0")
    links = ("--link", "uplink=10G", "--link", "inner=pcie3")
    known = ("--link-efficiency", 1, "--link-share", 1)
    widths = []
    for words in ((*links, *known), links, known):
        (row,) = ask(tmp_path, *what, *words)
        widths.append((row["low_ms"] / row["step_ms"], row["high_ms"] / row["step_ms"]))  # type: ignore[operator]
    told, reach, speeds = widths
    assert told == pytest.approx((1.0, 1.0), abs=0.02)
    assert reach == pytest.approx((1.0, 2.0), abs=0.05), "a transport may reach half of a link"
    assert speeds == pytest.approx((0.5, 2.0), abs=0.05)


def test_gradients_alone(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (row,) = ask(tmp_path, "--gradients", "340MB/200", *WHAT[2:])
    assert "200 gradients of 340 MiB" in said(capfd)
    assert sum("equally large" in line for line in row["assumed"]) == 1  # type: ignore[attr-defined]
    assert row["step_ms"] == pytest.approx(10 + 340 * 2**20 / 1.25e9 * 1e3, rel=0.05)


def test_the_sentence_names_copies_where_they_bind(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    ask(tmp_path, *WHAT, "--link", "host=pcie1x1")
    assert "copying between devices and their machines' memory (2 Gbit/s) takes most of the step" in said(capfd)


def test_a_report_of_one_machine_says_nothing_of_links_between_machines(tmp_path: Path) -> None:
    alone = tmp_path / "alone.json"
    alone.write_text(to_json(without_network(report((4 << 20,), COMPUTES))))
    (row,) = ask(tmp_path, "--from", alone, "--ranks", 16, "--per-machine", 16)
    assert row["network"] == "16 ranks, 16 to a machine"
    (row,) = ask(tmp_path, "--from", alone, "--ranks", 16, "--link", "uplink=5Gbit/s")
    assert row["network"] == "16 ranks, 4 to a machine, uplink 5 Gbit/s"


def test_one_machine_is_simulated_once_its_links_are_said(tmp_path: Path) -> None:
    """498 MB go out of and into each of eight ranks 2 · 7/8 times, in 55 ms at 15.75 GB/s, all of it after the step."""
    what = ("--model", "gpt2", "--step", "1 ms", "--late", "0", "--ranks", 8)
    (row,) = ask(tmp_path, *what, "--link", "inner=pcie3")
    assert row["step_ms"] == pytest.approx(1 + 55.3, rel=0.03)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (
            ["--from", "alone", "--ranks", "16"],
            "the report is of one machine and says nothing of links between machines",
        ),
        (["--from", "crashed"], "did not end well: rank 1 gave no figures"),
        (["--from", "run", "--topology", "net", "--ranks", "64"], "has 2 ranks, but --ranks is 64"),
        (["--from", "run", "--link", "uplink=-5 Mbit/s"], "is not a speed"),
        (
            ["--from", "run", "--link", "gamma=5 Mbit/s"],
            "no link called 'gamma'; choose one of uplink, inner, alpha, beta",
        ),
        (["--from", "alone", "--link", "uplink=1Gbit/s"], "all ranks are on one machine"),
        (["--from", "run", "--link", "uplink"], "write it like uplink=10Gbit/s"),
        (["--from", "run", "--dtype", "float16"], "leave out --dtype, --link-efficiency and --link host=SPEED"),
        (["--from", "run", "--link", "host=pcie3"], "leave out --dtype, --link-efficiency and --link host=SPEED"),
        (["--ranks", "16", "--link", "host=pcie3:pcie4"], "--link host is one speed"),
        (["--ranks", "16", "--dtype", "int3"], "--dtype is 'int3'; choose one of float32, float16, bfloat16, float64"),
        (["--ranks", "16", "--dtype", "float16", "--codec", "bf16"], "--codec encodes float32"),
        (["--ranks", "16", "--gradients", "340M"], "write bytes and tensors, like 340M/200"),
        (["--ranks", "16", "--gradients", "8/200"], "8 bytes do not make 200 tensors"),
        (["--ranks", "16", "--gradients", "1M/2", "--model", "vgg16"], "leave out --model and --dtype"),
        (["--ranks", "16", "--link-efficiency", "1.5"], "write a fraction such as 0.6, or a file"),
        (["--ranks", "16", "--link-efficiency", "net"], ":1: 'children:' is no line such as 4M 0.6"),
        (["--ranks", "16", "--link-share", "0"], "--link-share is 0; it must be above 0 and at most 1"),
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
