"""The HTML report: what is on it, that it needs nothing else, and that a real browser shows and prints it."""

import html
import html.parser
import pathlib
import re
import shlex
import shutil
import subprocess

import dp_accounting as dpa
import pytest

import dp_edgeworth
from dp_edgeworth import EdgeworthIntervalAccountant, cli
from dp_edgeworth.events.description import rounded_down, rounded_up

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
TRAINING = dpa.SelfComposedDpEvent(dpa.PoissonSampledDpEvent(0.01, dpa.GaussianDpEvent(0.8)), 10_000)
RO = dpa.NeighboringRelation.REPLACE_ONE


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "report.html"
    accountant = EdgeworthIntervalAccountant().compose(dpa.ComposedDpEvent([TRAINING, dpa.LaplaceDpEvent(10.0)]))
    assert accountant.report(path) == path.read_text(encoding="utf-8")
    return path


def test_page_has_statement_tree_curves_risk_and_event(page):
    text = page.read_text(encoding="utf-8")
    claim = dp_edgeworth.epsilon_statement(dpa.ComposedDpEvent([TRAINING, dpa.LaplaceDpEvent(10.0)]), 1e-5).claim
    for words in (claim, "one record added or removed", "Where the loss comes from", "10,000 x PoissonSampled(0.01, Gaussian(0.8))",
                  "Privacy profile", "Trade-off", "What an attacker can do", "dp-edgeworth epsilon --event event.json",
                  "dp-edgeworth certify --event event.json", "dp-edgeworth verify certificate.json",
                  dp_edgeworth.__version__, "sha256", "&quot;LaplaceDpEvent&quot;"):
        assert words in text, words


def test_page_needs_nothing_else(page):
    text = page.read_text(encoding="utf-8")
    assert "default-src 'none'" in text and "<script" not in text and "<link" not in text
    assert not re.findall(r"(?:src|href)=|url\(|@import", text)
    assert set(re.findall(r"https?://[^\"' ]*", text)) == {"http://www.w3.org/2000/svg"}  # the name of SVG, which nobody fetches


class Text(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags = set()

    def handle_starttag(self, tag, attributes):
        self.tags.add(tag)


def test_relation_of_the_accountant_and_strange_names(tmp_path):
    accountant = EdgeworthIntervalAccountant(RO).compose(TRAINING)
    page = dp_edgeworth.html_report(accountant, title="<b>A & B</b>")
    parser = Text()
    parser.feed(page)
    assert "REPLACE_ONE" in page and "b" in parser.tags and "<title>&lt;b&gt;A &amp; B&lt;/b&gt;</title>" in page


@pytest.mark.parametrize("accountant", [
    EdgeworthIntervalAccountant(), EdgeworthIntervalAccountant().compose(dpa.NonPrivateDpEvent()),
    EdgeworthIntervalAccountant(bound="adaptive").compose(TRAINING)], ids=["nothing", "no privacy", "another bound"])
def test_extremes_have_a_page_too(accountant):
    page = dp_edgeworth.html_report(accountant)
    assert accountant.statement(target_delta=1e-5).claim.split(",")[0] in page.replace("&#x27;", "'")


@pytest.mark.parametrize("accountant", [
    EdgeworthIntervalAccountant(RO).compose(TRAINING), EdgeworthIntervalAccountant(tolerance=1e-3).compose(TRAINING),
    EdgeworthIntervalAccountant(bound="adaptive", order=2).compose(TRAINING)], ids=["relation", "tolerance", "another bound"])
def test_what_the_page_says_about_checking_it_gives_the_same_interval_and_hash(accountant, tmp_path, monkeypatch, capsys):
    """The command and the document are taken from the page, whatever the accountant's settings."""
    command, *_, document = [html.unescape(text) for text in re.findall(r"<pre>(.*?)</pre>", accountant.report(None), re.DOTALL)]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "event.json").write_text(document, encoding="utf-8")
    assert cli.main(shlex.split(command)[1:]) == 0
    told = capsys.readouterr().out
    statement = accountant.statement(target_delta=1e-5)
    assert statement.provenance.event_sha256 in told and statement.claim in told
    assert f"{rounded_down(statement.interval.lower, 10)} <= epsilon <= {rounded_up(statement.interval.upper, 10)}" in told


@pytest.fixture
def browser(tmp_path):
    if CHROMIUM is None:
        pytest.skip("needs Chromium")

    def run(*arguments):
        command = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-sync",
                   "--no-first-run", "--enable-logging=stderr", f"--user-data-dir={tmp_path / 'profile'}", *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)

    return run


def test_browser_shows_it_without_an_error(page, browser):
    done = browser("--dump-dom", page.as_uri())
    assert "CONSOLE" not in done.stderr and done.stdout.count("<svg") == 2 and "</footer>" in done.stdout


def test_browser_prints_it_on_one_page(page, browser, tmp_path):
    browser("--no-pdf-header-footer", f"--print-to-pdf={tmp_path / 'report.pdf'}", page.as_uri())
    document = (tmp_path / "report.pdf").read_bytes()
    assert document.startswith(b"%PDF") and len(re.findall(rb"/Type\s*/Page\b", document)) == 1


@pytest.mark.parametrize("width", [360, 1000])
def test_page_is_no_wider_than_a_phone(page, browser, tmp_path, width):
    """The page in a frame of this width: its contents must not be wider."""
    frame = tmp_path / "frame.html"
    document = page.read_text(encoding="utf-8").replace("&", "&amp;").replace('"', "&quot;")
    frame.write_text(f'<iframe width="{width}" height="900" frameborder="0" srcdoc="{document}"></iframe><p id="found"></p>'
                     "<script>onload = () => { const page = document.querySelector('iframe').contentDocument.documentElement; "
                     "document.getElementById('found').textContent = 'width ' + page.scrollWidth; };</script>", encoding="utf-8")
    found = re.search(r'id="found">width (\d+)', browser("--dump-dom", frame.as_uri()).stdout)
    assert found and int(found[1]) <= width


def test_written_file_is_returned(tmp_path):
    path = pathlib.Path(tmp_path / "report.html")
    assert dp_edgeworth.html_report(dpa.GaussianDpEvent(2.0), path) == path.read_text(encoding="utf-8")
