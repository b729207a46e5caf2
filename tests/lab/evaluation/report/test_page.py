from __future__ import annotations

import copy
import io
import json
import re
from html.parser import HTMLParser

import pytest
from rich.console import Console

from alphita_lab.evaluation.report import entries, markdown, page
from tests.lab.evaluation.sample_report import EVIL, sample

VOID = {"meta", "input", "img", "line", "polyline", "circle", "rect", "path", "polygon", "wbr"}


class Tree(HTMLParser):
    """Checks that elements are closed in order, and keeps what they hold."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.tables: list[list[list[tuple[str, str]]]] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)
        if tag == "table":
            self.tables.append([])
        if tag == "tr":
            self.tables[-1].append([])
        if tag in ("td", "th"):
            self.tables[-1][-1].append((tag, ""))

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] in ("style", "script"):
            return
        self.text.append(data)
        if {"td", "th"} & set(self.open):
            kind, text = self.tables[-1][-1][-1]
            self.tables[-1][-1][-1] = kind, f"{text} {data}".strip()


def parsed(text: str) -> Tree:
    tree = Tree()
    tree.feed(text)
    tree.close()
    assert tree.open == []
    return tree


@pytest.fixture(scope="module")
def report() -> dict:
    return json.loads(json.dumps(sample(), allow_nan=False))


@pytest.fixture(scope="module")
def tree(report) -> Tree:
    return parsed(page.to_html(report))


def test_a_table_without_rows(report) -> None:
    changed = copy.deepcopy(report)
    for table in changed["benchmarks"][0]["systems"][0]["tables"].values():
        table["rows"] = []
    assert "nearest to fever" in " ".join(parsed(page.to_html(changed)).text)
    assert "nearest to fever" in markdown.to_markdown(changed)


def rows_of(tree: Tree, heading: str) -> dict[str, list[str]]:
    table = next(one for one in tree.tables if one[0][0][1] == heading)
    return {row[0][1]: [text for _, text in row[1:]] for row in table[1:]}


def test_page_is_whole_and_needs_nothing_else(report, tmp_path) -> None:
    out = tmp_path / "report.html"
    page.write_page(report, out)
    text = out.read_text(encoding="utf-8")
    tree = parsed(text)
    for _, attributes in tree.seen:
        for key in ("src", "href", "xlink:href"):
            assert attributes.get(key, "#").startswith(("#", "data:"))
    assert "@import" not in text
    assert "url(" not in text
    ids = [attributes["id"] for _, attributes in tree.seen if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert {attributes["href"][1:] for tag, attributes in tree.seen if tag == "a"} <= set(ids)


def test_everything_is_escaped(report, tree) -> None:
    assert [tag for tag, _ in tree.seen].count("script") == 1
    assert EVIL in "".join(tree.text)
    # The same report with harmless strings has the same elements.
    calm = json.loads(json.dumps(report).replace(json.dumps(EVIL)[1:-1], "calm"))
    harmless = parsed(page.to_html(calm))
    assert [tag for tag, _ in harmless.seen if tag != "wbr"] == [tag for tag, _ in tree.seen if tag != "wbr"]


def test_tables_can_be_read_aloud(tree) -> None:
    names = [tag for tag, _ in tree.seen]
    assert names.count("caption") == names.count("table") > 10
    for tag, attributes in tree.seen:
        if tag == "th":
            assert attributes["scope"] in ("col", "row", "rowgroup")
        if tag == "svg":
            assert attributes.get("aria-label") or attributes.get("aria-hidden")


def test_every_row_has_all_columns(report) -> None:
    text = page.to_html(report)
    for table in re.findall(r"<table.*?</table>", text, re.DOTALL):
        widths = set()
        for row in re.findall(r"<tr.*?</tr>", table, re.DOTALL):
            cells = re.findall(r"<t[hd]\b[^>]*>", row)
            spans = [int(found[1]) if (found := re.search(r'colspan="(\d+)"', cell)) else 1 for cell in cells]
            widths.add(sum(spans))
        assert len(widths) == 1, table[:300]


def test_scores_stand_with_interval_difference_and_time(report, tree) -> None:
    ours, baseline = report["benchmarks"][0]["systems"][:2]
    rows = rows_of(tree, "System")
    main = entries.figure(ours, "accuracy@1")
    cells = rows[f"ours {EVIL}"] if f"ours {EVIL}" in rows else next(iter(rows.values()))
    assert cells[0] == f"{100 * main['value']:.1f} [{100 * main['low']:.1f}, {100 * main['high']:.1f}]"
    told = entries.difference(ours, "accuracy@1")
    assert cells[1].startswith(f"{100 * told['difference']:+.1f} [")
    assert cells[1].endswith(f"p {told['p']:.3f}, better")
    unseen = entries.figure(ours, "accuracy@1", "seen=False")
    assert cells[2].startswith(f"{100 * unseen['value']:.1f} [")
    assert cells[2].endswith(f"n {unseen['n']}")
    assert cells[-3:] == ["60", "90.0% 54 of 60", "1 min 23 s"]
    assert rows[baseline["name"]][1] == "baseline"


def test_published_figures_are_flagged_with_reasons(tree) -> None:
    rows = rows_of(tree, "System")
    published = {key: value for key, value in rows.items() if "Author et al." in key}
    assert [value[0] for value in published.values()] == [
        "63.55",
        "50.0 protocol differs 1 doubtful 2",
        "47.0 protocol differs 1",
    ]
    assert "60.0" in next(iter(published.values()))
    text = "".join(tree.text)
    assert text.count(f"Protocol differs: other folds {EVIL}.") == 1
    assert "Doubtful as printed: two tables differ." in text
    by_language = rows_of(tree, "Language")
    assert by_language["it"][-1] == "70.0"
    assert by_language["en"][-1] == ""


def test_what_was_not_run_or_not_tested_says_so(tree) -> None:
    text = " ".join(tree.text)
    assert "2 benchmarks run on 2 systems; 1 not run" in text
    assert "the benchmark missing finds no file here." in text
    assert "Where to get the data: at https://example.org." in text
    assert text.count("untested on real data") == 2
    assert "vectors: not scored, needs a system for text." in text


def test_errors_curves_pictures_and_provenance(report) -> None:
    text = page.to_html(report, pictures=[page.Picture(b"\x89PNG", f"a map {EVIL}")])
    tree = parsed(text)
    words = " ".join(tree.text)
    for told in (
        "commonest wrong answers",
        "wrong answers with the greatest similarity",
        "by words in the mention",
        "overlap with the nearest gold name",
        "accuracy within the first k concepts",
        "links: theta F1",
        "b" * 64,
        "numpy: 2",
        "nearest to fever (",
        "pyrexia *",
        "<chill>",
        ": similarity",
        "synonyms",
    ):
        assert told in words, told
    image = next(attributes for tag, attributes in tree.seen if tag == "img")
    assert image["src"] == "data:image/png;base64,iVBORw=="
    assert image["alt"] == f"a map {EVIL}"


def test_a_report_of_the_smallest_kind(report) -> None:
    bare = copy.deepcopy(report)
    bare["benchmarks"] = [bare["benchmarks"][1]]
    system = bare["benchmarks"][0]["systems"][0]
    system.update(
        figures=[one for one in system["figures"] if one["subset"] == "all"][:1],
        errors={},
        curves={},
        tables={},
        histograms={},
        notes={},
    )
    system["figures"][0].update(value=None, low=None, high=None)
    system.pop("metrics")
    bare["benchmarks"][0].update(options={})
    tree = parsed(page.to_html(bare))
    assert rows_of(tree, "System")["tfidf"] == ["–", "60", "1 min 23 s"]
    assert "| tfidf | – | 60 | 1 min 23 s |" in markdown.to_markdown(bare)
    tree = parsed(page.to_html(bare | {"benchmarks": []}))
    assert "0 benchmarks run" in " ".join(tree.text)


def test_a_report_in_which_nothing_was_run(report) -> None:
    paper = report["benchmarks"][2]["published"][0]
    papers = [{**paper, "subset": "language=it"}, {**paper, "system": "OtherBERT", "metric": "MCSM"}]
    bare = report | {"benchmarks": [report["benchmarks"][2] | {"published": papers}]}
    tree = parsed(page.to_html(bare))
    assert rows_of(tree, "Benchmark") == {"missing accuracy@1": ["not run"]}
    rows = rows_of(tree, "System")
    # A figure of a part stands here too, for there are no breakdowns of what was not run.
    assert rows["PaperBERT Author et al. 2020, table 1"] == ["accuracy@1", "language=it", "80.0"]
    assert rows["OtherBERT Author et al. 2020, table 1"] == ["MCSM", "all", "0.8"]
    text = markdown.to_markdown(bare)
    assert "| PaperBERT | Author et al. 2020, table 1 | accuracy@1 | language=it | 80.0 |" in text
    assert "| OtherBERT | Author et al. 2020, table 1 | MCSM | all | 0.8 |" in text


def test_markdown_has_summary_details_and_notes(report) -> None:
    text = markdown.to_markdown(report)
    lines = text.splitlines()
    assert "### Normalization" in lines
    summary = lines[lines.index("### Normalization") + 4]
    figure = entries.figure(report["benchmarks"][0]["systems"][0], "accuracy@1")
    assert summary.startswith(f"| links | accuracy@1 | **{100 * figure['value']:.1f} [")
    assert any("the benchmark missing finds no file here. at https://example.org" in line for line in lines)
    assert any("| 50.0 (note 1, 2) |" in line for line in lines)
    assert any(line.startswith("1. Protocol differs: other folds") for line in lines)
    assert any(line.startswith("| nearest to fever (") for line in lines)
    assert r"| pyrexia \* | febbre \* |" in lines
    assert re.search(r"(?<!\\)<script", text) is None
    # Every line of a table has as many cells as its head.
    width = 0
    for line in lines:
        cells = len(re.findall(r"(?<!\\)\|", line)) if line.startswith("|") else 0
        assert not (width and cells) or cells == width, line
        width = cells


def test_summary_for_a_terminal(report) -> None:
    console = Console(width=120, record=True, file=io.StringIO())
    console.print(markdown.summary_tables(report))
    text = console.export_text()
    assert re.search(r"links\s+accuracy@1\s+\S+ \[", text)
    assert EVIL[:20] in text
    assert "Not run: missing; the report says why." in text


@pytest.mark.parametrize(
    ("value", "fraction", "expected"),
    [
        (0.6355, True, "63.55"),
        (0.474, True, "47.4"),
        (0.65, True, "65.0"),
        (1.0, True, "100.0"),
        (3.62, False, "3.62"),
        (3382.0, False, "3382"),
    ],
)
def test_published_numbers_keep_their_decimals(value, fraction, expected) -> None:
    assert entries.as_printed(value, fraction=fraction) == expected


def test_small_words() -> None:
    assert [entries.duration(one) for one in (0.8412, 12.2, 59.6, 200)] == ["0.84 s", "12 s", "1 min 0 s", "3 min 20 s"]
    assert entries.number(None, fraction=True) == "–"
    assert entries.number(3382.4, fraction=False) == "3,382.4"
    assert entries.number(-0.0514, fraction=False, signed=True) == "-0.051"
    assert entries.verdict({"low": 0.1, "high": 0.2}, higher_is_better=False) == "worse"
    assert entries.verdict({"low": -0.1, "high": 0.2}) == "not told apart"
    assert entries.verdict({"low": None, "high": None}) == "not told apart"
    assert entries.plain({"a": [1, 2.5, None], "b": True}) == "a: 1, 2.5, –, b: yes"
    assert markdown.text("a|b *c* snake_case _d_ <b> 2 < 3 [x](y)\nz") == (
        r"a\|b \*c\* snake_case \_d\_ \<b> 2 < 3 [x\](y) z"
    )
    assert markdown.text("x &amp; y & z &#65; __x__") == r"x \&amp; y & z \&#65; \_\_x\_\_"


def test_a_mean_of_folds_is_shown_if_it_is_of_one_dataset_alone(report) -> None:
    entry = copy.deepcopy(report["benchmarks"][0])
    for system in entries.scored(entry):
        one = {"metric": "accuracy@1", "value": 0.625, "low": None, "high": None, "n": 40}
        system["figures"] += [one | {"subset": "mean of folds, dataset=askapatient"}, one | {"subset": "other=1"}]
    assert entries.subsets(entry)["mean of folds, dataset"] == ["askapatient"]
    assert "other" not in entries.subsets(entry)
    whole = report | {"benchmarks": [entry]}
    assert "askapatient | 40 | 62.5" in markdown.to_markdown(whole)


def test_counts_are_sorted_as_numbers(report) -> None:
    entry = copy.deepcopy(report["benchmarks"][0])
    for system in entries.scored(entry):
        for figure in system["figures"]:
            figure["n"] = 12_345
    assert '<td class="number" data-value="12345">12,345</td>' in page.to_html(report | {"benchmarks": [entry]})


def test_lower_is_better_marks_the_lowest(report) -> None:
    entry = copy.deepcopy(report["benchmarks"][0])
    assert entries.best(entry, ("accuracy@1", "all")) == entry["systems"][0]["name"]
    for system in entries.scored(entry):
        system["metrics"][0]["higher_is_better"] = False
    assert entries.best(entry, ("accuracy@1", "all")) == "tfidf"
    assert entries.best(entry, ("theta", "best")) is None
