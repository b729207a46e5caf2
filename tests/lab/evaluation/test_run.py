"""`alphita evaluate` from end to end, on small data, with a stand-in for the encoder where one is needed."""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from alphita import artefact, cli, textio
from alphita.errors import InputError, UsageError
from alphita.terminology.splits import hold_out_synonyms
from alphita.terminology.text import DEFAULT_RULES
from alphita_lab.evaluation import run
from alphita_lab.evaluation.benchmarks import Source, load_benchmark
from alphita_lab.evaluation.report import page, pictures
from alphita_lab.evaluation.run import EvaluationPlan
from alphita_lab.evaluation.scoring.results import figures_of
from alphita_lab.evaluation.systems import load_system
from alphita_lab.evaluation.systems.encoder import EncoderSystem
from tests.doubles import HashEncoder
from tests.tiny import SITES, tiny_terminology

ROOT = Path(__file__).parents[3]
FOLDS = {
    "standard": "1\tNausea\n2\tHeadache\n3\tInsomnia\n",
    "train": "1\tfelt sick\n",
    "test": '1\tnausea\n2\t"bad ""headache"""\n3\tcould not sleep\n3\tinsomnia\n',
}


@pytest.fixture
def folds(tmp_path):
    folder = tmp_path / "data" / "psytar"
    folder.mkdir(parents=True)
    for number in range(1, 6):
        for part, text in FOLDS.items():
            (folder / f"fold_{number}.{part}.txt").write_text(text)
    return tmp_path / "data"


class Hashes(HashEncoder):
    pooling = "mean"


def system(name: str, **facts: object) -> EncoderSystem:
    return EncoderSystem(Hashes(), name, rules=DEFAULT_RULES, facts={"kind": "encoder", **facts})


def alphita(*arguments: object) -> int:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["alphita", *map(str, arguments)])
        patch.setattr("alphita.machine.set_threads", lambda threads: threads or 1)
        with pytest.raises(SystemExit) as leaving:
            cli.main()
    return int(leaving.value.code or 0)


def report_of(out: Path) -> dict[str, Any]:
    return json.loads((out / "report.json").read_text())


@pytest.mark.parametrize("row", textio.packaged(__package__, "wrong_use.tsv"), ids=lambda row: row["words"])
def test_wrong_use(folds, terminology, own, tmp_path, capsys, row):
    """Whatever is mistyped is told before the data are read, which take long."""
    for name, text in (("psytar", OWN), ("half", "INFO = 1\n"), ("bad", "import nothing_of_this_name\n")):
        (tmp_path / f"{name}.py").write_text(text)
    shutil.copy(own, (tmp_path / "again").mkdir() or tmp_path / "again")
    filled = row["words"].format(folds=folds, tmp=tmp_path, terminology=terminology.path)
    assert alphita("evaluate", *filled.split(), "-o", tmp_path / "report") == int(row["code"])
    assert re.search(row["problem"], capsys.readouterr().err, re.DOTALL)
    assert not (tmp_path / "report").exists()


def test_files_that_are_called_alike_have_a_hash_each(folds, tmp_path):
    for path in sorted((folds / "psytar").iterdir()):
        fold, part = path.stem.split(".")
        (folds / "psytar" / fold).mkdir(exist_ok=True)
        path.rename(folds / "psytar" / fold / f"{part}.txt")
    (folds / "psytar" / "fold_3" / "train.txt").write_text("1\tfelt bad\n")
    files = run.run(EvaluationPlan(["psytar"], ["exact_match"], data=folds), tmp_path / "report")["provenance"]["data"]
    assert set(files) == {f"psytar/fold_{fold}/{part}.txt" for fold in range(1, 6) for part in FOLDS}
    assert files["psytar/fold_3/train.txt"] != files["psytar/fold_2/train.txt"] == files["psytar/fold_1/train.txt"]


def test_what_settings_name_has_a_hash_too(terminology, tmp_path):
    queries, split = tmp_path / "queries.txt", tmp_path / "x.split"
    queries.write_text("heart pain\n")
    hold_out_synonyms(terminology, fraction=0.5, seed=1).save(split)
    plan = EvaluationPlan(
        ["case_table", "held_out_synonyms"],
        ["exact_match"],
        terminology=terminology,
        settings=[f"queries={queries}", f"split={split}"],
    )
    files = run.run(plan, tmp_path / "report")["provenance"]["data"]
    assert files["case_table/queries"] == artefact.hash_file(queries)
    assert files["held_out_synonyms/split"] == artefact.open_manifest(split, "split")["content_hash"]
    queries.write_text("liver pain\n")
    assert run.run(plan, tmp_path / "again")["provenance"]["data"]["case_table/queries"] != files["case_table/queries"]


