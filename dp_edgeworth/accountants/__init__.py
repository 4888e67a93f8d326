"""The room accountants."""
