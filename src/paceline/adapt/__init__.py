"""Keeping plans to the network as it is: noticing that it is not what they were made for, measuring, planning again."""
