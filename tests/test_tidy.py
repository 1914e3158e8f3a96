"""clang-tidy runs again on what has changed, and on what includes something that has."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "scripts"))

import tidy


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tidy, "ROOT", tmp_path)
    monkeypatch.setattr(tidy, "SETTINGS", (tmp_path / ".clang-tidy",))
    (tmp_path / ".clang-tidy").write_text("Checks: all")
    room = tmp_path / "engine" / "room"
    room.mkdir(parents=True)
    (room / "one.cpp").write_text('#include "room/one.hpp"\n#include <vector>\n')
    (room / "two.cpp").write_text('#include "room/two.hpp"\n')
    (room / "one.hpp").write_text('#pragma once\n  #  include "room/both.hpp"\n#include "room/one.hpp"\n')
    (room / "two.hpp").write_text("")
    (room / "both.hpp").write_text("")
    return tmp_path


def keys(root: Path) -> tuple[str, str]:
    tidy.read.cache_clear()
    return tuple(tidy.key(root / "engine" / "room" / name) for name in ("one.cpp", "two.cpp"))


@pytest.mark.parametrize(
    ("changed", "again"),
    [
        ("one.cpp", (True, False)),
        ("one.hpp", (True, False)),
        ("both.hpp", (True, False)),
        ("two.hpp", (False, True)),
        ("../../.clang-tidy", (True, True)),
    ],
)
def test_what_is_checked_again(root: Path, changed: str, again: tuple[bool, bool]) -> None:
    before = keys(root)
    path = root / "engine" / "room" / changed
    path.write_text(path.read_text() + "// more\n")
    assert tuple(a != b for a, b in zip(before, keys(root), strict=True)) == again


def test_a_file_that_is_merely_newer_is_not(root: Path) -> None:
    before = keys(root)
    for path in root.rglob("*.?pp"):
        path.touch()
    assert keys(root) == before


def test_the_headers_of_every_file_are_found() -> None:
    tidy.read.cache_clear()
    files = [*tidy.ROOT.glob("engine/*/*.cpp"), *tidy.ROOT.glob("bench/native/*.cpp")]
    assert files and all(tidy.parts(file) for file in files)
