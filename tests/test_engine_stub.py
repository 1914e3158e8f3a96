"""The stub by which the engine's module is typed names what the module has, each with as many arguments."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from paceline import _engine

STUB = Path(__file__).parents[1] / "src" / "paceline" / "_engine.pyi"


BY_C_ALONE = ("__buffer__",)
"""What only C asks for before Python 3.12."""


def written() -> Iterator[tuple[str, ast.AST]]:
    """Name and node of everything in the stub but its types, and what C alone sees."""
    for node in ast.parse(STUB.read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name, node
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id, node
        if isinstance(node, ast.ClassDef):
            for inner in node.body:
                if isinstance(inner, ast.FunctionDef) and inner.name not in BY_C_ALONE:
                    yield f"{node.name}.{inner.name}", inner
                if isinstance(inner, ast.AnnAssign) and isinstance(inner.target, ast.Name):
                    yield f"{node.name}.{inner.target.id}", inner


def found(name: str) -> Any:
    value: Any = _engine
    for part in name.split("."):
        value = getattr(value, part)
    return value


def public(holder: Any) -> set[str]:
    return {name for name in vars(holder) if not name.startswith("_")}


def test_everything_in_the_stub_is_in_the_module() -> None:
    missing = []
    for name, _ in written():
        try:
            found(name)
        except AttributeError:
            missing.append(name)
    assert missing == []


def test_everything_in_the_module_is_in_the_stub() -> None:
    names = {name for name, _ in written()}
    assert public(_engine) - names == set()
    for name, node in written():
        if isinstance(node, ast.ClassDef):
            assert {f"{name}.{inner}" for inner in public(found(name))} - names == set()


def counts(function: Any) -> set[int]:
    """How many arguments the overloads of a function take, `self` included."""
    signatures = [signature for signature, *_ in function.__nb_signature__]
    return {len(re.findall(r"(?:[(,] *)(?!/|\*)\w+:|\bself\b", signature)) for signature in signatures}


def test_functions_have_as_many_arguments() -> None:
    wrong = {}
    for name, node in written():
        if isinstance(node, ast.FunctionDef) and hasattr(function := found(name), "__nb_signature__"):
            own = len([*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs])
            if own not in counts(function):
                wrong[name] = (own, function.__nb_signature__)
    assert wrong == {}
