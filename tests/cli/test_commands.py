"""The command itself: quick, and clear about what it doesn't understand."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from commands import paceline
from launched import environment

from paceline.cli.output_file import writable, write
from paceline.cli.usage import UsageError
from paceline.observe.trace import dump
from paceline.version import VERSION


def started(*words: str, **variables: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of a `paceline` command that is a process of its own."""
    command = [sys.executable, "-m", "paceline", *words]
    done = subprocess.run(command, env=environment(**variables), capture_output=True, text=True, timeout=100)
    return done.returncode, done.stdout, done.stderr


def test_help_lists_every_command() -> None:
    code, out, _ = started("--help")
    assert code == 0
    assert all(f" {name} " in out for name in ("run", "doctor", "trace", "bench", "demo", "topology", "check"))
    assert started()[1] == out


def test_a_group_of_commands_alone_shows_its_help() -> None:
    code, out, err = paceline("bench")
    assert "all_reduce" in out + err
    assert "paceline bench:" not in err
    assert code in (0, 2)  # older and newer versions of Typer


def test_a_command_of_a_distribution_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("paceline.cli.main.entry_points", lambda **_: ())
    code, out, err = paceline("bench", "all_reduce")
    assert (code, out) == (2, "")
    assert err.startswith("paceline bench: this command comes with paceline-bench; install it: pip install ")


def test_an_alphabet_that_lacks_a_character_is_no_error(tmp_path: Path) -> None:
    file = tmp_path / "two.yaml"
    file.write_text("children: [{machine: a, ranks: 2, uplink: 1 Gbit/s}]\n")
    code, out, err = started("topology", str(file), PYTHONIOENCODING="ascii")
    assert (code, err) == (0, "")
    assert "ranks 0?1" in out


def test_it_has_a_version() -> None:
    assert paceline("--version") == (0, f"paceline {VERSION}\n", "")


@pytest.mark.parametrize("words", [["bench", "order", "--json"], ["demo", "--json"], ["check", "-n", "2", "--out"]])
def test_a_file_that_cannot_be_written_is_refused_before_the_work(words: list[str], tmp_path: Path) -> None:
    file = tmp_path / "none" / "rows.json"
    code, out, err = paceline(*words, str(file))
    assert (code, out) == (2, "")
    assert err == f"paceline {words[0]}: cannot write {file}: No such file or directory\n"


def test_which_files_can_be_written(tmp_path: Path) -> None:
    (tmp_path / "old").write_text("")
    for name in ("old", "new"):
        assert writable(tmp_path / name) == tmp_path / name
    for path, reason in ((tmp_path, "Is a directory"), (tmp_path / "old" / "new", "Not a directory")):
        with pytest.raises(UsageError, match=f"^cannot write {path}: {reason}$"):
            writable(path)
    with pytest.raises(UsageError, match=r"^cannot write /dev/full: No space left on device$"):
        write(Path("/dev/full"), lambda: "too much")
    write(None, lambda: pytest.fail("nobody asked"))


def test_help_imports_nothing_that_is_slow() -> None:
    text = (
        "import sys\nfrom paceline.cli.main import main\n"
        "try: main(['--help'])\nexcept SystemExit: pass\n"
        "print([m for m in ('torch', 'numpy', 'psutil', 'paceline._engine', 'paceline_bench') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", text], env=environment(), capture_output=True, text=True, timeout=100)
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["frob"], "paceline frob: No such command 'frob'."),
        (["--frob"], "paceline: No such option: --frob"),
        (["trace", "/nowhere", "--pid", "1"], "paceline trace: give a folder or --pid, not both"),
        (["trace", "/nowhere"], "paceline trace: there is no folder /nowhere"),
        (["doctor", "--frob"], "paceline doctor: No such option: --frob"),
    ],
)
def test_what_it_does_not_understand(words: list[str], complaint: str) -> None:
    code, out, err = paceline(*words)
    assert code == 2 and not out
    assert err.startswith(complaint) and len(err.splitlines()) == 1


def test_trace_merges_a_folder(tmp_path: Path) -> None:
    for rank in (0, 1):
        row = (1, 5, 1, "all_reduce", "float32", "SUM", 4096, "ring", "shm", 1000, 2000, 3000, "done")
        dump.write(tmp_path / "dumps", rank, "host", 100 + rank, [row])
    code, out, _ = paceline("trace", str(tmp_path / "dumps"), "-o", str(tmp_path / "out.json"))
    assert code == 0 and "2 operations of 2 ranks" in out
    assert len(json.loads((tmp_path / "out.json").read_text())["traceEvents"]) > 4
    code, out, err = paceline("trace", str(tmp_path / "dumps"), "-o", "/nowhere/out.json")
    assert (code, out) == (2, "") and err.startswith("paceline trace: cannot write /nowhere/out.json: No such file")
    code, out, _ = paceline("trace", str(tmp_path / "dumps"), "--flight", str(tmp_path / "fr" / "trace_"))
    assert code == 0 and "2 flight-recorder files" in out and out.endswith(f"torchfrtrace -p trace_ {tmp_path}/fr\n")
    assert sorted(path.name for path in (tmp_path / "fr").iterdir()) == ["trace_0", "trace_1"]
