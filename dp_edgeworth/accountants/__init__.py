"""The privacy accountants: state, and no formula.

May import: every room below. A change here can lose an event or answer for the wrong neighboring relation; it cannot make a bound false
otherwise: numbers come from `search` and `paper` as they are.
"""
