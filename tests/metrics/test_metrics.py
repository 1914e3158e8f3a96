"""Metrics go to those who know the token, and nobody can hold the server up."""

from __future__ import annotations

import http.client
import logging
import os
import socket
from collections.abc import Iterator
from dataclasses import replace

import pytest
from prometheus_client.parser import text_string_to_metric_families

from paceline.errors import ConfigurationError
from paceline.monitor.metrics import server as module
from paceline.monitor.metrics.collector import RankCollector
from paceline.monitor.metrics.server import AT_ONCE, MAX_REQUEST, Server
from paceline.observe.figures import Figures, Group, Waiting
from paceline.observe.trace.clocks import Meeting
from paceline.settings.parsers import MetricsAddress
from paceline.settings.settings import Settings

TOKEN = "correct-horse-battery-staple"
DEADLINE = 20.0
FIGURES = Figures(
    rank=3,
    size=4,
    host="host",
    pid=7,
    since_ns=0,
    time_ns=10**9,
    operations=12,
    exposed_ns=1_500_000_000,
    steps=4,
    step_ns=250_000_000,
    requests=9,
    coordinators={6: {"cache_hits": 5, "spin_ns": 2_000_000_000, "longest_negotiation_ns": 7_000}},
    waits=(Waiting("all_reduce #3", 61.5, ("rank 1",)),),
    groups={5: Group("group 0", 4, 10, 4096), 6: Group('set "a"\n', 4, 2, 8)},
)


@pytest.fixture
def served() -> Iterator[Server]:
    one = Server(MetricsAddress("127.0.0.1", 1, 65535), free_port(), TOKEN, RankCollector(lambda: FIGURES))
    yield one
    one.close()


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def get(port: int, path: str = "/metrics", token: str | None = TOKEN, method: str = "GET") -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=DEADLINE)
    connection.request(method, path, headers={} if token is None else {"Authorization": f"Bearer {token}"})
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, text


def test_steps_never_fall() -> None:
    """When named steps begin, those that calls without names suggested do not count any more."""
    known = iter([0.0, 199.0, 3.0, 4.0, 200.0])
    collector = RankCollector(lambda: replace(FIGURES, steps=next(known)))
    shown = [
        next(
            sample.value for family in collector.collect() for sample in family.samples if "steps_total" in sample.name
        )
        for _ in range(5)
    ]
    assert shown == [0.0, 199.0, 199.0, 200.0, 396.0]


