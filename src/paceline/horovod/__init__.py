"""Horovod's Python API over Paceline: `import paceline.horovod.torch as hvd` in place of `import horovod.torch as hvd`.

Names, arguments, defaults and errors are those of Horovod 0.28.1; docs/reference/horovod.md says what differs and why.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

__all__ = ["run"]

__version__ = "0.28.1"
"""The release of Horovod that this API implements, for scripts that compare it.

Paceline's own version is `paceline.__version__`.
"""


def run(func: Any, *args: Any, **kwargs: Any) -> list[Any]:
    """Call a function on several ranks of this machine; see `paceline.horovod.run_function.run`."""
    from paceline.horovod import run_function

    return run_function.run(func, *args, **kwargs)


class _Package(ModuleType):
    """Keeps the attribute `run` a function, which importing the submodule `paceline.horovod.run` would replace."""

    def __setattr__(self, name: str, value: object) -> None:
        if name != "run" or not isinstance(value, ModuleType):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
