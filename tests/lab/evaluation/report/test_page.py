"""The pages of reports: as the golden has them, whole, and safe against strings that try to break out of the markup."""

from __future__ import annotations

import copy
import io
import json
import re
from html.parser import HTMLParser

import pytest
from rich.console import Console

from alphita_lab.evaluation.report import charts, entries, markdown, page
from tests.goldens.golden import Goldens
from tests.lab.evaluation.sample_report import EVIL, sample

VOID = {"meta", "input", "img", "line", "polyline", "circle", "rect", "path", "polygon", "wbr"}


class Tree(HTMLParser):
    """Checks that elements are closed in order, and keeps them."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def smallest(report: dict) -> dict:
    system = report["benchmarks"][1]["systems"][0]
    system["figures"] = [one for one in system["figures"] if one["subset"] == "all"][:1]
    system["figures"][0].update(value=None, low=None, high=None)
    system.update(errors={}, curves={}, tables={}, histograms={}, notes={})
    del system["metrics"]
    return report | {"benchmarks": [report["benchmarks"][1] | {"options": {}}]}


def nothing_run(report: dict) -> dict:
    """A figure of a part stands in the table too, for there are no breakdowns of what was not run."""
    paper = report["benchmarks"][2]["published"][0]
    papers = [{**paper, "subset": "language=it"}, {**paper, "system": "OtherBERT", "metric": "MCSM"}]
    failed = {"pictures": {"not_applicable": "ValueError: few"}}
    return report | failed | {"benchmarks": [report["benchmarks"][2] | {"published": papers}]}


def lower_is_better(report: dict) -> dict:
    """Best is the lowest; a mean of folds is shown though it is of one dataset, another subset of one value is not."""
    for system in entries.scored(report["benchmarks"][0]):
        system["metrics"][0].update(higher_is_better=False, fraction=False)
        one = {"metric": "accuracy@1", "value": 0.625, "low": None, "high": None, "n": 12_345}
        system["figures"] += [one | {"subset": "mean of folds, dataset=askapatient"}, one | {"subset": "other=1"}]
        for table in system["tables"].values():
            table["rows"] = []
    return report


REPORTS = {
    "sample": lambda report: report,
    "smallest": smallest,
    "empty": lambda report: report | {"benchmarks": []},
    "nothing run": nothing_run,
    "lower is better": lower_is_better,
}
PICTURES = [page.Picture(b"\x89PNG", f"a map {EVIL}")]


@pytest.fixture(scope="module")
def reports() -> dict[str, dict]:
    plain = json.dumps(sample(), allow_nan=False)
    return {name: change(json.loads(plain)) for name, change in REPORTS.items()}


def test_reports_are_as_they_were(reports) -> None:
    golden = Goldens("reports", list(REPORTS))
    for name, report in reports.items():
        console = Console(width=120, record=True, file=io.StringIO())
        console.print(page.summary_tables(report))
        texts = [page.to_html(report, pictures=PICTURES), page.to_markdown(report), console.export_text(styles=True)]
        golden.check(name, "\n".join(texts))
    golden.check_complete()


@pytest.mark.parametrize("name", REPORTS)
def test_a_page_is_whole_and_needs_nothing_else(reports, name, tmp_path) -> None:
    page.write_page(reports[name], tmp_path / "report.html", pictures=PICTURES)
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    seen = Tree(text).seen
    assert not re.search(r"@import|url\(", text)
    ids = [attributes["id"] for _, attributes in seen if "id" in attributes]
    assert len(ids) == len(set(ids))
    for tag, attributes in seen:
        for key in ("src", "href", "xlink:href"):
            assert (attributes.get(key) or "#").startswith(("#", "data:"))
        if tag == "a":
            assert attributes["href"][1:] in ids
        # What a screen reader says.
        assert tag != "th" or attributes["scope"] in ("col", "row", "rowgroup")
        assert tag != "svg" or attributes.get("aria-label") or attributes.get("aria-hidden")
    names = [tag for tag, _ in seen]
    assert names.count("caption") == names.count("table")
    for table in re.findall(r"<table.*?</table>", text, re.DOTALL):
        rows = [re.findall(r"<t[hd]\b[^>]*>", row) for row in re.findall(r"<tr.*?</tr>", table, re.DOTALL)]
        spans = [[re.search(r'colspan="(\d+)"', cell) for cell in row] for row in rows]
        assert len({sum(int(span[1]) if span else 1 for span in row) for row in spans}) == 1, table[:300]


@pytest.mark.parametrize("name", REPORTS)
def test_every_line_of_a_markdown_table_has_the_cells_of_its_head(reports, name) -> None:
    text, width = page.to_markdown(reports[name]), 0
    assert re.search(r"(?<!\\)<script", text) is None
    for line in text.splitlines():
        cells = len(re.findall(r"(?<!\\)\|", line)) if line.startswith("|") else 0
        assert not (width and cells) or cells == width, line
        width = cells


def test_everything_is_escaped(reports) -> None:
    tree = Tree(page.to_html(reports["sample"]))
    assert [tag for tag, _ in tree.seen].count("script") == 1
    assert EVIL in tree.text
    # The same report with harmless strings has the same elements.
    calm = json.loads(json.dumps(reports["sample"]).replace(json.dumps(EVIL)[1:-1], "calm"))
    harmless = Tree(page.to_html(calm))
    assert [tag for tag, _ in harmless.seen if tag != "wbr"] == [tag for tag, _ in tree.seen if tag != "wbr"]


def test_a_report_is_read_and_not_changed(reports) -> None:
    report = copy.deepcopy(reports["sample"])
    page.to_html(report)
    page.to_markdown(report)
    assert report == reports["sample"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        *((entries.as_printed(value, fraction=True), text) for value, text in ((0.6355, "63.55"), (1.0, "100.0"))),
        *((entries.as_printed(value, fraction=False), text) for value, text in ((3.62, "3.62"), (3382.0, "3382"))),
        ([entries.duration(one) for one in (0.8412, 12.2, 59.6, 200)], ["0.84 s", "12 s", "1 min 0 s", "3 min 20 s"]),
        (entries.number(3382.4, fraction=False), "3,382.4"),
        (entries.number(-0.0514, fraction=False, signed=True), "-0.051"),
        (entries.verdict({"low": 0.1, "high": 0.2}, higher_is_better=False), "worse"),
        (entries.verdict({"low": -0.2, "high": -0.1}), "worse"),
        (entries.verdict({"low": 0, "high": 0.2}), "not told apart"),
        (entries.verdict({"low": None, "high": None}), "not told apart"),
        (entries.plain({"a": [1, 2.5, None], "b": True}), "a: 1, 2.5, –, b: yes"),
        (markdown.text("a|b *c* x_y _d_ <b> 2 < 3 [x](y)\nz"), r"a\|b \*c\* x_y \_d\_ \<b> 2 < 3 [x\](y) z"),
        (markdown.text("x &amp; y & z &#65; __x__"), r"x \&amp; y & z \&#65; \_\_x\_\_"),
        ([charts._tick(0.30000000000000004, True), charts._tick(-0.0, False)], ["30%", "0"]),
    ],
)
def test_small_words(text, expected) -> None:
    assert text == expected
