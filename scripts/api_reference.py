"""Renders a public name as Markdown, from its source alone: the signature, the docstring, and a class's methods."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src"
WIDTH = 100

Function = ast.FunctionDef | ast.AsyncFunctionDef
Definition = ast.ClassDef | Function


def module_file(module: str) -> Path | None:
    """The file of a module or package, or None."""
    path = SOURCE.joinpath(*module.split("."))
    return next(
        (file for file in (path / "__init__.py", path.with_suffix(".py"), path.with_suffix(".pyi")) if file.exists()),
        None,
    )


def definition(name: str) -> Definition:
    """Where a dotted name is defined, through the imports of packages. LookupError: nowhere."""
    module, _, last = name.rpartition(".")
    file = module_file(module)
    if file is None:
        raise LookupError(f"there is no module {module}")
    tree = ast.parse(file.read_text())
    for node in reversed(tree.body):  # what is overloaded comes last
        if isinstance(node, Definition) and node.name == last:
            return node
        if (
            isinstance(node, ast.Assign)
            and ast.unparse(node.targets[0]) == last
            and isinstance(node.value, ast.Attribute)
        ):
            return definition(f"paceline.{ast.unparse(node.value)}")  # a class of the engine
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and last in {alias.asname or alias.name for alias in node.names}:
            return definition(f"{node.module}.{last}")
    raise LookupError(f"{module} has no {last}")


def docstring(node: Definition) -> str:
    return inspect.cleandoc(ast.get_docstring(node) or "")


def signature(node: Function, name: str, *, bound: bool = False) -> str:
    """The call as in the source, a line for each argument if it is long. bound: without the first argument."""
    arguments = node.args
    positional = [*arguments.posonlyargs, *arguments.args]
    defaults: list[ast.expr | None] = [None] * (len(positional) - len(arguments.defaults))
    shown = list(map(argument, positional, [*defaults, *arguments.defaults]))[bound:]
    if arguments.vararg:
        shown.append("*" + argument(arguments.vararg, None))
    elif arguments.kwonlyargs:
        shown.append("*")
    shown += map(argument, arguments.kwonlyargs, arguments.kw_defaults)
    if arguments.kwarg:
        shown.append("**" + argument(arguments.kwarg, None))
    returns = f" -> {ast.unparse(node.returns)}" if node.returns and node.name != "__init__" else ""
    return call(name, shown, returns)


def call(name: str, shown: list[str], returns: str = "") -> str:
    line = f"{name}({', '.join(shown)}){returns}"
    if len(line) <= WIDTH:
        return line
    lines = "".join(f"    {argument},\n" for argument in shown)
    return f"{name}(\n{lines}){returns}"


def argument(node: ast.arg, default: ast.expr | None) -> str:
    text = node.arg + (f": {ast.unparse(node.annotation)}" if node.annotation else "")
    if default is None:
        return text
    return f"{text}{' = ' if node.annotation else '='}{ast.unparse(default)}"


def members(node: ast.ClassDef, without: set[str]) -> Iterator[str]:
    """Each public method and property that has a docstring."""
    for member in node.body:
        if not isinstance(member, Function) or member.name.startswith("_") or member.name in without:
            continue
        decorators = {ast.unparse(decorator).rpartition(".")[2] for decorator in member.decorator_list}
        if not (text := docstring(member)) or decorators & {"setter", "overload"}:
            continue
        if decorators & {"property", "cached_property"}:
            yield f"#### `{member.name}`\n\n{text}"
        else:
            yield f"#### `{member.name}`\n\n{code(signature(member, member.name, bound=True))}\n\n{text}"


def code(text: str) -> str:
    return f"```python\n{text}\n```"


def fields(node: ast.ClassDef) -> str:
    """The call of a dataclass."""
    found = [entry for entry in node.body if isinstance(entry, ast.AnnAssign) and isinstance(entry.target, ast.Name)]
    shown = [ast.unparse(entry) for entry in found if not ast.unparse(entry.target).startswith("_")]
    return call(node.name, shown)


def section(asked: str) -> str:
    """The section of `NAME`, or of `NAME without METHOD METHOD`; without `__init__`: not how it is made."""
    name, *options = asked.split()
    node = definition(name)
    found = [f"### `{name}`"]
    if isinstance(node, ast.ClassDef):
        start = next((entry for entry in node.body if isinstance(entry, Function) and entry.name == "__init__"), None)
        without = set(options[1:])
        if "__init__" in without:
            pass  # other calls make it
        elif start is not None:
            found.append(code(signature(start, node.name, bound=True)))
        elif any("dataclass" in ast.unparse(decorator) for decorator in node.decorator_list):
            found.append(code(fields(node)))
        found.append(docstring(node))
        found += members(node, without)
    else:
        found += [code(signature(node, node.name)), docstring(node)]
    return "\n\n".join(found)
