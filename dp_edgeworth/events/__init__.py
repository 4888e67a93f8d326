"""Events of our own, the walk over trees, JSON in and out, descriptions in words.

    own_events                 events that dp-accounting does not have
    tree                       which leaves a tree has, and how often each runs
    serialization              events and accountants as JSON documents (`json_reader`, `json_writer`, `json_fields`)
    description                events, numbers and relations in words

May import: `validation`, `intervals`.

A change here can break what is read and written, and which leaves a tree has; it cannot make a bound false, except by losing a leaf
or a count (`tree`).
"""

from dp_edgeworth.events.own_events import AdditiveNoiseDpEvent, PllrMomentsDpEvent, ProfileDpEvent, RenyiDpEvent

__all__ = ["AdditiveNoiseDpEvent", "PllrMomentsDpEvent", "ProfileDpEvent", "RenyiDpEvent"]
