"""Symbolic tracing of a model's forward that notices what it can't record, and whose code that is."""

from __future__ import annotations

import inspect
import operator
import sys
from collections.abc import Callable
from dataclasses import dataclass
from types import FrameType
from typing import Any, NamedTuple

import torch
from torch import Tensor, fx, nn

from paceline.torch.partitioned.attributes import Read, hooked, watched
from paceline.torch.partitioned.errors import HybridError
from paceline.torch.partitioned.graph import Code, Returned
from paceline.torch.partitioned.module_state import RandomStates
from paceline.torch.partitioned.structure import leaves, replaced

_CONTAINERS = (nn.Sequential, nn.TransformerDecoder, nn.TransformerEncoder)
"""Modules of torch's whose forward only calls their children; all its others count as one call."""

CONSTANT = "_tensor_constant"
"""The prefix of the names under which torch keeps a graph's constants in the root module."""

ATTRIBUTE = "attribute"
"""In the meta of a node: it is the model's parameter or buffer of this name."""

_IN_PLACE = ("iadd", "isub", "imul", "itruediv", "ifloordiv", "imod", "ipow", "imatmul", "iand", "ior", "ixor")
"""Operators that change a tensor, which torch's proxies leave to Python: it takes `a + b` for `a += b`."""

_BACKWARDS = (torch.autograd.grad, torch.autograd.backward, "backward")
"""The calls that need all that autograd has recorded before, on whichever rank that was."""


class Hidden(BaseException):
    """The code of a module does something that a trace can't record. module: whose code. reason: what, and where.

    No Exception, which that code might catch.
    """

    def __init__(self, module: nn.Module, reason: str) -> None:
        super().__init__(reason)
        self.module, self.reason = module, reason


class Proxy(fx.Proxy):
    """A value of the traced code, which also records what changes a tensor in place."""

    def __setitem__(self, index: Any, value: Any) -> None:
        self.tracer.create_proxy("call_function", operator.setitem, (self, index, value), {})


def _in_place(name: str) -> Callable[[Any, Any], fx.Proxy]:
    def changed(self: fx.Proxy, other: Any) -> fx.Proxy:
        return self.tracer.create_proxy("call_function", getattr(operator, name), (self, other), {})

    return changed


for _name in _IN_PLACE:
    setattr(Proxy, f"__{_name}__", _in_place(_name))


