"""The side effects of calls, seen in both modes: what they change in place, and what shares memory.

What crosses a cut is another tensor behind it. So where a value and a view of it would both cross, and one of them is
changed in place behind the cut, the other would stay as it is: there can be no cut. Nor can there be one between two
calls that need the same buffer, if a call changes it, because each rank would change its own.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, fx, nn
from torch.multiprocessing.reductions import StorageWeakRef

from paceline.torch.freed_memory import Room
from paceline.torch.partitioned.calls import tensors_in
from paceline.torch.partitioned.errors import HybridError
from paceline.torch.partitioned.graph import Graph
from paceline.torch.partitioned.history import functions_behind
from paceline.torch.partitioned.module_state import ModuleState, RandomStates, preserved
from paceline.torch.partitioned.unsaved import unsaved
from paceline.torch.partitioned.walk import Values, walk


@dataclass(frozen=True)
class Effects:
    """The side effects of calls, in either mode.

    mutates: the names of the values that each changes in place. random: whether it draws random numbers.
    differentiable: whether gradients of the model's results flow through what it returned. alike: whether that has the
    same dtypes and shapes in both modes. inseparable: the places between calls where there can be no cut.
    """

    mutates: tuple[tuple[str, ...], ...]
    random: tuple[bool, ...]
    differentiable: tuple[bool, ...]
    alike: tuple[bool, ...]
    inseparable: tuple[int, ...]


def effects(graph: Graph, inputs: Sequence[Tensor], room: float = math.inf) -> Effects:
    """Run the calls in the model's mode and in the other one. Raises what the model raises.

    room: bytes by which the process may grow in each before what is free goes back to the system.
    """
    found = []
    # Of a weight that autocast has cast for an earlier call, a later one would seem to use what that call has made.
    anew = torch.autocast("cpu", torch.get_autocast_dtype("cpu"), torch.is_autocast_enabled("cpu"), cache_enabled=False)
    with preserved(graph.root), torch.enable_grad(), anew:
        for _ in range(2):
            found.append(_Watch(graph, inputs, Room(room)))
            graph.root.train(not graph.root.training)
    one, other = found
    calls = range(len(graph.calls))
    return Effects(
        tuple(tuple(dict.fromkeys((*one.mutates[call], *other.mutates[call]))) for call in calls),
        tuple(one.random[call] or other.random[call] for call in calls),
        tuple(one.differentiable[call] or other.differentiable[call] for call in calls),
        tuple(one.kinds[call] == other.kinds[call] for call in calls),
        tuple(sorted(one.inseparable | other.inseparable)),
    )


class _Living(NamedTuple):
    """A value that exists: the memory of its tensors, and autograd's functions that made them."""

    name: str
    storages: frozenset[int]
    functions: tuple[Any, ...]


