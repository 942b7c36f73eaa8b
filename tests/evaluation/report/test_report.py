"""The page: what it says, and that no text in the data can do more than be read."""

import base64
import json
import re
from hashlib import sha256
from html.parser import HTMLParser
from math import exp, log

import pytest

from flows.result_lines import result_lines
from tasks.evaluation.measures.bias import Judges
from tasks.evaluation.measures.intervals import Resampling
from tasks.evaluation.measures.metrics import all_metrics
from tasks.evaluation.report import render_report
from tasks.evaluation.report.headline import headline
from tasks.evaluation.report.page import Material
from tasks.evaluation.report.tables import sources
from tasks.evaluation.report.wording import (
    count,
    interval,
    number,
    share,
    share_interval,
    visible,
)
from tests.evaluation.pieces import made_scores

HOSTILE = (
    "<script>alert(1)</script>\"'><img src=x onerror=alert(2)> {{ 7 * 7 }} \u202egnp.exe "
    "\x1b[31mred\x00 =cmd|'/C calc'!A0 </div></body> &amp; \u2066\ud800"
)


class Page(HTMLParser):
    """Tags with their attributes, and the text of every element but style."""

    def __init__(self, html):
        super().__init__()
        self.tags, self.text, self.inside = [], [], []
        self.feed(html)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        self.inside.append(tag)

    def handle_endtag(self, tag):
        if tag in self.inside:
            while self.inside.pop() != tag:
                pass

    def handle_data(self, data):
        if self.inside[-1:] != ["style"]:
            self.text.append(data)

    def named(self, name):
        return [attributes for tag, attributes in self.tags if tag == name]


@pytest.fixture
def metrics():
    scores = made_scores([2.0, 1.0, -0.5, 0.3], sources=[HOSTILE, "b", "b", "b"])
    found = all_metrics(scores, None, Resampling(100), judges=Judges())
    found["warnings"] = [{"figure": "overall.loss", "message": HOSTILE}]
    return json.loads(json.dumps(found))


SAMPLE = {
    "kind": "wrong",
    "source": HOSTILE,
    "file": HOSTILE,
    "row": 3,
    "margin": -1.5,
    "reward_chosen": 0.0,
    "reward_rejected": 1.5,
    "prompt": HOSTILE,
    "chosen": HOSTILE,
    "rejected": "",
}
SUSPECT = SAMPLE | {"confidence": 0.9}
DECISION = {
    "outcome": "challenger",
    "reason": HOSTILE,
    "bounds": [
        {"name": "min_accuracy", "value": 0.75, "relation": ">=", "bound": 0.8}
        | {"holds": False, "otherwise": "challenger", "note": HOSTILE},
        {"name": "max_tie_rate", "value": None, "relation": "<=", "bound": 0.5}
        | {"holds": True, "otherwise": "rejected", "note": ""},
    ],
}


def test_hostile_text_anywhere_stays_text(metrics):
    html = render_report(
        metrics,
        Material(samples=[SAMPLE], suspects=[SUSPECT]),
        decision=DECISION,
        links=[(HOSTILE, HOSTILE), ("run", "javascript:alert(1)"), ("ok", "https://x.test/?a=1&b")],
        provenance={HOSTILE: {HOSTILE: [HOSTILE]}},
    )
    page = Page(html)
    allowed = "html head meta title style body header h1 h2 h3 div p a span dl dt dd section ul li"
    allowed += " nav code main details summary table thead tbody tr th td article figure picture"
    assert {tag for tag, _ in page.tags} <= {*allowed.split(), "source", "img"}
    assert not page.named("img")
    assert not any(name.startswith("on") for _, found in page.tags for name in found)
    assert not any("style" in found for _, found in page.tags)
    assert {a["href"] for a in page.named("a") if not a["href"].startswith("#")} == {
        "https://x.test/?a=1&b"
    }
    shown = visible(HOSTILE)
    assert "".join(page.text).count(shown) >= 10
    assert "{{ 7 * 7 }}" in shown
    for hidden in ("\u202e", "\u2066", "\x1b", "\x00", "\ud800"):
        assert hidden not in html
        assert f"[U+{ord(hidden):04X}]" in html


def test_the_page_loads_nothing_and_its_policy_admits_its_own_style_alone(metrics):
    html = render_report(metrics)
    page = Page(html)
    [policy] = [m["content"] for m in page.named("meta") if "http-equiv" in m]
    style = re.search(r"<style>(.*?)</style>", html, re.DOTALL)[1]
    digest = base64.b64encode(sha256(style.encode()).digest()).decode()
    assert policy == (
        f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:; base-uri 'none'; "
        "form-action 'none'"
    )
    assert not re.search(r"url\(|@import|https?://", html)
    assert not page.named("script")
    assert not page.named("link")


def test_the_decision_stands_first_and_what_is_unknown_is_left_out(metrics):
    with_decision = Page(render_report(metrics, decision=DECISION))
    text = " ".join("".join(with_decision.text).split())
    assert text.index("challenger") < text.index("accuracy") < text.index("1 warning")
    assert "fails: challenger" in text
    assert "not computable" in text
    without = " ".join("".join(Page(render_report(metrics)).text).split())
    for word in ("challenger", "Champion", "Benchmarks", "Provenance"):
        assert word not in without
    assert "75.0 %" in without  # 3 of 4 right
    assert "The texts of the pairs were not at hand." in without


