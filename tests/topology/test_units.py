"""Speeds and times as people write them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from random_topologies import latencies, speeds

from paceline.topology.units import parse_speed, parse_time, show_speed, show_time, write_speed, write_time


@pytest.mark.parametrize(
    ("text", "speed"),
    [
        ("500 Mbit/s", 62.5e6),
        ("1 Gbit/s", 125e6),
        ("10Gbps", 1.25e9),
        ("8 bit/s", 1),
        ("200 Gb/s", 25e9),
        ("0.5 Tbit/s", 62.5e9),
        ("500mbit/s", 62.5e6),
        ("120 MB/s", 120e6),
        ("1.5 GiB/s", 1.5 * 2**30),
        ("nvlink4", 450e9),
        ("NVLink 2.0", 150e9),
        ("pcie3", 16 * 8e9 / 8 * 128 / 130),
        ("PCIe Gen 4 x8", 8 * 16e9 / 8 * 128 / 130),
        ("64 KiB/s", 65536),
        ("1e9 B/s", 1e9),
        ("1000 Mb/sec", 125e6),
        ("1 GB/sec", 1e9),
        ("500mbit", 62.5e6),
        ("100G", 12.5e9),
        ("25GbE", 3.125e9),
    ],
)
def test_speeds(text: str, speed: float) -> None:
    assert parse_speed(text) == speed


@pytest.mark.parametrize(
    "text",
    ["", "5", "500 MB", "1 GiB", "1 Gi", "100", "G", "Gbit/s", "-1 Gbit/s", "1 Xbit/s", "nan B/s", "1 iB/s", "1_0 B/s"],
)
def test_what_is_no_speed(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not a speed; write it like 500 Mbit/s"):
        parse_speed(text)


@pytest.mark.parametrize("text", ["0 Gbit/s", "0.1 bit/s", "1e300 B/s"])
def test_speeds_that_no_link_has(text: str) -> None:
    with pytest.raises(ValueError, match="no speed that a link has"):
        parse_speed(text)


def test_times() -> None:
    assert [parse_time(text) for text in ("50 us", "50µs", "50μs", "1.5 ms", "2s", "300 ns", "0")] == [
        *[50e-6] * 3,
        1.5e-3,
        2.0,
        300e-9,
        0.0,
    ]
    assert [parse_time(text) for text in ("50 usec", "2 msec", "1 sec")] == [50e-6, 2e-3, 1.0]
    with pytest.raises(ValueError, match=r"'5' is not a time; write it like 50 us"):
        parse_time("5")
    with pytest.raises(ValueError, match="more than 60 s"):
        parse_time("61 s")


@given(speeds)
def test_a_written_speed_reads_back_the_same(speed: float) -> None:
    assert parse_speed(write_speed(speed)) == speed


@given(latencies)
def test_a_written_time_reads_back_the_same(seconds: float) -> None:
    assert parse_time(write_time(seconds)) == seconds


def test_what_people_read() -> None:
    assert [show_speed(62.5e6), show_speed(125e9), show_speed(1.23456e8)] == ["500 Mbit/s", "1 Tbit/s", "988 Mbit/s"]
    assert [show_time(50e-6), show_time(1.5e-3), show_time(0), show_time(3e-7)] == ["50 us", "1.5 ms", "0 ns", "300 ns"]
    assert [write_speed(62.5e6), write_time(50e-6)] == ["500 Mbit/s", "50 us"]
    assert write_speed(1.25e17) == "1000000 Tbit/s"


@given(speeds)
def test_a_shown_speed_has_no_exponent(speed: float) -> None:
    assert "e" not in show_speed(speed)


@given(st.floats(1e-12, 60))
def test_a_shown_time_has_no_exponent_and_is_not_zero(seconds: float) -> None:
    number, _, _ = show_time(seconds).partition(" ")
    assert "e" not in number
    assert float(number) > 0
