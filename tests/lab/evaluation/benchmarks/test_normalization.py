"""Normalization benchmarks on their files and on small terminologies; see on_fixtures.tsv for what they read."""

from __future__ import annotations

import gzip
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rapidfuzz.distance import DamerauLevenshtein
from sklearn.metrics import f1_score

from alphita import textio
from alphita.errors import InputError, UsageError
from alphita.terminology.loaders import umls as umls_loader
from alphita.terminology.model import REPLACED_BY
from alphita.terminology.splits import Split, hold_out_synonyms
from alphita.terminology.store import Terminology
from alphita.terminology.text import clean
from alphita_lab.evaluation.benchmarks import Source, _folds, _pubtator, load_benchmark
from alphita_lab.evaluation.benchmarks import _terminology_targets as names
from alphita_lab.evaluation.benchmarks._held_out import hold_out_translations
from alphita_lab.evaluation.scoring.linking import Queries, Targets
from alphita_lab.evaluation.scoring.results import Result, figures_of
from alphita_lab.evaluation.systems import load_system
from tests.lab.evaluation.hash_systems import SharedLetters
from tests.lab.evaluation.small_terminologies import save, term
from tests.reference import linking as reference
from tests.runs import umls_release
from tests.tables import loaded

FILES = Path(__file__).parents[3] / "fixtures" / "benchmarks"


def load(name: str, data: Path | None = FILES, terminology: Terminology | None = None, **options: Any) -> Any:
    module = load_benchmark(name)
    return module.load(Source(data, terminology, name, module.INFO.where), module.Options(**options))


def run(data: Any, system: str = "tfidf", name: str = "mantra") -> Result:
    return load_benchmark(name).evaluate(data, load_system(system), None)


def score(name: str, data: Path, **options: Any) -> Result:
    return run(load(name, data, **options), "exact_match", name)


def values(result: Result) -> dict[tuple[str, str], float | None]:
    return {(figure.subset, figure.metric): figure.value for figure in figures_of(result)}


def copied(name: str, folder: Path) -> Path:
    shutil.copytree(FILES / name, folder / name)
    return folder


# --- parts and folds --------------------------------------------------------------------------------------------------


NAMES = st.text("abcd", min_size=1, max_size=3)
IDS = st.sampled_from(["1", "2", "3", "4"])
TARGETS = st.lists(st.tuples(IDS, NAMES), min_size=1, max_size=8)
QUERY = st.lists(st.tuples(NAMES, st.frozensets(IDS, min_size=1, max_size=2)), min_size=1, max_size=3)
PARTS = st.lists(st.tuples(TARGETS, st.lists(QUERY, min_size=1, max_size=6)), min_size=1, max_size=4)


@settings(max_examples=30, deadline=None)
@given(PARTS)
def test_parts_and_the_mean_of_folds_against_the_reference(drawn) -> None:
    system, parts, expected = SharedLetters(), [], []
    for number, (targets, asked) in enumerate(drawn):
        ids, target_names = (list(column) for column in zip(*targets, strict=True))
        mentions = [tuple(mention for mention, _ in query) for query in asked]
        gold = [tuple(ids_of_part for _, ids_of_part in query) for query in asked]
        queries = Queries(mentions, gold, {"fold": [number] * len(asked)})
        parts.append(_folds.Part(queries, Targets(ids=ids, names=target_names)))
        right = []
        for strings, answers in zip(mentions, gold, strict=True):
            found = [{name: value for name in target_names if (value := system.of(string, name))} for string in strings]
            rankings = [reference.rank(similarities, target_names, ids, 3) for similarities in found]
            right.append([reference.right(rankings, list(answers), k) for k in (1, 3)])
        expected.append(right)
    result = _folds.evaluate(system, _folds.Parts(parts), ks=(1, 3), subsets=("fold",))
    flat = [query for fold in expected for query in fold]
    assert result.rows.select("right@1", "right@3").rows() == [tuple(query) for query in flat]
    assert result.rows["query"].to_list() == list(range(len(flat)))
    for place, k in enumerate((1, 3)):
        means = [np.mean([query[place] for query in fold]) for fold in expected]
        assert values(result)["mean of folds", f"accuracy@{k}"] == pytest.approx(np.mean(means))
        for number, mean in enumerate(means):
            assert values(result)[f"fold={number}", f"accuracy@{k}"] == pytest.approx(mean)
    assert result.notes["queries"] == len(flat)


