"""The driver of an elastic job: it starts ranks, notices when they end, and decides which ranks form the next round.

`rounds` decides, without a clock, a process or a socket; `job` carries out its decisions; `hosts` knows the usable
hosts; `store` is the key-value store through which the driver and the ranks communicate.
"""
