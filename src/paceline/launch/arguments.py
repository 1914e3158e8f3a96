"""Separates `paceline run`'s own options, torchrun's options, and the program with its arguments.

Options end at the program's name, as with torchrun and python themselves; whatever follows belongs to the program.
"""

from collections.abc import Sequence
from dataclasses import dataclass

OWN_VALUES = frozenset({"-n", "--nproc-per-node", "--threads", "--interop-threads", "--cores", "--grace"})
OWN_FLAGS = frozenset({"--pin", "--no-pin", "--direct", "--tuned", "--help"})
TORCHRUN_FLAGS = frozenset({"--standalone", "-m", "--module", "--no-python", "--run-path", "--virtual-local-rank"})
TORCHRUN_VALUES = frozenset(
    "--nnodes --rdzv-backend --rdzv-endpoint --rdzv-id --rdzv-conf --max-restarts --monitor-interval --start-method "
    "--event-log-handler --role --log-dir -r --redirects -t --tee --local-ranks-filter --duplicate-stdout-filters "
    "--duplicate-stderr-filters --node-rank --master-addr --master-port --local-addr --logs-specs --numa-binding "
    "--signals-to-handle --shutdown-timeout".split()
)


@dataclass(frozen=True)
class Arguments:
    """The separated arguments.

    own: paceline's options. torchrun: the options that are passed to torchrun unchanged. program: the program's name
    and arguments.
    """

    own: tuple[str, ...]
    torchrun: tuple[str, ...]
    program: tuple[str, ...]

    def gives(self, *names: str) -> bool:
        """Return whether one of these torchrun options was given."""
        return any(_name(argument) in names for argument in self.torchrun)

    def value(self, name: str) -> str | None:
        """Return the last value given to a torchrun option, None if it was not given."""
        found = None
        for position, argument in enumerate(self.torchrun):
            if _name(argument) == name:
                found = argument.partition("=")[2] if "=" in argument else self.torchrun[position + 1]
        return found


def split(arguments: Sequence[str]) -> Arguments:
    """Separate the arguments. Raises ValueError with one sentence for an unknown option or one that lacks its value."""
    own: list[str] = []
    torchrun: list[str] = []
    position = 0
    while position < len(arguments):
        argument = arguments[position]
        if argument == "--":
            position += 1
            break
        if not argument.startswith("-") or argument == "-":
            break
        name, attached = _name(argument), _attached(argument)
        target = own if name in OWN_VALUES | OWN_FLAGS else torchrun
        takes_value = name in OWN_VALUES | TORCHRUN_VALUES
        if not takes_value and name not in OWN_FLAGS | TORCHRUN_FLAGS and not (name.startswith("--") and attached):
            raise ValueError(
                f"{argument} is an option of neither paceline run nor torchrun; the program's options go after its name"
                " (an option of a newer torchrun: write it as --name=value)"
            )
        words = 2 if takes_value and not attached else 1
        if position + words > len(arguments):
            raise ValueError(f"{argument} needs a value")
        target.extend(arguments[position : position + words])
        position += words
    return Arguments(tuple(own), tuple(torchrun), tuple(arguments[position:]))


def _name(argument: str) -> str:
    if argument.startswith("--"):
        return argument.partition("=")[0].replace("_", "-")
    return argument[:2]


def _attached(argument: str) -> bool:
    return "=" in argument if argument.startswith("--") else len(argument) > 2
