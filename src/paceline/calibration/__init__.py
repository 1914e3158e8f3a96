"""Every constant of the Python half that was fitted by measurement or set by hand, with what is known of it.

`calibration.ROOM` has the constants of `paceline.ROOM`, or of a room within another; those of the engine are in
`engine/calibration`.
Limits of formats and of protocols, tolerances of arithmetic, and plain matters of design stay where they are used.

Each docstring gives the unit, then after "Found:" how the value was found and on what, and after "Off by 2:" what it
costs to be wrong by a factor of two in either direction. "By hand" means that a plausible value was set and nothing
better was looked for. Machine A has 2 virtual cores of an AMD EPYC (Zen 4), 1 MiB of second-level cache each; machine B
has 2 virtual cores with 2 MiB each; both run Linux 6.18. A topology such as 3+3+4 is a file in `docs/topologies`, which
`paceline lab` set up on one of them.
"""
