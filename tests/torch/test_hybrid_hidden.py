"""What tracing can't see is done as the whole model does it, or refused: gradients, buffers and results in float64."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any
from unittest.mock import patch

import hybrid_hidden as hidden
import pytest
import torch
from test_hybrid import relative, some_cuts, some_segments
from torch import Tensor, nn
from torch_ranks import Ranks

import paceline.torch
from paceline.torch.compat import PIPELINES, torch_version
from paceline.torch.partitioned.budget import Activations
from paceline.torch.partitioned.effects import effects
from paceline.torch.partitioned.errors import HybridError
from paceline.torch.partitioned.predicted import memory as needed
from paceline.torch.partitioned.predicted import predict as partitioned
from paceline.torch.partitioned.proof import proved
from paceline.torch.partitioned.random_state import seeds
from paceline.torch.partitioned.structure import leaves

pytestmark = pytest.mark.skipif(torch_version() < PIPELINES, reason="torch's pipelines are too old")

SAMPLES, MICROBATCHES = 12, 4
Make = Callable[[], nn.Module]


def loss(output: Any, target: Tensor) -> Tensor:
    parts = [one.reshape(-1, hidden.WIDTH) for one in leaves(output) if isinstance(one, Tensor)]
    return torch.stack([(one - target.mean()).square().mean() for one in parts]).sum()


def divided(
    model: nn.Module, example: Tensor, activations: Activations = "keep", room: float = 0.0, ends: Sequence[int] = ()
) -> Any:
    with (
        patch.object(partitioned, "cut", (lambda *_: list(ends)) if ends else some_cuts),
        patch.object(needed, "_segments", partial(some_segments, room)),
    ):
        return paceline.torch.hybrid(
            model, example, loss, partitions=2, microbatches=MICROBATCHES, activations=activations
        )


def serial_step(model: nn.Module, batch: Tensor, target: Tensor) -> float:
    total = 0.0
    for part, seed in enumerate(seeds(MICROBATCHES).tolist()):
        torch.manual_seed(seed)
        some, aim = (one.tensor_split(MICROBATCHES)[part] for one in (batch, target))
        value = loss(model(some), aim) * (len(some) / len(batch))
        value.backward()
        total += value.item()
    return total


def check_equal(
    make: Make, activations: Activations, before: bool = True, during: bool = True, ends: Sequence[int] = ()
) -> None:
    """before, during: whether the model is in training when it is submitted, and in its steps. ends: of the stages."""
    torch.manual_seed(0)
    model = make().double().train(before)
    serial = copy.deepcopy(model).train(during)
    batch, target = (torch.randn(SAMPLES, hidden.WIDTH, dtype=torch.float64) for _ in range(2))
    hybrid = divided(model, batch, activations, ends=ends)
    hybrid.train(during)
    name = f"{model} {activations} {hybrid.cuts}"
    for step in range(2):
        hybrid.zero_grad()
        serial.zero_grad()
        torch.manual_seed(step)
        some, aim = batch[step:], target[step:]  # the last batch of an epoch is smaller
        found = hybrid.step(some, aim)
        torch.manual_seed(step)
        expected = serial_step(serial, some, aim)
        assert found == pytest.approx(expected, rel=1e-12), name
        for key, parameter in hybrid.named_parameters():
            theirs = serial.get_parameter(key).grad
            assert (parameter.grad is None) == (theirs is None), (name, key)
            if theirs is not None and parameter.grad is not None:
                assert relative(parameter.grad, theirs) <= 1e-12, (name, key)
    state = hybrid.state_dict()
    assert list(state) == list(serial.state_dict())
    for key, value in serial.state_dict().items():
        assert relative(state[key].double(), value.double()) <= 1e-12, (name, key)
    hybrid.eval()
    serial.eval()
    with torch.no_grad():
        ours = hybrid(batch)
        if not any(isinstance(one, (hidden.TorchsDice, hidden.Noise)) for one in serial.modules()):
            theirs = serial(batch)
            assert type(ours) is type(theirs)
            for one, other in zip(leaves(ours), leaves(theirs), strict=True):
                torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)
    hybrid.close()


def check_all(rank: int, size: int, makes: list[Make], activations: Activations) -> None:
    for make in makes:
        check_equal(make, activations)


def check_cuts(rank: int, size: int) -> None:
    for kind, ends in (
        (hidden.ViewChanged, [2, 5]),
        (hidden.TypeRead, [2, 5]),
        (hidden.Turned, [2, 5]),
        (hidden.Leaky, [1, 3]),
        (hidden.Conjugates, [3, 10]),
    ):
        for activations in ("keep", "recompute"):
            check_equal(kind, activations, ends=ends)  # type: ignore[arg-type]


def test_what_crosses_a_certain_cut(ranks: Ranks) -> None:
    """It is changed behind it, has no gradient there, or lies in memory otherwise than usual."""
    ranks(check_cuts, 2)


def test_what_a_trace_does_not_see(ranks: Ranks) -> None:
    makes: list[Make] = [partial(_between, kind) for kind in hidden.INSIDE]
    ranks(check_all, 2, makes=[*makes, *hidden.MODELS], activations="keep")


def test_what_a_trace_does_not_see_is_computed_again(ranks: Ranks) -> None:
    kinds = (hidden.TorchsDice, hidden.Moving, hidden.Rebinding, hidden.Counting, hidden.Penalized, hidden.Hooked)
    makes: list[Make] = [partial(_between, kind) for kind in kinds]
    makes += [hidden.BaseAndView, hidden.SharedNorm, hidden.ReadLater, hidden.Whole]
    ranks(check_all, 2, makes=makes, activations="recompute")


def _between(kind: Make) -> nn.Module:
    return hidden.Between(kind())


def _dropping() -> nn.Module:
    return nn.Sequential(*(nn.Sequential(hidden.layer(), nn.Dropout(0.5)) for _ in range(4)))


def check_modes(rank: int, size: int) -> None:
    for activations in ("keep", "recompute"):
        for before, during in ((False, True), (True, False)):
            check_equal(_dropping, activations, before, during)  # type: ignore[arg-type]


def test_a_model_of_the_other_mode_than_its_steps(ranks: Ranks) -> None:
    """Random numbers are drawn again where activations are computed again, whatever the mode was before."""
    ranks(check_modes, 2)


def proof(model: nn.Module) -> set[str]:
    """The names of the classes that stay whole."""
    whole: set[type[nn.Module]] = set()
    proved(model, [torch.randn(6, hidden.WIDTH)], whole)
    return {kind.__name__ for kind in whole}


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (hidden.Teacher, "itself enables or disables gradients"),
        (hidden.Decorated, "itself enables or disables gradients"),
        (hidden.InAutocast, "itself enters or leaves autocast"),
        (hidden.Branching, "itself calls other modules than its trace"),
        (hidden.PythonsDice, "draws random numbers of Python or NumPy"),
        (hidden.NumpysDice, "draws random numbers of Python or NumPy"),
        (hidden.TorchsDice, "itself draws random numbers that do not depend on its input"),
        (hidden.Noise, "itself draws random numbers that do not depend on its input"),
        (hidden.Counting, "itself sets the attribute calls"),
        (hidden.Rebinding, "itself sets the attribute mean"),
        (hidden.Accumulating, "itself does something else than its trace"),
        (hidden.ListedWeights, "itself computes with parameters that are no attributes"),
    ],
)
def test_what_the_model_itself_hides_is_refused(kind: Make, words: str) -> None:
    with pytest.raises(HybridError, match=rf"the forward of {kind.__name__} {words}") as caught:  # type: ignore[attr-defined]
        proof(kind())
    assert re.search(r"hybrid_hidden\.py:\d+", str(caught.value))


@pytest.mark.parametrize("kind", [hidden.PythonsDice, hidden.NumpysDice])
def test_random_numbers_of_others_than_torch_are_refused_anywhere(kind: Make) -> None:
    with pytest.raises(HybridError, match=rf"the forward of {kind.__name__} draws random .*: draw them with torch"):  # type: ignore[attr-defined]
        proof(hidden.Between(kind()))


def test_only_what_hides_something_stays_whole() -> None:
    whole = {"Teacher", "Decorated", "InAutocast", "Branching", "TorchsDice", "Noise", "Rebinding", "Counting"}
    whole |= {"Accumulating", "ListedWeights", "Penalized", "Positions"}
    for kind in hidden.INSIDE:
        assert proof(hidden.Between(kind())) == whole & {kind.__name__}


def test_only_what_reads_its_mode_stays_whole() -> None:
    assert proof(hidden.TwiceAtFirst()) == {"Twice"}
    with pytest.raises(HybridError, match=r"the forward of Twice itself reads self\.training"):
        proof(hidden.Twice())


def test_hooks_of_the_model_itself_are_refused() -> None:
    model = hidden.Between(nn.ReLU())
    model.register_forward_hook(lambda module, given, result: result * 2)
    with pytest.raises(HybridError, match="Between itself has hooks, which partitions would not call"):
        proof(model)


def test_a_proof_leaves_the_model_as_it_was() -> None:
    model = nn.Sequential(*(hidden.Between(one) for one in (hidden.Counting(), hidden.Moving(), nn.BatchNorm1d(4))))
    state = copy.deepcopy(model.state_dict())
    numbers = torch.get_rng_state()
    proved(model, [torch.ones(6, hidden.WIDTH)], set())
    assert torch.equal(numbers, torch.get_rng_state())
    assert (model[0].inner.calls, model[0].inner.seen) == (0, [])
    assert all(torch.equal(value, state[name]) for name, value in model.state_dict().items())
    assert all(module.training for module in model.modules())


@pytest.mark.parametrize("kind", [hidden.BaseAndView, hidden.SharedNorm, hidden.ReadLater, hidden.FilledLater])
def test_there_is_no_cut_between_what_shares_memory(kind: Make) -> None:
    graph = proved(kind(), [torch.randn(6, hidden.WIDTH)], set())
    found = effects(graph, [torch.randn(6, hidden.WIDTH)]).inseparable
    names = ["start", *graph.names]
    assert {names[place] for place in found} == {
        hidden.BaseAndView: {"flatten", "frozen.0", "frozen.1", "frozen.2"},
        hidden.SharedNorm: {"norm", "layers.1"},
        hidden.ReadLater: {"mul_", "detach", "mean", "add_", "sub", "layers.1", "layers.2"},
        hidden.FilledLater: {"zeros_like", "layers.0", "layers.1", "getitem"},
    }[kind]


@pytest.mark.parametrize("autocast", [False, True])
def test_a_module_that_uses_the_parameters_of_another_is_refused(autocast: bool) -> None:
    """Also a parameter that autocast has cast for the other one already."""
    example = [torch.randn(6, hidden.WIDTH)]
    with (
        torch.autocast("cpu", torch.bfloat16, autocast),
        pytest.raises(HybridError, match=r"last uses the parameter first\.weight, which is none of its module's"),
    ):
        effects(proved(hidden.Borrowed(), example, set()), example)


def check_changes(rank: int, size: int) -> None:
    """What the graph has for good is not changed silently afterwards."""
    example = torch.randn(SAMPLES, hidden.WIDTH)

    def changed(change: Callable[[Any], object], words: str) -> None:
        model = nn.Sequential(hidden.Between(hidden.Scaled()), hidden.RootPositions())
        hybrid = divided(model, example)
        hybrid.step(example, example)
        change(model)
        for use in (lambda: hybrid.step(example, example), lambda: hybrid(example)):
            with pytest.raises(HybridError, match=words):
                use()
        hybrid.close()

    changed(lambda model: setattr(model[0].inner, "scale", 0.25), r"Scaled.scale was 0.5 when the model was divided")
    changed(lambda model: model[0].inner.options.update(shift=2.0), r"Scaled.options was \{'shift': 1.0\} when")
    changed(lambda model: setattr(model[1], "table", torch.ones(hidden.WIDTH)), "1.table is another tensor than when")
    changed(lambda model: model[0].register_forward_hook(print), "Between has got hooks since the model was divided")
    hybrid = divided(nn.Sequential(hidden.layer(), hidden.layer()), example)
    with torch.autocast("cpu", torch.bfloat16), pytest.raises(HybridError, match="without autocast and is now used"):
        hybrid.step(example, example)
    for batch, words in (
        (torch.randn(SAMPLES, 3, hidden.WIDTH), r"shapes of the example's, \[N, 4\], .*: found \[12, 3, 4\]"),
        (example.double(), r"have the dtypes of the example's, .*float32.*: found .*float64"),
    ):
        with pytest.raises(HybridError, match=words):
            hybrid.step(batch, example)
    hybrid.step(example, example)
    hybrid.close()


def test_what_has_changed_since_is_refused(ranks: Ranks) -> None:
    ranks(check_changes, 2)


def check_autocast(rank: int, size: int) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(*(nn.Sequential(hidden.layer(), nn.Softmax(-1)) for _ in range(3)))
    serial = copy.deepcopy(model)
    batch, target = torch.randn(SAMPLES, hidden.WIDTH), torch.randn(SAMPLES, hidden.WIDTH)
    for activations in ("keep", "recompute"):
        with torch.autocast("cpu", torch.bfloat16):
            hybrid = divided(copy.deepcopy(serial), batch, activations)  # type: ignore[arg-type]
            assert "bfloat16" in str(hybrid._known)
            hybrid.step(batch, target)
        serial.zero_grad()
        for some, aim in zip(batch.chunk(MICROBATCHES), target.chunk(MICROBATCHES), strict=True):
            with torch.autocast("cpu", torch.bfloat16):
                value = loss(serial(some), aim) / MICROBATCHES
            value.backward()
        for key, parameter in hybrid.named_parameters():
            assert torch.equal(parameter.grad, serial.get_parameter(key).grad), key
        hybrid.close()


def test_autocast_around_all(ranks: Ranks) -> None:
    ranks(check_autocast, 2)
