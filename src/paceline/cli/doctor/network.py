"""Network: the addresses of this machine, the one that would be used, ports, and the job's secret."""

import shlex

from paceline.cli.doctor.finding import Environment, Finding
from paceline.rendezvous.interfaces import addresses, choose


def interfaces(here: Environment) -> Finding:
    """Report all addresses of this machine."""
    found = [str(candidate) for candidate in addresses()]
    return Finding("interfaces", ", ".join(found) or "none", "as the kernel lists them")


def between_machines(here: Environment) -> Finding:
    """Report the address that ranks on other machines would connect to."""
    from paceline.errors import RendezvousError

    try:
        choice = choose(addresses(), here.settings.interface, here.settings.master_address, several_machines=True)
    except RendezvousError as error:
        return Finding("between machines", "impossible", str(error), "jobs on this machine alone are not affected")
    advice = ""
    if choice.public:
        advice = "this address is public; set PACELINE_INTERFACE to a private one if there is one"
    elif not choice.certain:
        advice = (
            f"if that is the wrong network: PACELINE_INTERFACE={shlex.quote(choice.interface)} or another of the above"
        )
    guess = "" if choice.certain else "; a job asks the route to its other machines instead"
    return Finding("between machines", f"tcp on {choice.interface} {choice.address}", choice.reason + guess, advice)


def within_machine(here: Environment) -> Finding:
    """Report the transport between ranks of one machine."""
    return Finding(
        "within this machine",
        "shm",
        "ranks that share a kernel and its network share memory, no matter what started them",
    )


def ports(here: Environment) -> Finding:
    """Report the range of ports for listeners."""
    if here.settings.ports is None:
        return Finding(
            "ports",
            "any free port",
            "PACELINE_PORTS is not set; behind a firewall set it, for example 40000-40050",
        )
    first, last = here.settings.ports
    return Finding("ports", f"{first}-{last}", "PACELINE_PORTS")


def secret(here: Environment) -> Finding:
    """Report whether connections are authenticated."""
    if here.settings.secret is not None:
        return Finding("secret", "set", "PACELINE_SECRET; connections without it are refused")
    return Finding("secret", "none in this environment", "paceline run makes one for each job on one machine")
