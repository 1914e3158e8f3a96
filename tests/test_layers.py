"""Rooms import only downwards in the picture that CONTRIBUTING.md shows, also lazily and for types alone."""

from __future__ import annotations

import ast
import graphlib
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCES = (ROOT / "src", ROOT / "bench")
FILES = sorted(path for source in SOURCES for path in source.glob("paceline*/**/*.py"))
PICTURE = re.compile(r"^```layers\n(.*?)^```", re.MULTILINE | re.DOTALL)
FACE = "paceline"
"""The package itself: what `import paceline` gives. Nothing below it imports it, but for the compiled modules in it."""
COMPILED = ("_engine", "_worlds")


@cache
def layers() -> dict[str, int]:
    """Room -> its line, counted from the bottom of the picture."""
    (picture,) = PICTURE.findall((ROOT / "CONTRIBUTING.md").read_text())
    lines = [line.split() for line in picture.splitlines() if line.strip()]
    return {room: height for height, line in enumerate(reversed(lines)) for room in line}


def module_of(path: Path) -> str:
    (source,) = (source for source in SOURCES if path.is_relative_to(source))
    return ".".join(path.relative_to(source).with_suffix("").parts).removesuffix(".__init__")


MODULES = {module_of(path) for path in FILES}


@cache
def room_of(module: str) -> str:
    """The longest name in the picture that the module's begins with; loose modules are rooms of their own."""
    parts = module.split(".")
    if parts[0] == FACE:
        del parts[0]
    names = [".".join(parts[:length]) for length in range(len(parts), 0, -1)]
    return next((name for name in names if name in layers()), parts[0] if parts else FACE)


def imports(path: Path) -> Iterator[tuple[int, str]]:
    """Line and module of every import of our own modules."""
    package = module_of(path) if path.name == "__init__.py" else module_of(path).rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names if alias.name in MODULES)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            for alias in node.names:
                if base in MODULES and alias.name not in COMPILED:
                    name = f"{base}.{alias.name}"
                    yield node.lineno, name if name in MODULES else base


def test_every_room_is_in_the_picture() -> None:
    assert {room_of(module) for module in MODULES} == {*layers()}


@pytest.mark.parametrize("path", FILES, ids=module_of)
def test_imports_point_downwards(path: Path) -> None:
    height, here = layers(), room_of(module_of(path))
    upwards = [
        f"{path.relative_to(ROOT)}:{line} imports {module}: {room_of(module)} is not below {here}"
        for line, module in imports(path)
        if room_of(module) != here and height[room_of(module)] >= height[here]
    ]
    assert not upwards, "\n".join(upwards)


def test_no_files_import_each_other_in_a_circle() -> None:
    order = graphlib.TopologicalSorter({module_of(path): {name for _, name in imports(path)} for path in FILES})
    order.prepare()


def test_the_package_can_be_held_in_the_head() -> None:
    rooms = [path for path in (ROOT / "src" / "paceline").iterdir() if (path / "__init__.py").exists()]
    assert len(rooms) <= 24


HANDS_ON_THE_ENVIRONMENT = {"cli", "horovod", "jax", "launch", "settings"}
"""The commands and launchers, which give it to what they start, and the faces that set a variable for a library."""


@pytest.mark.parametrize("path", [path for path in FILES if path.is_relative_to(SOURCES[0])], ids=module_of)
def test_a_rank_reads_the_environment_in_its_settings_only(path: Path) -> None:
    if module_of(path).split(".")[1:2] not in [[room] for room in HANDS_ON_THE_ENVIRONMENT]:
        assert not re.search(r"\bos\.environ\b|\bgetenv\b", path.read_text())
