"""Read and write a graph in a file, in YAML or JSON.

nodes:                    # in the order in which they were added; a name alone is a node that computes
  - forward
  - {name: gradient, bytes: 4096, dtype: float32, op: sum}
edges:                    # the second needs the first
  - [forward, gradient]
fetches: [gradient]       # without it, everything is executed
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from paceline.formats.yaml_lines import FileKind, KeyPath, Marked, text_of
from paceline.order.graph import Collective, Graph, GraphError, Node

FILE_KIND = FileKind(GraphError, "graph", "nodes: [forward]", few="a graph has three", key="nodes or edges")
LONGEST_NAME = 255
"""Characters that a name can have."""

DTYPES = (
    *("float16", "bfloat16", "float32", "float64", "int8", "uint8", "int16", "uint16", "int32", "uint32"),
    *("int64", "uint64", "bool", "complex64", "complex128", "float8_e4m3fn", "float8_e5m2"),
)
_EXAMPLE = "{name: gradient, bytes: 4096}"


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value.strip() or not value.isprintable() or len(value) > LONGEST_NAME:
        raise ValueError(f"a name is one line of up to {LONGEST_NAME} printable characters, not {value!r:.80}")
    return value


def _nbytes(value: Any) -> int:
    if not isinstance(value, str) or not value.isascii() or not value.isdigit() or len(value) > 18:
        raise ValueError(f"bytes must be a whole number such as 4096, not {value!r:.80}")
    return int(value)


def _dtype(value: Any) -> str:
    """Check a dtype, or those of several tensors with + between them."""
    for name in _text(value).split("+"):
        if name not in DTYPES:
            raise ValueError(f"there is no dtype {name!r:.80}; there are {', '.join(DTYPES)}")
    return str(value)


def _node(value: Any) -> Any:
    if isinstance(value, str):
        return {"name": value}
    if not isinstance(value, dict) or "name" not in value:
        raise ValueError(f"a node is a name, or a collective such as {_EXAMPLE}")
    missing = "bytes" not in value and set(value) & {"dtype", "op", "kind"}
    if missing:
        raise ValueError(f"a collective says how many bytes it moves; write it as {_EXAMPLE}")
    return value


def _pair(value: Any) -> Any:
    if not isinstance(value, list) or len(value) != 2:
        raise ValueError("an edge is a pair of names such as [forward, gradient]: the second needs the first")
    return value


def _list(value: Any) -> Any:
    if not isinstance(value, list):
        raise ValueError("this must be a list")
    return value


_Name = Annotated[str, BeforeValidator(_text)]
_Edge = Annotated[tuple[_Name, _Name], BeforeValidator(_pair)]


class _Node(BaseModel):
    model_config = ConfigDict(extra="forbid")

    name: _Name
    bytes: Annotated[int, BeforeValidator(_nbytes)] | None = None
    dtype: Annotated[str, BeforeValidator(_dtype)] = "float32"
    op: _Name = "sum"
    kind: _Name = "all_reduce"


class _Document(BaseModel):
    model_config = ConfigDict(extra="forbid")

    nodes: Annotated[list[Annotated[_Node, BeforeValidator(_node)]], BeforeValidator(_list)]
    edges: Annotated[list[_Edge], BeforeValidator(_list)] = Field(default_factory=list)
    fetches: Annotated[list[_Name], BeforeValidator(_list)] | None = None


def read(path: str | Path) -> Graph:
    """Return the graph in a file. Raises GraphError if the file is unreadable or wrong."""
    return parse(text_of(path, FILE_KIND), str(path))


def parse(text: str, source: str = "graph") -> Graph:
    """Return the graph that `text` describes; `source` names it in errors.

    Raises GraphError, which names the line and the reason.
    """
    marked = Marked(text, source, FILE_KIND)
    if not isinstance(marked.data, dict):
        raise marked.error(1, f"a graph is a mapping; begin with {FILE_KIND.begins}")
    try:
        found = _Document.model_validate(marked.data)
    except ValidationError as error:
        raise _explained(marked, error) from None
    place: dict[str, int] = {}
    for index, node in enumerate(found.nodes):
        first = place.setdefault(node.name, index)
        if first != index:
            there = marked.line(("nodes", first))
            reason = f"the name {node.name!r} is taken by line {there}; choose another"
            raise marked.error(marked.line(("nodes", index)), reason)

    def placed(name: str, path: KeyPath) -> int:
        if name not in place:
            raise marked.error(marked.line(path), f"there is no node {name!r}; write it under nodes")
        return place[name]

    edges = tuple(
        (placed(one, ("edges", index, 0)), placed(two, ("edges", index, 1)))
        for index, (one, two) in enumerate(found.edges)
    )
    if found.fetches is None:
        fetches = tuple(range(len(found.nodes)))
    else:
        fetches = tuple(placed(name, ("fetches", index)) for index, name in enumerate(found.fetches))
    return Graph(tuple(_made(node) for node in found.nodes), edges, fetches)


def dump(graph: Graph) -> str:
    """Return the graph as JSON that `parse` reads. Raises GraphError if two nodes have the same name."""
    names = [node.name for node in graph.nodes]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise GraphError(f"two nodes have the name {twice!r}; in a file each needs a name of its own")
    document: dict[str, list[object]] = {
        "nodes": [_written(node) for node in graph.nodes],
        "edges": [[names[parent], names[child]] for parent, child in graph.edges],
        "fetches": [names[fetch] for fetch in graph.fetches],
    }
    lines = (
        f' "{key}": [\n  ' + ",\n  ".join(json.dumps(one, ensure_ascii=False) for one in value) + "\n ]"
        for key, value in document.items()
    )
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _made(node: _Node) -> Node:
    if node.bytes is None:
        return Node(node.name)
    return Node(node.name, Collective(node.name, node.bytes, node.dtype, node.op, node.kind))


def _written(node: Node) -> object:
    item = node.collective
    if item is None:
        return node.name
    return {"name": node.name, "bytes": item.nbytes, "dtype": item.dtype, "op": item.op, "kind": item.kind}


def _explained(marked: Marked, error: ValidationError) -> ValueError:
    first = error.errors()[0]
    path: KeyPath = first["loc"]
    if first["type"] == "extra_forbidden":
        known = ", ".join((_Node if len(path) > 1 else _Document).model_fields)
        reason = f"{path[-1]!r} is not known here; known are {known}"
    elif first["type"] == "value_error":
        reason = str(first["ctx"]["error"])
    else:
        reason = f"{path[-1]} is missing; begin with {FILE_KIND.begins}"
    return marked.error(marked.line(path), reason)
