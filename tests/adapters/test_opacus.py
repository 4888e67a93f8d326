"""The accountant inside real Opacus: engine, calibration, checkpoints. Runs where opacus is installed (`tests/adapters/run.sh`)."""

import dp_accounting as dpa
import pytest

pytest.importorskip("opacus")
torch = pytest.importorskip("torch")

import opacus  # noqa: E402
from opacus.accountants import create_accountant  # noqa: E402
from opacus.accountants.utils import get_noise_multiplier  # noqa: E402

import dp_edgeworth.opacus  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")
# tests/golden/exact_epsilon.json: p 0.01, noise 0.8, 1,000 steps and p 0.05, noise 1, 200 steps at delta 1e-5
EXACT = {(0.05, 1.0, 200): 4.765919348435301}


def training(accountant="edgeworth"):
    torch.manual_seed(0)
    data = torch.utils.data.TensorDataset(torch.randn(64, 3), torch.randint(0, 2, (64,)))
    loader = torch.utils.data.DataLoader(data, batch_size=8)
    model = torch.nn.Linear(3, 2)
    engine = opacus.PrivacyEngine(accountant=accountant)
    return engine, model, torch.optim.SGD(model.parameters(), lr=0.1), loader


def epoch(model, optimizer, loader):
    for features, labels in loader:
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(features), labels).backward()
        optimizer.step()


def test_engine_trains_and_certifies():
    engine, model, optimizer, loader = training()
    model, optimizer, loader = engine.make_private(module=model, optimizer=optimizer, data_loader=loader, noise_multiplier=1.0,
                                                   max_grad_norm=1.0)
    for _ in range(2):
        epoch(model, optimizer, loader)
    assert engine.accountant.history == [(1.0, 1 / len(loader), 16)] and len(engine.accountant) == 16
    event = dpa.SelfComposedDpEvent(dpa.PoissonSampledDpEvent(1 / 8, dpa.GaussianDpEvent(1.0)), 16)
    pld = dpa.pld.PLDAccountant(value_discretization_interval=1e-5).compose(event).get_epsilon(1e-5)
    assert engine.get_epsilon(1e-5) == pytest.approx(pld, rel=1e-5)
    interval = engine.accountant.get_epsilon_interval(1e-5)
    assert interval.lower <= interval.upper == engine.get_epsilon(1e-5)
    assert engine.accountant.accountant().statement(target_delta=1e-5).certified


def test_engine_calibrates_its_noise():
    engine, model, optimizer, loader = training()
    model, optimizer, loader = engine.make_private_with_epsilon(
        module=model, optimizer=optimizer, data_loader=loader, target_epsilon=3.0, target_delta=1e-5, epochs=2, max_grad_norm=1.0)
    for _ in range(2):
        epoch(model, optimizer, loader)
    assert 2.9 < engine.get_epsilon(1e-5) <= 3.0


def test_noise_multiplier_is_certified_and_smaller_than_of_rdp():
    recipe = {"target_epsilon": 2.0, "target_delta": 1e-5, "sample_rate": 0.01, "steps": 1_000}
    noise = get_noise_multiplier(accountant="edgeworth", **recipe)
    ours = dp_edgeworth.from_history([(noise, 0.01, 1_000)])
    assert 1.99 <= ours.get_epsilon(1e-5) <= 2.0
    assert noise < get_noise_multiplier(accountant="rdp", **recipe)
    assert noise == get_noise_multiplier(accountant="edgeworth", eps_error=0.1, **recipe)  # another accountant's setting


def test_history_that_opacus_assigns_is_what_counts():
    accountant = create_accountant("edgeworth")
    for (rate, noise, steps), exact in EXACT.items():
        accountant.history = [(noise, rate, steps)]
        assert exact <= accountant.get_epsilon(delta=1e-5) <= exact + 1e-5
    accountant.step(noise_multiplier=1.0, sample_rate=0.05)
    accountant.step(noise_multiplier=2.0, sample_rate=0.05)
    assert accountant.history == [(1.0, 0.05, 201), (2.0, 0.05, 1)] and len(accountant) == 202


def test_checkpoint_is_reloaded(tmp_path):
    engine, model, optimizer, loader = training()
    model, optimizer, loader = engine.make_private(module=model, optimizer=optimizer, data_loader=loader, noise_multiplier=1.0,
                                                   max_grad_norm=1.0)
    epoch(model, optimizer, loader)
    engine.save_checkpoint(path=tmp_path / "checkpoint", module=model, optimizer=optimizer)
    again, fresh, other, data = training()
    fresh, other, data = again.make_private(module=fresh, optimizer=other, data_loader=data, noise_multiplier=1.0, max_grad_norm=1.0)
    again.load_checkpoint(path=tmp_path / "checkpoint", module=fresh, optimizer=other)
    assert again.accountant.history == engine.accountant.history
    assert again.get_epsilon(1e-5) == engine.get_epsilon(1e-5) > 0.0
    with pytest.raises(ValueError, match="prv"):
        again.accountant.load_state_dict(create_accountant("prv").state_dict())


def test_unknown_settings_are_refused():
    accountant = create_accountant("edgeworth")
    assert accountant.get_epsilon(1e-5) == 0.0 and accountant.mechanism() == "edgeworth"
    with pytest.raises(TypeError, match="Found poisson"):
        accountant.get_epsilon(1e-5, poisson=False)
