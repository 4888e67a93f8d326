"""The room losses."""
