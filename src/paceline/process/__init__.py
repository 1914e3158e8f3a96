"""What this process has of Paceline, put together: its runtime, how networks are followed, what people see."""
