"""What a partitioned model's step will take and need, predicted from its profile and the network, and which is best."""