def test_folds_tell_what_was_seen_and_what_is_not_covered(tmp_path) -> None:
    data = copied("psytar", tmp_path)
    for file, more in (
        ("fold_1/train.txt", "101\tMouth was  dry\n"),
        ("fold_2/test.txt", "999\tdry mouth\n999\tdry mouth\n"),
    ):
        path = data / "psytar" / file
        path.write_text(path.read_text() + more)
    assert [sum(part.queries.seen) for part in load("psytar", data).parts] == [1, 0, 0, 0, 0]
    result = score("psytar", data)
    assert result.notes["covered"] == 12
    assert result.rows.filter(~result.rows["covered"])["gold"].to_list() == ["999", "999"]
    assert "covered" in result.subsets
    assert result.notes["queries that repeat another"] == 1
    # A target in one fold only: then the counts of names are sums.
    standard = data / "psytar" / "fold_2" / "standard.txt"
    standard.write_text(standard.read_text() + "999\tOddness\n")
    assert score("psytar", data).notes["names"] == 21


# --- corpora with a dictionary ----------------------------------------------------------------------------------------


def test_dictionaries(tmp_path) -> None:
    medic = _pubtator.read_dictionary(FILES / "ncbi_disease" / "medic_06Jul2012.txt")
    assert medic.find("D000001") == {"D000001"}
    assert medic.find("C000003") == {"600003"}
    # Another id of two concepts stands for either.
    assert medic.find("600006") == {"C000006", "C000007"}
    assert medic.find("D999999") == {"D999999"}
    assert medic.targets([("D000001", "Breast Cancer"), ("X", "new")]).names[-1] == "new"
    assert len(medic.targets([("D000001", "Breast Cancer")]).names) == len(medic.names)
    ctd = _pubtator.read_dictionary(FILES / "bc5cdr" / "CTD_diseases.tsv")
    assert ctd.ids == ["D000011"] * 3 + ["D000012"] * 2 + ["600013"]
    assert ctd.names[:3] == ["Kidney Failure", "Renal failure", "Renal Toxicity"]
    assert (ctd.find("600011"), ctd.find("C000013")) == ({"D000011"}, {"600013"})
    (tmp_path / "medic.txt").write_text("D1||a||b\nD2||c|\n")
    with_empty = _pubtator.read_dictionary(tmp_path / "medic.txt")
    assert with_empty.names == ["a", "b", "c"]
    assert with_empty.notes == {"empty names left out of the dictionary": 2}


@pytest.mark.parametrize("row", textio.packaged(__package__, "composite_mentions.tsv"), ids=lambda row: row["mention"])
def test_split(row) -> None:
    parts = tuple(filter(None, row["parts"].split("|")))
    assert _pubtator.split(row["mention"], int(row["concepts"])) == parts


@given(st.text("ab, /of and or", max_size=25), st.integers(2, 4))
def test_split_gives_n_parts_or_none(mention, n) -> None:
    parts = _pubtator.split(mention, n)
    assert len(parts) in (0, n)
    assert all(part.strip() for part in parts)


def test_a_composite_mention_is_wrong_if_one_part_is(tmp_path) -> None:
    data = copied("ncbi_disease", tmp_path)
    path = data / "ncbi_disease" / "medic_06Jul2012.txt"
    path.write_text(path.read_text().replace("|Ovarian Cancer", ""))
    first = score("ncbi_disease", data).rows.row(0, named=True)
    assert (first["mention"], first["right@1"]) == ("breast cancer | ovarian cancer", False)


