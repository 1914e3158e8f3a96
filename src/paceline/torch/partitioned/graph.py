"""A model's forward as a list of calls: its modules, and what its code does between them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from torch import Tensor, fx, nn

from paceline.torch.partitioned.attributes import Read
from paceline.torch.partitioned.structure import leaves, replaced


class Returned(NamedTuple):
    """A module's call has returned. calls: how many calls of the graph came before. result: nodes, and constants."""

    module: nn.Module
    calls: int
    result: tuple[Any, ...]


@dataclass
class Code:
    """The code that was traced.

    owners, lines: of each call, the module whose code makes it, and where that is. returned: calls of modules, in the
    order of their ends. leaves: the modules that are one call. inlined: those whose code was traced. reads: the plain
    attributes that it has read, with the module that did.
    """

    owners: dict[fx.Node, nn.Module] = field(default_factory=dict)
    lines: dict[fx.Node, str] = field(default_factory=dict)
    returned: list[Returned] = field(default_factory=list)
    leaves: dict[nn.Module, None] = field(default_factory=dict)
    inlined: dict[nn.Module, None] = field(default_factory=dict)
    reads: dict[tuple[nn.Module, str], tuple[Read, nn.Module]] = field(default_factory=dict)


@dataclass(frozen=True)
class Graph:
    """Calls in the order in which the model's forward makes them. A cut lies after a call, or before all of them.

    inputs: the model's arguments. output: its result, with nodes in place of its values. code: what is known of the
    code that was traced.
    """

    root: nn.Module
    inputs: tuple[fx.Node, ...]
    calls: tuple[fx.Node, ...]
    output: Any
    code: Code

    @cached_property
    def last_use(self) -> dict[fx.Node, int]:
        """The last call that uses a value; the number of calls if the model returns it."""
        found: dict[fx.Node, int] = {}
        for index, call in enumerate(self.calls):
            found.update(dict.fromkeys(call.all_input_nodes, index))
        found.update(dict.fromkeys(self.returned, len(self.calls)))
        return found

    @property
    def names(self) -> list[str]:
        """The calls' names: of the model's module, or of what else the call does, numbered if there are several."""
        return [str(call.target) if call.op == "call_module" else call.name for call in self.calls]

    @cached_property
    def returned(self) -> tuple[fx.Node, ...]:
        """The values that the model returns, each once."""
        return tuple(dict.fromkeys(one for one in leaves(self.output) if isinstance(one, fx.Node)))

    def structured(self, returned: Sequence[Any]) -> Any:
        """The model's result with these in place of the values that it returns."""
        return replaced(self.output, self.returned, returned)

    def crossing(self, cut: int) -> tuple[fx.Node, ...]:
        """The values that exist before call `cut` and are used by it or later, in the order in which they came up."""
        known = (*self.inputs, *self.calls[:cut])
        return tuple(node for node in known if self.last_use.get(node, -1) >= cut)

    def targets(self, call: fx.Node) -> Iterator[str]:
        """The names of the modules and tensors of the model that a call needs."""
        if call.op == "call_module":
            yield str(call.target)
        yield from (str(node.target) for node in call.all_input_nodes if node.op == "get_attr")

    def tensors(self, call: fx.Node) -> Iterator[Tensor]:
        """The parameters and buffers of the model that a call needs."""
        for target in self.targets(call):
            found = attribute(self.root, target)
            if isinstance(found, nn.Module):
                yield from found.parameters()
                yield from found.buffers()
            elif isinstance(found, Tensor):
                yield found


def attribute(root: nn.Module, target: str) -> object:
    """The module, parameter or buffer of this qualified name."""
    found: object = root
    for part in target.split("."):
        found = getattr(found, part)
    return found
