from __future__ import annotations

import gzip
import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alphita import config
from alphita.errors import InputError, Rejects, UsageError
from alphita.terminology.loaders import umls
from alphita.terminology.store import load_terminology, save
from alphita_lab.evaluation.benchmarks import Source, _dictionary, _folds, _pubtator, load_benchmark
from alphita_lab.evaluation.scoring.linking import Queries, Targets
from alphita_lab.evaluation.scoring.results import Result, figures_of
from alphita_lab.evaluation.systems import load_system
from tests.reference import linking as reference
from tests.runs import umls_release

FIXTURES = Path(__file__).parents[3] / "fixtures" / "benchmarks"
ANY = "accuracy@1 (any concept of the name)"


def load(name: str, *sets: str, data: Path = FIXTURES) -> _folds.Parts:
    module = load_benchmark(name)
    return module.load(Source(data, None, name, module.INFO.where), config.resolve(module.Options, sets=sets))


def score(name: str, *sets: str, system: str = "exact_match", data: Path = FIXTURES) -> Result:
    module = load_benchmark(name)
    options = config.resolve(module.Options, sets=sets)
    return module.evaluate(load(name, *sets, data=data), load_system(system), options)


def copied(name: str, folder: Path) -> Path:
    shutil.copytree(FIXTURES / name, folder / name)
    return folder


def figures(result: Result) -> dict[tuple[str, str], float | None]:
    return {(one.metric, one.subset): one.value for one in figures_of(result)}


# Parts and folds


class SharedLetters:
    name, facts = "letters", {}
    rules = ("lowercase",)

    def of(self, left: str, right: str) -> float:
        return float(len(set(left) & set(right)))

    def neighbours(self, queries, terms, k) -> tuple[np.ndarray, np.ndarray]:
        k = min(k, len(terms))
        values = np.array([[self.of(query, term) for term in terms] for query in queries], np.float32)
        rows = np.argsort(-values, axis=1, kind="stable")[:, :k]
        similarity = np.take_along_axis(values, rows, axis=1)
        return similarity, np.where(similarity > 0, rows, -1)

    def similarity(self, left, right) -> np.ndarray:
        return np.array([self.of(one, other) for one, other in zip(left, right, strict=True)], np.float32)


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
        ids, names = [one for one, _ in targets], [name for _, name in targets]
        queries = Queries(
            [tuple(mention for mention, _ in query) for query in asked],
            [tuple(gold for _, gold in query) for query in asked],
            {"fold": [number] * len(asked)},
        )
        parts.append(_folds.Part(queries, Targets(ids, names)))
        right = []
        for query in asked:
            rankings = []
            for mention, _ in query:
                values = {name: system.of(mention, name) for name in names}
                found = {name: value for name, value in values.items() if value}
                rankings.append(reference.rank(found, names, ids, 3))
            gold = [one for _, one in query]
            right.append([reference.right(rankings, gold, k) for k in (1, 3)])
        expected.append(right)
    result = _folds.evaluate(system, _folds.Parts(parts), ks=(1, 3), subsets=("fold",))
    flat = [one for fold in expected for one in fold]
    assert result.rows["right@1"].to_list() == [one for one, _ in flat]
    assert result.rows["right@3"].to_list() == [three for _, three in flat]
    assert result.rows["query"].to_list() == list(range(len(flat)))
    for place, k in enumerate((1, 3)):
        means = [sum(one[place] for one in fold) / len(fold) for fold in expected]
        assert figures(result)[f"accuracy@{k}", "mean of folds"] == pytest.approx(sum(means) / len(means))
        for number, mean in enumerate(means):
            assert figures(result)[f"accuracy@{k}", f"fold={number}"] == pytest.approx(mean)
    assert result.notes["queries"] == len(flat)


# PsyTAR and Cadec


def test_seen_is_told_by_the_fold(tmp_path) -> None:
    data = copied("psytar", tmp_path)
    train = data / "psytar" / "fold_1" / "train.txt"
    train.write_text(train.read_text() + "101\tMouth was  dry\n")
    assert [sum(part.queries.seen) for part in load("psytar", data=data).parts] == [1, 0, 0, 0, 0]


