"""What the documentation says is there: files, headings, commands with their options, settings."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer

from paceline.cli import main
from paceline.launch.arguments import split

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])
LINK = re.compile(r"\]\(([^)\s]+)\)")
SETTING = re.compile(r"\bPACELINE_[A-Z_]+\b")
BLOCK = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)


def anchors(page: Path) -> set[str]:
    """As GitHub makes them of the headings."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
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


def test_the_settings_are_those_that_are_read() -> None:
    page = (ROOT / "docs" / "settings.md").read_text()
    listed = set(re.findall(r"^\| `(PACELINE_[A-Z_]+)` \|", page, re.MULTILINE))
    read = set(SETTING.findall((ROOT / "src" / "paceline" / "settings" / "settings.py").read_text()))
    assert listed == read


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_page_speaks_of_a_setting_that_is_not_listed(page: Path) -> None:
    listed = set(SETTING.findall((ROOT / "docs" / "settings.md").read_text()))
    others = {"PACELINE_LAB", "PACELINE_ALLREDUCE"}  # what a lab tells its machines, and a phase of the timeline
    assert set(SETTING.findall(page.read_text())) <= listed | others
