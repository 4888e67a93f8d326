"""The room sums."""
