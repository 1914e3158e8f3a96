"""What the documentation says is there: files, headings, commands with their options, settings, messages. Pages keep to
their shape: short, each in the navigation, and with what the source says where that is generated."""

from __future__ import annotations

import ast
import re
import runpy
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import typer

from paceline.cli import main
from paceline.launch.arguments import split

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
HOOK = runpy.run_path(str(ROOT / "scripts" / "docs_hook.py"))
REFERENCE = runpy.run_path(str(ROOT / "scripts" / "reference.py"))
GUIDES = [
    page for folder in ("start", "diagnose", "frameworks", "faster", "run") for page in ROOT.glob(f"docs/{folder}/*")
]
README_LINES, GUIDE_LINES = 100, 130
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
    if page.name == "CHANGELOG.md":
        return  # it names pages as they were called
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


def test_the_front_page_and_the_guides_are_short() -> None:
    lengths = {page_name(page): len(page.read_text().splitlines()) for page in GUIDES}
    assert {name: lines for name, lines in lengths.items() if lines > GUIDE_LINES} == {}
    assert len((ROOT / "README.md").read_text().splitlines()) <= README_LINES


def test_contributors_find_every_page_on_the_design() -> None:
    linked, waiting = set(), [ROOT / "CONTRIBUTING.md"]
    while waiting:
        page = waiting.pop()
        targets = [(page.parent / target.partition("#")[0]).resolve() for target in LINK.findall(page.read_text())]
        found = {target for target in targets if target.suffix == ".md" and "design" in target.parts} - linked
        linked |= found
        waiting += found
    assert {*ROOT.glob("docs/design/**/*.md")} - linked == set()


def remedies(page: Path) -> Iterator[str]:
    """The messages for which the page has a remedy, as it shows them: code at the beginning of a row."""
    heading = "1. Find the message" if page.name == "errors.md" else "If it fails"
    section = page.read_text().partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    yield from (message for message in re.findall(r"^\| `([^`]+)`", section, re.MULTILINE) if " " in message)


@dataclass(frozen=True)
class Source:
    """What the source may print."""

    texts: str
    """All texts that stand in it, with a line for each."""

    templates: list[tuple[re.Pattern[str], int]]
    """Texts with gaps in them, and how many letters they have beside the gaps."""

    @classmethod
    def read(cls) -> Source:
        texts: list[str] = []
        templates = []
        for file in [*(ROOT / "src").rglob("*.py"), *(ROOT / "examples").glob("*.py")]:
            for node in ast.walk(ast.parse(file.read_text())):
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    texts.append(node.value)
                elif isinstance(node, ast.JoinedStr):
                    parts = [part.value if isinstance(part, ast.Constant) else None for part in node.values]
                    pattern = "".join(".+?" if part is None else re.escape(str(part)) for part in parts)
                    templates.append((re.compile(pattern), sum(len(str(part)) for part in parts if part is not None)))
        for file in [*ROOT.glob("engine/*/*.cpp"), *ROOT.glob("engine/*/*.hpp")]:
            for literals in re.findall(r'((?:"(?:[^"\\\n]|\\.)*"\s*)+)', file.read_text()):
                texts.append("".join(re.findall(r'"((?:[^"\\\n]|\\.)*)"', literals)))
        return cls("\n".join(" ".join(text.split()) for text in texts), templates)

    def says(self, words: str) -> bool:
        """Whether it says them as they are, in a text with gaps, or puts them together from runs of several words."""
        if words in self.texts:
            return True
        if any(letters * 2 >= len(words) and pattern.search(words) for pattern, letters in self.templates):
            return True
        rest, found, total = words.split(), 0, len(words.split())
        while rest:
            length = next((n for n in range(len(rest), 1, -1) if " ".join(rest[:n]) in self.texts), 0)
            found += length
            rest = rest[length or 1 :]
        return found * 2 >= total


@pytest.fixture(scope="module")
def source() -> Source:
    return Source.read()


FOREIGN = {
    "paceline: command not found",
    "cannot load MPI library",
    "Your assigned backend paceline is not available, please use gloo",
}
"""Messages of shells and other libraries."""


@pytest.mark.parametrize("page", sorted(page for page in GUIDES if any(remedies(page))), ids=page_name)
def test_messages_with_a_remedy_are_those_that_are_printed(page: Path, source: Source) -> None:
    for message in {*remedies(page)} - FOREIGN:
        runs = [run for part in message.split("…") if " " in (run := part.strip(" :;,"))]
        assert runs, message
        assert [run for run in runs if not source.says(run)] == [], message


@pytest.mark.parametrize("page", [ROOT / "README.md", *GUIDES], ids=page_name)
def test_output_is_what_a_command_or_an_example_prints(page: Path, source: Source) -> None:
    """In each block of output one line at least, to the letter but for what is filled in."""
    for block in re.findall(r"^```text\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL):
        text = " ".join(block.split())
        assert any(letters > 8 and pattern.search(text) for pattern, letters in source.templates), block


PRIVATE = re.compile(r"\b(raw face|faces?|hands? in|handed in|hand-ins?|brings? along|combine for|company)\b")
"""What the source calls things, where the pages have the words of the glossary."""


def test_pages_have_the_words_of_the_glossary() -> None:
    for page in [ROOT / "README.md", ROOT / "docs" / "index.md", *GUIDES, *ROOT.glob("docs/understand/*")]:
        prose = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
        assert PRIVATE.findall(prose) == [], page_name(page)