def test_files_that_are_needed_for_a_part_only(tmp_path) -> None:
    data = copied("ncbi_disease", tmp_path)
    (data / "ncbi_disease" / "NCBItrainset_corpus.txt").unlink()
    assert load("ncbi_disease", data).parts[0].queries.seen is None
    assert "seen" not in score("ncbi_disease", data).rows
    with pytest.raises(InputError, match="finds no NCBItrainset_corpus"):
        load("ncbi_disease", data, mentions="train")
    (copied("bc5cdr", tmp_path) / "bc5cdr" / "CTD_chemicals.tsv").unlink()
    left_out = "chemicals left out, for want of a dictionary"
    assert (len(load("bc5cdr", data).parts), load("bc5cdr", data).notes[left_out]) == (1, 2)
    # The dev part holds no chemical, so nothing is lost of it.
    assert load("bc5cdr", data, part="dev").notes[left_out] == 0
    path = data / "bc5cdr" / "CDR_TestSet.PubTator.txt"
    path.write_text(path.read_text().replace("Disease", "Gene").replace("Chemical", "Protein"))
    with pytest.raises(InputError, match="no mention of the type Disease"):
        load("bc5cdr", data)


# --- BioSyn's layout --------------------------------------------------------------------------------------------------


def test_the_test_dictionary_has_the_training_mentions(tmp_path) -> None:
    data, options = copied("biosyn", tmp_path), {"dataset": "swans", "mentions": "train"}
    right = [True, True, True, False]
    assert score("biosyn", data, **options).rows["shared@1"].to_list() == right
    (data / "biosyn" / "swans" / "test_dictionary.txt").unlink()
    # Without it the training mentions are added here.
    assert score("biosyn", data, **options).rows["shared@1"].to_list() == right
    shutil.rmtree(data / "biosyn" / "swans" / "processed_traindev")
    with pytest.raises(InputError, match="finds no training mentions of swans"):
        load("biosyn", data, **options)
    assert load("biosyn", data, dataset="swans").parts[0].queries.seen is None
    with pytest.raises(InputError, match=r"finds no geese/train_dictionary\.txt or geese/"):
        load("biosyn", data, dataset="geese")


def test_portellis_targets_are_the_preferred_terms_of_meddra_in_a_umls(tmp_path: Path) -> None:
    release = umls_release.write(tmp_path / "META")

    def imported(name: str, **options: Any) -> Terminology:
        return loaded(umls_loader, [release], tmp_path / name, **options)

    data = copied("biosyn", tmp_path)
    (data / "biosyn" / "meddra.txt").unlink()
    csv = ",ae,term_code\n0,heart pain chronic,10000002\n1,chronic heart ache,10000002\n"
    (data / "biosyn" / "smm4h" / "run_0" / "test.csv").write_text(csv)
    options = {"protocol": "portelli", "dataset": "smm4h"}
    parts = load("biosyn", data, imported("x.terminology"), **options)
    targets = parts.parts[0].targets
    # English, of the level PT: neither the lowest-level terms nor the Italian ones.
    named = dict(umls_release.names())
    wanted = {one.code: one.string for _, one in umls_release.names() if (one.source, one.term_type) == ("MDR", "PT")}
    assert len(wanted) == len(named) - len(umls_release.SITES) - 1
    assert dict(zip(targets.ids, targets.names, strict=True)) == wanted
    assert run(parts, "exact_match", "biosyn").rows["right@1"].to_list()[:2] == [True, False]
    with pytest.raises(InputError, match=r"finds no smm4h/train_dictionary\.txt"):
        load("biosyn", data, **options)
    with pytest.raises(UsageError, match=r"snomed.terminology holds no preferred term of MedDRA: .* source MDR"):
        load("biosyn", data, imported("snomed.terminology", sources="SNOMEDCT_US"), **options)


# --- the scores of sets -----------------------------------------------------------------------------------------------


