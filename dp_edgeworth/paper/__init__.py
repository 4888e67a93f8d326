"""The room paper."""
