"""`paceline topology`: files of both kinds, drawn and written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from commands import paceline

from paceline.topology import read

SLURM = "SwitchName=s0 Nodes=tux[0-2]\nSwitchName=s1 Nodes=tux[3-5]\nSwitchName=s2 Switches=s[0-1]\n"


def test_a_topology_file(tmp_path: Path) -> None:
    file, svg, tree = tmp_path / "two.yaml", tmp_path / "two.svg", tmp_path / "two.json"
    file.write_text("children: [{machine: a, ranks: 2, uplink: 1 Gbit/s}, {machine: b, ranks: 3, uplink: 2 Gbit/s}]\n")
    code, out, err = paceline("topology", str(file), "--draw", str(svg), "--json", str(tree))
    assert (code, err) == (0, "")
    assert out.splitlines()[1:] == [
        "├── machine a  ranks 0–1  1 Gbit/s, 50 us",
        "└── machine b  ranks 2–4  2 Gbit/s, 50 us",
    ]
    assert svg.read_text().startswith("<?xml")
    root = json.loads(tree.read_text())["root"]
    assert [child["uplink"]["up"] for child in root["children"]] == [125e6, 250e6]


def test_nothing_is_cut_where_the_window_is_narrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "two.yaml"
    name = "a-machine-with-a-long-name.example.org"
    machines = f"{{machine: {name}, ranks: 2, uplink: 1 Gbit/s}}, {{machine: b, ranks: 3, uplink: 2 Gbit/s}}"
    file.write_text(f"children: [{machines}]\n")
    monkeypatch.setenv("COLUMNS", "40")
    code, out, _ = paceline("topology", file)
    assert code == 0
    assert out.splitlines()[1] == f"├── machine {name}  ranks 0–1  1 Gbit/s, 50 us"


def test_names_are_no_markup(tmp_path: Path) -> None:
    file = tmp_path / "two.yaml"
    machines = "{machine: '[/a]', ranks: 2, uplink: 1 Gbit/s}, {machine: b, ranks: 3, uplink: 2 Gbit/s}"
    file.write_text(f"name: '[/b]'\nchildren: [{machines}]\n")
    for words in (["topology"], ["plan", "--topology"], ["plan", "--compare", "--topology"]):
        code, out, err = paceline(*words, str(file))
        assert (code, err) == (0, "")
        assert "[/b]" in out and "[/a]" in out


def test_slurms_file(tmp_path: Path) -> None:
    file, yaml = tmp_path / "topology.conf", tmp_path / "cluster.yaml"
    file.write_text(SLURM)
    code, _, err = paceline("topology", str(file))
    assert code == 2 and "add for example --ranks-per-machine 8 --uplink '100 Gbit/s'" in err
    words = ["--ranks-per-machine", "4", "--uplink", "100 Gbit/s", "--yaml", str(yaml)]
    code, out, err = paceline("topology", str(file), *words)
    assert (code, err) == (0, "")
    assert "├── switch s0  ranks 0–11  300 Gbit/s, 50 us" in out.splitlines()
    assert read(yaml).world == 24


def test_errors_are_one_sentence(tmp_path: Path) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text("name: x\nmachine: a\nranks: none\n")
    code, out, err = paceline("topology", str(file))
    assert (code, out) == (2, "")
    assert err == f"paceline topology: {file}:3: ranks must be a whole number from 1 to 1000000, not 'none'\n"
    file.write_text("machine: a\nranks: 2\n")
    code, _, err = paceline("topology", str(file), "--uplink", "1 Gbit/s")
    assert code == 2 and "is no file of Slurm" in err
    code, _, err = paceline("topology", str(file), "--draw", "/nowhere/a.svg")
    assert (code, err) == (2, "paceline topology: cannot write /nowhere/a.svg: No such file or directory\n")
