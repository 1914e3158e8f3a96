"""What the documentation says is there: files, headings, commands with their options, settings. What is generated says
what the source says."""

from __future__ import annotations

import ast
import re
import runpy
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer

from paceline.cli import main
from paceline.launch.arguments import split

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
HOOK = runpy.run_path(str(ROOT / "scripts" / "docs_hook.py"))
REFERENCE = runpy.run_path(str(ROOT / "scripts" / "reference.py"))
SOURCE = re.compile(r"`((?:src|engine|tests|scripts|examples)/[\w/.{},+-]+)`")
LINK = re.compile(r"\]\(([^)\s]+)\)")
SETTINGS_PAGE = ROOT / "docs" / "reference" / "settings.md"
SETTING = re.compile(r"\bPACELINE_[A-Z_]+\b")
BLOCK = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)


def page_name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def anchors(page: Path) -> set[str]:
    """As GitHub makes them of the headings."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in LINK.findall(page.read_text()):
        if target.startswith(("http://", "https://")):
            continue
        name, _, anchor = target.partition("#")
        file = page.parent / name if name else page
        assert file.exists(), target
        assert not anchor or anchor in anchors(file), target


def commands(page: Path) -> Iterator[list[str]]:
    """The words of each command of Paceline's in the page's shell blocks, also of those in a lab."""
    for block in BLOCK.findall(page.read_text()):
        for line in block.replace("\\\n", " ").splitlines():
            words = shlex.split(line, comments=True)
            while "paceline" in words:
                words = words[words.index("paceline") + 1 :]
                yield words


def all_commands() -> list[list[str]]:
    found = [words for page in PAGES for words in commands(page)]
    return [list(words) for words in dict.fromkeys(map(tuple, found))]


@pytest.mark.parametrize("words", all_commands(), ids=" ".join)
def test_commands_and_their_options_exist(words: list[str]) -> None:
    if words[0] == "run":
        split(words[1:])
        return
    command = typer.main.get_command(main.application(words[0]))
    names, rest = [], list(words)
    while rest and rest[0] in getattr(command, "commands", {}):
        command = command.commands[rest[0]]  # type: ignore[attr-defined]
        names.append(rest.pop(0))
    assert names, f"there is no command paceline {words[0]}"
    known = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
    given = [word for word in rest[: rest.index("--") if "--" in rest else None] if re.match(r"--?[a-z]", word)]
    assert {*given} <= {*known, "--help"}


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_files_that_are_named_exist(page: Path) -> None:
    if page.name == "CHANGELOG.md":
        return  # it tells of what was
    named = [name for name in SOURCE.findall(page.read_text()) if "{" not in name]
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_every_page_has_its_place_in_the_site() -> None:
    listed = set(re.findall(r"^ +- (\S+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE))
    site = {str(page.relative_to(ROOT / "docs")) for page in PAGES if page.is_relative_to(ROOT / "docs")}
    design = {name for name in site if name.startswith("design/")}
    assert listed == (site - design) | {*HOOK["BESIDE"]}


def test_the_reference_is_what_the_source_says() -> None:
    assert [page.name for page, _ in REFERENCE["stale"]()] == [], "python scripts/reference.py writes these pages anew"


def test_the_reference_of_the_commands_names_every_command() -> None:
    page = (ROOT / "docs" / "reference" / "cli.md").read_text()
    assert sorted(re.findall(r"^<!-- command: (\w+) -->$", page, re.MULTILINE)) == sorted(main._COMMANDS)


def test_each_setting_that_is_read_has_one_row() -> None:
    source = (ROOT / "src" / "paceline" / "settings" / "settings.py").read_text()
    rows = re.findall(r"^\| `(PACELINE_[A-Z_]+)` \|", SETTINGS_PAGE.read_text(), re.MULTILINE)
    assert sorted(rows) == sorted(set(re.findall(r'"(PACELINE_[A-Z_]+)"', source)))


def test_the_settings_of_horovod_that_are_read_are_listed() -> None:
    source = (ROOT / "src" / "paceline" / "settings" / "settings.py").read_text()
    assert set(re.findall(r"`(HOROVOD_[A-Z_]+)`", SETTINGS_PAGE.read_text())) == set(
        re.findall(r'"(HOROVOD_[A-Z_]+)"', source)
    )


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_no_page_speaks_of_a_setting_that_is_not_read(page: Path) -> None:
    known = {name for name, _, _ in HOOK["settings"]().values()}
    # What a lab tells its machines, a phase of the timeline, and an option of the build.
    others = {"PACELINE_LAB", "PACELINE_ALLREDUCE", "PACELINE_GPU_KERNELS"}
    assert set(SETTING.findall(page.read_text())) <= known | others


def test_the_chart_shows_what_the_table_says() -> None:
    chart = runpy.run_path(str(ROOT / "scripts" / "benchmark_chart.py"))
    assert chart["PICTURE"].read_text() == chart["drawn"](), "python scripts/benchmark_chart.py draws it anew"


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_lines_of_python_can_be_read(page: Path) -> None:
    written_by_hand = REFERENCE["PART"].sub("", page.read_text())
    for block in re.findall(r"^```python\n(.*?)^```", written_by_hand, re.MULTILINE | re.DOTALL):
        ast.parse(block)