def test_all_tells_what_was_not_run_and_where_to_get_it(folds, tmp_path):
    report = run.run(EvaluationPlan(["all"], ["exact_match"], data=folds, skipped=["mednli_s"]), tmp_path / "report")
    entries = {entry["name"]: entry for entry in report["benchmarks"]}
    assert entries["psytar"]["not_run"] is None
    assert "--terminology" in entries["held_out_synonyms"]["not_run"]
    assert "finds no" in entries["cadec"]["not_run"]
    assert entries["cadec"]["where"]
    assert entries["mednli_s"]["not_run"] == "left out on request (--skip)"
    assert [name for name, entry in entries.items() if entry["not_run"] is None] == ["psytar"]


def test_without_jinja2_nothing_is_scored(folds, tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    words = ("evaluate", "psytar", "-m", "tfidf", "--data", folds, "-o", tmp_path / "report")
    assert alphita(*words) == 1
    told = capsys.readouterr().err
    assert "pip install 'alphita[evaluate]'" in told
    assert "psytar: tfidf" not in told


def test_a_system_that_cannot_do_a_benchmark_is_told_apart(folds, tmp_path):
    shutil.copytree(ROOT / "tests" / "fixtures" / "benchmarks" / "classification", folds / "classification")
    with pytest.raises(UsageError, match="classification needs a system for text by an encoder that can be trained"):
        run.run(EvaluationPlan(["classification"], ["tfidf"], data=folds), tmp_path / "report")
    report = run.run(EvaluationPlan(["all"], ["tfidf"], data=folds), tmp_path / "report")
    (entry,) = [one for one in report["benchmarks"] if one["name"] == "classification"]
    assert entry["systems"] == [
        {"name": "tfidf", "not_applicable": "needs a system for text by an encoder that can be trained"}
    ]


def test_a_system_that_cannot_be_had_is_a_row_and_the_others_are_scored(folds, tmp_path, monkeypatch, capsys):
    import huggingface_hub

    def offline(*_args, **_options):
        raise OSError("no network")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", offline)
    out = tmp_path / "report"
    words = ("psytar", "--data", folds, "-b", "owner/absent,pooling=cls,name=absent", "-b", "tfidf", "-m", "bm25")
    assert alphita("evaluate", *words, "-o", out) == 0
    told = capsys.readouterr().err
    assert "absent: not scored: could not fetch the encoder 'owner/absent' from the hub: no network" in told
    assert "not scored, for reasons that the report gives: absent\n" in told
    rows = {row["name"]: row for row in report_of(out)["benchmarks"][0]["systems"]}
    assert "no network" in rows["absent"]["not_applicable"]
    assert rows["bm25"]["against"]["baseline"] == "tfidf"
    assert "absent: not scored, could not fetch" in (out / "report.md").read_text()
    assert "no network" in (out / "report.html").read_text()
    assert alphita("evaluate", "psytar", "--data", folds, "-m", "owner/absent", "-o", tmp_path / "none") == 1
    assert alphita("evaluate", "--check", "-m", "owner/absent", "-m", "tfidf") == 0
    assert capsys.readouterr().out.splitlines()[-1] == "tfidf: ready"


def test_a_system_that_fails_leaves_the_others_their_figures(folds, tmp_path, monkeypatch, capsys):
    opened = run.load_system

    def load(spec: str):
        loaded = opened("tfidf")
        loaded.name = spec
        if spec == "broken":
            loaded.neighbours = lambda *_: (_ for _ in ()).throw(InputError("it broke", remedy="mend it"))
        return loaded

    monkeypatch.setattr(run, "load_system", load)
    out = tmp_path / "report"
    assert alphita("evaluate", "psytar", "-m", "broken", "-m", "sound", "--data", folds, "-o", out) == 1
    told = capsys.readouterr().err
    assert "psytar: broken: not scored: it broke; mend it" in told
    assert "not scored, for reasons that the report gives: psytar: broken" in told
    first, second = report_of(out)["benchmarks"][0]["systems"]
    assert first == {"name": "broken", "not_applicable": "it broke; mend it", "failed": True}
    assert second["figures"]
    with pytest.raises(InputError, match="it broke"):
        run.run(EvaluationPlan(["psytar"], ["broken"], data=folds), tmp_path / "nothing")
    assert not (tmp_path / "nothing").exists()


OWN = """
import polars as pl
from alphita.config import Config
from alphita_lab.evaluation.scoring import linking
from alphita_lab.evaluation.benchmarks import Info
from alphita_lab.evaluation.scoring.results import Metric, Result

INFO = Info(title="mine", task="normalization", citation="none", where="nowhere")
PUBLISHED = ()


class Options(Config):
    fault: str = ""


def load(source, options):
    return ["head", "knee"]


def evaluate(data, system, options):
    if options.fault == "uneven" and system.name != "tfidf":
        data = data[:1]
    result = linking.evaluate(system, linking.simple(data, data), linking.Targets(ids=data, names=data))
    if options.fault == "key":
        {}["brand"]
    if options.fault == "exit":
        raise KeyboardInterrupt
    if options.fault == "metric":
        return Result(result.rows, (Metric("odd", ("no_column",)),))
    if options.fault == "rows":
        return Result(result.rows.with_columns(odd=pl.Series([object()] * 2, dtype=pl.Object)), result.metrics)
    if options.fault == "notes":
        result.notes["odd"] = {1}
    if options.fault == "uncovered":
        return linking.evaluate(system, linking.simple(data, ["none"] * 2), linking.Targets(ids=data, names=data))
    return result
"""


@pytest.fixture
def own(tmp_path):
    (tmp_path / "mine.py").write_text(OWN)
    return tmp_path / "mine.py"


def test_a_model_trained_without_the_split_gets_a_word_of_caution(terminology, tmp_path, monkeypatch):
    trained = {"recipe": "coder", "terminology": "t", "split": None}
    monkeypatch.setattr(run, "load_system", lambda spec: system(spec, trained=trained))
    plan = EvaluationPlan(["held_out_synonyms"], ["mine"], terminology=terminology, settings=["fraction=1"])
    report = run.run(plan, tmp_path / "report")
    notes = report["benchmarks"][0]["systems"][0]["notes"]
    assert "may have been trained on" in notes["caution"]
    trained["split"] = notes["split"]
    again = run.run(plan, tmp_path / "again")
    assert "caution" not in again["benchmarks"][0]["systems"][0]["notes"]
    plan = EvaluationPlan(["synonym_similarity"], ["mine"], terminology=terminology)
    notes = run.run(plan, tmp_path / "third")["benchmarks"][0]["systems"][0]["notes"]
    assert "they were seen in training" in notes["caution"]


@pytest.mark.parametrize(
    ("fault", "reason"),
    [("key", "KeyError: 'brand'"), ("metric", "ColumnNotFoundError"), ("rows", ""), ("notes", "TypeError: a report")],
)
def test_what_nobody_foresaw_leaves_the_others_their_figures(folds, own, tmp_path, capsys, fault, reason):
    out = tmp_path / "report"
    words = ("evaluate", own, "-m", "tfidf", "--data", folds, "--set", f"mine.fault={fault}")
    assert alphita(*words, "psytar", "-o", out) == 1
    told = capsys.readouterr().err
    assert "Traceback" in told
    assert f"mine: tfidf: not scored: {reason}" in told
    assert "not scored, for reasons that the report gives: mine: tfidf\n" in told
    mine, psytar = report_of(out)["benchmarks"]
    assert psytar["systems"][0]["figures"]
    (failed,) = mine["systems"]
    assert failed["failed"] is True
    assert reason in failed["not_applicable"]
    assert failed["traceback"].startswith("Traceback")
    assert [path.name for path in (out / "rows").iterdir()] == ["psytar.tfidf.parquet"]
    # Alone, it leaves no report, and says what went wrong without a second traceback.
    assert alphita(*words, "-o", tmp_path / "nothing") == 1
    assert capsys.readouterr().err.splitlines()[-1].startswith(f"error: mine: tfidf: not scored: {reason}")
    assert not (tmp_path / "nothing").exists()


def test_answers_to_different_questions_keep_their_figures(own, tmp_path, capsys):
    words = ("evaluate", own, "-b", "tfidf", "-m", "edit_distance", "--set", "fault=uneven", "-o", tmp_path / "report")
    assert alphita(*words) == 1
    assert "mine: edit_distance (not compared with the baseline)" in capsys.readouterr().err
    edit, tfidf = report_of(tmp_path / "report")["benchmarks"][0]["systems"]
    assert edit["figures"]
    assert edit["against"] is None
    assert "different queries" in edit["notes"]["not compared"]
    assert "not compared" not in tfidf["notes"]


@pytest.mark.parametrize(("fault", "code"), [("exit", 130), ("uncovered", 0)])
def test_a_benchmark_that_is_interrupted_or_covers_nothing(own, tmp_path, capsys, fault, code):
    assert alphita("evaluate", own, own, "-m", "tfidf", "--set", f"fault={fault}", "-o", tmp_path / "report") == code
    assert (tmp_path / "report").exists() == (code == 0)
    if code == 0:
        assert "mine: tfidf: no gold concept has a name among the targets" in capsys.readouterr().err
        (one,) = report_of(tmp_path / "report")["benchmarks"][0]["systems"]
        assert "no gold concept" in one["notes"]["coverage"]


def test_all_passes_over_what_was_given_too_little_for(folds, terminology, tmp_path, capsys):
    bare = tiny_terminology(tmp_path / "bare.terminology", synonyms=False)
    not_run = []
    for number, given in enumerate((terminology, bare)):
        out = tmp_path / str(number)
        # Of a benchmark that wants more than was given, nothing is wrong with the seed.
        words = ("evaluate", "all", "-m", "exact_match", "--data", folds, "-t", given.path, "--set", "seed=3")
        assert alphita(*words, "-o", out) == 0, capsys.readouterr().err
        not_run.append({entry["name"]: entry["not_run"] for entry in report_of(out)["benchmarks"]})
    assert "language is ''" in not_run[0]["held_out_translations"]
    assert "asks held-out triples" in not_run[0]["attribute_ranking"]
    assert "none of 24 triples can be held out" in not_run[0]["link_prediction"]
    assert not_run[0]["case_table"] is None
    assert "no concept has two terms" in not_run[1]["clustering_pairs"]
    assert "two names or more" in not_run[1]["synonym_similarity"]
    assert "nothing is held out" in not_run[1]["held_out_synonyms"]


def test_the_benchmark_in_the_docs_works(tmp_path, capsys):
    text = (ROOT / "docs" / "evaluation.md").read_text()
    (block,) = [one for one in re.findall(r"```python\n(.*?)```", text, re.S) if "INFO = Info(" in one]
    (tmp_path / "brands.py").write_text(block)
    words = ("evaluate", tmp_path / "brands.py", "-b", "tfidf", "--data", tmp_path, "-o", tmp_path / "report")
    (tmp_path / "brands.csv").write_text("name,ingredient\nMoment,ibuprofen\n")
    assert alphita(*words) == 1
    assert re.search(r"brands.csv:1:.*has no column 'brand'", capsys.readouterr().err)
    (tmp_path / "brands.csv").write_text("brand,ingredient\nParacetamol Zeta,paracetamol\nMoment,ibuprofen\n")
    assert alphita(*words) == 0
    (entry,) = report_of(tmp_path / "report")["benchmarks"]
    whole = {one["metric"]: one["value"] for one in entry["systems"][0]["figures"] if one["subset"] == "all"}
    assert (entry["name"], whole["accuracy@1"]) == ("brands", 0.5)


# --- the two benchmarks that are made to be looked at ----------------------------------------------------------------


def test_a_case_table_shows_the_nearest_terms_of_each_language(terminology, tmp_path):
    module = load_benchmark("case_table")
    queries = tmp_path / "queries.txt"
    queries.write_text(f"{SITES[0]} disorder\n\nno such thing\n")
    options = module.Options(queries=queries, k=2)
    data = module.load(Source(terminology=terminology), options)
    assert data.queries == [f"{SITES[0]} disorder", "no such thing"]
    assert list(data.terms) == ["en"]
    result = module.evaluate(data, load_system("tfidf"), options)
    # A term equal to the query is not shown, and the nearest of the others is the concept's other name.
    assert result.rows["found"].to_list()[0][0] == f"disorder of the {SITES[0]}"
    assert result.rows["right@1"].to_list() == [True, False]
    assert list(result.tables) == data.queries
    assert result.tables[data.queries[0]]["en"].to_list()[0] == f"disorder of the {SITES[0]} *"
    assert result.notes["queries that the terminology does not have"] == 1
    # By hand: right where a term found names a concept of the query.
    for row in result.rows.iter_rows(named=True):
        gold = set(terminology.search(row["mention"]))
        assert row["right"] == [bool(gold & set(terminology.search(term))) for term in row["found"]]


@pytest.mark.parametrize(("content", "problem"), [("\n ,\n", "holds no query"), (None, "cannot be read")])
def test_case_tables_need_a_file_of_queries(terminology, tmp_path, content, problem):
    module, path = load_benchmark("case_table"), tmp_path / "queries.txt"
    if content:
        path.write_text(content)
    with pytest.raises(InputError, match=problem):
        module.load(Source(terminology=terminology), module.Options(queries=path))


class Tagged:
    """Similarity 1 for strings with the same first word, else 0; none for the word "unheard"."""

    name, rules, facts = "tagged", DEFAULT_RULES, {}

    def similarity(self, left, right):
        import numpy as np

        pairs = zip(left, right, strict=True)
        return np.array(
            [np.nan if "unheard" in one + other else one.split()[0] == other.split()[0] for one, other in pairs], float
        )


def test_synonym_similarity_counts_triplets():
    module = load_benchmark("synonym_similarity")
    data = module.Data(["a x", "b x", "c x", "d x"], ["a y", "b y", "x y", "unheard y"], ["z", "b z", "z", "z"])
    result = module.evaluate(data, Tagged(), module.Options())
    # Nearer, tied, tied (both 0), and one that cannot be told.
    assert result.rows["nearer"].fill_nan(None).to_list() == [1.0, 0.5, 0.5, None]
    assert figures_of(result)[0].value == pytest.approx(2 / 3)
    assert result.notes == {"triplets": 4, "triplets without an answer": 1}
    edges, counts = result.histograms["similarity"]
    assert len(edges) == len(counts["synonyms"]) + 1
    assert (sum(counts["synonyms"]), sum(counts["others"])) == (3, 3)


def test_synonym_similarity_draws_synonyms_and_others(terminology):
    module = load_benchmark("synonym_similarity")
    data = module.load(Source(terminology=terminology), module.Options(number=10))
    assert len(data.anchors) == 10
    for anchor, synonym, other in zip(data.anchors, data.synonyms, data.others, strict=True):
        same, far = (set(terminology.search(anchor)) & set(terminology.search(one)) for one in (synonym, other))
        assert anchor != synonym
        assert same
        assert not far
    with pytest.raises(UsageError, match="only 0 concepts have two names"):
        module.load(Source(terminology=terminology), module.Options(language="it"))


def test_pictures_are_drawn(terminology, tmp_path):
    chosen = pictures.choose(terminology, {"one": system("one"), "two": system("two")})
    drawn = list(pictures.draw(terminology, chosen, tmp_path))
    assert all(isinstance(one, page.Picture) and one.png.startswith(b"\x89PNG") for one in drawn)
    assert "silhouette by concept: one" in drawn[0].caption


def test_a_picture_that_fails_leaves_the_figures_and_the_other_picture(folds, terminology, tmp_path, monkeypatch):
    monkeypatch.setattr(run, "load_system", {"one": system("one"), "two": system("two")}.__getitem__)

    def broken(*_: object, **__: object) -> None:
        raise ValueError("too few concepts")

    monkeypatch.setattr(pictures, "type_maps", broken)
    out = tmp_path / "report"
    words = ("evaluate", "psytar", "-m", "one", "-m", "two", "--data", folds, "-t", terminology.path, "--pictures")
    assert alphita(*words, "-o", out) == 1
    for name in ("report.html", "report.md"):
        assert "Not drawn: ValueError: too few concepts" in (out / name).read_text()
    report = report_of(out)
    assert report["pictures"]["not_applicable"] == "ValueError: too few concepts"
    assert [one["name"] for one in report["benchmarks"][0]["systems"] if one["figures"]] == ["one", "two"]
    assert (out / "report.html").read_text().count("data:image/png") == 1
