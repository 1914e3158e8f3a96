"""From a computation graph to the order and the fusion in which all ranks issue its collectives without negotiation."""

from paceline.order.fuse import FUSION_BYTES, Scheme, scheme
from paceline.order.graph import Collective, Graph, GraphError, Node, parallel
from paceline.order.number import Order, executed, order

__all__ = [
    "FUSION_BYTES",
    "Collective",
    "Graph",
    "GraphError",
    "Node",
    "Order",
    "Scheme",
    "executed",
    "order",
    "parallel",
    "scheme",
]
