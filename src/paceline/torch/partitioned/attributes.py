"""The attributes of modules that a model's code reads and sets, and whether they are still the same later."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn

from paceline.torch.partitioned.module_state import STRUCTURE

_DEPTH = 2
"""The depth to which objects in attributes are looked into, such as configurations."""
_MANY = 200
"""Elements of a container beyond which it counts by its identity."""
_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")

_OF_ALL = frozenset(dir(nn.Module))


class Read:
    """A plain attribute of a module that the traced code has read: the value that the graph has for good."""

    def __init__(self, module: nn.Module, name: str, value: object) -> None:
        self.module, self.name = module, name
        self._value = value  # kept, as identities in `_fixed` hold for living objects
        self._fixed = fixed(value)
        self.shown = f"{value!r:.60}"

    @property
    def changed(self) -> bool:
        """True if the attribute has another value now."""
        return fixed(getattr(self.module, self.name, None)) != self._fixed

    def __str__(self) -> str:
        return f"{type(self.module).__name__}.{self.name}"


def fixed(value: Any, depth: int = _DEPTH) -> object:
    """Return something that is equal as long as the value is."""
    if value is None or isinstance(value, (bool, int, str, bytes)):
        return type(value), value
    if isinstance(value, (float, complex)):
        return type(value), repr(value)  # NaN is the same as NaN
    if isinstance(value, (tuple, list)) and len(value) <= _MANY:
        return type(value), tuple(fixed(one, depth) for one in value)
    if isinstance(value, Mapping) and len(value) <= _MANY:
        return type(value), tuple((fixed(key, depth), fixed(one, depth)) for key, one in value.items())
    if isinstance(value, (set, frozenset)) and len(value) <= _MANY:
        return type(value), frozenset(value)
    known = isinstance(value, (nn.Module, Tensor, type)) or callable(value)
    if not known and depth and 0 < len(getattr(value, "__dict__", ())) <= _MANY:
        return id(value), fixed(vars(value), depth - 1)
    return id(value)


def hooked(module: nn.Module) -> bool:
    """Return whether somebody has registered hooks on the module itself, which only a call of the module runs."""
    return any(getattr(module, name, None) for name in _HOOKS)


@contextmanager
def watched(
    read: Callable[[nn.Module, str, Any], None], setting: Callable[[nn.Module, str, Any], bool]
) -> Iterator[None]:
    """In this context tell what is read of modules' own attributes, and ask before one is set or deleted."""
    set_attribute, delete_attribute = nn.Module.__setattr__, nn.Module.__delattr__

    def reading(module: nn.Module, name: str) -> Any:
        value = object.__getattribute__(module, name)
        if name not in STRUCTURE and name not in _OF_ALL:
            own = object.__getattribute__(module, "__dict__")
            if name in own or not (callable(value) or hasattr(getattr(type(module), name, None), "__get__")):
                read(module, name, value)
        return value

    def set_(module: nn.Module, name: str, value: Any) -> None:
        if setting(module, name, value):
            set_attribute(module, name, value)

    def delete(module: nn.Module, name: str) -> None:
        if setting(module, name, None):
            delete_attribute(module, name)

    nn.Module.__getattribute__ = reading  # type: ignore[method-assign, assignment]
    nn.Module.__setattr__ = set_  # type: ignore[method-assign, assignment]
    nn.Module.__delattr__ = delete  # type: ignore[method-assign]
    try:
        yield
    finally:
        del nn.Module.__getattribute__
        nn.Module.__setattr__ = set_attribute  # type: ignore[method-assign]
        nn.Module.__delattr__ = delete_attribute  # type: ignore[method-assign]