class _Surroundings(NamedTuple):
    """The settings of torch that code may change on its way, and a graph does not."""

    gradients: bool
    inference_mode: bool
    autocast: tuple[bool, torch.dtype]
    default_dtype: torch.dtype
    function_modes: int

    @staticmethod
    def now() -> _Surroundings:
        return _Surroundings(
            torch.is_grad_enabled(),
            torch.is_inference_mode_enabled(),
            (torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu")),
            torch.get_default_dtype(),
            torch._C._len_torch_function_stack(),
        )

    def difference(self, other: _Surroundings) -> str:
        words = (
            "enables or disables gradients",
            "enters or leaves inference mode",
            "enters or leaves autocast",
            "sets the default dtype",
            "enters or leaves a mode of torch's functions",
        )
        return next(word for word, one, two in zip(words, self, other, strict=True) if one != two)


@dataclass
class _Running:
    """A module whose code runs, and what torch was set to do when that began."""

    module: nn.Module
    surroundings: _Surroundings


class Tracer(fx.Tracer):
    """Traces a model with so many positional arguments. whole: classes of modules of which each is one call.

    Raises `Hidden` in the traced code.

    failed: the innermost module whose code raised something. inputs: the model's arguments. output: its result, with
    nodes for values. code: what is known of the code.
    """

    proxy_buffer_attributes = True

    def __init__(self, arguments: int, whole: set[type[nn.Module]]) -> None:
        super().__init__()
        self._arguments = arguments
        self._whole = whole
        self._running: list[_Running] = []
        self._numbers = RandomStates()
        self._calls = 0
        self.failed: nn.Module | None = None
        self.inputs: tuple[fx.Node, ...] = ()
        self.output: Any = None
        self.code = Code()

    def trace(self, root: Any, concrete_args: Any = None) -> fx.Graph:
        """Trace the root's forward."""
        self._running = [_Running(root, _Surroundings.now())]
        self.code.inlined[root] = None
        with watched(self._read, self._setting):
            graph = super().trace(root, concrete_args)
        self._look()
        return graph

    # -- what torch asks a tracer ---------------------------------------------------------------------------------

    def create_args_for_root(self, root_fn: Any, is_module: bool, concrete_args: Any = None) -> Any:
        """One value for each argument that is passed; the others have their defaults."""
        del is_module, concrete_args
        kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        known = [one.name for one in inspect.signature(root_fn).parameters.values() if one.kind in kinds][1:]
        names = (known + [f"input_{number}" for number in range(len(known), self._arguments)])[: self._arguments]
        proxies = [self.create_proxy("placeholder", name, (), {}) for name in names]
        self.inputs = tuple(proxy.node for proxy in proxies)

        def forward(*given: Any) -> Any:
            result = root_fn(*given)
            parts = [one for one in leaves(result) if isinstance(one, fx.Proxy)]
            own = [_value(one) for one in parts]
            self.output = replaced(result, parts, [one.node for one in own])
            return tuple(own)

        return forward, [self.root, *proxies]

    def proxy(self, node: fx.Node) -> fx.Proxy:
        """Ours."""
        return Proxy(node, self)

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        """Return whether a module is one call."""
        if type(m) in self._whole or hooked(m):
            return True
        return type(m).__module__.startswith("torch.nn") and not isinstance(m, _CONTAINERS)

    def call_module(self, m: nn.Module, forward: Any, args: Any, kwargs: Any) -> Any:
        """A call of a module, as one call or by its code."""
        self._look()
        leaf = self.is_leaf_module(m, "")
        (self.code.leaves if leaf else self.code.inlined)[m] = None
        self._running.append(_Running(m, _Surroundings.now()))
        try:
            result = super().call_module(m, forward, args, kwargs)
            self._look()
        except Exception:
            self.failed = self.failed or (self._running[-2].module if leaf else m)
            raise
        finally:
            self._running.pop()
        parts = tuple(one.node if isinstance(one, fx.Proxy) else one for one in leaves(result))
        self.code.returned.append(Returned(m, self._calls, parts))
        return result

    def create_node(self, *args: Any, **kwargs: Any) -> fx.Node:
        """A node of the graph, of which it is known whose it is."""
        if self._running:
            self._look()
            if args[1] in _BACKWARDS:
                here = self._running[-1].module
                raise Hidden(here, f"does a backward ({line_of(here)})")
        node = super().create_node(*args, **kwargs)
        if node.op.startswith("call_"):
            self._calls += 1
            callers = self._running[:-1] if node.op == "call_module" else self._running
            self.code.owners[node] = callers[-1].module
            self.code.lines[node] = line_of(callers[-1].module)
        return node

    def create_arg(self, a: Any) -> Any:
        """An argument of a node. What was computed from weights alone would be a constant in the graph."""
        if isinstance(a, Tensor) and a.requires_grad and not a.is_leaf:
            module = self._running[-1].module
            raise Hidden(module, f"computes with parameters that are no attributes ({line_of(module)})")
        return super().create_arg(a)

    # -- what the code does besides ---------------------------------------------------------------------------------

    def _look(self) -> None:
        """Raise Hidden if the code has changed what torch is set to do, or drawn random numbers."""
        here, now = self._running[-1].module, _Surroundings.now()
        normal = self._running[0].surroundings
        if now != normal:
            changed = next(one.module for one in reversed(self._running) if one.surroundings == normal)
            raise Hidden(changed, f"{normal.difference(now)} ({line_of(changed)})")
        if self._numbers.others_changed:
            raise foreign_numbers(here)
        if self._numbers.torch_changed:
            raise Hidden(here, f"draws random numbers that do not depend on its input ({line_of(here)})")

    def _read(self, module: nn.Module, name: str, value: Any) -> None:
        if not isinstance(value, (nn.Module, fx.Proxy)) and (module, name) not in self.code.reads:
            self.code.reads[module, name] = Read(module, name, value), self._running[-1].module

    def _setting(self, module: nn.Module, name: str, value: Any) -> bool:
        if name.startswith(CONSTANT):
            return True
        if isinstance(value, fx.Proxy) and value.node.op == "call_function" and name in module._buffers:
            target, changed = value.node.target, value.node.args[:1]
            if getattr(target, "__name__", "") in _IN_PLACE and changed and _is_buffer(changed[0], module, name, self):
                return False  # it is the buffer, which the operator has changed in place
        here = self._running[-1].module
        raise Hidden(here, f"sets the attribute {name} ({line_of(here)})")


def _value(result: fx.Proxy) -> fx.Proxy:
    """The same, or of a parameter or buffer a value that can be sent."""
    if result.node.op != "get_attr":
        return result
    value: fx.Proxy = result.view_as(result)
    value.node.meta[ATTRIBUTE] = result.node.target
    return value


def foreign_numbers(module: nn.Module) -> HybridError:
    """The error of a module that draws random numbers elsewhere than from torch."""
    return HybridError(
        f"the forward of {type(module).__name__} draws random numbers of Python or NumPy, which in partitions would "
        f"not be those of the whole model ({line_of(module)}): draw them with torch"
    )


def _is_buffer(node: object, module: nn.Module, name: str, tracer: Tracer) -> bool:
    if not isinstance(node, fx.Node) or node.op != "get_attr":
        return False
    found: object = tracer.root
    for part in str(node.target).split("."):
        found = object.__getattribute__(found, "_modules").get(part, None) or found._buffers.get(part)  # type: ignore[attr-defined]
    return found is module._buffers[name]


def line_of(module: nn.Module) -> str:
    """Return the file and line at which a module's code runs now, or at which its forward begins."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        name = frame.f_globals.get("__name__", "")
        if frame.f_locals.get("self") is module and not name.startswith(("torch.", "paceline.torch.partitioned")):
            return f"{frame.f_code.co_filename}:{frame.f_lineno}"
        frame = frame.f_back
    code = getattr(inspect.unwrap(type(module).forward), "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}" if code is not None else type(module).__module__
