"""Models in partitions on several ranks, and replicas of those: one call that cuts, places, schedules and exchanges."""
