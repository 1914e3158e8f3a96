"""What TensorFlow's executor calls: the kernels of Paceline's ops, each of which hands requests to the coordinator."""
