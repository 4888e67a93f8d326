"""Our own events, the walk over trees, JSON in and out, descriptions in words.

May import: `validation`, `intervals`. A change here can break what is read and written, and which leaves a tree has; it cannot make a
bound false, except by losing a leaf.
"""

from dp_edgeworth.events.own_events import AdditiveNoiseDpEvent, PllrMomentsDpEvent

__all__ = ["AdditiveNoiseDpEvent", "PllrMomentsDpEvent"]
