"""An op's attributes, which are the same for all its executions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tensorflow.core.framework.node_def_pb2 import NodeDef

from paceline.horovod.channel import Channel


@dataclass(frozen=True, slots=True)
class Node:
    """The attributes of an op; see engine/tensorflow/ops.cpp. Those that its type lacks have their defaults.

    name: the op's name in its graph; "" for one that runs eagerly.
    """

    op: str
    name: str
    names: tuple[str, ...]
    grouped: bool
    process_set: int
    reduction: int
    prescale: float
    postscale: float
    root: int
    question: str
    codec: str
    error_feedback: bool
    parameters: bool

    @classmethod
    def parse(cls, serialised: bytes) -> Node:
        """Read a serialised NodeDef."""
        node = NodeDef.FromString(serialised)
        attributes = node.attr
        name = node.name if attributes["in_graph"].b else ""
        return cls(
            op=node.op.removeprefix("Paceline"),
            name=name.rpartition("/")[2] if attributes["ignore_name_scope"].b else name,
            names=tuple(each.decode() for each in attributes["names"].list.s),
            grouped=attributes["grouped"].b,
            process_set=attributes["process_set_id"].i,
            reduction=attributes["reduce_op"].i,
            prescale=attributes["prescale_factor"].f if "prescale_factor" in attributes else 1.0,
            postscale=attributes["postscale_factor"].f if "postscale_factor" in attributes else 1.0,
            root=attributes["root_rank"].i,
            question=attributes["question"].s.decode(),
            codec=attributes["codec"].s.decode(),
            error_feedback=attributes["error_feedback"].b,
            parameters=attributes["parameters"].b,
        )

    def requests(self, channel: Channel, count: int) -> Sequence[str]:
        """Return the names of the requests of one execution, one for each of `count` tensors."""
        kind = self.op.removesuffix("Start").lower()
        if self.grouped:
            return channel.names(kind, self.name or next(iter(self.names), None), count)
        if self.names:
            return [channel.name(kind, name) for name in self.names]
        if self.name and count > 1:
            return [channel.name(kind, f"{self.name}_{number}of{count}") for number in range(1, count + 1)]
        return [channel.name(kind, self.name or None) for _ in range(count)]
