"""Tables of rows: each column stands once, at the field that it shows."""

from __future__ import annotations

import importlib
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from pathlib import Path

import paceline_bench
from paceline_bench.table import Column, column, columns, table


@dataclass
class Row:
    name: str = field(metadata=column("name"))
    ranks: int
    step_us: float = field(metadata=column("step(ms)", "{:.1f}", unit=1e3))
    low: float = field(metadata=column("range", "{:.2f}–{:.2f}", "high"))
    high: float
    copies: float | None = field(metadata=column("copies", "{:g}", none="–"))


ROWS = [Row("a", 2, 1234.0, 0.5, 1.5, None), Row("a", 2, 50.0, 1, 2, 3), Row("b", 4, 5e4, 1, 2, 0)]


def cells(made):
    return {one.header: (one.justify, list(one.cells)) for one in made.columns}


def test_a_cell_is_what_its_field_says():
    assert cells(table(columns(Row), ROWS)) == {
        "name": ("left", ["a", "a", "b"]),
        "step(ms)": ("right", ["1.2", "0.1", "50.0"]),
        "range": ("right", ["0.50–1.50", "1.00–2.00", "1.00–2.00"]),
        "copies": ("right", ["–", "3", "0"]),
    }
    assert list(asdict(ROWS[0])) == ["name", "ranks", "step_us", "low", "high", "copies"]


def test_columns_can_be_chosen_and_added():
    shape = Column("shape", lambda row: f"{row.ranks}x1", left=True)
    assert list(cells(table(columns(Row, "copies", shape, "name"), ROWS)).items()) == [
        ("copies", ("right", ["–", "3", "0"])),
        ("shape", ("left", ["2x1", "2x1", "4x1"])),
        ("name", ("left", ["a", "a", "b"])),
    ]


def test_rows_stand_out_and_a_section_ends_where_the_next_one_begins():
    made = table(columns(Row), ROWS, section=lambda row: row.name, bold=lambda row: row.ranks == 4)
    assert [(row.style, row.end_section) for row in made.rows] == [("", False), ("", True), ("bold", False)]


def test_what_a_column_shows_beside_its_own_field_is_a_field_too():
    root = Path(paceline_bench.__file__).parent
    files = [file for file in root.rglob("*.py") if "field(metadata=column(" in file.read_text()]
    assert files
    for file in files:
        module = importlib.import_module(".".join(file.relative_to(root.parent).with_suffix("").parts))
        for kind in filter(is_dataclass, vars(module).values()):
            names = {each.name for each in fields(kind)}
            shown = [each.metadata["column"] for each in fields(kind) if "column" in each.metadata]
            assert all(set(one.also) <= names for one in shown), kind