def test_pairs_without_a_better_side_are_counted_beside_the_others(metrics):
    made = made_scores([2.0, 1.0, 0.5], sources=["a", "b", "b"], preferences=[1.0, 0.5, 0.5])
    found = json.loads(json.dumps(all_metrics(made, None, Resampling(100), judges=Judges())))
    tiles = {name: (figure, beside) for name, figure, beside in headline(found)}
    assert tiles["held-out pairs"] == ("1", "1 prompts + 2 without a better side")
    [table] = [table for table in sources(found) if table.title == "By source"]
    assert table.headings[-1] == "no better side"
    assert [row[-1] for row in table.rows] == ["0", "2", "2"]
    html = render_report(found, Material())
    assert "without a better side" in html
    lines = result_lines({"metrics": found["overall"], "registered": None})
    assert lines[0].endswith(", on 1 pairs and 2 without a better side")
    assert "better side" not in render_report(metrics, Material())


def test_a_source_named_all_is_told_from_the_total():
    metrics = all_metrics(made_scores([1.0, -1.0], sources=["all", "b"]), how=Resampling(100))
    [table] = [table for table in sources(metrics) if table.title == "By source"]
    assert [row[0] for row in table.rows] == ["all", "b", "all sources"]


def test_a_loss_with_margins_has_the_one_without_them_beside_it():
    made = made_scores([1.0, 2.0], sources=["a", "b"], pair_margins=[3.0, 0.0])
    found = all_metrics(made, how=Resampling(100))
    # softplus(3 - 1), softplus(-2), softplus(-1)
    losses = {"with": (log(1 + exp(2)) + log(1 + exp(-2))) / 2}
    losses["without"] = (log(1 + exp(-1)) + log(1 + exp(-2))) / 2
    tiles = {name: (figure, beside) for name, figure, beside in headline(found)}
    assert tiles["loss"][0] == f"{losses['with']:.3f}"
    assert tiles["loss"][1].endswith(f"; {losses['without']:.3f} without the data's margins")
    [table] = [table for table in sources(found) if table.title == "By source"]
    assert table.headings[-2:] == ("loss", "loss without margins")
    assert table.rows[1][-2:] == [f"{log(1 + exp(-2)):.3f}"] * 2  # no pair of b has a margin
    lines = result_lines({"metrics": found["overall"], "registered": None})
    told = f"loss {losses['with']:.3f} ({losses['without']:.3f} without the data's margins), on 2"
    assert told in lines[0]


def test_every_heading_counts_its_cells(metrics):
    html = render_report(metrics, Material(suspects=[SUSPECT]), decision=DECISION)
    for table in re.findall(r"<table>.*?</table>", html, re.DOTALL):
        [head, *rows] = re.findall(r"<tr.*?</tr>", table, re.DOTALL)
        assert rows
        assert {row.count("<td") for row in rows} == {head.count("<th ")}


@pytest.mark.parametrize(("listed", "said"), [(30, "All of them"), (25, "The first 25 of them")])
def test_the_page_shows_the_first_suspects_and_says_how_many_the_file_holds(listed, said):
    metrics = all_metrics(made_scores([1.0] + [-1.0] * 30), how=Resampling(100, 0))
    html = render_report(metrics, Material(suspects=[SUSPECT] * listed))
    assert f"The model contradicts 30 labels, 0 with at least 90.0 % confidence. {said}, to" in html
    table = html[html.index('aria-label="Labels worth') :]
    assert table[: table.index("</table>")].count("<tr") == 1 + 20


def test_one_label_is_one_label_and_nothing_is_less_than_nothing():
    metrics = all_metrics(made_scores([1.0, -1.0]), how=Resampling(100, 0))
    html = render_report(metrics, Material(suspects=[SUSPECT]))
    assert "The model contradicts 1 label, 0 with" in html
    assert (number(-0.0004), share(-0.0004)) == ("0.000", "0.0 %")
    assert (number(-0.0006), share(-0.0006)) == ("−0.001", "−0.1 %")


def test_figures_have_three_digits_that_tell_and_a_dash_where_there_is_none():
    numbers = [9.99, 12.34, -9999.94, 12345.6, -0.5]
    assert [number(n) for n in numbers] == ["9.990", "12.3", "−9999.9", "1.23e+04", "−0.500"]
    assert interval((0.5, 12.34)) == "0.500 to 12.3"
    assert share_interval((-0.014, 0.25)) == "−1.4 to 25.0 %"
    assert count(1234567) == "1,234,567"
    assert {told(None) for told in (number, share, share_interval, interval, count)} == {"–"}


def test_what_a_reader_needs_to_see_stays_as_it_is():
    assert visible("Grüße, 世界 👩‍🚀\n\tsalut") == "Grüße, 世界 👩‍🚀\n\tsalut"
    assert visible("a\u200bb\x07") == "a[U+200B]b[U+0007]"