@settings(max_examples=25)
@given(st.data())
def test_set_scores_are_those_of_a_plain_count(data: st.DataObject) -> None:
    ids = ["a", "b", "c", "d"]
    n = data.draw(st.integers(1, 8))
    gold = [data.draw(st.sets(st.sampled_from(ids), min_size=1)) for _ in range(n)]
    mentions = [data.draw(st.sampled_from([*ids, "no such name"])) for _ in range(n)]
    queries = Queries([(mention,) for mention in mentions], [(frozenset(one),) for one in gold])
    sets = names.Data(queries, Targets(ids=ids, names=ids), {}, sizes=[len(one) for one in gold])
    found = {key[1]: value for key, value in values(run(sets, "exact_match")).items() if key[0] == "all"}
    answers = [{mention} & set(ids) for mention in mentions]
    tp = sum(len(answer & one) for answer, one in zip(answers, gold, strict=True))
    fp = sum(len(answer - one) for answer, one in zip(answers, gold, strict=True))
    fn = sum(len(one - answer) for answer, one in zip(answers, gold, strict=True))
    precision, recall = tp / (tp + fp) if tp + fp else 0.0, tp / (tp + fn)
    f1 = 2 * precision * recall / (precision + recall) if precision + recall else 0.0
    assert found["set F1"] == pytest.approx(f1)
    table = [[[one in group for one in ids] for group in groups] for groups in (gold, answers)]
    assert found["set F1"] == pytest.approx(f1_score(*map(np.array, table), average="micro", zero_division=0))
    # The released scorer: a line for each gold id, right if the answer is that id.
    lines = [(mention, one) for mention, group in zip(mentions, gold, strict=True) for one in group]
    assert found["one-line score"] == pytest.approx(sum(mention == one for mention, one in lines) / len(lines))


# --- names of a terminology -------------------------------------------------------------------------------------------


@settings(max_examples=25)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["T:1", "T:2", "T:3", "T:4"]),
            st.sampled_from(["Alpha", "alpha", "beta", "Gamma-1", "δ"]),
            st.sampled_from(["en", "it", "de"]),
            st.sampled_from(["official", "candidate", "machine"]),
            st.sampled_from(["exact", "broad"]),
            st.sampled_from(["MSH1", "MSH2", "X"]),
        ),
        min_size=1,
        max_size=14,
    ),
    st.sets(st.sampled_from(["T:1", "T:2"])),
    st.booleans(),
    st.integers(0, 3),
    st.sampled_from([0.5, 1.0]),
)
def test_names_and_translations_are_those_of_a_plain_walk(
    tmp_path_factory: pytest.TempPathFactory,
    rows: list[tuple[str, ...]],
    retired: set[str],
    machine: bool,
    seed: int,
    fraction: float,
) -> None:
    """The plain walk is over the terms as they were stored, for a store drops repeated ones."""
    terminology = save(tmp_path_factory.getbasetemp() / "drawn.terminology", rows, retired=retired)
    stored = [
        (terminology.concept_id(concept), entry)
        for concept, entry in zip(terminology.term_concept.tolist(), terminology.terms.to_pylist(), strict=True)
    ]
    live = [(one, entry) for one, entry in stored if one not in retired]
    split = hold_out_translations(terminology, "it", machine=machine, fraction=fraction, seed=seed)
    elsewhere = {clean(entry["string"]) for _, entry in live if entry["language"] != "it"}
    wanted: dict[tuple[str, str], str] = {}
    for one, entry in live:
        fits = entry["language"] == "it" and entry["scope"] == "exact" and (machine or entry["status"] != "machine")
        if fits:
            wanted.setdefault((one, clean(entry["string"])), entry["string"])
    if fraction == 1:
        expected = [(one, string) for (one, key), string in wanted.items() if key not in elsewhere]
        assert list(zip(split.concept_ids, split.strings, strict=True)) == expected
        assert split.facts["dropped_as_equal_to_a_kept_term"] == len(wanted) - len(expected)
    else:
        drawn = set(split.concept_ids)
        full = hold_out_translations(terminology, "it", machine=machine, seed=seed)
        pairs = zip(full.concept_ids, full.strings, strict=True)
        assert [pair for pair in pairs if pair[0] in drawn] == list(zip(split.concept_ids, split.strings, strict=True))
    kept = [
        (one, entry["string"])
        for one, entry in live
        if entry["language"] != "it" and entry["source"].startswith("MSH") and clean(entry["string"]) != "beta"
    ]
    chosen = {"not_languages": ["it"], "sources": ["MSH*"], "exclude": {"beta"}}
    if not kept:
        with pytest.raises(UsageError, match=r"no name of drawn\.terminology is left to rank against"):
            names.names_of(terminology, **chosen)
        return
    targets, removed = names.names_of(terminology, **chosen)
    assert list(zip(targets.ids, targets.names, strict=True)) == kept
    beta = [
        1
        for _, entry in live
        if clean(entry["string"]) == "beta" and entry["source"].startswith("MSH") and entry["language"] != "it"
    ]
    assert removed == len(beta)


