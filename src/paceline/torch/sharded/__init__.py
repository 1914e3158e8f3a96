"""An optimizer whose state lies in shards, one on each rank."""
