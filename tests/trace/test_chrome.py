"""The Chrome trace: what Perfetto needs, nothing overlapping that should not."""

import json
import re
from pathlib import Path

from event_rows import dumps_of, row

from paceline.observe.trace import chrome


def slices(path: Path) -> list[dict[str, object]]:
    return [record for record in json.loads(path.read_text())["traceEvents"] if record["ph"] == "X"]


def test_an_operation_is_a_queue_phase_and_a_slice(tmp_path: Path) -> None:
    dumps = dumps_of([row(1, 5, 0, enqueue_ns=1000, start_ns=3000, end_ns=9000)])
    assert chrome.write(dumps, tmp_path / "t.json") == 1
    queue, operation = slices(tmp_path / "t.json")
    assert (queue["name"], queue["ts"], queue["dur"]) == ("queue", 0.0, 2.0)
    assert (operation["name"], operation["ts"], operation["dur"]) == ("all_reduce", 2.0, 6.0)
    assert operation["args"] == {
        "id": 1, "sequence": 0, "bytes": 4096, "dtype": "float32", "op": "SUM", "algorithm": "ring", "link": "shm",
        "state": "done",
    }  # fmt: skip


def test_a_process_per_rank_and_a_row_per_group(tmp_path: Path) -> None:
    ours = [row(1, 5, 0, enqueue_ns=10), row(2, 6, 0, enqueue_ns=20)]
    chrome.write(dumps_of(ours, ours), tmp_path / "t.json")
    records = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    names = {r["pid"]: r["args"]["name"] for r in records if r["name"] == "process_name"}
    assert names == {0: "rank 0 (host pid 100)", 1: "rank 1 (host pid 101)"}
    rows = {r["args"]["name"]: r["tid"] for r in records if r["name"] == "thread_name"}
    assert set(rows) == {"group 0", "group 0: queue", "group 1", "group 1: queue"}
    assert len(set(rows.values())) == 4
    assert {r["tid"] for r in records if r["name"] == "all_reduce"} == {rows["group 0"], rows["group 1"]}


def test_an_unfinished_operation_lasts_until_the_dump(tmp_path: Path) -> None:
    dumps = dumps_of([row(1, 5, 0, enqueue_ns=0, start_ns=1000, end_ns=0, state="running")], written_ns=5000)
    chrome.write(dumps, tmp_path / "t.json")
    operation = slices(tmp_path / "t.json")[-1]
    assert (operation["ts"], operation["dur"]) == (1.0, 4.0)
    assert operation["cname"] == "bad"


def test_an_operation_that_never_started_only_queues(tmp_path: Path) -> None:
    dumps = dumps_of([row(1, 5, 0, enqueue_ns=0, start_ns=0, end_ns=0, state="running")], written_ns=5000)
    chrome.write(dumps, tmp_path / "t.json")
    assert [(s["name"], s["dur"]) for s in slices(tmp_path / "t.json")] == [("queue", 5.0)]


def test_no_negative_durations_when_the_clock_steps_back(tmp_path: Path) -> None:
    dumps = dumps_of([row(1, 5, 0, enqueue_ns=9000, start_ns=8000, end_ns=7000)])
    chrome.write(dumps, tmp_path / "t.json")
    assert all(float(str(s["dur"])) >= 0 for s in slices(tmp_path / "t.json"))


def test_a_trace_for_each_rank_says_which_and_keeps_the_common_clock(tmp_path: Path) -> None:
    dumps = dumps_of([row(1, 5, 0, enqueue_ns=1000)], [row(1, 5, 0, enqueue_ns=4000)])
    chrome.write(dumps, tmp_path / "all.json")
    files = chrome.write_each(dumps, tmp_path / "each")
    assert [file.name for file in files] == ["rank-00000.json", "rank-00001.json"]
    contents = [json.loads(file.read_text()) for file in files]
    # HTA finds the rank by this pattern, in the first line that has it
    assert [re.search(r'"rank":\s+(\d+)', file.read_text())[1] for file in files] == ["0", "1"]  # type: ignore[index]
    assert [one["distributedInfo"]["rank"] for one in contents] == [0, 1]
    assert {one["distributedInfo"]["backend"] for one in contents} == {"paceline"}
    assert [one for file in files for one in slices(file)] == slices(tmp_path / "all.json")