def test_flat_files_and_gzip_are_read_and_all_files_are_told(tmp_path) -> None:
    folder = tmp_path / "psytar"
    folder.mkdir()
    for path in (FIXTURES / "psytar").glob("fold_*/*.txt"):
        (folder / f"{path.parent.name}.{path.stem}.txt.gz").write_bytes(gzip.compress(path.read_bytes()))
    source = Source(tmp_path, None, "psytar", "")
    module = load_benchmark("psytar")
    parts = module.load(source, module.Options())
    assert [len(part.queries) for part in parts.parts] == [3, 3, 2, 2, 2]
    assert len(source.read) == 15


def test_gold_that_is_no_target_is_not_covered(tmp_path) -> None:
    data = copied("psytar", tmp_path)
    test = data / "psytar" / "fold_2" / "test.txt"
    test.write_text(test.read_text() + "999\tdry mouth\n999\tdry mouth\n")
    result = score("psytar", data=data)
    assert result.notes["covered"] == 12
    assert result.rows.filter(~result.rows["covered"])["gold"].to_list() == ["999", "999"]
    assert "covered" in result.subsets
    assert result.notes["queries that repeat another"] == 1
    # A target in one fold only: then the counts of names are sums.
    standard = data / "psytar" / "fold_2" / "standard.txt"
    standard.write_text(standard.read_text() + "999\tOddness\n")
    assert score("psytar", data=data).notes["names"] == 21


def test_an_empty_or_missing_fold_and_bytes_that_are_no_text(tmp_path) -> None:
    data = copied("cadec", tmp_path)
    path = data / "cadec" / "CADEC_4" / "train.txt"
    path.write_text("\n")
    with pytest.raises(InputError, match="holds no line"):
        load("cadec", data=data)
    path.write_bytes(b"101\tcaf\xe9\n")
    with pytest.raises(InputError, match="not UTF-8"):
        load("cadec", data=data)
    path.unlink()
    with pytest.raises(InputError, match=r"finds no CADEC_4/train\.txt .*GanjinZero"):
        load("cadec", data=data)


# Dictionaries


def test_a_dictionary_in_medics_layout() -> None:
    dictionary = _dictionary.read(FIXTURES / "ncbi_disease" / "medic_06Jul2012.txt")
    assert dictionary.find("D000001") == {"D000001"}
    assert dictionary.find("C000003") == {"600003"}
    # Another id of two concepts stands for either.
    assert dictionary.find("600006") == {"C000006", "C000007"}
    assert dictionary.find("D999999") == {"D999999"}
    assert dictionary.notes_on(["D000001", "C000003", "D999999", "D999999"]) == {
        "gold ids, first id": 1,
        "gold ids, not in the dictionary": 1,
        "gold ids, other id": 1,
    }
    assert dictionary.targets([("D000001", "Breast Cancer"), ("X", "new")]).names[-1] == "new"
    assert len(dictionary.targets([("D000001", "Breast Cancer")]).names) == len(dictionary.names)


def test_a_dictionary_in_ctds_layout() -> None:
    dictionary = _dictionary.read(FIXTURES / "bc5cdr" / "CTD_diseases.tsv")
    assert dictionary.ids == ["D000011"] * 3 + ["D000012"] * 2 + ["600013"]
    assert dictionary.names[:3] == ["Kidney Failure", "Renal failure", "Renal Toxicity"]
    assert dictionary.find("600011") == {"D000011"}
    assert dictionary.find("C000013") == {"600013"}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "holds no name"),
        ("# only a comment\n", "holds no name"),
        ("D1||a|b\nD2|c\n", "not ids, || and names"),
        ("||a\n", "not ids"),
        ("D1||\n", "not ids"),
        ("a\tMESH:D1\n", "not a dictionary in a layout known here|is not a dictionary"),
        ("# Fields:\n# DiseaseName\tDiseaseID\na\tb\tc\n", "has 3 fields, not 2"),
        ("# Fields:\n# GeneSymbol\tGeneID\na\t1\n", "has no column DiseaseName"),
        ("# Fields:\n# DiseaseName\tDiseaseID\na\t\n", "has no id"),
    ],
)
def test_a_dictionary_of_another_layout(text, problem, tmp_path) -> None:
    path = tmp_path / "medic.txt"
    path.write_text(text)
    with pytest.raises(InputError, match=problem) as caught:
        _dictionary.read(path)
    assert caught.value.file == path


