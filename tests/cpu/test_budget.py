"""CPUs from affinity and cgroup files, as several kernels and container runtimes show them."""

from __future__ import annotations

import os

import pytest

from paceline.calibration.cpu import SPIN_US
from paceline.cpu import budget

V1_MOUNT = "32 31 0:29 {root} /sys/fs/cgroup/cpu rw,relatime shared:5 - cgroup cgroup rw,cpu,cpuacct\n"
V2_MOUNT = "30 23 0:26 {root} /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"


def quota(files: dict[str, str]) -> float | None:
    found = budget.cgroup_quota(files.get)
    return None if found is None else found[0]


def test_available_here() -> None:
    found = budget.available()
    assert set(found.affinity) == os.sched_getaffinity(0)
    assert 0 < found.cpus <= len(found.affinity)
    assert found.reason


def test_no_cgroup_files_means_no_quota() -> None:
    assert quota({}) is None


@pytest.mark.parametrize(
    ("text", "cpus"),
    [
        ("max 100000", None),
        ("200000 100000\n", 2.0),
        ("50000 100000", 0.5),
        ("", None),
        ("x y", None),
        ("1 0", None),
    ],
)
def test_cpu_max(text: str, cpus: float | None) -> None:
    assert budget.quota_v2(text) == cpus


def test_v2_takes_the_lowest_on_the_way_up() -> None:
    files = {
        "/proc/self/cgroup": "0::/user.slice/job\n",
        "/proc/self/mountinfo": V2_MOUNT.format(root="/"),
        "/sys/fs/cgroup/user.slice/job/cpu.max": "max 100000\n",
        "/sys/fs/cgroup/user.slice/cpu.max": "300000 100000\n",
        "/sys/fs/cgroup/cpu.max": "800000 100000\n",
    }
    assert quota(files) == 3.0


def test_v2_in_a_container_with_its_own_namespace() -> None:
    files = {
        "/proc/self/cgroup": "0::/\n",
        "/proc/self/mountinfo": V2_MOUNT.format(root="/"),
        "/sys/fs/cgroup/cpu.max": "150000 100000\n",
    }
    assert quota(files) == 1.5


def test_v1_in_a_container_that_sees_the_hosts_path() -> None:
    files = {
        "/proc/self/cgroup": "4:cpu,cpuacct:/docker/abc\n1:name=systemd:/docker/abc\n",
        "/proc/self/mountinfo": V1_MOUNT.format(root="/docker/abc"),
        "/sys/fs/cgroup/cpu/cpu.cfs_quota_us": "200000\n",
        "/sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
    }
    assert quota(files) == 2.0
    assert quota({**files, "/sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n"}) is None


def test_a_path_outside_the_mount_falls_back_to_the_mount_point() -> None:
    files = {
        "/proc/self/cgroup": "0::/../../outside\n",
        "/proc/self/mountinfo": V2_MOUNT.format(root="/kubepods/pod1"),
        "/sys/fs/cgroup/cpu.max": "100000 100000\n",
    }
    assert quota(files) == 1.0


GROUPED = {"/proc/sys/kernel/sched_autogroup_enabled": "1\n"}
V2_FILES = {"/proc/self/cgroup": "0::/user/job\n", "/proc/self/mountinfo": V2_MOUNT.format(root="/")}
V1_FILES = {"/proc/self/cgroup": "4:cpu:/\n", "/proc/self/mountinfo": V1_MOUNT.format(root="/")}


@pytest.mark.parametrize(
    ("files", "grouped"),
    [
        ({}, False),
        ({"/proc/sys/kernel/sched_autogroup_enabled": "0\n"}, False),
        (GROUPED, True),
        ({**GROUPED, **V2_FILES}, True),
        ({**GROUPED, **V2_FILES, "/sys/fs/cgroup/user/job/cpu.weight": "100\n"}, False),
        ({**GROUPED, **V2_FILES, "/sys/fs/cgroup/user/cpu.weight": "100\n"}, False),
        ({**GROUPED, **V1_FILES, "/sys/fs/cgroup/cpu/release_agent": "\n"}, True),
        ({**GROUPED, **V1_FILES}, False),
    ],
)
def test_sessions_are_grouped_outside_of_cgroups_for_the_cpu(files: dict[str, str], grouped: bool) -> None:
    assert budget.sessions_are_grouped(files.get) == grouped


def test_the_smaller_limit_counts() -> None:
    assert budget.budget([0, 1, 2, 3], None).cpus == 4
    assert budget.budget([0, 1, 2, 3], 2.5).cpus == 2.5
    assert "quota.file" in budget.budget([0, 1, 2, 3], 2.5, "quota.file").reason
    assert budget.budget([0, 1], 8.0).cpus == 2


def test_ranks_with_a_cpu_each_spin() -> None:
    four = budget.budget(range(4), None)
    assert budget.spin_budget(four, [frozenset(range(4))] * 3).microseconds == SPIN_US
    assert budget.spin_budget(four, [frozenset(range(4))] * 4).microseconds == 0


def test_bound_ranks_only_share_with_those_on_the_same_cpus() -> None:
    bound = budget.budget([2], None)
    assert budget.spin_budget(bound, [frozenset({0}), frozenset({1})]).microseconds == SPIN_US
    assert budget.spin_budget(bound, [frozenset({2})]).microseconds == 0


def test_a_quota_limits_all_ranks_together() -> None:
    capped = budget.budget(range(64), 2.0)
    assert budget.spin_budget(capped, [frozenset(range(64))]).microseconds == SPIN_US
    assert budget.spin_budget(capped, [frozenset(range(64))] * 3).microseconds == 0


def test_every_cpu_is_home_to_as_many_ranks() -> None:
    alike = [frozenset({2, 5, 7})] * 6
    homes = [budget.preferred_cpu(budget.budget(cpus, None), alike, place) for place, cpus in enumerate(alike)]
    assert sorted(cpu for cpu in homes if cpu is not None) == [2, 2, 5, 5, 7, 7]


def test_ranks_with_a_cpu_each_have_no_home() -> None:
    assert budget.preferred_cpu(budget.budget({0, 1}, None), [frozenset({0, 1})] * 2, 1) is None


def test_ranks_on_other_cpus_do_not_count() -> None:
    ranks = [frozenset({0, 1}), frozenset({2, 3}), frozenset({2, 3}), frozenset({2, 3})]
    assert budget.preferred_cpu(budget.budget(ranks[0], None), ranks, 0) is None
    assert [budget.preferred_cpu(budget.budget(ranks[place], None), ranks, place) for place in (1, 2, 3)] == [2, 3, 2]


def test_the_user_decides() -> None:
    assert budget.spin_budget(budget.budget([0], None), [frozenset({0})], 7.0) == budget.SpinBudget(
        7.0, "PACELINE_SPIN_US"
    )
