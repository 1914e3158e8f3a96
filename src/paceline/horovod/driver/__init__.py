"""The driver of an elastic job: it starts ranks, sees them end, and says who is in the next round.

`rounds` decides and knows no clock, process or socket; `job` does what it says; `hosts` asks which hosts there are;
`board` is the store through which ranks hear of it.
"""
