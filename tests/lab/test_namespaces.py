"""Network namespaces as machines: they reach each other, the host does not see them, and they go away."""

from __future__ import annotations

import subprocess
import sys

import pytest

from paceline.lab.namespaces import Machines, existing, remove_abandoned

pytestmark = pytest.mark.requires_root_network

LISTEN = "import socket,sys; s=socket.create_server((sys.argv[1], 5000)); print('ready', flush=True); \
print(s.accept()[0].recv(9).decode())"
CONNECT = "import socket,sys; socket.create_connection((sys.argv[1], 5000), 5).sendall(b'hello')"


def test_machines_reach_each_other_and_are_gone_afterwards():
    with Machines(3) as machines:
        listen = [*machines.exec(0), sys.executable, "-c", LISTEN, machines.addresses[0]]
        with subprocess.Popen(listen, stdout=subprocess.PIPE, text=True) as server:
            assert server.stdout.readline() == "ready\n"
            connect = [sys.executable, "-c", CONNECT, machines.addresses[0]]
            subprocess.run([*machines.exec(2), *connect], check=True, timeout=20)
            assert server.stdout.read() == "hello\n"
        addresses = subprocess.run(["ip", "address"], capture_output=True, text=True, check=True).stdout
        assert machines.addresses[0] not in addresses
        assert set(machines.names) < set(existing())
    assert not set(machines.names) & set(existing())
    assert machines.switch not in existing()


def test_they_are_removed_after_a_failure():
    machines = Machines(2)
    with pytest.raises(KeyError), machines:
        raise KeyError
    assert not set(machines.names) & set(existing())


def test_what_a_killed_process_left_is_removed_by_the_next():
    leave = "import os; from paceline.lab.namespaces import Machines; m = Machines(1); m.__enter__(); \
print(m.names[0], m.switch, flush=True); os._exit(9)"
    left = subprocess.run([sys.executable, "-c", leave], capture_output=True, text=True, timeout=30).stdout.split()
    assert set(left) < {*existing(), ""} or set(left) <= set(existing())
    with Machines(1) as alive:
        assert not set(left) & set(existing())
        assert not remove_abandoned()
        assert alive.names[0] in existing()
