"""The predicted time and memory of a partitioned model's step, from its profile and the network, and the best one."""
