"""Graphs of torch: a model's backward pass, and traced programs with collectives in them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

torch = pytest.importorskip("torch")

import torch.distributed as dist  # noqa: E402
from torch import nn  # noqa: E402
from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402
from torch.testing._internal.distributed.fake_pg import FakeStore  # noqa: E402

from paceline.order import Graph, executed, order, scheme  # noqa: E402
from paceline.order.adapters import autograd, fx  # noqa: E402
from paceline_bench.ranks.models import NETWORKS  # noqa: E402


def names(graph: Graph) -> list[str]:
    return [graph.collectives[node].name for node in order(graph).nodes]


def test_a_models_gradients_come_backwards() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2, dtype=torch.float32))
    graph = autograd.graph(model(torch.randn(5, 3)).sum(), model.named_parameters())
    found = names(graph)
    assert set(found[:2]) == {"2.weight", "2.bias"} and set(found[2:]) == {"0.weight", "0.bias"}
    sizes = {one.name: (one.nbytes, one.dtype, one.op, one.kind) for one in graph.collectives.values()}
    assert sizes["0.weight"] == (48, "float32", "sum", "all_reduce") and sizes["2.bias"][0] == 8


def test_the_order_is_one_in_which_autograd_may_run() -> None:
    """Whatever depends on more than another comes later: gradients on the way arrive in that order, too."""
    model = NETWORKS["ResNet-18"]()
    arrived: list[str] = []
    for name, parameter in model.named_parameters():
        parameter.register_post_accumulate_grad_hook(lambda _, name=name: arrived.append(name))
    loss = model(torch.randn(2, 3, 32, 32)).sum()
    found = names(autograd.graph(loss, model.named_parameters()))
    loss.backward()
    assert sorted(found) == sorted(arrived)
    assert {*found[:2]} == {*arrived[:2]} and found[-1].split(".")[0] == arrived[-1].split(".")[0] == "0"
    place = {name: index for index, name in enumerate(arrived)}
    late = [abs(place[name] - index) for index, name in enumerate(found)]
    assert max(late) <= 6, "a residual block's parallel ways and a layer's two or three parameters"


def test_parameters_that_share_or_miss_the_graph() -> None:
    used, unused = nn.Linear(2, 2), nn.Linear(2, 2)
    twice = used(used(torch.randn(1, 2)))
    model = nn.ModuleDict({"used": used, "unused": unused})
    found = autograd.graph([twice, twice.sum()], model.named_parameters())
    assert sorted(names(found)) == ["used.bias", "used.weight"]
    with pytest.raises(ValueError, match="none of the outputs has a grad_fn"):
        autograd.graph(torch.zeros(1), model.named_parameters())


def test_names_as_requests_have_them() -> None:
    model = nn.Linear(2, 2, bias=False)
    found = autograd.model_scheme(model, model(torch.ones(1, 2)), prefix="allreduce.")
    assert found.buffers == (("allreduce.weight",),)


def test_a_frozen_parameter_and_a_scheme_in_small_buffers() -> None:
    model = nn.Sequential(*(nn.Linear(8, 8, bias=False) for _ in range(6)))
    model[0].weight.requires_grad_(False)
    found = autograd.model_scheme(model, model(torch.randn(1, 8)), fusion_bytes=512)
    assert found.buffers == (("5.weight", "4.weight"), ("3.weight", "2.weight"), ("1.weight",))


def test_resnet_50_without_weights() -> None:
    with torch.device("meta"):
        model = NETWORKS["ResNet-50"]()
        graph = autograd.graph(model(torch.empty(1, 3, 224, 224)), model.named_parameters())
    assert len(order(graph).nodes) == 161
    nodes, edges = executed(graph, order(graph))
    assert nodes == len(graph.nodes) and edges == len(graph.edges)
    assert sum(scheme(graph, order(graph)).nbytes) == 4 * 25_557_032


def test_a_very_deep_network() -> None:
    weight = torch.ones(1, requires_grad=True)
    value = weight * 1
    for _ in range(30_000):
        value = value + 1
    assert names(autograd.graph(value, [("w", weight)])) == ["w"]


@pytest.fixture(scope="module")
def group() -> Iterator[None]:
    dist.init_process_group("fake", rank=0, world_size=2, store=FakeStore())
    yield
    dist.destroy_process_group()


@pytest.mark.usefixtures("group")
class TestTraced:
    def test_functional_collectives(self) -> None:
        def program(one: torch.Tensor, two: torch.Tensor) -> torch.Tensor:
            parts = torch.ops._c10d_functional
            first = parts.wait_tensor(parts.all_reduce(one, "sum", "0"))
            second = parts.wait_tensor(parts.all_reduce(two.half(), "avg", "0"))
            gathered = parts.wait_tensor(parts.all_gather_into_tensor(first * 2, 2, "0"))
            return parts.wait_tensor(parts.reduce_scatter_tensor(gathered, "max", 2, "0")) + second.float().sum()

        graph = fx.graph(make_fx(program)(torch.randn(4, 4), torch.randn(3)))
        found = {one.name: one for one in graph.collectives.values()}
        shown = {name: (one.kind, one.nbytes, one.dtype, one.op) for name, one in found.items()}
        assert shown == {
            "all_reduce": ("all_reduce", 64, "float32", "sum"),
            "all_reduce_1": ("all_reduce", 6, "float16", "avg"),
            "all_gather_into_tensor": ("all_gather", 64, "float32", ""),
            "reduce_scatter_tensor": ("reduce_scatter", 128, "float32", "max"),
        }
        assert len(scheme(graph, order(graph)).buffers) == 4

    def test_collectives_between_waits_are_fused(self) -> None:
        def program(one: torch.Tensor) -> torch.Tensor:
            parts = torch.ops._c10d_functional
            first, second = parts.all_reduce(one, "sum", "0"), parts.all_reduce(one * 2, "sum", "0")
            done = parts.wait_tensor(first)
            third = parts.all_reduce(one * 3, "sum", "0")
            return done + parts.wait_tensor(second) + parts.wait_tensor(third)

        graph = fx.graph(make_fx(program)(torch.randn(4)))
        assert scheme(graph, order(graph)).buffers == (("all_reduce", "all_reduce_1"), ("all_reduce_2",))

    def test_what_is_written_in_place_is_needed(self) -> None:
        def program(one: torch.Tensor) -> torch.Tensor:
            parts = torch.ops._c10d_functional
            parts.all_reduce_(one, "sum", "0")
            second = parts.all_reduce(one.view(2, 2)[0] * 2, "sum", "0")
            return parts.wait_tensor(second).sum() + parts.wait_tensor(one)

        graph = fx.graph(make_fx(program)(torch.randn(4)))
        assert [len(buffer) for buffer in scheme(graph, order(graph)).buffers] == [1, 1]

    def test_an_exported_program(self) -> None:
        class Reduced(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.linear = nn.Linear(3, 3)

            def forward(self, images: torch.Tensor) -> torch.Tensor:
                found = self.linear(images)
                dist.all_reduce(found, dist.ReduceOp.MAX)
                return found * 2

        graph = fx.graph(torch.export.export(Reduced(), (torch.randn(2, 3),), strict=False))
        assert [(one.kind, one.nbytes, one.op) for one in graph.collectives.values()] == [("all_reduce", 24, "max")]

    def test_calls_of_torch_distributed_wait_themselves(self) -> None:
        def program(one: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            other, whole = one * 2, torch.empty(8)
            dist.all_reduce(one, dist.ReduceOp.MIN)
            dist.all_reduce(other)
            dist.all_gather_into_tensor(whole, other)
            return one, whole

        graph = fx.graph(make_fx(program)(torch.randn(4)))
        found = [(one.kind, one.nbytes, one.op) for one in graph.collectives.values()]
        assert found == [("all_reduce", 16, ""), ("all_reduce", 16, ""), ("all_gather", 16, "")]
        assert [len(buffer) for buffer in scheme(graph, order(graph)).buffers] == [1, 1, 1]

    def test_sync_batch_norm(self) -> None:
        model = nn.Sequential(nn.Linear(3, 5), nn.SyncBatchNorm(5), nn.ReLU(), nn.SyncBatchNorm(5, affine=False))
        graph = fx.graph(torch.fx.symbolic_trace(model))
        assert [(one.kind, one.nbytes) for one in graph.collectives.values()] == [("all_gather", 44)] * 2
        assert names(graph) == ["_1", "_3"]

    def test_horovods_sync_batch_norm_that_is_not_traced_into(self) -> None:
        import paceline.horovod.torch as hvd

        class Tracer(torch.fx.Tracer):
            def is_leaf_module(self, module: nn.Module, name: str) -> bool:
                return isinstance(module, hvd.SyncBatchNorm) or super().is_leaf_module(module, name)

        model = nn.Sequential(nn.Linear(3, 5), hvd.SyncBatchNorm(5), nn.BatchNorm1d(5))
        graph = fx.graph(torch.fx.GraphModule(model, Tracer().trace(model)))
        assert [(one.name, one.kind, one.nbytes) for one in graph.collectives.values()] == [("_1", "all_gather", 44)]