def test_the_figures(served: Server) -> None:
    status, text = get(served.port)
    assert status == 200
    found = {
        (sample.name, *sorted(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    assert found == {
        ("paceline_operations_total", "3"): 12,
        ("paceline_exposed_seconds_total", "3"): 1.5,
        ("paceline_steps_total", "3"): 4,
        ("paceline_requests_total", "3"): 9,
        ("paceline_step_seconds", "3"): 0.25,
        ("paceline_waiting_seconds", "3"): 61.5,
        ("paceline_bytes_total", "3", "group 0"): 4096,
        ("paceline_bytes_total", "3", 'set "a"\n'): 8,
        ("paceline_coordination_cache_hits_total", "3", 'set "a"\n'): 5,
        ("paceline_coordination_spin_seconds_total", "3", 'set "a"\n'): 2,
        ("paceline_coordination_longest_negotiation_seconds", "3", 'set "a"\n'): 7e-6,
    }


def test_the_first_rank_tells_of_all_who_was_last_and_each_call_once() -> None:
    """Of ten calls that are seen in three looks, rank 1 is 5 ms late in eight, and rank 0 is 1 ms late in two."""

    def job(calls: int) -> list[Figures]:
        return [
            Figures(
                rank, 2, "host", 7, 0, calls * 10**9,
                arrivals=tuple(
                    Meeting(5, n, n * 10**9 + (0, 5_000_000)[rank] if n % 5 else n * 10**9 + (1_000_000, 0)[rank], 0)
                    for n in range(calls)
                ),
                groups={5: Group("group 0", 2)},
            )
            for rank in range(2)
        ]  # fmt: skip

    looks = iter([job(3), job(3), job(10), []])
    collector = RankCollector(lambda: FIGURES, lambda: next(looks))
    for often in ((1, 2), (1, 2), (2, 8), (2, 8)):
        found = {
            (sample.name, sample.labels["rank"]): sample.value
            for family in collector.collect()
            for sample in family.samples
        }
        assert tuple(found["paceline_arrived_last_total", rank] for rank in "01") == often
        assert tuple(found["paceline_late_seconds_total", rank] for rank in "01") == (often[0] / 1e3, often[1] / 200)


@pytest.mark.parametrize("token", [None, "", "wrong", TOKEN[:-1], TOKEN + "x", TOKEN.upper(), "\xe9" * 20])
def test_without_the_token_nothing_is_told(served: Server, token: str | None, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    assert get(served.port, token=token) == (401, "")
    assert get(served.port, "/nothing", token=token) == (401, "")
    assert not caplog.records


def test_other_pages_and_methods(served: Server) -> None:
    assert get(served.port, "/")[0] == 404
    assert get(served.port, "/metrics?name[]=paceline_steps_total")[0] == 200
    assert get(served.port, method="POST")[0] == 501


@pytest.mark.parametrize(
    "said",
    [
        b"\r\n\r\n",
        b"\xff" * 20 + b"\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET /metrics HTTP/9.9\r\n\r\n",
        b"x" * (MAX_REQUEST + 1),
    ],
)
def test_nonsense_is_refused(served: Server, said: bytes) -> None:
    with socket.create_connection(("127.0.0.1", served.port), DEADLINE) as client:
        client.sendall(said)
        answer = b""
        try:
            while part := client.recv(4096):
                answer += part
        except ConnectionResetError:  # it hung up on what it had not read
            pass
        assert b"200" not in answer.partition(b"\r\n")[0]
    assert get(served.port)[0] == 200


def test_slow_clients_hold_nobody_up_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "REQUEST_SECONDS", 0.5)
    one = Server(MetricsAddress("127.0.0.1", 1, 65535), free_port(), TOKEN, RankCollector(lambda: FIGURES))
    slow = [socket.create_connection(("127.0.0.1", one.port), DEADLINE) for _ in range(AT_ONCE)]
    try:
        for client in slow:
            client.sendall(b"GET /metrics HTTP/1.1\r\n")
        for client in slow:
            assert client.recv(1) == b""
        assert get(one.port)[0] == 200
    finally:
        for client in slow:
            client.close()
        one.close()


def test_strangers_that_say_nothing_make_room_for_a_scraper(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who has said nothing for longest is hung up on, whatever time it has left."""
    monkeypatch.setattr(module, "REQUEST_SECONDS", DEADLINE)
    one = Server(MetricsAddress("127.0.0.1", 1, 65535), free_port(), TOKEN, RankCollector(lambda: FIGURES))
    strangers = [socket.create_connection(("127.0.0.1", one.port), DEADLINE) for _ in range(3 * AT_ONCE)]
    try:
        for _ in range(AT_ONCE + 1):
            assert get(one.port)[0] == 200
        for stranger in strangers[: 2 * AT_ONCE + 1]:
            assert stranger.recv(1) == b""
    finally:
        for stranger in strangers:
            stranger.close()
        one.close()


def test_a_port_that_is_taken_is_passed_over_within_the_range() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(OSError, match="in use"):
            Server(MetricsAddress("127.0.0.1", port, port), port, TOKEN, RankCollector(lambda: FIGURES))
        one = Server(
            MetricsAddress("127.0.0.1", port, min(port + 20, 65535)), port, TOKEN, RankCollector(lambda: FIGURES)
        )
        assert port < one.port <= port + 20
        one.close()
    with pytest.raises(OSError, match="fewer ports"):
        Server(MetricsAddress("127.0.0.1", 9000, 9001), 9002, TOKEN, RankCollector(lambda: FIGURES))


def test_it_is_gone_after_close_and_was_never_on_another_address(served: Server) -> None:
    port = served.port
    assert served._socket.getsockname()[0] == "127.0.0.1"
    served.close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), DEADLINE)


def test_a_forked_child_lets_go_of_the_port(served: Server) -> None:
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writing, str(served._socket.fileno()).encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reading, 10) == b"-1"
    os.close(reading)
    os.close(writing)
    assert get(served.port)[0] == 200


@pytest.mark.parametrize(
    ("text", "ports", "expected"),
    [
        ("9400", "", MetricsAddress("127.0.0.1", 9400, 65535)),
        ("9400-9407", "", MetricsAddress("127.0.0.1", 9400, 9407)),
        ("0.0.0.0:9400", "9000-9500", MetricsAddress("0.0.0.0", 9400, 9500)),
        ("[::1]:9400-9401", "", MetricsAddress("::1", 9400, 9401)),
        ("node-7.cluster:9400", "", MetricsAddress("node-7.cluster", 9400, 65535)),
    ],
)
def test_addresses(text: str, ports: str, expected: MetricsAddress) -> None:
    env = {"PACELINE_METRICS": text, "PACELINE_METRICS_TOKEN": TOKEN, "PACELINE_PORTS": ports}
    found = Settings.from_environment(env)
    assert (found.metrics, found.metrics_token) == (expected, TOKEN)


@pytest.mark.parametrize(
    ("text", "ports", "why"),
    [
        ("metrics", "", "should be a port"),
        ("0", "", "should be a port"),
        ("9401-9400", "", "should be a port"),
        ("70000", "", "should be a port"),
        ("9400-9600", "9000-9500", "should be within PACELINE_PORTS, 9000-9500"),
        ("80", "9000-9500", "should be within PACELINE_PORTS, 9000-9500"),
    ],
)
def test_addresses_that_cannot_be_meant(text: str, ports: str, why: str) -> None:
    with pytest.raises(ConfigurationError, match=f"^PACELINE_METRICS='{text}' {why}"):
        Settings.from_environment({"PACELINE_METRICS": text, "PACELINE_METRICS_TOKEN": TOKEN, "PACELINE_PORTS": ports})


def test_there_is_no_server_without_a_token() -> None:
    with pytest.raises(ConfigurationError, match="PACELINE_METRICS_TOKEN"):
        Settings.from_environment({"PACELINE_METRICS": "9400"})
    with pytest.raises(ConfigurationError) as caught:
        Settings.from_environment({"PACELINE_METRICS": "9400", "PACELINE_METRICS_TOKEN": "open sesame"})
    assert "sesame" not in str(caught.value) and "(hidden)" in str(caught.value)
