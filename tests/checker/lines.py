"""Transforms of leaves as `contour` makes them, for tests."""

from dp_edgeworth.checker.balls import ball
from dp_edgeworth.checker.transforms import Transform, calm_and_lively, finite


def transform_of(leaf, line, *tilts):
    """Of the leaf cut off, on the line and at c and these tilts."""
    return Transform(finite(leaf, line)[0], line, ball(line.step), line.last, (line.c, *tilts))


def lively_pieces(leaf, line):
    return calm_and_lively(finite(leaf, line)[0], line)[1]
