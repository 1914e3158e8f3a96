"""The meeting of ranks: stores, handshakes, listeners, and the links that result."""

from paceline.rendezvous.link import Link, Native
from paceline.rendezvous.machine import Machine, this_machine
from paceline.rendezvous.meet import Meeting, Process, meet, new_process_name
from paceline.rendezvous.member import Member
from paceline.rendezvous.store import OwnStore, Store
from paceline.rendezvous.store_server import open_store

__all__ = [
    "Link",
    "Machine",
    "Meeting",
    "Member",
    "Native",
    "OwnStore",
    "Process",
    "Store",
    "meet",
    "new_process_name",
    "open_store",
    "this_machine",
]
