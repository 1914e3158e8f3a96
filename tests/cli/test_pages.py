"""Pages keep to their shape: they are short, in the words of the glossary, and show what is really printed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from printed import Printed

ROOT = Path(__file__).parents[2]
GUIDES = sorted(
    page for folder in ("start", "diagnose", "frameworks", "faster", "run") for page in ROOT.glob(f"docs/{folder}/*")
)
README_LINES, GUIDE_LINES = 100, 130
LINK = re.compile(r"\]\(([^)\s]+)\)")


def page_name(page: Path) -> str:
    return str(page.relative_to(ROOT))


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


@pytest.mark.parametrize("folder", ["frameworks", "faster", "run"])
def test_guides_say_what_is_needed_and_what_to_do_when_they_fail(folder: str) -> None:
    for page in ROOT.glob(f"docs/{folder}/*"):
        headings = re.findall(r"^## (.*)$", page.read_text(), re.MULTILINE)
        assert {"Before you start", "If it fails"} <= {*headings}, page_name(page)


def remedies(page: Path) -> Iterator[str]:
    """The messages for which the page has a remedy, as it shows them: code at the beginning of a row."""
    heading = "1. Find the message" if page.name == "errors.md" else "If it fails"
    section = page.read_text().partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    yield from (message for message in re.findall(r"^\| `([^`]+)`", section, re.MULTILINE) if " " in message)


@pytest.fixture(scope="module")
def printed() -> Printed:
    return Printed.read()


FOREIGN = {
    "paceline: command not found",
    "cannot load MPI library",
    "Your assigned backend paceline is not available, please use gloo",
}
"""Messages of shells and other libraries."""


@pytest.mark.parametrize("page", [page for page in GUIDES if any(remedies(page))], ids=page_name)
def test_messages_with_a_remedy_are_those_that_are_printed(page: Path, printed: Printed) -> None:
    for message in {*remedies(page)} - FOREIGN:
        runs = [run for part in message.split("…") if " " in (run := part.strip(" :;,"))]
        assert runs, message
        assert [run for run in runs if not printed.says(run)] == [], message


@pytest.mark.parametrize("page", [ROOT / "README.md", *GUIDES], ids=page_name)
def test_output_is_what_a_command_or_an_example_prints(page: Path, printed: Printed) -> None:
    """In each block of output one line at least, to the letter but for what is filled in."""
    for block in re.findall(r"^```text\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL):
        assert printed.within(" ".join(block.split())), block


PRIVATE = re.compile(
    r"\b(raw face|(?<!Hugging )faces?|hands? in|handed in|hand-ins?|brings? along|combine for|company|house|rooms"
    r"|(?:an?|the|this|that|each|every|one|another) room)\b",
    re.IGNORECASE,
)
"""What the source calls things, where the pages have the words of the glossary. There may be room for something."""


def test_pages_have_the_words_of_the_glossary() -> None:
    for page in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]:
        if page.name == "CHANGELOG.md":
            continue  # it tells of what was
        prose = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
        assert PRIVATE.findall(prose) == [], page_name(page)


TABLE = re.compile(r"^(\|.*)\n\|[ :|-]+\|\n((?:\|.*\n)+)\n(.*)$", re.MULTILINE)
FIGURE = re.compile(r"[-+−±≈]?\d")
CHOSEN = {
    "| codec | bytes of a float32 | takes | error of an element |",
    "| machines × ranks, uplinks in Gbit/s; 120 MB, seconds | ring | BlueConnect | FlexReduce | Paceline |",
}
"""Tables of what follows from a definition or a model."""


@pytest.mark.parametrize(
    "page", [ROOT / "docs" / "benchmarks.md", *sorted(ROOT.glob("docs/design/**/*.md"))], ids=page_name
)
def test_measured_tables_have_a_date(page: Path) -> None:
    """Half of the cells behind the first column begin with a figure where something was measured."""
    for head, rows, after in TABLE.findall(page.read_text()):
        cells = [cell.strip() for row in rows.splitlines() for cell in row.strip("|").split("|")[1:]]
        figures = [cell for cell in cells if FIGURE.match(cell)]
        if len(figures) * 2 >= len([cell for cell in cells if cell]) and figures and head not in CHOSEN:
            assert re.match(r"Noted on 20\d\d-\d\d-\d\d", after), head
