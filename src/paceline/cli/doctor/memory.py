"""Memory: whether ranks can read each other's memory, how they combine data in it, and the limits that matter."""

import contextlib
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from paceline.cli.doctor.finding import Environment, Finding
from paceline.formats.sizes import show_bytes, show_seconds
from paceline.launch.local import LocalJob

_PROBE = [sys.executable, "-m", "paceline.cli.doctor.probe"]
_PROBE_SECONDS = 20.0
"""Seconds that the reading process may take."""
_TRIAL = [sys.executable, "-m", "paceline.cli.doctor.trial"]
_TRIAL_SECONDS = 40.0
"""Seconds that the trial of two ranks may take."""


def cross_process_reads(here: Environment) -> Finding:
    """Report whether two sibling processes can read each other's memory, by trying it."""
    topic = "cross-process reads"
    yama = _text("/proc/sys/kernel/yama/ptrace_scope")
    scope = f"ptrace_scope {yama}" if yama else "no Yama"
    if siblings_can_read():
        return Finding(
            topic,
            "work",
            f"tried between two processes ({scope}); ranks read large messages directly from the sender's memory",
        )
    advice = "allow ptrace between processes of one user: "
    advice += "set kernel.yama.ptrace_scope to 1 or 0" if yama in ("2", "3") else "docker run --cap-add=SYS_PTRACE"
    reason = f"tried between two processes ({scope}); large messages are copied instead"
    return Finding(topic, "refused", reason, advice)


def siblings_can_read() -> bool:
    """Start two processes and return whether one can read the other's memory.

    Raises RuntimeError if one of them fails.
    """
    with contextlib.ExitStack() as stack:
        holder = stack.enter_context(
            subprocess.Popen([*_PROBE, "hold"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        )
        stack.callback(holder.kill)
        if holder.stdout is None:
            return False
        where = holder.stdout.readline().split()
        if len(where) != 2:
            raise RuntimeError("the process whose memory is to be read did not start")
        reader = subprocess.run([*_PROBE, "read", *where], capture_output=True, text=True, timeout=_PROBE_SECONDS)
        if reader.returncode != 0:
            raise RuntimeError(f"the reading process failed: {reader.stderr.strip()[-200:]}")
        return reader.stdout.strip() == "yes"


def blocks(here: Environment) -> Finding:
    """Report the block sizes in which ranks of one machine combine large arrays."""
    from paceline import _engine

    found = _engine.cache_blocks()
    value = f"{show_bytes(found['block'])} handed over at once, combined in passes of {show_bytes(found['pass'])}"
    reason = f"they fit the caches of a core, {show_bytes(found['first'])} and {show_bytes(found['second'])}"
    return Finding("blocks", value, reason)


def large_arrays(here: Environment) -> Finding:
    """Report by which method and in which blocks two ranks combine large arrays of ordinary memory, by trying it."""
    found = _tried(here.environ)
    used, gained = [], []
    for size, _, best, tried in found["ways"]:
        way, block, cost = tried[best]
        used.append(f"{show_bytes(size)} {way} by {show_bytes(block)}")
        if best:
            gained.append(f"{show_bytes(size)} {1 - cost / tried[0][2]:.0%}")
    than = (
        f"faster than the cache-sized default: {', '.join(gained)}"
        if gained
        else "nothing beats the cache-sized default"
    )
    reason = f"tried by two ranks in {show_seconds(found['seconds'])}, as a job's ranks do in their first calls; {than}"
    return Finding("large arrays", "; ".join(used), reason)


def _tried(environ: Mapping[str, str]) -> dict[str, Any]:
    plain = {name: value for name, value in environ.items() if not name.startswith("PACELINE_")}
    with tempfile.TemporaryDirectory(prefix="paceline-doctor-") as folder:
        with LocalJob(2, _TRIAL, plain, threads=1, output=Path(folder)) as job:
            code = job.wait(timeout=_TRIAL_SECONDS)
        if code != 0:
            errors = (Path(folder) / "rank-0.err").read_text(errors="replace").strip().splitlines()
            raise RuntimeError(f"the trial of two ranks failed: {errors[-1] if errors else job.failed}")
        found: dict[str, Any] = json.loads((Path(folder) / "rank-0.out").read_text())
    return found


def locked_memory(here: Environment) -> Finding:
    """Report RLIMIT_MEMLOCK."""
    soft, hard = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    value = f"{_limit(soft)} (hard limit {_limit(hard)})"
    return Finding("locked memory", value, "neither shm nor tcp locks memory; RDMA devices would")


def dev_shm(here: Environment) -> Finding:
    """Report the size of /dev/shm, which other systems need."""
    try:
        value = show_bytes(shutil.disk_usage("/dev/shm").total)
    except OSError:
        value = "none"
    reason = "not needed: shared memory is anonymous (memfd), so this size is no limit and nothing is left behind"
    return Finding("/dev/shm", value, reason)


def memory(here: Environment) -> Finding:
    """Report the memory that is free now, the machine's or the container's."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    fields = dict(line.split(":", 1) for line in _text("/proc/meminfo").splitlines() if ":" in line)
    free = int(fields.get("MemAvailable", "0 kB").split()[0]) * 1024
    return Finding("memory", f"{show_bytes(free)} available of {show_bytes(total)}", "/proc/meminfo")


def huge_pages(here: Environment) -> Finding:
    """Report transparent huge pages, for ordinary memory and, by trying it, for arrays of `paceline.empty`."""
    ordinary = _chosen(_text("/sys/kernel/mm/transparent_hugepage/enabled"))
    shared = _chosen(_text("/sys/kernel/mm/transparent_hugepage/shmem_enabled"))
    if not ordinary:
        return Finding("huge pages", "not available", "this kernel has no transparent huge pages")
    got = shared_array_has_huge_pages()
    advice = ""
    if ordinary == "never":
        advice = "large buffers are faster with them: echo madvise > /sys/kernel/mm/transparent_hugepage/enabled"
    elif not got and shared in ("never", "deny"):
        advice = "large arrays of paceline.empty can have them: "
        advice += "echo advise > /sys/kernel/mm/transparent_hugepage/shmem_enabled"
    return Finding(
        "huge pages",
        f"{ordinary}, for shared memory {shared or 'unknown'}; paceline.empty {'gets' if got else 'does not get'} them",
        "transparent huge pages, tried with a shared array of 2 MiB",
        advice,
    )


def shared_array_has_huge_pages() -> bool:
    """Return whether 2 MiB allocated in an arena and touched are mapped by huge pages."""
    from paceline import _engine

    arena = _engine.Arena()
    before = _huge_shared()
    array = arena.allocate(2 << 20)
    memoryview(array)[0] = 1
    return _huge_shared() > before


def _huge_shared() -> int:
    """Return the KiB of shared memory that this process has mapped by huge pages."""
    lines = _text("/proc/self/smaps_rollup").splitlines()
    return next((int(line.split()[1]) for line in lines if line.startswith("ShmemPmdMapped:")), 0)


def _text(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""


def _chosen(text: str) -> str:
    """Return the word in brackets in a text such as "always [madvise] never"."""
    return text.partition("[")[2].partition("]")[0]


def _limit(count: int) -> str:
    return "unlimited" if count == resource.RLIM_INFINITY else show_bytes(count)
