"""The names that settings, commands and arguments take."""

ALGORITHMS = (
    "ring",
    "halving_doubling",
    "rabenseifner",
    "tree",
    "leaders",
    "double_tree",
    "blueconnect",
    "flexreduce",
    "paceline",
)
"""The planners of all-reduces between machines."""
CODECS = ("bf16", "fp16", "three_in_one", "int8", "int4", "lossless")
"""The codecs of messages between machines."""
NONE = "none"
"""The word for no codec where a name is asked for."""
LOSSLESS = "lossless"
AUTO = "auto"
"""The word for the codec that the cost model chooses, where it may choose."""
