"""Measures Paceline beside other systems: `paceline bench` and `paceline characterize`."""