def test_gold_ids_are_found_in_a_terminology(hpo: Terminology) -> None:
    gold = {one: one for one in ("HP:0000101", "HP:0000102", "HP:0000103", "HP:0000104", "UMLS:C0000001", "HP:9")}
    found = names.terminology_dictionary(hpo, gold, names.NameFilter())
    assert found.how == {
        "HP:0000101": "live",
        "HP:0000102": "alternative id",
        "HP:0000103": "replaced",
        "HP:0000104": "retired",
        "UMLS:C0000001": "cross-reference",
        "HP:9": "unknown",
    }
    assert found.gold(["HP:0000102"]) == {"HP:0000105"}
    assert found.gold(["HP:0000103"]) == {"HP:0000106"}
    twice = names.terminology_dictionary(hpo, {"HP:0000107": "HP:0000107"}, names.NameFilter())
    assert twice.how == {"HP:0000107": "replaced"}
    assert twice.gold(["HP:0000107"]) == {"HP:0000106"}
    assert found.gold(["UMLS:C0000001"]) == {"HP:0000101", "HP:0000105"}  # not HP:0000104, which is retired
    assert found.gold(["HP:0000104", "HP:9"]) == {"HP:0000104", "HP:9"}
    assert found.notes["gold ids"] == 6
    assert "Obsolete old knee" not in found.targets.names


def test_languages_and_sources_are_chosen(umls: Terminology) -> None:
    found = names.terminology_dictionary(umls, {}, names.NameFilter(languages="de", sources="MSH*, X"))
    assert found.targets.names == ["Knie, grummelndes"]
    with pytest.raises(UsageError, match=r"languages: fi; sources: MESH, X"):
        names.terminology_dictionary(umls, {}, names.NameFilter(languages="fi", sources="X,MESH"))


# --- each benchmark on its files --------------------------------------------------------------------------------------


def test_umls_names_are_taken_from_where_they_fit(umls: Terminology, hpo: Terminology, tmp_path: Path) -> None:
    assert load("xl_bel", terminology=umls, names="file").notes["targets"] == "the names of open_cui_names.tsv"
    assert load("xl_bel", terminology=hpo).notes["targets"] == "the names of open_cui_names.tsv"
    crossed = load("xl_bel", terminology=hpo, names="terminology")
    assert crossed.notes["gold ids, cross-reference"] == 1
    shutil.copy(FILES / "xl_bel" / "en_1k_test_query.txt", tmp_path)
    assert load("xl_bel", tmp_path, hpo).notes["targets"] == "the names of hpo.terminology"
    with pytest.raises(UsageError, match="--terminology"):
        load("xl_bel", names="terminology")
    with pytest.raises(InputError, match="open_cui_names"):
        load("xl_bel", tmp_path)
    with pytest.raises(UsageError, match="needs semantic types"):
        load("xl_bel", species="without")


@pytest.mark.parametrize("name", ["xl_bel", "mantra", "e3c_concepts", "omop_exact_matching"])
def test_a_file_of_names_has_no_languages_and_sources(name: str) -> None:
    with pytest.raises(UsageError, match="names come from a file"):
        load(name, languages="en")


def test_mantra_as_a_table(tmp_path: Path) -> None:
    packed = gzip.compress((FILES / "mantra" / "other_layouts" / "mantra_en_fr.tsv").read_bytes())
    (tmp_path / "mantra_en_fr.tsv.gz").write_bytes(packed)
    shutil.copy(FILES / "mantra" / "open_cui_names.tsv", tmp_path)
    data = load("mantra", tmp_path)
    queries = list(
        zip([parts[0] for parts in data.queries.parts], data.queries.columns["part"], data.sizes, strict=True)
    )
    assert queries == [("grumbling knee", "en EMEA", 2), ("lantern", "en Patents", 1), ("rien", "fr Medline", 1)]
    assert data.notes["annotations left out for want of a CUI"] == 1
    result = run(data)
    found = values(result)
    # Two answers are right, of three given and four gold ids.
    assert found["all", "set F1"] == pytest.approx(2 * 2 / (2 * 2 + 0 + 2))
    assert result.rows["fn"].to_list() == [1, 0, 1]