class _Watch:
    """One pass over all calls, forward only, in which tensors that share memory do so as in the model itself."""

    def __init__(self, graph: Graph, inputs: Sequence[Tensor], room: Room) -> None:
        self._graph, self._room = graph, room
        self._storages = _Storages()
        self._own = {self._storages.of(one) for one in (*graph.root.parameters(), *graph.root.buffers())}
        self._names = {id(one): name for name, one in graph.root.named_parameters()}
        before = ModuleState(graph.root.modules())
        results = unsaved(lambda: self._walk(inputs), before.restore)
        self._reached = set(functions_behind((one.grad_fn for one in results), set()))
        self._ever: set[int] = set().union(*self._changed)
        self._flowing = {
            storage
            for name, functions in self._functions.items()
            if self._reaches(functions)
            for storage in self._memory[name] & self._ever
        }
        self.differentiable = [
            self._flows(_Living(call.name, self._memory[call.name], self._functions[call.name])) for call in graph.calls
        ]
        self.inseparable = self._inseparable()

    def _walk(self, inputs: Sequence[Tensor]) -> list[Tensor]:
        self.mutates: list[tuple[str, ...]] = []
        self.random: list[bool] = []
        self.kinds: list[object] = []
        self._crossing: list[list[_Living]] = []
        self._functions: dict[str, tuple[Any, ...]] = {}
        self._memory: dict[str, frozenset[int]] = {}
        self._holders: dict[int, dict[str, None]] = defaultdict(dict)
        self._changed: list[set[int]] = []
        self._known: set[Any] = set()
        left = walk(self._graph, [one.detach().clone() for one in inputs], self._after, self._before)
        return [one for node in self._graph.returned for one in tensors_in(left[node])]

    def _before(self, index: int, values: Values) -> None:
        last = self._graph.last_use
        self._crossing.append(list(self._living([node for node in values if last.get(node, -1) >= index], values)))
        call = self._graph.calls[index]
        self._numbers = RandomStates()
        self._modules = list(self._modules_of(call))
        self._state = ModuleState(self._modules)
        self._versions = {id(one): (one, one._version) for one in self._used(call, values)}

    def _after(self, index: int, values: Values) -> None:
        call = self._graph.calls[index]
        self.random.append(self._numbers.torch_changed)
        self.kinds.append(fx.node.map_aggregate(values[call], _kind))
        written = [one for one, version in self._versions.values() if one._version != version]
        changed = {self._storages.of(one) for one in written}
        for module in self._state.changed():
            changed |= {self._storages.of(one) for one in module._buffers.values() if one is not None}
            changed.add(self._storages.of_module(module))
        self._changed.append(changed)
        living = list(self._living(values, values))
        # Of a view that is changed the base may have been used for the last time before.
        for one in living:
            self._memory[one.name] = one.storages
            for storage in one.storages:
                self._holders[storage][one.name] = None
        self.mutates.append(tuple(dict.fromkeys(name for storage in changed for name in self._holders[storage])))
        self._functions.update((one.name, one.functions) for one in living)
        self._require_own(call, living)
        del self._versions, self._state
        self._room.keep()

    def _require_own(self, call: fx.Node, living: Iterable[_Living]) -> None:
        """Raise HybridError if the call has used a parameter that is none of its module's: its rank may not have it."""
        own = {id(one) for one in self._graph.tensors(call)}
        for function in functions_behind((one for value in living for one in value.functions), self._known):
            leaf = getattr(function, "variable", None)
            if leaf is None:
                continue
            self._known.remove(function)  # another call may use it too
            if id(leaf) in self._names and id(leaf) not in own:
                raise HybridError(
                    f"{call.target} uses the parameter {self._names[id(leaf)]}, which is none of its module's: "
                    "make it an attribute of that module, or of the model"
                )

    def _modules_of(self, call: fx.Node) -> Iterator[nn.Module]:
        if call.op == "call_module":
            yield from self._graph.root.get_submodule(str(call.target)).modules()

    def _used(self, call: fx.Node, values: Values) -> Iterator[Tensor]:
        """The tensors that a call is given, and the parameters and buffers that it needs."""
        yield from self._graph.tensors(call)
        for node in call.all_input_nodes:
            if node in values:
                yield from tensors_in(values[node])

    def _living(self, nodes: Iterable[fx.Node], values: Values) -> Iterator[_Living]:
        for node in nodes:
            tensors = tensors_in(values[node])
            functions = tuple(one.grad_fn for one in tensors if one.grad_fn is not None)
            yield _Living(node.name, frozenset(map(self._storages.of, tensors)), functions)

    def _reaches(self, functions: Iterable[Any]) -> bool:
        return any(one in self._reached for one in functions)

    def _flows(self, value: _Living) -> bool:
        """Return whether gradients flow through it.

        Where a view is changed in place, autograd makes all views of its base anew: gradients come to the base on other
        ways than by what had made them.
        """
        if self._reaches(value.functions):
            return True
        return bool(value.functions) and not self._flowing.isdisjoint(value.storages)

    def _inseparable(self) -> set[int]:
        """The places where something crosses that is no more the same behind a cut, or that a cut would double."""
        found: set[int] = set()
        later: set[int] = set()  # memory that the calls behind a cut change
        for place in reversed(range(len(self._graph.calls))):
            later |= self._changed[place]
            crossing = self._crossing[place]
            holders = Counter(storage for one in crossing for storage in one.storages)
            if (
                any(
                    self._flows(one) != self._flows(one._replace(functions=self._functions[one.name]))
                    for one in crossing
                )
                or any(number > 1 and storage in later for storage, number in holders.items())
                or any(storage in self._own and storage in self._ever for storage in holders)
            ):
                found.add(place)
        users: dict[int, list[int]] = defaultdict(list)
        for index, call in enumerate(self._graph.calls):
            needed = {self._storages.of(one) for one in self._graph.tensors(call)}
            needed |= {self._storages.of_module(module) for module in self._modules_of(call)}
            for storage in needed & self._ever:
                users[storage].append(index)
        for calls in users.values():
            found.update(range(calls[0] + 1, calls[-1] + 1))
        return found


class _Storages:
    """Numbers for memory, of which no two are the same, also where memory is used again."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[StorageWeakRef, int]] = {}
        self._next = 0

    def of(self, tensor: Tensor) -> int:
        """The number of a tensor's memory."""
        if tensor.layout != torch.strided:
            return -id(tensor)
        reference = StorageWeakRef(tensor.untyped_storage())  # type: ignore[no-untyped-call]
        before = self._known.get(reference.cdata)
        if before is not None and not before[0].expired():  # type: ignore[no-untyped-call]
            return before[1]
        self._next += 1
        self._known[reference.cdata] = reference, self._next
        return self._next

    def of_module(self, module: nn.Module) -> int:
        """A number for a module's own attributes."""
        return -id(module)


def _kind(value: Any) -> Any:
    return (value.dtype, tuple(value.shape)) if isinstance(value, Tensor) else type(value).__name__
