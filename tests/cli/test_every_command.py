"""Every subcommand with arguments and files that make no sense: one sentence, an exit code, and no traceback.

What there is to try is read from the commands' own signatures, so that a new option is tried too.
"""

from __future__ import annotations

import json
import subprocess
import typing
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import NoneType
from typing import Any

import pytest
import typer
import yaml

from paceline.cli import main
from paceline.launch import tree
from paceline.observe.trace import dump, live

CLUSTER = {"name": "two", "children": [{"machine": name, "ranks": 1, "uplink": "1 Gbit/s"} for name in ("a", "b")]}
GRAPH = {"nodes": ["a", {"name": "b", "bytes": 4096, "dtype": "float32"}], "edges": [["a", "b"]], "fetches": ["b"]}
REPORT = {"format": "paceline report 1", "size": 1, "ranks": [], "missing": {"0": "it was killed"}}
WELL_FORMED = {
    "cluster.yaml": yaml.dump(CLUSTER),
    "graph.yaml": yaml.dump(GRAPH),
    "report.json": json.dumps(REPORT),
    "program.py": "",
}
NUMBERS = ("-1", "0", "9" * 40, "9" * 400, "1e400", "nan", "1.5", "one", "")
TEXTS = (*NUMBERS, "x" * 100_000, "\udcff", "∞", ",", ";;", "0-", "1K", "9999999999G", "-x")
WRONG = (None, [], {}, "", "x", -1, 0, 10**30, 1e308, True, [[]], {"x": {"x": []}}, "9" * 400, "nan Gbit/s")

# To make the commands takes longer than what is tried of them.
APPLICATION, COMMAND = cache(main.application), cache(typer.main.get_command)


class Started(BaseException):
    """A command went on to its work, which begins with a process or with a question to one."""


@dataclass(frozen=True)
class Parameter:
    """Something on a command's line. words: those before it. names: an option's, none of an argument."""

    command: tuple[str, ...]
    name: str
    kind: type
    names: tuple[str, ...]

    def __str__(self) -> str:
        return " ".join((*self.command, self.name))


def callbacks() -> Iterator[tuple[tuple[str, ...], Callable[..., Any]]]:
    """Each function behind a subcommand once, under the first of its names."""
    known = set()
    for name in main._COMMANDS:
        command = main.module_of(name).command
        found = [((name,), command)]
        if isinstance(command, typer.Typer):
            found = [((name, str(one.name)), one.callback) for one in command.registered_commands]
        for words, callback in found:
            if callback not in known:
                known.add(callback)
                yield words, callback


def parameters() -> Iterator[Parameter]:
    for words, callback in callbacks():
        for name, hint in typing.get_type_hints(callback, include_extras=True).items():
            if typing.get_origin(hint) is not typing.Annotated:
                continue
            (outer, info) = typing.get_args(hint)[:2]
            (kind,) = {one for one in typing.get_args(outer) or (outer,) if one is not NoneType}
            names: tuple[str, ...] = ()
            if isinstance(info, typer.models.OptionInfo):
                given = tuple(one for one in (info.param_decls or ()) if one.startswith("-"))
                names = given or (f"--{name.replace('_', '-')}",)
            yield Parameter(words, name, kind, names)


def bases(folder: Path) -> dict[str, list[str]]:
    """The words that each subcommand needs."""
    for name, text in WELL_FORMED.items():
        (folder / name).write_text(text)
    row = (1, 5, 1, "all_reduce", "float32", "SUM", 4096, "ring", "shm", 1000, 2000, 3000, "done")
    dump.write(folder / "dumps", 0, "host", 100, [row])
    return {
        "run": ["-n", "1", str(folder / "program.py")],
        "tune": ["--batch", "8", "--", str(folder / "program.py")],
        "trace": [str(folder / "dumps"), "-o", str(folder / "trace.json")],
        "lab": [str(folder / "cluster.yaml"), "--", "true"],
        "check": ["-n", "2"],
        "plan": ["--topology", str(folder / "cluster.yaml")],
        "simulate": ["--ranks", "16"],
        "order": [str(folder / "graph.yaml")],
        "report": [str(folder / "report.json")],
        "top": ["--once"],
        "topology": [str(folder / "cluster.yaml")],
    }