def test_empty_names_are_counted(tmp_path) -> None:
    path = tmp_path / "medic.txt"
    path.write_text("D1||a||b\nD2||c|\n")
    dictionary = _dictionary.read(path)
    assert dictionary.names == ["a", "b", "c"]
    assert dictionary.notes == {"empty names left out of the dictionary": 2}


# Mentions of several concepts


@pytest.mark.parametrize(
    ("mention", "n", "parts"),
    [
        ("breast and ovarian cancer", 2, ("breast cancer", "ovarian cancer")),
        ("breast and/or ovarian cancer", 2, ("breast cancer", "ovarian cancer")),
        ("breast, brain, and skin cancers", 3, ("breast cancers", "brain cancers", "skin cancers")),
        ("breast, or other, cancers", 2, ("breast cancers", "other cancers")),
        ("left and the right ear pain", 2, ("left ear pain", "right ear pain")),
        ("cancer of the breast and the ovary", 2, ("cancer of breast", "cancer of ovary")),
        ("disorders of both skin, ear and nose", 3, ("disorders of skin", "disorders of ear", "disorders of nose")),
        ("cleft lip/palate", 2, ("cleft lip", "cleft palate")),
        ("grey/green skin disease", 2, ("grey skin disease", "green skin disease")),
        ("grey hamartomas", 2, ("grey", "hamartomas")),
        ("wobble ataxias 1 and 2", 2, ()),
        ("breast and ovarian cancer", 3, ()),
        ("breast, brain and skin cancers", 2, ()),
        ("GF/P", 3, ()),
        ("and", 2, ()),
        ("a / b", 2, ()),
    ],
)
def test_split(mention, n, parts) -> None:
    assert _pubtator.split(mention, n) == parts


@given(st.text("ab, /of and or", max_size=25), st.integers(2, 4))
def test_split_gives_n_parts_or_none(mention, n) -> None:
    parts = _pubtator.split(mention, n)
    assert len(parts) in (0, n)
    assert all(part.strip() for part in parts)


# NCBI Disease


def test_a_composite_mention_is_wrong_if_one_part_is(tmp_path) -> None:
    data = copied("ncbi_disease", tmp_path)
    path = data / "ncbi_disease" / "medic_06Jul2012.txt"
    path.write_text(path.read_text().replace("|Ovarian Cancer", ""))
    result = score("ncbi_disease", data=data)
    assert result.rows.row(0, named=True)["mention"] == "breast cancer | ovarian cancer"
    assert not result.rows.row(0, named=True)["right@1"]


def test_training_files_are_needed_for_their_names_only(tmp_path) -> None:
    data = copied("ncbi_disease", tmp_path)
    (data / "ncbi_disease" / "NCBItrainset_corpus.txt").unlink()
    assert load("ncbi_disease", data=data).parts[0].queries.seen is None
    assert "seen" not in score("ncbi_disease", data=data).rows
    with pytest.raises(InputError, match="finds no NCBItrainset_corpus"):
        load("ncbi_disease", "mentions=train", data=data)


@pytest.mark.parametrize(
    ("text", "problem", "line"),
    [
        ("11|t|A title\n11|a|Text\n", "holds no mention", None),
        ("11|t|A title\n11|a|Text\n11\t0\t5\twords\tDisease\t-1\n", "holds no mention", None),
        ("11|t|A title\nwords between\n", "is no annotation", 2),
        ("11|t|A title\n11\t0\t5\twords\tD1\n", "is no annotation", 2),
        ("11|t|A title\n11\tx\t5\twords\tDisease\tD1\n", "is no annotation", 2),
        ("11|t|A title\n12\t0\t5\twords\tDisease\tD1\n", "annotates the document 12", 2),
        ("11\t0\t5\twords\tDisease\tD1\n", "stands under none", 1),
        ("11|t|A title\n11\t0\t5\t \tDisease\tD1\n", "has no mention", 2),
    ],
)
def test_a_corpus_of_another_layout(text, problem, line, tmp_path) -> None:
    path = tmp_path / "corpus.txt"
    path.write_text(text)
    with pytest.raises(InputError, match=problem) as caught:
        _pubtator.read(path)
    assert (caught.value.file, caught.value.line) == (path, line)
    assert "PubTator" in str(caught.value) or problem == "has no mention"


