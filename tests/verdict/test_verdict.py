"""The verdict names what limits a job, with numbers that add up."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from statistics import fmean

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from recorded import TWO, report, without_network, without_profiles

from paceline.observe.annotations import Annotations
from paceline.observe.figures import Figures
from paceline.observe.networks import Network
from paceline.observe.report import Report, make
from paceline.report.verdict.of_report import verdict
from paceline.report.verdict.parts import parts, rank_steps, window
from paceline.report.verdict.running import STEPS, WARM_UP, RunningVerdict
from paceline.report.verdict.slow import COMPUTES, EXCHANGES, INPUT, slow
from paceline.report.verdict.verdict import (
    COMPUTATION,
    COST_MODEL,
    EXPOSED,
    LAST_RANK,
    MEASURED,
    NEGOTIATION,
    TRANSFER,
    Evidence,
    Gain,
    judge,
)  # fmt: skip
from paceline.simulate.recording import recording
from paceline.topology import dump, parse

SIZES = (4 << 20, 1 << 20, 2 << 20)


def even(seconds: float, steps: int = 10) -> list[list[float]]:
    return [[seconds] * 4 for _ in range(steps)]


@pytest.mark.parametrize("named", [False, True])
def test_a_slow_network_is_to_blame_and_a_codec_helps(named: bool) -> None:
    found = verdict(report(SIZES, even(0.01), named=named), "run.json")
    assert found.bound == TRANSFER
    assert found.headline.startswith("network-bound: 92 % of the step waits for the link of alpha; codec bf16")
    evidence = found.evidence
    assert evidence is not None
    assert evidence.step == pytest.approx(0.0100 + evidence.share(TRANSFER) * evidence.step, rel=0.01)
    assert evidence.actual == pytest.approx(evidence.ideal, rel=0.02), "the report was made by the model of the network"
    (bf16,) = (gain for gain in found.gains if gain.change == "codec bf16 between machines")
    assert 1.7 < bf16.factor < 2.0, "it halves the bytes, and 8 % of the step is computation"


@pytest.mark.parametrize("named", [False, True])
def test_a_late_rank_is_named_with_what_it_costs(named: bool) -> None:
    computes = [[0.1, 0.1, 0.4, 0.1] for _ in range(10)]
    found = verdict(report(SIZES, computes, named=named), "run.json")
    assert found.bound == LAST_RANK
    assert found.headline == (
        "straggler-bound: rank 2 on beta computes 400 ms a step, the others 100 ms, 8 % waits for the link of alpha; "
        "rank 2 coming with the others would give up to 3.24×."
    ), "434 ms less 300 ms"
    assert "52 % of the step waits for the last rank, mostly rank 2 on beta." in found.details
    evidence = found.evidence
    assert evidence is not None
    latest = evidence.latest
    assert latest is not None
    assert (latest.rank, latest.share, latest.held_up) == (2, 1.0, pytest.approx(0.3, abs=1e-3))
    assert latest.seconds == pytest.approx(0.2, abs=1e-3), "its three calls come 100, 200 and 300 ms late"
    assert latest.sentence in found.details


def test_a_slow_rank_is_the_news_also_where_most_of_the_step_is_computation() -> None:
    found = verdict(without_network(report((1 << 10,), [[0.134, 0.134, 0.207, 0.134]] * 10)), "run.json")
    assert found.evidence is not None and found.evidence.share(COMPUTATION) > 0.7
    assert found.bound == LAST_RANK
    assert found.headline == (
        "straggler-bound: rank 2 on beta computes 207 ms a step, the others 134 ms; "
        "rank 2 coming with the others would give up to 1.54×."
    )


def test_a_rank_that_is_a_little_slow_is_not_what_others_wait_for_if_another_comes_late() -> None:
    made = without_network(report((1 << 10,), [[0.4, 0.1, 0.12, 0.1]] * 10))
    late = [replace(rank, rates=replace(rank.rates, data_ms=300.0 * (n == 0))) for n, rank in enumerate(made.ranks)]
    found = verdict(replace(made, ranks=tuple(late)), "run.json")  # rank 0 waits for its batches
    assert found.headline.startswith(
        "straggler-bound: rank 0 on alpha waits 300 ms a step for its input, the others 0 us"
    )
    assert "rank 2" not in found.headline


def test_a_rank_that_is_slow_in_a_few_steps_alone_does_not_compute_longer() -> None:
    computes = [[0.1, 0.1, 0.9 if step == 4 else 0.1, 0.1] for step in range(12)]
    found = verdict(report(SIZES, computes), "run.json")
    assert found.evidence is not None and found.evidence.slow is None
    assert "computes" not in found.headline


def test_two_slow_ranks_of_a_machine_are_named_together() -> None:
    found = verdict(report(SIZES, [[0.1, 0.1, 0.40, 0.41]] * 6 + [[0.1, 0.1, 0.41, 0.40]] * 6), "run.json")
    assert found.headline.startswith("straggler-bound: ranks 2 and 3 on beta compute 405 ms a step, the others 100 ms")
    assert "; ranks 2 and 3 on beta computing like the others would give up to" in found.headline
    assert "mostly" not in found.text


@pytest.mark.parametrize(
    ("computed", "sentence"),
    [
        ([0.1, 0.2], "rank 1 on b computes 200 ms a step, the other 100 ms"),
        ([0.2, 0.1, 0.1], "rank 0 on a computes 200 ms a step, the others 100 ms"),
        ([0.1, 0.1, 0.109], None),
        ([0.1, 0.12, 0.14, 0.16], "ranks 2 and 3 compute 150 ms a step, the others 110 ms"),
        ([0.2] * 4 + [0.1] * 6, "ranks 0, 1, 2 and 1 more compute 200 ms a step, the others 100 ms"),
        ([0.2] * 6 + [0.1] * 4, None),  # most are as slow: these four are quick
        ([0.1], None),
        ([0.0, 0.0], None),
    ],
)
def test_who_computes_longer_than_the_others(computed: list[float], sentence: str | None) -> None:
    found = slow(computed, [(rank, "abcdefghij"[rank]) for rank in range(len(computed))])
    assert (found.sentence if found is not None else None) == sentence


@pytest.mark.parametrize(
    ("by", "one", "two"),
    [
        (INPUT, "rank 1 on b waits 95 ms a step for its input, the others 5 ms", "ranks 0 and 1 on a wait"),
        (EXCHANGES, "rank 1 on b exchanges data for 95 ms a step, the others for 5 ms", "ranks 0 and 1 on a exchange"),
    ],
)
def test_what_ranks_take_longer_for(by: str, one: str, two: str) -> None:
    found = slow([0.005, 0.095, 0.005], [(0, "a"), (1, "b"), (2, "c")], by)
    assert found is not None and found.sentence == one
    both = slow([0.095, 0.095, 0.0, 0.0], [(rank, "a") for rank in range(4)], by)
    assert both is not None and both.sentence.startswith(two)


@pytest.mark.parametrize(("by", "own"), [(COMPUTES, COMPUTATION), (INPUT, "data"), (EXCHANGES, COMPUTATION)])
def test_what_a_late_rank_takes_longer_for_is_the_news_and_a_codec_none(by: str, own: str) -> None:
    """The part that the late rank has more of may be the largest, as the mean over ranks has it."""
    late = slow([0.1, 0.1, 0.3], [(rank, "abc"[rank]) for rank in range(3)], by)
    assert late is not None
    gains = (Gain("codec bf16", 3.0, COST_MODEL, TRANSFER), Gain(late.remedy, 1.4, MEASURED, LAST_RANK))
    parts = {COMPUTATION: 0.05, LAST_RANK: 0.13, TRANSFER: 0.02}
    for largest in (parts, {**parts, own: 0.17}):
        found = judge(replace(evidence(**largest), gains=gains, slow=late))
        assert found.bound == LAST_RANK
        assert found.headline.startswith(f"straggler-bound: {late.sentence}")
        assert found.headline.endswith(f"; {late.remedy} would give up to 1.4×.")
        assert "bf16" not in found.headline


def test_ranks_that_take_turns_are_not_named() -> None:
    computes = [[0.1 + 0.3 * (rank == step % 4) for rank in range(4)] for step in range(13)]
    found = verdict(report(SIZES, computes), "run.json")
    assert found.evidence is not None and found.evidence.latest is None
    assert "mostly" not in found.text


def test_a_job_that_computes_hears_how_little_is_left_to_gain() -> None:
    found = verdict(report(SIZES, even(1.0)), "run.json")
    assert found.bound == COMPUTATION
    assert found.headline.endswith("% of the step goes into computation; without any wait it would be 1.02× as fast.")


def test_the_links_are_those_of_the_newest_network_with_enough_steps() -> None:
    slow = parse(
        "children: [{machine: alpha, ranks: 2, uplink: 50 Mbit/s}, {machine: beta, ranks: 2, uplink: 500 Mbit/s}]"
    )
    whole = report(SIZES, even(0.01, 20))
    profile = whole.ranks[0].figures.profile
    assert profile is not None
    ends = [call.end_ns for call in islice(profile.exchanges, len(SIZES) - 1, None, len(SIZES))]

    def judged(changed_ns: int) -> Evidence:
        known = [Network(0, TWO), Network(changed_ns, slow)]
        now = make([rank.figures for rank in whole.ranks], {}, known)
        assert now.topology == dump(slow), "what the job knew at its end"
        assert now.remarks[0].startswith("Plans were made again once ")
        found = verdict(now, "run.json").evidence
        assert found is not None
        return found

    since = judged(ends[10])
    assert (since.steps, since.links[0].name, since.links[0].up) == (9, "alpha", 50e6 / 8)
    before = judged(ends[16])
    assert (before.steps, {link.up for link in before.links}) == (15, {500e6 / 8})


def test_on_one_machine_there_is_no_link() -> None:
    found = verdict(without_network(report(SIZES, even(0.01))), "run.json")
    assert found.headline.startswith("communication-bound: ")
    assert found.evidence is not None and not found.evidence.links
    assert "too far off to say what would help" in found.text, "memory of 10 GB/s does not explain these exchanges"


def test_exchanges_that_the_memory_does_not_explain_are_not_put_on_it() -> None:
    seen = Evidence(ranks=2, machines=1, steps=10, parts={TRANSFER: 0.02, COMPUTATION: 0.01}, nbytes=4096)
    slow = judge(replace(seen, ideal=1e-4, actual=2e-2)).headline
    assert slow.startswith("communication-bound: 67 % of the step waits for exchanges that take 200 times as long")
    assert judge(replace(seen, ideal=1e-2, actual=2e-2)).headline.startswith("memory-bound: ")


def test_no_codec_is_offered_to_a_job_that_has_one() -> None:
    whole = report(SIZES, even(0.01))
    ranks = tuple(
        replace(rank, figures=replace(rank.figures, profile=replace(rank.figures.profile, codec="bf16")))  # type: ignore[type-var]
        for rank in whole.ranks
    )
    found = verdict(replace(whole, ranks=ranks), "run.json")
    assert found.gains and not [gain for gain in found.gains if "codec" in gain.change]


@pytest.mark.parametrize(
    ("broken", "why"),
    [
        (without_profiles(report(SIZES, even(0.1))), "run.json does not say when ranks made their calls"),
        (replace(report(SIZES, even(0.1)), missing={3: "it died"}), "rank 3 gave no figures (it died)"),
        (make([], {}), "does not say when ranks made their calls"),
    ],
)
def test_what_cannot_be_judged_is_said_in_a_sentence(broken: Report, why: str) -> None:
    found = verdict(broken, "run.json")
    assert found.headline.startswith("no verdict: ") and why in found.headline
    assert (found.bound, found.gains, found.evidence) == ("", (), None)


computing = st.lists(st.lists(st.floats(0.01, 0.5), min_size=4, max_size=4), min_size=6, max_size=9)


@settings(max_examples=20)
@given(computing, st.booleans(), st.floats(-100, 100))
def test_the_moments_of_a_step_are_in_order_and_its_parts_add_up(
    computes: list[list[float]], named: bool, ahead: float
) -> None:
    whole = report(SIZES, computes, named=named, ahead=ahead)
    steps = rank_steps(recording(whole, "run.json"))
    for rank in steps:
        for one in rank:
            assert one.begin - 1e-6 <= one.sent <= one.ready <= one.all_ready <= one.end
            assert -1e-9 <= one.negotiation <= one.end - one.all_ready + 1e-9
            assert -1e-9 <= one.early_last <= one.early + 1e-9
    waited = [fmean(one.end - one.ready for one in rank) for rank in steps]
    found, blocking = parts(steps, waited, 0.001)
    assert not blocking
    assert found.step == pytest.approx(fmean(one.end - one.begin for rank in steps for one in rank))
    assert found.computation + found.data == pytest.approx(
        fmean(one.ready - one.begin for rank in steps for one in rank)
    )
    assert 0 < window(steps) <= 1


def test_what_a_program_waits_for_in_the_middle_of_its_step_is_no_computation() -> None:
    """Ranks 0, 1 and 3 wait in each of three calls; rank 2 is the one that they wait for."""
    whole = report(SIZES, [[0.1, 0.1, 0.4, 0.1] for _ in range(10)], waits=True)
    steps = rank_steps(recording(whole, "run.json"))
    apart, _ = parts(steps, [fmean(one.end - one.ready for one in rank) for rank in steps], 0.0)
    waiting = [fmean(one.end - one.ready + one.early for one in rank) for rank in steps]
    found, blocking = parts(steps, waiting, 0.0)
    assert blocking
    assert found.step == pytest.approx(apart.step)
    assert found.computation < apart.computation
    assert found.last_rank > apart.last_rank and found.transfer > apart.transfer


def test_who_holds_up_a_program_in_the_middle_of_its_step_is_named() -> None:
    """Rank 2 comes late to the first two calls of each step, and rank 3 a little later than the others to the last."""
    whole = report(SIZES, [[0.1, 0.1, 0.4, 0.1] for _ in range(10)], waits=True)
    ranks = []
    for rank in whole.ranks:
        profile = rank.figures.profile
        assert profile is not None
        late = 1_000_000 if rank.figures.rank == 3 else 0
        exchanges = tuple(
            one._replace(begin_ns=one.end_ns - 2_000_000 + late) if one.sequence % 3 == 2 else one
            for one in profile.exchanges
        )
        figures = replace(rank.figures, profile=replace(profile, exchanges=exchanges))
        ranks.append(replace(rank, figures=figures, rates=replace(rank.rates, exposed_ms=400.0)))
    found = verdict(replace(whole, ranks=tuple(ranks)), "run.json").evidence
    assert found is not None and found.no_gains.startswith("The program waits for each of its calls at once")
    assert found.latest is not None and found.latest.rank == 2
    assert found.latest.held_up == pytest.approx(2 * 0.1, rel=0.01)


def test_a_program_whose_calls_are_under_way_at_once_waits_for_none_of_them_at_once() -> None:
    """DDP waits for its buckets at the end, where as much may be exposed as in a program that waits for each."""
    steps = rank_steps(recording(report(SIZES, [[0.1, 0.1, 0.4, 0.1] for _ in range(10)]), "run.json"))
    assert not parts(steps, [fmean(one.end - one.ready + one.early for one in rank) for rank in steps], 0.0)[1]


def evidence(**parts: float) -> Evidence:
    return Evidence(ranks=4, machines=2, steps=10, parts=parts, nbytes=1e6)


def test_only_changes_that_are_worth_it_are_named_the_free_one_in_the_headline() -> None:
    free = Gain("codec bf16", 1.5, COST_MODEL, TRANSFER)
    gains = (
        Gain("nothing", 1.01, COST_MODEL, TRANSFER),
        free,
        Gain("codec int8", 2.0, COST_MODEL, TRANSFER, "precision"),
    )
    found = judge(replace(evidence(computation=1.0, transfer=2.0), gains=gains))
    assert found.headline.endswith("; codec bf16 would give 1.5×.")
    assert [gain.change for gain in found.gains] == ["codec int8", "codec bf16"]


def test_each_wait_has_its_word() -> None:
    words = {NEGOTIATION: "coordination-bound: ", "data": "input-bound: ", EXPOSED: "communication-bound: "}
    for part, word in words.items():
        assert judge(evidence(**{COMPUTATION: 1.0, part: 3.0})).headline.startswith(f"{word}75 % of the step waits")
    assert judge(evidence()).headline == "no verdict: no step was seen"


class Steady:
    """An observer of a rank that waits for 30 ms in each step of 100 ms, and makes as many steps as a test says."""

    def __init__(self) -> None:
        self.steps = 0
        self.followers: list[object] = []

    def figures(self) -> Figures:
        steps = self.steps
        return Figures(
            0, 4, "alpha", 1, 0, steps * 10**8, operations=steps, bytes=steps << 20, exposed_ns=steps * 3 * 10**7,
            steps=steps, step_ns=10**8,
        )  # fmt: skip

    def follow(self, listener: object) -> None:
        self.followers.append(listener)

    def unfollow(self, listener: object) -> None:
        self.followers.remove(listener)


def test_a_running_job_is_judged_after_its_warm_up() -> None:
    observer = Steady()
    running = RunningVerdict(observer, Annotations(lambda: 0).internal, lambda: TWO, "none")  # type: ignore[arg-type]
    for steps in (0, WARM_UP - 1, WARM_UP, WARM_UP + STEPS - 1):
        observer.steps = steps
        assert running.look() is None
    assert len(observer.followers) == 1
    observer.steps = WARM_UP + STEPS
    found = running.look()
    assert found is not None and not observer.followers
    assert found.headline.startswith(
        "computation-bound: 70 % of the step goes into computation, 30 % waits for other ranks"
    )
    assert "A step takes 100 ms and a rank submits 1.05 MB in it." in found.text
    assert "codec" not in found.text, "the network explains nothing of the waiting"
    assert found.text.endswith(
        "Only rank 0 was looked at: the report at the end (PACELINE_REPORT) says which rank is slow."
    )


def test_a_running_job_is_judged_again() -> None:
    observer = Steady()
    running = RunningVerdict(observer, Annotations(lambda: 0).internal, lambda: TWO, "none")  # type: ignore[arg-type]
    for number in range(6):
        observer.steps += WARM_UP + STEPS
        assert (running.look() is not None) == (number % 2 == 1)
        assert len(observer.followers) == (number % 2 == 0)


@pytest.mark.parametrize(
    ("machines", "ideal", "parts", "said"),
    [
        (2, 0.05, {COMPUTATION: 0.05, EXPOSED: 0.05}, True),
        (2, 0.05, {COMPUTATION: 0.95, EXPOSED: 0.05}, False),
        (2, 0.05, {COMPUTATION: 0.2, EXPOSED: 0.8}, False),  # that may be for other ranks
        (2, None, {COMPUTATION: 0.05, EXPOSED: 0.05}, False),  # nobody knows the network
        (1, 0.05, {COMPUTATION: 0.05, EXPOSED: 0.05}, False),
        (2, 0.05, {COMPUTATION: 0.8, TRANSFER: 0.2}, True),
        (2, 0.05, {COMPUTATION: 0.5, LAST_RANK: 0.45, TRANSFER: 0.05}, False),
        (2, 0.05, {}, False),
    ],
)
def test_a_wait_for_the_network_is_told_from_others(
    machines: int, ideal: float | None, parts: dict[str, float], said: bool
) -> None:
    known = Evidence(ranks=4, machines=machines, steps=20, parts=parts, nbytes=1e6, ideal=ideal)
    assert judge(known).waits_for_network is said
