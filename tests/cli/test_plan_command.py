"""`paceline plan`: what it prints, writes and refuses."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from paceline.cli.main import main
from paceline.plan.algorithms import ALGORITHMS
from paceline.plan.codecs import CODECS
from paceline.settings.names import NONE

FILE = """
name: three
children:
  - {machine: alpha, ranks: 3, uplink: 500 Mbit/s}
  - {machine: beta, ranks: 3, uplink: 500 Mbit/s}
  - {machine: gamma, ranks: 4, uplink: 250 Mbit/s}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "three.yaml"
    path.write_text(FILE)
    return path


def run(*arguments: object) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["plan", *map(str, arguments)])
    return int(ended.value.code or 0)


def test_levels_links_time_and_bound(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--topology", file, "--algorithm", "flexreduce", "--bytes", "32M") == 0
    shown = capsys.readouterr().out
    # 2/3 of 32 MiB leave and enter every machine in each half; the slowest takes 1.43 s for both.
    for words in ("level by level", "alpha", "beta", "gamma", "42.7 MiB", "1.43 s", "T* 1.07 s", "ratio 1.3"):
        assert words in shown
    assert "The link of gamma carries the whole buffer each way." in shown


def test_without_a_name_it_says_what_would_be_chosen_and_why(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--topology", file, "--bytes", "32M") == 0
    shown = capsys.readouterr().out
    assert re.match(r"paceline on three, 10 ranks, 32 MiB\nAbove \S+ [KM]iB paceline is as quick as any", shown)
    why = shown.splitlines()[1]
    for name in ALGORITHMS.keys() - {"paceline"}:
        assert re.search(rf"\b{name} [0-9.]+ m?s", why), why


def test_comparison_as_rows(file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, svg = tmp_path / "rows.json", tmp_path / "bars.svg"
    assert run("--topology", file, "--bytes", "32M", "--compare", "--json", out, "--draw", svg) == 0
    rows = {row["algorithm"]: row for row in json.loads(out.read_text()) if row["codec"] == NONE}
    assert list(rows) == list(ALGORITHMS)
    for row in rows.values():
        assert row["bound_seconds"] == pytest.approx(1.0737, abs=1e-4)
        assert row["ratio"] == pytest.approx(row["seconds"] / row["bound_seconds"])
        assert set(row["bytes_per_link"]) == {"alpha", "beta", "gamma", *(f"rank {rank}" for rank in range(10))}
    # The slow link carries the buffer once each way, and the fast ones what that leaves to them.
    assert rows["paceline"]["bytes_per_link"]["gamma"] == {"up": 32 << 20, "down": 32 << 20}
    assert rows["paceline"]["bytes_per_link"]["alpha"]["up"] == 48 << 20
    shown = capsys.readouterr().out
    assert shown.index("paceline ") < shown.index("flexreduce ") < shown.index("ring ")
    bars = ElementTree.parse(svg).getroot()
    assert len(bars.findall("{*}rect")) == 1 + len(rows)


def test_comparison_of_codecs(file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "rows.json"
    assert run("--topology", file, "--bytes", "32M", "--compare", "--json", out) == 0
    rows = [row for row in json.loads(out.read_text()) if row["algorithm"] == "paceline"]  # the quickest here
    plain, *encoded = rows
    assert [row["codec"] for row in rows] == [NONE, *CODECS]
    for row in encoded:
        ratio = CODECS[row["codec"]].ratio
        for machine, carried in plain["bytes_per_link"].items():
            if machine in ("alpha", "beta", "gamma"):
                assert row["bytes_per_link"][machine]["up"] == pytest.approx(carried["up"] / ratio, abs=1)
            else:  # a rank's link, on which messages inside the machine are as they were
                assert carried["up"] / ratio - 1 <= row["bytes_per_link"][machine]["up"] <= carried["up"]
        assert row["seconds"] == pytest.approx(plain["seconds"] / ratio, rel=0.05)
    shown = capsys.readouterr().out
    assert "paceline, encoded between machines" in shown and all(name in shown for name in CODECS)
    assert "For this size PACELINE_COMPRESS=auto would use bf16 with this algorithm." in shown


@pytest.mark.parametrize(
    ("machines", "nbytes"),
    [("[{machine: alpha, ranks: 3, uplink: 1 Gbit/s}]", "32M"), ("FILE", "65535")],
)
def test_no_codec_is_compared_where_nothing_is_encoded(
    machines: str, nbytes: str, file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "rows.json"
    if machines != "FILE":
        file.write_text(f"children: {machines}")
    assert run("--topology", file, "--bytes", nbytes, "--compare", "--json", out) == 0
    assert {row["codec"] for row in json.loads(out.read_text())} == {NONE}
    assert "encoded" not in capsys.readouterr().out


def test_sockets_of_several_machines_are_told_apart(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, out = tmp_path / "sockets.yaml", tmp_path / "rows.json"
    sockets = "children: [{socket: s0, ranks: 2, uplink: 80 Gbit/s}, {socket: s1, ranks: 1, uplink: 80 Gbit/s}]"
    file.write_text("children:\n" + "".join(f"- {{machine: {m}, uplink: 1 Gbit/s, {sockets}}}\n" for m in "ab"))
    assert run("--topology", file, "--bytes", "32M", "--json", out) == 0
    (row,) = json.loads(out.read_text())
    ranks = [f"rank {rank}" for rank in range(6)]
    assert set(row["bytes_per_link"]) == {"a", "b", "a s0", "a s1", "b s0", "b s1", *ranks}
    assert "b s1" in capsys.readouterr().out


def test_links_of_which_nobody_spoke_are_named_and_can_be_told(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "rows.json"
    assert run("--topology", file, "--json", out) == 0
    lines = ["50 us a message for each machine's link", "10 Gbit/s and 1 us a message for each rank's link inside its"]
    (row,) = json.loads(out.read_text())
    shown = capsys.readouterr().out
    for line, words in zip(row["assumed"], lines, strict=True):
        assert line.startswith(words) and f"assumed: {line}" in shown
    told = ("--link", "uplink=1Gbit/s,20us", "--link", "inner=pcie4,2us")
    assert run("--topology", file, "--json", out, *told) == 0
    (quick,) = json.loads(out.read_text())
    assert quick["assumed"] == [] and quick["bound_seconds"] < row["bound_seconds"] / 2


@pytest.mark.parametrize("algorithm", ["ring", "paceline", "double_tree"])
def test_pictures_show_every_rank(algorithm: str, file: Path, tmp_path: Path) -> None:
    svg = tmp_path / "plan.svg"
    assert run("--topology", file, "--algorithm", algorithm, "--draw", svg) == 0
    texts = [
        "".join(text.itertext()) for text in ElementTree.parse(svg).getroot().iter("{http://www.w3.org/2000/svg}text")
    ]
    for rank in range(10):
        assert f"rank {rank}" in texts
    assert any(text.startswith(f"{algorithm} on three") for text in texts)


def test_a_picture_of_many_ranks_shows_machines(tmp_path: Path) -> None:
    file, svg = tmp_path / "many.yaml", tmp_path / "plan.svg"
    children = "".join(f"  - {{machine: node-{n}, ranks: {1 + n % 5}, uplink: 1 Gbit/s}}\n" for n in range(40))
    file.write_text("children:\n" + children)
    for algorithm in ("ring", "flexreduce"):
        assert run("--topology", file, "--algorithm", algorithm, "--draw", svg) == 0
        text = svg.read_text()
        assert "node-0" in text and "25 more machines" in text
        assert len(text) < 300_000


@pytest.mark.parametrize(
    ("nodes", "how"),
    [
        pytest.param(10, [], id="two thousand"),
        pytest.param(5, ["--compare"], id="a thousand"),
        pytest.param(50, [], id="ten thousand", marks=pytest.mark.verify),
    ],
)
def test_many_ranks_of_which_every_machine_has_its_own_speed(nodes: int, how: list[str], tmp_path: Path) -> None:
    """As `paceline check` measures them: no two machines are alike. nodes: in each of the 25 racks."""
    file, svg, out = tmp_path / "hall.yaml", tmp_path / "plan.svg", tmp_path / "rows.json"
    lines = ["children:"]
    for rack in range(25):
        lines += [f"- switch: rack-{rack}", "  uplink: 40 Gbit/s", "  children:"]
        for node in range(nodes * rack, nodes * rack + nodes):
            speed = 8000 + node * 617 % 2000
            lines.append(f"  - {{machine: node-{node}, ranks: {1 + node * 7 % 15}, uplink: {speed} Mbit/s}}")
    file.write_text("\n".join(lines))
    assert run("--topology", file, "--draw", svg, "--json", out, *how) == 0
    rows = json.loads(out.read_text())
    assert len(rows) == (len(ALGORITHMS) + len(CODECS) if how else 1)
    assert all(row["seconds"] >= row["bound_seconds"] > 0 for row in rows if row["codec"] == NONE)
    ranks = sum(1 + node * 7 % 15 for node in range(25 * nodes))
    assert len(rows[0]["bytes_per_link"]) == 25 + 25 * nodes + ranks
    assert len(svg.read_text()) < 300_000


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--topology", "/nowhere.yaml"], "cannot read /nowhere.yaml"),
        (["--topology", "FILE", "--algorithm", "best"], "'best' is no algorithm; there are ring"),
        (["--topology", "FILE", "--bytes", "many"], "'many' is not a size"),
        (["--topology", "FILE", "--bytes", "0"], "'0' is no size that a buffer has; write 1 byte or more"),
        (["--topology", "FILE", "--compare", "--algorithm", "ring"], "--compare shows all algorithms"),
        (["--topology", "FILE", "--link", "delta=1G"], "no link called 'delta'; choose one of uplink, inner, alpha"),
        (["--topology", "FILE", "--link", "inner=1G:2G"], "--link inner has a range of speeds; write one"),
        (["--topology", "FILE", "--link", "uplink"], "write it like uplink=10Gbit/s"),
        (["--topology", "FILE", "--json", "/nowhere/rows.json"], "cannot write /nowhere/rows.json"),
    ],
)
def test_what_it_cannot_do_it_says_in_one_line(
    arguments: list[str], message: str, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*(str(file) if word == "FILE" else word for word in arguments)) == 2
    error = capsys.readouterr().err
    assert error.startswith("paceline plan: ") and message in error
    assert error.count("\n") == 1
