"""Google's conformance suite, `dp_accounting.privacy_accountant_test`, for every class and neighboring relation."""

from cases import RELATIONS
from dp_accounting import privacy_accountant_test  # the module: pytest would collect an imported abstract base class

from dp_edgeworth import ApproximateEdgeworthAccountant, EdgeworthIntervalAccountant

FACTORIES = {
    "Plain": ApproximateEdgeworthAccountant,
    "CentralLimit": lambda relation: ApproximateEdgeworthAccountant(relation, order=0),
    "Tilted": lambda relation: ApproximateEdgeworthAccountant(relation, tilted=True),
    "Interval": EdgeworthIntervalAccountant,
}


def _suite(factory, relation):
    class Suite(privacy_accountant_test.PrivacyAccountantTest):
        def _make_test_accountants(self):
            return [factory(relation)]

    return Suite


for _name, _factory in FACTORIES.items():
    for _relation in RELATIONS:
        _title = f"Test{_name}_{_relation.name}"
        globals()[_title] = type(_title, (_suite(_factory, _relation),), {})
