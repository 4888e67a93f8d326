"""A page about one guarantee, in one file: statement, where the loss comes from, curves, assumptions, and how to compute it again.

No script, no font, no picture and no style from elsewhere (the page forbids itself to load any), so that it can be mailed, archived and
printed. The event itself is part of the page as JSON, as long as that is not too long to read.
"""

from __future__ import annotations

import html
import os
import shlex

from dp_accounting import dp_event
from dp_accounting.privacy_accountant import NeighboringRelation, PrivacyAccountant

from dp_edgeworth import validation
from dp_edgeworth.accountants.accountant import EdgeworthIntervalAccountant
from dp_edgeworth.analysis import report, statement_formats
from dp_edgeworth.analysis.curves import LEAST_ALPHA, PrivacyCurves, curves
from dp_edgeworth.analysis.explanation import explain
from dp_edgeworth.analysis.statement import PrivacyStatement, epsilon_statement
from dp_edgeworth.analysis.subject import Subject, subject_of
from dp_edgeworth.events import serialization
from dp_edgeworth.events.description import rounded_down, rounded_up

_LONGEST_EVENT = 20_000  # characters of JSON on the page
_POINTS = 101
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
_STYLE = """
:root { color-scheme: light; }
body { font: 16px/1.5 system-ui, sans-serif; color: #1a1a1a; background: #fff; max-width: 64rem; margin: 0 auto; padding: 1rem; }
h1 { font-size: 1.6rem; margin: .5rem 0; } h2 { font-size: 1.2rem; margin: 2rem 0 .5rem; border-bottom: 1px solid #ccc; }
.claim { border: 2px solid #0072B2; border-radius: .5rem; padding: .75rem 1rem; font-size: 1.15rem; }
.claim.none { border-color: #B22222; } .wide { overflow-x: auto; } table { border-collapse: collapse; }
td, th { padding: .2rem .6rem; vertical-align: top; overflow-wrap: anywhere; } .statement th { width: 8rem; }
.wide td, .wide th, .numbers td:last-child { white-space: nowrap; overflow-wrap: normal; } .wide table { font-size: .8rem; }
.pictures { display: flex; flex-wrap: wrap; gap: 1rem; } .pictures > * { flex: 1 1 20rem; min-width: 0; }
pre { background: #f4f4f4; padding: .75rem; white-space: pre-wrap; overflow-wrap: anywhere; font-size: .8rem; }
footer { margin-top: 2rem; font-size: .85rem; color: #555; }
@media (max-width: 40rem) { .wide td:nth-child(2) { display: none; } .wide th:nth-child(2) { display: none; }
  .statement th, .statement td { display: block; width: auto; } .statement th { padding-bottom: 0; } }
@media print { body { font-size: 8.5pt; line-height: 1.25; max-width: none; padding: 0; }
  h1 { font-size: 14pt; } h2, .claim { font-size: 10.5pt; } .claim { padding: .3rem .7rem; }
  h1, h2 { break-after: avoid; margin: .4rem 0 .2rem; } h2, svg, .claim, tr, .check { break-inside: avoid; }
  p { margin: .2rem 0; } td, th { padding: .05rem .6rem; } .wide { overflow: visible; zoom: .85; }
  pre { padding: .3rem; margin: .3rem 0; font-size: 7pt; } .pictures { flex-wrap: nowrap; } .pictures svg { max-height: 11rem; }
  footer { margin-top: .3rem; font-size: 7pt; } }
@page { margin: 12mm; }
"""


def html_report(event: dp_event.DpEvent | PrivacyAccountant, path: str | os.PathLike[str] | None = None, *, target_delta: float = 1e-5,
                neighboring_relation: NeighboringRelation | None = None, title: str = "Privacy report") -> str:
    """The page of an event or an accountant, also written to `path` if given.

    Args:
      event: an event, or an accountant: then its ledger, under its relation, with its settings.
      path: where to write it.
      target_delta: the delta of the statement and of the tree.
      neighboring_relation: how neighbouring data sets differ; by default the accountant's, or ADD_OR_REMOVE_ONE.
      title: of the page.
    """
    delta = validation.probability("target_delta", target_delta)
    title, path = validation.of_kind("title", title, str, "a string"), None if path is None else validation.path(path)
    subject = subject_of(event, neighboring_relation)
    statement = epsilon_statement(subject.accountant, delta)
    picture = curves(subject.accountant, points=_POINTS)
    sections = [_claim(statement, title), _rests_on(statement), _tree(subject, delta), _curves(picture), _attacker(subject, picture),
                _again(subject, statement)]
    page = _page(title, "\n".join(sections), statement)
    if path is not None:
        path.write_text(page, encoding="utf-8")
    return page


