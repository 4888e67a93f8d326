"""A pytest plugin that puts our accountants where a library expects those of others, to run the library's own tests on them.

`tests/adapters/run.sh` does that for jax_privacy and Opacus, and leaves out, by name, tests of numbers of a looser accountant.
"""

import importlib.util

import dp_accounting
from dp_accounting import NeighboringRelation

import dp_edgeworth


class InPlace(dp_edgeworth.EdgeworthIntervalAccountant):
    """Made as PLDAccountant and RdpAccountant are: grids and orders are taken and ignored."""

    def __init__(self, *settings, neighboring_relation=None, value_discretization_interval=None, orders=None):
        relations = [one for one in (*settings, neighboring_relation) if isinstance(one, NeighboringRelation)]
        super().__init__(relations[0] if relations else NeighboringRelation.ADD_OR_REMOVE_ONE)

    @property
    def _settings(self):
        return {}


def pytest_configure(config):
    """Nothing is put anywhere unless this file is loaded as a plugin."""
    dp_accounting.pld.PLDAccountant = InPlace
    if not importlib.util.find_spec("opacus"):
        return
    import opacus.accountants

    import dp_edgeworth.opacus

    class Accountant(dp_edgeworth.opacus.EdgeworthAccountant):
        """Under the name of Opacus' own."""

        @classmethod
        def mechanism(cls):
            return "rdp"

    opacus.accountants.RDPAccountant = opacus.accountants.PRVAccountant = Accountant
    for name in ("rdp", "prv"):
        opacus.accountants.register_accountant(name, Accountant, force=True)