def line(parameter: Parameter, value: str, folder: Path, known: dict[str, list[str]]) -> list[str]:
    """A command line in which this parameter has this value, and the others are as they should be, see `bases`."""
    base = known.get(parameter.command[0], [])
    if not parameter.names:
        first = next((place for place, word in enumerate(base) if word.startswith(str(folder))), len(base))
        return [*parameter.command, *base[:first], value, *base[first + 1 :]]
    if base[:1] == [parameter.names[-1]] or base[:1] == [parameter.names[0]]:
        base = base[2:]
    return [*parameter.command, parameter.names[-1], value, *base]


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Callable[[list[str]], tuple[int, str]]:
    """Runs a command line in this process: its exit code, -1 if it went on to its work, and what it said on stderr."""

    def start(*_: object, **__: object) -> None:
        raise Started

    monkeypatch.setattr(main, "application", APPLICATION)
    monkeypatch.setattr(typer.main, "get_command", COMMAND)
    monkeypatch.setattr(subprocess.Popen, "__init__", start)
    monkeypatch.setattr(subprocess.Popen, "__del__", lambda _: None)
    monkeypatch.setattr(tree, "end", lambda *_: [])  # so there is nothing to look for among all processes
    monkeypatch.setattr(live, "listening", start)
    for work in (  # these work in this process
        "paceline_bench.kernels.command.measure",
        "paceline_bench.codecs.command.trained",
        "paceline_bench.graphs.command.measure",
        "paceline_bench.coordination.command.ComputeLoad",
        "paceline.simulate.scenario.answer",
        "paceline.simulate.study.run",
    ):
        monkeypatch.setattr(work, start)
    for name in ("RANK", "WORLD_SIZE", "PACELINE_LAB", "PET_NPROC_PER_NODE"):
        monkeypatch.delenv(name, raising=False)

    def run(words: list[str]) -> tuple[int, str]:
        capfd.readouterr()
        try:
            main.main(words)
            raise AssertionError("main always leaves by SystemExit")
        except Started:
            code = -1
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else 1
        return code, capfd.readouterr().err

    return run


def one_sentence(words: list[str], code: int, err: str) -> None:
    shown = [word[:100] for word in words]
    assert "Traceback" not in err, (shown, err)
    if code > 0:
        assert err.count("\n") == 1 and len(err) < 1000, (shown, code, err)


VALUES = [one for one in parameters() if one.kind is not bool]
FILES = [one for one in VALUES if one.kind is Path]


def test_the_commands_have_parameters() -> None:
    assert {words[0] for words, _ in callbacks()} == set(main._COMMANDS)
    assert len(VALUES) > 60 and len(FILES) > 15


@pytest.mark.parametrize("parameter", VALUES, ids=str)
def test_values_that_make_no_sense(
    parameter: Parameter, said: Callable[[list[str]], tuple[int, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    known = bases(tmp_path)
    for value in TEXTS if parameter.kind in (str, list, list[str]) else NUMBERS:
        words = line(parameter, value, tmp_path, known)
        one_sentence(words, *said(words))


KINDS: dict[str, bytes] = {
    "empty": b"",
    "garbage": bytes(range(256)) * 64,
    "text": b"what is this\n",
    "deep": b"[" * 100_000,
    "list": b"[]",
    "mapping": b"{}",
    "number": b"1e400",
    "null": b"null",
    "nested": b'{"children": {"a": [1, {"b": null}]}, "nodes": 7, "format": 3, "ranks": {}}',
    "slurm": b"SwitchName=s0 Nodes=n[0-999999999999]\n",
}


def bad_files(folder: Path) -> Iterator[Path]:
    """What is no file of any command's, in all ways in which that can be."""
    yield folder / "nowhere"
    yield folder / "nowhere" / "below"
    yield folder
    yield Path("/proc/self/mem")  # it opens, and cannot be read
    yield Path("/dev/full")
    for name, content in KINDS.items():
        (folder / name).write_bytes(content)
        yield folder / name
    (folder / "locked").write_bytes(b"{}")
    (folder / "locked").chmod(0)
    yield folder / "locked"


def mutants(document: Any) -> Iterator[Any]:
    """The document with each of its parts replaced by each of what it should not be."""
    if isinstance(document, (dict, list)):
        for key in document if isinstance(document, dict) else range(len(document)):
            for part in (*WRONG, *mutants(document[key])):
                other = document.copy()
                other[key] = part
                yield other


@pytest.mark.parametrize("parameter", FILES, ids=str)
def test_files_that_make_no_sense(
    parameter: Parameter, said: Callable[[list[str]], tuple[int, str]], tmp_path: Path
) -> None:
    known = bases(tmp_path)
    for file in bad_files(tmp_path):
        words = line(parameter, str(file), tmp_path, known)
        one_sentence(words, *said(words))


@pytest.mark.parametrize(
    ("command", "document", "name"),
    [("topology", CLUSTER, "cluster.yaml"), ("order", GRAPH, "graph.yaml"), ("report", REPORT, "report.json")],
    ids=["topology", "order", "report"],
)
def test_documents_of_the_wrong_shape(
    command: str, document: Any, name: str, said: Callable[[list[str]], tuple[int, str]], tmp_path: Path
) -> None:
    words = [command, *bases(tmp_path)[command]]
    assert said(words) == (0, "")
    for wrong in mutants(document):
        (tmp_path / name).write_text(json.dumps(wrong))
        code, err = said(words)
        one_sentence([*words, json.dumps(wrong)], code, err)
        assert code in (0, 2)