# BC5CDR


def test_without_a_dictionary_of_chemicals_they_are_left_out_and_counted(tmp_path) -> None:
    data = copied("bc5cdr", tmp_path)
    (data / "bc5cdr" / "CTD_chemicals.tsv").unlink()
    parts = load("bc5cdr", data=data)
    assert len(parts.parts) == 1
    assert parts.notes["chemicals left out, for want of a dictionary"] == 2
    # The dev part holds no chemical, so nothing is lost of it.
    assert load("bc5cdr", "part=dev", data=data).notes["chemicals left out, for want of a dictionary"] == 0


def test_bc5cdr_without_a_type_it_knows(tmp_path) -> None:
    data = copied("bc5cdr", tmp_path)
    path = data / "bc5cdr" / "CDR_TestSet.PubTator.txt"
    path.write_text(path.read_text().replace("Disease", "Gene").replace("Chemical", "Protein"))
    with pytest.raises(InputError, match="no mention of the type Disease"):
        load("bc5cdr", data=data)


# BioSyn's layout


def test_the_test_dictionary_has_the_training_mentions(tmp_path) -> None:
    result = score("biosyn", "dataset=swans", "mentions=train")
    assert result.rows["shared@1"].to_list() == [True, True, True, False]
    data = copied("biosyn", tmp_path)
    (data / "biosyn" / "swans" / "test_dictionary.txt").unlink()
    # Without it the training mentions are added here.
    again = score("biosyn", "dataset=swans", "mentions=train", data=data)
    assert again.rows["shared@1"].to_list() == [True, True, True, False]
    shutil.rmtree(data / "biosyn" / "swans" / "processed_traindev")
    with pytest.raises(InputError, match="finds no training mentions of swans"):
        load("biosyn", "dataset=swans", "mentions=train", data=data)
    assert load("biosyn", "dataset=swans", data=data).parts[0].queries.seen is None


def test_portellis_targets_are_the_preferred_terms_of_meddra_in_a_umls(tmp_path: Path) -> None:
    with Rejects() as rejects:
        release = umls_release.write(tmp_path / "META")
        save(umls.load([release], umls.Options(), rejects), tmp_path / "x.terminology")
    data = copied("biosyn", tmp_path)
    (data / "biosyn" / "meddra.txt").unlink()
    run = data / "biosyn" / "smm4h" / "run_0" / "test.csv"
    run.write_text(",ae,term_code\n0,heart pain chronic,10000002\n1,chronic heart ache,10000002\n")
    module = load_benchmark("biosyn")
    options = config.resolve(module.Options, sets=["protocol=portelli", "dataset=smm4h"])
    source = Source(data, load_terminology(tmp_path / "x.terminology"), "biosyn", module.INFO.where)
    parts = module.load(source, options)
    targets = parts.parts[0].targets
    # English, of the level PT: neither the lowest-level terms nor the Italian ones.
    named = dict(umls_release.names())
    wanted = {one.code: one.string for _, one in umls_release.names() if (one.source, one.term_type) == ("MDR", "PT")}
    assert len(wanted) == len(named) - len(umls_release.SITES) - 1
    assert dict(zip(targets.ids, targets.names, strict=True)) == wanted
    scored = module.evaluate(parts, load_system("exact_match"), options)
    assert scored.rows["right@1"].to_list()[:2] == [True, False]

    without = Source(data, None, "biosyn", module.INFO.where)
    with pytest.raises(InputError, match=r"finds no smm4h/train_dictionary\.txt"):
        module.load(without, options)
    with Rejects() as rejects:
        tables = umls.load([release], umls.Options(sources="SNOMEDCT_US"), rejects)
        save(tables, tmp_path / "snomed.terminology")
    other = Source(data, load_terminology(tmp_path / "snomed.terminology"), "biosyn", module.INFO.where)
    with pytest.raises(UsageError, match=r"snomed.terminology holds no preferred term of MedDRA: .* source MDR"):
        module.load(other, options)


def test_no_such_set() -> None:
    with pytest.raises(InputError, match=r"finds no geese/train_dictionary\.txt or geese/"):
        load("biosyn", "dataset=geese")
