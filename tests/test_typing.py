"""What a type checker knows of the public names: floats for floats, arrays for arrays, and never `Any` on the way there."""

import re

import pytest

api = pytest.importorskip("mypy.api")

HEAD = """import dp_accounting as dpa
import dp_edgeworth
from dp_edgeworth import factories, pld
gaussian = dpa.GaussianDpEvent(1.0)
accountant = dp_edgeworth.EdgeworthIntervalAccountant()
"""
KNOWN = {
    "accountant.get_epsilon(1e-5)": "float",
    "accountant.get_epsilon([1e-5])": "ndarray",
    "accountant.get_delta(1.0)": "float",
    "accountant.get_delta([1.0])": "ndarray",
    "accountant.compose(gaussian).get_epsilon(1e-5)": "float",
    "accountant.supports(gaussian)": "bool",
    "accountant.get_epsilon_interval(1e-5)": "Interval",
    "accountant.merge(accountant)": "EdgeworthIntervalAccountant",
    "accountant.statement(target_delta=1e-5)": "PrivacyStatement",
    "accountant.explain(target_delta=1e-5)": "EventReport",
    "accountant.curves()": "PrivacyCurves",
    "accountant.certificate(1e-5)": "Certificate",
    "dp_edgeworth.ApproximateEdgeworthAccountant().compose(gaussian).get_epsilon(1e-5)": "float",
    "dp_edgeworth.from_history([(1.0, 0.1, 10)]).compose(gaussian)": "EdgeworthIntervalAccountant",
    "factories.pld_accountant().compose(gaussian).get_epsilon(1e-5)": "float",
    "pld.from_gaussian_mechanism(1.0).self_compose(2).get_epsilon_for_delta(1e-5)": "float",
    "pld.from_gaussian_mechanism(1.0).get_delta_for_epsilon([1.0])": "ndarray",
}


@pytest.mark.slow
def test_revealed_types(tmp_path):
    script = tmp_path / "user.py"
    script.write_text(HEAD + "".join(f"reveal_type({expression})\n" for expression in KNOWN), encoding="utf-8")
    out, err, _ = api.run(["--ignore-missing-imports", "--cache-dir", str(tmp_path), str(script)])
    revealed = re.findall(r'Revealed type is "(.*)"', out)
    assert len(revealed) == len(KNOWN), out + err
    for (expression, name), found in zip(KNOWN.items(), revealed, strict=True):
        assert found == name or re.search(rf"\.{name}\b", found), (expression, found)