# --- held out ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Terminology:
    rows = []
    for number in range(60):
        rows += [
            term(f"T:{number:02}", f"Name of {number}"),
            term(f"T:{number:02}", f"Other word {number}"),
            term(f"T:{number:02}", f"Nome di {number}", "it", "candidate" if number % 2 else "machine"),
            term(f"T:{number:02}", f"Name von {number}", "de"),
        ]
    # Equal after cleaning to a name of another concept, of scope related: it is held out of neither.
    rows += [term("T:00", "coma", "it"), term("T:01", "Coma", scope="related")]
    return save(tmp_path_factory.mktemp("many") / "many.terminology", rows)


def test_held_out_synonyms_are_not_among_the_targets(many: Terminology, tmp_path: Path) -> None:
    data = load("held_out_synonyms", None, many, fraction=0.5, seed=3)
    split = hold_out_synonyms(many, fraction=0.5, seed=3)
    assert [parts[0] for parts in data.queries.parts] == split.strings
    assert [set(gold[0]) for gold in data.queries.gold] == [{one} for one in split.concept_ids]
    assert not {clean(name) for name in data.targets.names} & split.cleaned
    assert data.notes["names taken out of the targets"] == len(split) == many.n_terms - len(data.targets.names)
    assert data.notes["split"] == split.hash
    assert run(data).rows["covered"].all()
    split.save(tmp_path / "x.split")
    again = load("held_out_synonyms", None, many, split=tmp_path / "x.split", seed=99)
    assert again == data
    assert load("held_out_synonyms", None, many, fraction=0.5, seed=4).queries.parts != data.queries.parts


def test_a_saved_split_scores_its_test_part_only(many: Terminology, tmp_path: Path) -> None:
    split = Split(["Other word 1", "Other word 2", "lost"], ["T:01", "T:02", "T:99"], ["test", "calibration", "test"])
    split.save(tmp_path / "x.split")
    data = load("held_out_synonyms", None, many, split=tmp_path / "x.split")
    assert data.queries.parts == [("Other word 1",), ("lost",)]
    assert data.notes["names taken out of the targets"] == 2
    assert run(data).rows["covered"].to_list() == [True, False]


def test_held_out_translations(many: Terminology, tmp_path: Path) -> None:
    data = load("held_out_translations", None, many, language="it")
    assert data.queries.parts == [(f"Nome di {number}",) for number in range(1, 60, 2)]
    assert data.notes["split, dropped as equal to a kept term"] == 1
    assert not any(name.startswith("Nome") for name in data.targets.names)
    assert run(data).rows["covered"].all()
    both = load("held_out_translations", None, many, language="it", machine=True, target_language="de")
    assert len(both.queries) == 60
    assert all(" von " in name for name in both.targets.names)
    half = load("held_out_translations", None, many, language="it", machine=True, fraction=0.5)
    assert 15 < len(half.queries) < 45
    Split(["Nome di 7", "Name of 7"], ["T:07", "T:07"], ["test"] * 2).save(tmp_path / "x.split")
    saved = load("held_out_translations", None, many, language="it", split=tmp_path / "x.split")
    assert saved.notes["names taken out of the targets"] == 1
    assert len(saved.queries) == 2