def _page(title: str, body: str, statement: PrivacyStatement) -> str:
    return ('<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
            f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
            '<meta name="viewport" content="width=device-width, initial-scale=1">'
            f"<title>{html.escape(title)}</title><style>{_STYLE}</style></head>\n<body>\n{body}\n"
            f"<footer>{html.escape(str(statement.provenance))}</footer>\n</body></html>\n")


def _claim(statement: PrivacyStatement, title: str) -> str:
    kind = "claim" if statement.certified and statement.private else "claim none"
    return f'<h1>{html.escape(title)}</h1>\n<p class="{kind}"><b>{html.escape(statement.claim)}</b></p>'


def _rests_on(statement: PrivacyStatement) -> str:
    return f"<h2>What this is a guarantee of, and of what it is not</h2>\n{statement_formats.as_html(statement.lines)}"


def _tree(subject: Subject, delta: float) -> str:
    """Only the certified inversion has shares; a ledger of nothing has none either."""
    if subject.accountant._settings["bound"] != "spectral" or isinstance(subject.event, dp_event.NoOpDpEvent):
        return ""
    explanation = explain(subject.accountant, target_delta=delta)
    return ("<h2>Where the loss comes from</h2>\n<p>Shares of epsilon add up; &ldquo;alone&rdquo; is what a part would cost by itself, "
            f'&ldquo;without&rdquo; what the rest would.</p>\n<div class="wide">{report.html(explanation)}</div>')


def _curves(picture: PrivacyCurves) -> str:
    profile, trade_off = (chart.svg() for chart in picture.charts())
    return ("<h2>The whole guarantee</h2>\n<p>First: the smallest delta for every epsilon. Second: the smallest rate of missed members "
            "for every rate of false alarms, for any attack whatsoever. Bands are certified; where none is visible it is narrower than "
            "the line.</p>\n"
            f'<div class="pictures"><div>{profile}</div><div>{trade_off}</div></div>')


def _attacker(subject: Subject, picture: PrivacyCurves) -> str:
    rates = subject.accountant.get_true_positive_rates([0.001, 0.01, 0.1])
    rows = [("advantage over guessing, at most", rounded_up(picture.advantage, 4)),
            (f"as Gaussian noise with mu, for error rates of at least {LEAST_ALPHA:g}, at most", rounded_up(picture.gdp_mu, 4)),
            ("wrong, with an even prior belief, at least", rounded_down(subject.accountant.get_bayes_risk(0.5), 4)),
            *((f"members found at {alarms} false alarms, at most", rounded_up(100.0 * float(rate), 4) + " %")
              for alarms, rate in zip(("0.1 %", "1 %", "10 %"), rates, strict=True))]
    cells = "".join(f"<tr><td>{name}</td><td>{value}</td></tr>" for name, value in rows)
    return f'<h2>What an attacker can do</h2>\n<table class="numbers">{cells}</table>'


def _again(subject: Subject, statement: PrivacyStatement) -> str:
    accountant = subject.accountant
    usual = accountant._settings == EdgeworthIntervalAccountant()._settings  # other settings travel with the accountant's document
    named = "The event" if usual else "The event and the settings"
    question = ["--event", "event.json", "--target-delta", repr(statement.delta),
                *(["--neighboring-relation", accountant.neighboring_relation.name] if usual else [])]
    again, proof = shlex.join(["dp-edgeworth", "epsilon", *question]), shlex.join(["dp-edgeworth", "certify", *question])
    try:
        document = serialization.to_json(subject.event) if usual else accountant.to_json()
    except serialization.EventFormatError as error:
        return f"<h2>How to check it</h2>\n<p>The event has no JSON document: {html.escape(str(error))}</p>"
    shown = f"<pre>{html.escape(document)}</pre>" if len(document) <= _LONGEST_EVENT else (
        f"<p>The event is too long for this page ({len(document):,} characters); its hash is above.</p>")
    tool, version = html.escape(statement.provenance.tool), html.escape(statement.provenance.version)
    return ('<section class="check"><h2>How to check it</h2>\n<p>Save the event as event.json, and ask the same question with the same '
            f"version of {tool} ({version}). The statement must have the same hash and the same interval.</p>\n"
            f"<pre>{html.escape(again)}</pre>\n<p>Or have a certificate of it proved in ball arithmetic, by a checker that shares no "
            "code with what computed it.</p>\n"
            f"<pre>{html.escape(proof)} --out certificate.json\ndp-edgeworth verify certificate.json</pre></section>\n"
            f"<p>{named}:</p>\n{shown}")
