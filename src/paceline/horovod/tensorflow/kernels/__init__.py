"""The kernels of Paceline's ops, which TensorFlow's executor calls: each hands requests to the coordinator."""