@pytest.mark.parametrize(
    ("name", "options"), [("held_out_synonyms", {}), ("held_out_translations", {"language": "it"})]
)
def test_a_split_is_scored_on_what_its_concepts_were_merged_into(tmp_path, capsys, name, options) -> None:
    rows = [term("A:1", "bone"), term("A:1", "osso", "it"), term("A:2", "knee"), term("A:2", "ginocchio", "it")]
    rows += [term("A:3", "shin"), term("A:4", "old shin"), term("A:3", "tibia", "it"), term("A:5", "elbow")]
    merged = save(
        tmp_path / "merged.terminology",
        rows,
        retired=["A:4"],
        aliases=[("A:1", "B:1"), ("A:2", "B:2")],
        replacements=[("A:4", REPLACED_BY, "A:3")],
        semantic_types=[("A:1", "Body Part")],
    )
    held_out = ["osso", "ginocchio", "tibia"]
    Split(held_out, ["B:1", "B:2", "A:4"], ["test"] * 3).save(tmp_path / "x.split")
    data = load(name, None, merged, split=tmp_path / "x.split", **options)
    assert data.queries.gold == [(frozenset({one}),) for one in ("A:1", "A:2", "A:3")]
    assert data.queries.columns["semantic_type"] == ["Body Part", None, None]
    assert {key: value for key, value in data.notes.items() if key.startswith("gold ids")} == {
        "gold ids": 3,
        "gold ids, alternative id": 2,
        "gold ids, replaced": 1,
    }
    assert run(data).rows["covered"].all()
    assert capsys.readouterr().err == ""
    Split([*held_out, "lost"], ["B:1", "B:2", "A:4", "Z:9"], ["test"] * 4).save(tmp_path / "y.split")
    data = load(name, None, merged, split=tmp_path / "y.split", **options)
    assert data.notes["queries whose concept has no name among the targets"] == 1
    assert f"{name}: 1 of 4 held-out names are of concepts" in capsys.readouterr().err
    assert run(data).rows["covered"].to_list() == [True, True, True, False]
    # The calibration part is of this terminology, the test part is not.
    Split(["osso", "lost"], ["B:1", "Z:9"], ["calibration", "test"]).save(tmp_path / "z.split")
    with pytest.raises(InputError, match=r"z\.split: of 1 held-out names none is of a concept .*Z:9"):
        load(name, None, merged, split=tmp_path / "z.split", **options)


def test_misspelt_names(many: Terminology) -> None:
    data = load("misspelt_names", None, many, language="it")
    assert data.notes["names drawn"] == len(data.queries) + data.notes["names left out"]
    assert len(data.queries) > 20
    words = {clean(name) for name in data.targets.names}
    concepts = dict(zip(map(clean, data.targets.names), data.targets.ids, strict=True))
    for (string,), (gold,), written in zip(
        data.queries.parts, data.queries.gold, data.queries.columns["written"], strict=True
    ):
        assert string not in words
        assert gold == {concepts[written]}
        # One letter more, less or other, or two swapped, behind the first one of its word.
        assert DamerauLevenshtein.distance(string, written) == 1
        assert [word[:1] for word in string.split()] == [word[:1] for word in written.split()]
    assert run(data).rows["covered"].all()
    again = load("misspelt_names", None, many, language="it")
    assert again.queries == data.queries
    assert load("misspelt_names", None, many, language="it", seed=1).queries.parts != data.queries.parts
    few = load("misspelt_names", None, many, language="it", number=7)
    assert few.notes["names drawn"] == 7
    twice = load("misspelt_names", None, many, language="it", slips=3)
    apart = [
        DamerauLevenshtein.distance(string, written)
        for (string,), written in zip(twice.queries.parts, twice.queries.columns["written"], strict=True)
    ]
    assert 1 < max(apart) <= 3


def test_a_misspelt_name_of_several_concepts_is_right_for_each_live_one_in_the_language(tmp_path: Path) -> None:
    rows = [term("T:1", "Marasmus"), term("T:2", "marasmus"), term("T:3", "marasmus", "de"), term("T:4", "Marasmus")]
    made = save(tmp_path / "x.terminology", [*rows, term("T:5", "gut")], retired=["T:4"])
    data = load("misspelt_names", None, made, language="en")
    # A word of three letters is not misspelt, and of one name of two concepts two are drawn.
    assert [gold for (gold,) in data.queries.gold] == [{"T:1", "T:2"}] * 2
    assert data.notes["names left out"] == 1
    assert {one for (gold,) in load("misspelt_names", None, made).queries.gold for one in gold} == {"T:1", "T:2", "T:3"}
    short = save(tmp_path / "y.terminology", [term("T:1", "gut")])
    for options, message in (({}, r"no name of y\.terminology can be misspelt"), ({"language": "fr"}, "'fr'")):
        with pytest.raises(UsageError, match=message):
            load("misspelt_names", None, short, **options)


