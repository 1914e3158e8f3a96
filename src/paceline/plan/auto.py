"""Decide whether all-reduces and broadcasts of parameters are encoded between machines, and from which size on.

The cost model decides. For all-reduces only `bf16` is considered. It needs no error feedback to train well, it keeps
float32's range, and its size does not depend on the data. `lossless` is slower and leaves more bytes, so it is never
the better of the two. Parameters must arrive bit for bit, as only `lossless` lets them.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import takewhile

from paceline.calibration import plan as fitted
from paceline.formats.sizes import show_bytes, show_seconds
from paceline.plan.between import SIZES
from paceline.plan.choice import Choice, serving
from paceline.plan.choose import choose
from paceline.plan.codecs import CODECS, ENCODED_FROM, Codec
from paceline.plan.cost import Line, cost
from paceline.plan.network import Network
from paceline.settings.names import NONE
from paceline.topology import Topology

CODEC = CODECS["bf16"]
"""The only codec that is chosen, with the speed of a usual machine."""
EXACT = CODECS["lossless"]
"""The codec of what must arrive bit for bit, with the same speed."""
_USUAL = 32 << 20
"""Bytes for which the time is told."""


@dataclass(frozen=True, slots=True)
class Encoding:
    """The codec of sums and means of `least` bytes and more, NONE for none, and why: a clause for people."""

    codec: str
    least: int
    reason: str


def encoding(topology: Topology, algorithm: str | None = None, codec: Codec = CODEC) -> Encoding:
    """Return how all-reduces of a group on `topology` are encoded; equal topologies give equal results.

    Sizes are encoded where it pays for them and for all larger ones. algorithm: as of `choose`, which see for errors.
    codec: `CODEC`, with the speed of these ranks.
    """
    return _encoding("all_reduce", "an all-reduce", "sums and means of float32 go", topology, algorithm, codec)


def exact(topology: Topology, codec: Codec = EXACT) -> Encoding:
    """Return how broadcasts of parameters are encoded, which must arrive bit for bit; else as `encoding`.

    codec: `EXACT`, with the speed of these ranks.
    """
    return _encoding("broadcast", "a broadcast", "broadcasts of parameters go", topology, None, codec)


def _encoding(
    collective: str, one: str, all_go: str, topology: Topology, algorithm: str | None, codec: Codec
) -> Encoding:
    if on_one_machine(topology):
        return Encoding(NONE, 0, "nothing is encoded, because all ranks are on one machine")
    network = Network(topology)
    choices = choose(collective, topology, algorithm=algorithm)
    lines = {choice.limit: _lines(collective, choice, network, codec) for choice in choices if not choice.one_shot}

    def seconds(nbytes: int) -> tuple[float, float]:
        """As it is, and encoded."""
        both = lines.get(serving(choices, nbytes).limit)
        return (both[0].seconds(nbytes), both[1].seconds(nbytes)) if both is not None else (0.0, 0.0)

    falling = reversed([size for size in SIZES if size >= ENCODED_FROM])
    paying = list(takewhile(lambda size: pays(*seconds(size)), falling))
    told = max(paying[-1], _USUAL) if paying else SIZES[-1]
    plain, coded = map(show_seconds, seconds(told))
    takes = f"by the cost model {one} of {show_bytes(told)} takes {plain} as it is and {coded} as {codec.name}"
    if not paying:
        worth = 100 * fitted.WORTH_ENCODING
        return Encoding(NONE, 0, f"nothing is encoded, because {takes}, which does not save {worth:.0f} %")
    least = show_bytes(paying[-1])
    return Encoding(codec.name, paying[-1], f"{all_go} as {codec.name} from {least} on, because {takes}")


def on_one_machine(topology: Topology) -> bool:
    """Return whether nothing can be encoded."""
    return sum(len(ranks) > 0 for _, ranks in topology.machines()) < 2


def pays(plain: float, coded: float) -> bool:
    """Return whether these seconds of an encoded all-reduce are so much less than those of a plain one."""
    return coded < (1 - fitted.WORTH_ENCODING) * plain


def _lines(collective: str, choice: Choice, network: Network, codec: Codec) -> tuple[Line, Line]:
    """The choice as it is, and encoded."""
    plain, coded = (cost(choice.outline, network, SIZES[-1], choice.chunk, used) for used in (None, codec))
    return (plain.line, coded.line) if collective == "all_reduce" else (plain.all_gather, coded.all_gather)
