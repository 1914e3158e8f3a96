"""Keeps plans to the network as it is: notices when it is not what they were made for, measures it, and plans again."""