def test_a_translation_of_several_concepts_is_one_query_and_an_obsolete_one_none(tmp_path: Path) -> None:
    rows = [term("T:1", "bone"), term("T:1", "osso", "it"), term("T:1", "old osso", "it")]
    rows += [term("T:2", "bones"), term("T:2", "osso", "it")]
    data = load("held_out_translations", None, save(tmp_path / "x.terminology", rows), language="it")
    assert data.queries.parts == [("osso",)]
    assert data.queries.gold == [(frozenset({"T:1", "T:2"}),)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, r"language is '', and many.terminology has names in de, en, it"),
        ({"language": "fi"}, "language is 'fi'"),
        ({"language": "it", "target_language": "fi"}, "target_language is 'fi'"),
        ({"language": "it", "target_language": "it"}, "target_language 'it' is of language='it'"),
    ],
)
def test_translations_need_two_languages(many: Terminology, options: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        load("held_out_translations", None, many, **options)


def test_nothing_to_hold_out(umls: Terminology, tmp_path: Path) -> None:
    lonely = save(tmp_path / "x.terminology", [term("T:1", "one"), term("T:1", "One", "it")])
    for name, options in (("held_out_synonyms", {}), ("held_out_translations", {"language": "it"})):
        with pytest.raises(UsageError, match="is held out"):
            load(name, None, lonely, **options)
        with pytest.raises(UsageError, match="needs a terminology"):
            load(name, None, None, **options)


def test_a_split_of_another_terminology_is_refused(many: Terminology, umls: Terminology, tmp_path: Path) -> None:
    hold_out_synonyms(many, seed=1).save(tmp_path / "x.split")
    for name, options in (("held_out_synonyms", {}), ("held_out_translations", {"language": "de"})):
        with pytest.raises(InputError, match=r"no concept of this split is in umls\.terminology"):
            load(name, None, umls, split=tmp_path / "x.split", **options)
    with pytest.raises(InputError):
        load("held_out_synonyms", None, many, split=tmp_path)


# --- bad input --------------------------------------------------------------------------------------------------------


TABLE = (FILES / "mantra" / "other_layouts" / "mantra_en_fr.tsv").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("mantra.tsv", TABLE.partition("\n")[0] + "\n", "holds no annotation"),
        ("mantra.tsv", TABLE.replace("French", "Italian"), "is no language of MANTRA"),
        ("mantra.tsv", TABLE.replace("Patents", "Books"), "is no part of MANTRA"),
        ("mantra.tsv", TABLE.replace("\tlantern\t", "\t\t"), "tsv:4: has no mention"),
    ],
)
def test_mantra_that_is_not_right(file: str, content: str, message: str, tmp_path: Path) -> None:
    (tmp_path / file).write_text(content, encoding="utf-8")
    with pytest.raises(InputError, match=message):
        load("mantra", tmp_path)


def linked(data: names.Data) -> tuple[Any, ...]:
    return data.queries.parts, data.queries.gold, data.targets.ids, data.targets.names


@pytest.mark.parametrize(
    ("name", "option", "chosen"),
    [
        ("held_out_translations", "language", linked),
        ("misspelt_names", "language", linked),
        ("synonym_similarity", "language", lambda data: (data.anchors, data.synonyms, data.others)),
        ("clustering_pairs", "languages", lambda data: (data.terms.strings, data.gold.tolist())),
        ("case_table", "languages", lambda data: {tag: sorted(terms) for tag, terms in data.terms.items()}),
    ],
    ids=lambda one: one if isinstance(one, str) else "",
)
def test_a_language_stands_for_its_variants(tmp_path, name, option, chosen) -> None:
    found = []
    for first, second in (("it", "it"), ("it-CH", "it-IT")):
        rows = []
        for number, letter in enumerate("bcdfghlmnprstvz"):
            rows += [
                term(f"T:{number}", f"word{letter} one"),
                term(f"T:{number}", f"parola{letter} uno", first),
                term(f"T:{number}", f"parola{letter} due", second),
            ]
        found.append(chosen(load(name, None, save(tmp_path / first / "x.terminology", rows), **{option: "it"})))
    assert found[0] == found[1]
    assert "parolab" in str(found[0])
