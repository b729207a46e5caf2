from __future__ import annotations

import functools
import gzip
import math
import re
from collections import Counter
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics

from alphita import config
from alphita.encoder.encoder import TermEncoder
from alphita.errors import InputError, UsageError
from alphita_lab.evaluation.benchmarks import Source, _finetuned, load_benchmark, ner
from alphita_lab.evaluation.scoring import finetuning
from alphita_lab.evaluation.scoring.results import figures_of
from alphita_lab.evaluation.systems import load_system
from tests.reference import finetuned_metrics as reference
from tests.tiny import tiny_model

NAMES = ("ner", "sentence_pair", "classification", "answer_ranking", "retrieval")
FIXTURES = Path(__file__).parents[3] / "fixtures" / "benchmarks"
# A small encoder of random weights learns with a higher rate than a real one.
QUICK = ("runs=2", "epochs=6", "learning_rate=0.01", "layer_decay=1", "batch_size=8", "max_length=32")
# The set that each benchmark is tried on.
ONE = {
    "ner": "cMedQANER",
    "sentence_pair": "cMedQQ",
    "classification": "cMedIC",
    "answer_ranking": "cMedQNLI",
    "retrieval": "cMedIR",
}


@pytest.fixture(scope="module")
def system(tmp_path_factory):
    return load_system(str(tiny_model(tmp_path_factory.mktemp("model") / "tiny")))


def options(name, *sets):
    return config.resolve(load_benchmark(name).Options, sets=sets)


def source(name, folder=FIXTURES):
    return Source(folder, None, name, load_benchmark(name).INFO.where)


def read(name, *sets, folder=FIXTURES):
    return load_benchmark(name).load(source(name, folder), options(name, *sets))


def run(name, system, *sets):
    sets = (*QUICK, *sets)
    return load_benchmark(name).evaluate(read(name, *sets), system, options(name, *sets))


@pytest.fixture(scope="module")
def learnt(system):
    """Give the result of a benchmark on one set, trained once for all tests."""
    return functools.cache(lambda name: run(name, system, f"datasets={ONE[name]}"))


def figure(result, metric, subset="all"):
    (value,) = [one.value for one in figures_of(result) if (one.metric, one.subset) == (metric, subset)]
    return value


# Measures


@given(
    st.lists(
        st.tuples(st.integers(0, 4), st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=2, max_size=2)),
        min_size=1,
        max_size=8,
    )
)
def test_counts_to_f1(rows) -> None:
    rows = [(gold, [(min(right, gold, predicted), predicted) for right, predicted in runs]) for gold, runs in rows]
    values = np.array([[gold, *(number for some in runs for number in some)] for gold, runs in rows], float)
    by_run = []
    for number in range(2):
        right, predicted = (sum(runs[number][which] for _, runs in rows) for which in (0, 1))
        by_run.append(reference.precision_recall_f1(right, predicted, sum(gold for gold, _ in rows)))
    assert finetuning.runs_f1(values) == pytest.approx([f1 for *_, f1 in by_run])
    assert finetuning.mean_f1(values) == pytest.approx(np.mean([f1 for *_, f1 in by_run]))
    assert finetuning.mean_precision(values) == pytest.approx(np.mean([precision for precision, *_ in by_run]))
    assert finetuning.mean_recall(values) == pytest.approx(np.mean([recall for _, recall, _ in by_run]))
    assert len(finetuning.count_columns(2)) == values.shape[1]


labels = st.lists(st.tuples(*[st.integers(0, 3)] * 3), min_size=1, max_size=12)


@settings(max_examples=25)
@given(labels)
def test_f1_of_labels_as_scikit_learn_has_it(rows) -> None:
    gold, first, second = np.array(rows).T
    macro = [metrics.f1_score(gold, one, average="macro", zero_division=0) for one in (first, second)]
    assert _finetuned.runs_macro_f1(np.array(rows, float)) == pytest.approx(macro)
    assert _finetuned.runs_macro_f1(np.array(rows, float))[0] == pytest.approx(reference.macro_f1(gold, first))
    assert _finetuned.mean_macro_f1(np.array(rows, float)) == pytest.approx(np.mean(macro))
    # Micro F1 over some of the labels, as the authors' script has it for cMedIC.
    counts = [
        [float(one in (1, 2)), float(one in (1, 2) and one == first), float(first in (1, 2))] for one, first, _ in rows
    ]
    micro = metrics.f1_score(gold, first, average="micro", labels=[1, 2], zero_division=0)
    assert finetuning.mean_f1(np.array(counts)) == pytest.approx(micro)


@given(st.lists(st.sampled_from(["O", "B-a", "I-a", "B-b", "I-b"]), max_size=12))
def test_entities_of_tags(tags) -> None:
    assert sorted(ner.spans(tags)) == reference.entities(tags)


@given(st.lists(st.tuples(st.integers(0, 3).map(float), st.booleans()), max_size=8))
def test_rank_of_the_first_right_answer(candidates) -> None:
    scores, right = ([one[side] for one in candidates] for side in (0, 1))
    assert _finetuned.first_right(scores, right) == reference.first_right(scores, right)


@given(st.lists(st.tuples(st.integers(0, 3).map(float), st.integers(0, 3).map(float)), min_size=1, max_size=7))
def test_ordered_pairs(documents) -> None:
    scores, relevance = ([one[side] for one in documents] for side in (0, 1))
    assert _finetuned.ordered_pairs(scores, relevance) == reference.ordered_pairs(scores, relevance)


@given(st.lists(st.tuples(st.permutations([0.0, 1.0]), st.permutations([1.0, 3.0])), min_size=1, max_size=9))
def test_pair_score_as_the_authors_scripts_have_it(queries) -> None:
    rows = []
    for scores, relevance in queries:
        ordered, pairs = _finetuned.ordered_pairs(scores, relevance)
        rows.append([ordered, pairs - ordered] * 2)
    if all(row[1] == 0 for row in rows):
        assert math.isinf(_finetuned.mean_pair(np.array(rows)))
    else:
        assert _finetuned.runs_pair(np.array(rows)) == pytest.approx([reference.pair_by_places(queries)] * 2)


# Texts to tokens


class Letters:
    """Gives a token for each character, or for the first ones of a text, between 1 and 2."""

    def __init__(self, max_length: int, most: int | None = None) -> None:
        self.max_length, self.most = max_length, most or max_length - 2

    def tokenize(self, texts):
        return [[1, *map(ord, text.strip()[: self.most]), 2] for text in texts]


@given(st.integers(0, 14), st.integers(0, 14))
def test_the_longer_text_of_a_pair_is_cut(first, second) -> None:
    (encoded,) = finetuning.Encoding(Letters(12)).pairs(["a" * first], ["b" * second])
    left, right = reference.cut_pair([97] * first, [98] * second, 9)
    assert encoded.ids == [1, *left, 2, *right, 2]
    assert encoded.types == [0] * (len(left) + 2) + [1] * (len(right) + 1)
    assert encoded.places == [0]


def test_a_text_is_cut_at_the_end(system) -> None:
    encoding = finetuning.Encoding(TermEncoder.load(system.encoder.folder, max_length=5))
    short, long = encoding.sentences(["heart", "heart pain of the skin"])
    assert [len(short.ids), len(long.ids)] == [3, 5]
    assert [long.ids] == system.encoder.tokenize(["heart pain of"])
    assert long.types == [0] * 5


@given(st.lists(st.sampled_from(["heart", "a", "。", "bcd", " ", "!", "abcdefghijklm"]), max_size=40))
def test_windows_hold_every_word_once(words) -> None:
    windows = finetuning.Encoding(Letters(10)).words(words)
    assert [word for part, _ in windows for word in words[part]] == words
    for part, window in windows:
        assert len(window.ids) == len(window.types) <= 10
        assert (window.ids[0], window.ids[-1]) == (1, 2)
        for word, place in zip(words[part], window.places, strict=True):
            assert word == " " or window.ids[place] == ord(word[0])
            assert place < len(window.ids) - 1


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("pain of heart liver. The skin bone", ["pain of heart liver .", "The skin bone"]),
        ("pain. Heart of liver skin the bone", ["pain . Heart of liver skin", "the bone"]),
        ("heart of liver 0.1 pain bone", ["heart of liver 0 . 1", "pain bone"]),
        ("heart pain with C. liver bone of", ["heart pain with C . liver", "bone of"]),
        ("the 心肝痛. pain of liver", ["the 心 肝 痛 .", "pain of liver"]),
        ("心肝痛头。皮。骨", ["心 肝 痛 头 。", "皮 。 骨"]),
        ("heart liver skin bone pain.", ["heart liver skin bone pain ."]),
    ],
)
def test_windows_end_at_a_full_stop_that_ends_a_sentence(text, parts) -> None:
    words = ner.WORD.findall(text)
    windows = finetuning.Encoding(Letters(8, most=1)).words(words)
    assert [" ".join(words[part]) for part, _ in windows] == parts


def test_a_tokenizer_without_special_tokens_is_refused(monkeypatch) -> None:
    monkeypatch.setattr(Letters, "tokenize", lambda _, texts: [[0] for _ in texts])
    with pytest.raises(UsageError, match="one token before a text and one behind"):
        finetuning.Encoding(Letters(10))


def test_how_high_a_parameter_stands() -> None:
    heights = {
        "embeddings.word_embeddings.weight": 0,
        "encoder.layer.0.output.dense.weight": 1,
        "transformer.layer.5.ffn.lin1.bias": 6,
        "layers.11.attn.weight": 12,
        "pooler.dense.weight": 13,
        "embeddings_project.weight": 0,
        "final_norm.weight": 13,
    }
    assert {name: finetuning.depth(name, 12) for name in heights} == heights


def test_what_is_packed_is_as_if_padded(system) -> None:
    encoder = finetuning.encoder_of(system, 32)
    encoding = finetuning.Encoding(encoder)
    examples = [
        *encoding.pairs(["heart", "the", "liver of a heart"], ["the liver", "heart of the liver", "of"]),
        *(window for _, window in encoding.words(["heart", "of", "the", "liver"])),
        *encoding.sentences(["the heart"]),
    ]
    run = finetuning._Run(encoder, options("ner", *QUICK).settings(), 0, 3)
    run.bf16 = False
    run.model.eval()
    run.dropout.eval()
    assert (run.packs, run.typed) == (True, True)
    packed = run(examples)
    packed.square().sum().backward()
    gradients = [part.grad.clone() for part in run.model.parameters() if part.grad is not None]
    run.model.zero_grad()
    run.packs = False
    padded = run(examples)
    padded.square().sum().backward()
    assert packed.shape == (8, 3)
    np.testing.assert_allclose(packed.detach(), padded.detach(), atol=1e-5)
    others = [part.grad for part in run.model.parameters() if part.grad is not None]
    for one, other in zip(gradients, others, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)


def test_rates_fall_from_layer_to_layer(system) -> None:
    how = finetuning.FineTuningSettings(1, 1, 1.0, 1, 16, 0.5, 0)
    trained = finetuning._Run(finetuning.encoder_of(system, 16), how, 0, 2)
    rates = {id(one): (group["lr"], group["weight_decay"]) for group in trained._groups() for one in group["params"]}
    names = dict(trained.model.named_parameters())
    assert rates[id(trained.head.weight)] == (1.0, finetuning.WEIGHT_DECAY)
    assert rates[id(trained.head.bias)] == (1.0, 0.0)
    assert rates[id(names["encoder.layer.1.output.dense.weight"])][0] == 0.25
    assert rates[id(names["encoder.layer.0.output.dense.bias"])] == (0.125, 0.0)
    assert rates[id(names["embeddings.word_embeddings.weight"])][0] == 0.0625


# Files


def test_examples_as_they_are_read() -> None:
    data = read("sentence_pair", "datasets=QTRel-easy")
    (one,) = data.sets
    lines = (FIXTURES / "sentence_pair" / "QTRel-easy.test.tsv").read_text().splitlines()
    label, query, title = lines[1].split("\t")
    assert (one.test[0].label, one.test[0].texts, one.test[0].line) == (label, (query, title), 2)
    (one,) = read("ner", "datasets=QNER").sets
    assert one.test[0].words == ["the", "heart", "of", "a", "5", "mg"]
    assert one.test[0].tags == ("O", "B-site", "O", "O", "B-dose", "O")
    # 0.1g: the entity's end is inside no word, but its parts are several.
    assert one.test[8].words == ["阿", "司", "匹", "林", "0", ".", "1", "g"]
    assert one.test[8].tags == ("B-drug", "I-drug", "I-drug", "I-drug", "B-dose", "I-dose", "I-dose", "O")
    assert one.test[8].written(ner.spans(one.test[8].tags)) == "阿司匹林 (drug); 0.1 (dose)"
    assert one.test[9].tags == ("O",)
    (one,) = read("ner", "datasets=cMedQANER").sets
    assert one.test[0].words == ["v", "w", "d", "the", "liver", "of"]
    assert one.test[0].tags == ("B-drug", "I-drug", "O", "O", "B-site", "O")


PUBTATOR = """1|t|Fever, and naloxone-induced gout.
1|a|Both breast and ovarian cancer rose.
1\t0\t5\tFever\tModifier\t-1
1\t11\t19\tnaloxone\tChemical\tD009270
1\t28\t31\tgou\tSpecificDisease\tD006073
1\t39\t64\tbreast and ovarian cancer\tCompositeMention\tD001943|D010051
1\t39\t45\tbreast\tDiseaseClass\tD001943
1\t65\t69\tfall\tDiseaseClass\tD000001
1\tCID\tD009270\tD006073

2|t|Fever.
2|a|Rose.

1|t|Fever again.
1|a|
1\t0\t5\tFever\tModifier\tD005334
"""


def test_entities_of_abstracts(tmp_path) -> None:
    (tmp_path / "corpus.txt").write_text(PUBTATOR)
    counts: Counter[str] = Counter()
    (one,), (other,) = ner.read(tmp_path / "corpus.txt", counts)
    assert one.text == "Fever, and naloxone-induced gout. Both breast and ovarian cancer rose."
    assert one.words[:6] == ["Fever", ",", "and", "naloxone", "-", "induced"]
    assert one.written(ner.spans(one.tags)) == (
        "Fever (Disease); naloxone (Chemical); gout (Disease); breast and ovarian cancer (Disease)"
    )
    assert (other.words, other.tags) == (["Fever", ".", "Rose", "."], ("O",) * 4)
    assert counts == {
        "texts left out, they stand there twice": 1,
        "entities left out, over another one": 1,
        "entities left out, they do not stand where they should": 1,
        "entities widened to whole words": 1,
    }


@pytest.mark.parametrize(
    "where",
    ["QIC.{}.tsv", "QIC/{}.tsv", "chineseblue/QIC.{}.tsv", "chineseblue/QIC/{}.tsv.gz", "classification/QIC.{}.tsv.gz"],
)
def test_where_files_may_lie(where, tmp_path) -> None:
    for part in ("train", "dev"):
        path = tmp_path / where.format(part)
        path.parent.mkdir(parents=True, exist_ok=True)
        content = (FIXTURES / "classification" / f"QIC.{part}.tsv").read_bytes()
        path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    looked = source("classification", tmp_path)
    (one,) = load_benchmark("classification").load(looked, options("classification")).sets
    assert (len(one.train), len(one.test)) == (16, 8)
    assert len(looked.read) == 2


def test_the_part_that_is_scored() -> None:
    assert len(read("classification", "datasets=QIC", "part=dev").sets[0].test) == 8
    with pytest.raises(InputError, match=r"finds no QIC\.test\.txt or QIC\.test\.tsv"):
        read("classification", "datasets=QIC", "part=test")
    with pytest.raises(InputError, match=r"finds no Mine\.dev\.txt"):
        read("classification", "datasets=QIC,Mine")
    with pytest.raises(InputError, match=r"finds no cMedQA\.train\.txt") as caught:
        read("answer_ranking", "datasets=cMedQA")
    assert "split_dev=true" in caught.value.remedy


def test_queries_of_one_string_are_not_parted(tmp_path) -> None:
    line = '{"query": "%s", "documents": [{"title": "a", "label": "0"}, {"title": "b", "label": "3"}]}\n'
    (tmp_path / "cMedIR.dev.json").write_text("".join(line % name for name in "abcde" * 4))
    (one,) = read("retrieval", "split_dev=true", folder=tmp_path).sets
    assert (len(one.train), len(one.test)) == (16, 4)
    assert len({query[0].texts[0] for query in one.test}) == 1


TWENTY = [(f"q{number % 5}", number) for number in range(20)]


@pytest.mark.parametrize(
    ("name", "file", "content"),
    [
        ("sentence_pair", "cMedQQ.dev.txt", "".join(f"{n % 2}\t{query}\tt{n}\n" for query, n in TWENTY)),
        ("answer_ranking", "cMedQA.dev.txt", "".join(f"{n % 2}\t{query}\tt{n}\n" for query, n in TWENTY)),
        ("classification", "cMedIC.dev.txt", "".join(f"{n % 3}\t{query}\n" for query, n in TWENTY)),
        ("ner", "QNER.dev.tsv", "query\tentities\n" + "".join(f"{' ' * (n % 2)}{query}\t\n" for query, n in TWENTY)),
    ],
)
def test_lines_of_one_query_are_not_parted(name, file, content, tmp_path) -> None:
    (tmp_path / file).write_text(content)
    (one,) = read(name, "split_dev=true", folder=tmp_path).sets
    learnt, scored = (
        {example.text.strip() if name == "ner" else example.texts[0] for example in part}
        for part in (one.train, one.test)
    )
    assert (len(learnt), len(scored), learnt & scored) == (4, 1, set())
    assert (len(one.train), len(one.test)) == (16, 4)
    (tried,) = read(name, "split_dev=true", "limit=3", folder=tmp_path).sets
    # Of answers a limit counts the questions.
    assert (len(tried.train), len(tried.test)) == ((12, 4) if name == "answer_ranking" else (3, 3))
    two = re.sub("q[2-4]", "q1", content)
    (tmp_path / file).write_text(two)
    with pytest.raises(InputError, match="too few queries to make two parts; three that differ are the least"):
        read(name, "split_dev=true", folder=tmp_path)


def test_which_queries_a_split_scores(tmp_path) -> None:
    names = [f"q{number}" for number in range(20)]
    (tmp_path / "cMedQA.dev.txt").write_text("".join(f"{n}\t{name}\ta{n}\n" for n in (0, 1) for name in names))
    line = '{"query": "%s", "documents": [{"title": "a", "label": "0"}, {"title": "b", "label": "3"}]}\n'
    (tmp_path / "cMedIR.dev.json").write_text("".join(line % name for name in names))
    # Figures that were published were drawn so.
    drawn = [names[row] for row in sorted(np.random.default_rng(3).permutation(20)[:4])]
    (answers,) = read("answer_ranking", "split_dev=true", "seed=3", folder=tmp_path).sets
    assert [one.texts[0] for one in answers.test] == [name for name in drawn for _ in range(2)]
    (documents,) = read("retrieval", "split_dev=true", "seed=3", folder=tmp_path).sets
    assert [query[0].texts[0] for query in documents.test] == drawn


def test_names_of_sets_are_taken_literally(tmp_path) -> None:
    for name in ("Mine[1]", "Mine1"):
        for part in ("train", "dev"):
            (tmp_path / f"{name}.{part}.tsv").write_text(f"query\tlabel\n{name}\tx\n")
    data = read("classification", "datasets=Mine[1], Mine1,,Mine1,", folder=tmp_path)
    assert [(one.name, one.test[0].texts[0]) for one in data.sets] == [("Mine[1]", "Mine[1]"), ("Mine1", "Mine1")]
    with pytest.raises(InputError, match=r"finds no Mine\[\*\]\.dev\.txt"):
        read("classification", "datasets=Mine*", folder=tmp_path)


@pytest.mark.parametrize(
    ("datasets", "message"),
    [
        ("", r"names no set \(value ''\); name some, or leave it out: then all of cMedIC, cMedTC, QIC are run"),
        (" , ", "names no set"),
        ("QIC,/data/QIC", "not the path '/data/QIC'; give its folder as --data"),
        ("../QIC", r"not the path '\.\./QIC'"),
    ],
)
def test_what_is_no_name_of_a_set(datasets, message) -> None:
    with pytest.raises(UsageError, match=f"option 'datasets' .*{message}"):
        read("classification", f"datasets={datasets}")


EMPTY, FREED = "lines left out for an empty field", "fields freed of quotes"
DOCUMENTS = "documents left out for an empty field"
ALIKE = "queries left out for want of documents of different relevance"
SEVERAL = '{"query": "a%sb", "documents": [{"title": "t", "label": 0}, {"title": "u", "label": 1}]}\r\n'
PAIR = _finetuned.read_question_pairs


@pytest.mark.parametrize(
    ("read", "file", "content", "found", "counted"),
    [
        (PAIR, "x.txt", '1\ta\tb\n\n0\t \tb\n\tb\tc\n0\t"say ""a"""\tb\n', ["a|b", 'say "a"|b'], {EMPTY: 2, FREED: 1}),
        # Quotes of the text itself are kept.
        (PAIR, "x.txt", '1\t"bulbs" and "onions"\t"say ""a"""\n', ['"bulbs" and "onions"|say "a"'], {FREED: 1}),
        (
            ner.read,
            "x.txt",
            "a I_x\nb I_y\nc I_y\n\n\n  O\r\nd\tI-y\n",
            ["I-x|I-y|I-y", "O|I-y"],
            {"tags I that continue nothing, taken as B": 3},
        ),
        (
            ner.read,
            "x.tsv",
            "entities\tquery\n0:3:x\theart pain\n\tskin\n",
            ["B-x|O", "O"],
            {"entities widened to whole words": 1},
        ),
        (
            _finetuned.read_documents,
            "x.json",
            '{"query": "a", "documents": [{"title": null, "label": "1"}, {"title": "", "label": 1}, '
            '{"title": "t", "label": "1"}, {"title": "u", "label": 2}, {"title": "v", "label": null}]}\n'
            '{"query": null, "documents": [{"title": "t", "label": 1}, {"title": "u", "label": 2}]}\n',
            ["a|t", "a|u"],
            {DOCUMENTS: 5, ALIKE: 1},
        ),
        # A query in JSON ends at the end of its line.
        (
            _finetuned.read_documents,
            "x.json",
            "".join(SEVERAL % mark for mark in "\u2028\u2029\x85"),
            [f"a{mark}b|{title}" for mark in "\u2028\u2029\x85" for title in "tu"],
            {},
        ),
    ],
)
def test_what_is_left_out_or_mended_is_counted(read, file, content, found, counted, tmp_path) -> None:
    counts: Counter[str] = Counter()
    (tmp_path / file).write_text(content, encoding="utf-8", newline="")
    examples = [example for group in read(tmp_path / file, counts) for example in group]
    assert ["|".join(example.tags if read is ner.read else example.texts) for example in examples] == found
    assert counts == counted


@pytest.mark.parametrize(
    ("field", "text", "entities", "found"),
    [
        ("  中耳炎怎么办 ", "  中耳炎怎么办 ", "2:5:disease", "中耳炎 (disease)"),
        # A spreadsheet's quotes are none of the text, those of the text are.
        ('" the ""heart"" of"', ' the "heart" of', "6:11:site", "heart (site)"),
        ('"中耳炎"或"感冒"', '"中耳炎"或"感冒"', "1:4:disease; 7:9:disease", "中耳炎 (disease); 感冒 (disease)"),
        ('"heart', '"heart', " 1:6:site ", "heart (site)"),
    ],
)
def test_entities_stand_where_the_file_says(field, text, entities, found, tmp_path) -> None:
    (tmp_path / "x.tsv").write_text(f' Query\tEntities \n{field}\t{entities}\n \t\n""\t\n', encoding="utf-8")
    counts: Counter[str] = Counter()
    ((one,),) = ner.read(tmp_path / "x.tsv", counts)
    assert (one.text, one.written(ner.spans(one.tags))) == (text, found)
    assert counts["lines left out for an empty field"] == 1
    assert counts["entities widened to whole words"] == 0


# Training


@pytest.mark.parametrize(
    ("name", "metric", "chance"),
    [
        ("ner", "F1", 0.4),
        ("sentence_pair", "accuracy", 0.5),
        ("classification", "F1", 0.4),
        ("answer_ranking", "P@1", 0.4),
        ("retrieval", "ordered pairs", 0.5),
    ],
)
def test_a_plain_task_is_learnt(name, metric, chance, system, learnt) -> None:
    before = system.encoder.content_hash
    result = learnt(name)
    assert figure(result, metric) > chance + 0.3
    assert system.encoder.content_hash == before
    rows = result.rows
    assert rows["number"].to_list() == list(range(len(rows)))
    assert {"dataset", "query", "seen"} <= set(rows.columns)
    main = load_benchmark(name).INFO.main_metric
    assert main in {one.name for one in result.metrics}
    subset = f"dataset={ONE[name]}"
    assert figure(result, main, f"{subset}, maximum of runs") >= figure(result, main, subset)


def test_several_sets_stand_side_by_side(system) -> None:
    result = run("classification", system, "runs=1", "epochs=1", "limit=6")
    assert result.rows["dataset"].to_list() == ["cMedIC"] * 6 + ["QIC"] * 6
    numbers = [
        set(part["gold_number"]) | set(part["predicted_number_run1"]) for part in result.rows.partition_by("dataset")
    ]
    assert not numbers[0] & numbers[1]
    assert {one.subset for one in result.figures} == {f"dataset={name}, maximum of runs" for name in ("cMedIC", "QIC")}
    assert figure(result, "accuracy", "dataset=QIC") == result.rows["right"][6:].mean()


def test_rows_and_figures_of_a_classification(learnt) -> None:
    result = learnt("classification")
    rows = result.rows
    gold = rows["gold_number"].to_numpy()
    runs = [rows[f"predicted_number_run{number}"].to_numpy() for number in (1, 2)]
    assert figure(result, "accuracy") == pytest.approx(np.mean([metrics.accuracy_score(gold, one) for one in runs]))
    # "0" does not count; "3" is in no training example.
    by_run = [metrics.f1_score(gold, one, average="micro", labels=[1, 2, 3]) for one in runs]
    assert figure(result, "F1") == pytest.approx(np.mean(by_run))
    assert figure(result, "F1", "dataset=cMedIC, maximum of runs") == pytest.approx(max(by_run))
    macro = [metrics.f1_score(gold, one, average="macro", zero_division=0) for one in runs]
    assert figure(result, "macro F1") == pytest.approx(np.mean(macro))
    assert result.notes["cMedIC: labels that no training example has"] == "3"
    assert rows["gold"][-1] == "3"
    assert rows["right"][-1] == 0
    assert not rows["seen"].any()


def test_rows_and_figures_of_sentence_pairs(system) -> None:
    result = run("sentence_pair", system, "datasets=QTRel-easy", "runs=1", "epochs=1")
    gold, predicted = (result.rows[name].to_numpy() for name in ("gold_count", "predicted_run1"))
    precision, recall, f1, _ = metrics.precision_recall_fscore_support(
        gold, predicted, average="binary", zero_division=0
    )
    values = [figure(result, name) for name in ("F1", "precision", "recall", "accuracy")]
    assert values == pytest.approx([f1, precision, recall, metrics.accuracy_score(gold, predicted)])
    assert result.notes["runs"] == 1


def test_scored_texts_without_an_entity(system, tmp_path) -> None:
    (tmp_path / "QNER.train.tsv").write_text("query\tentities\nheart pain\t0:5:site\nthe liver\t4:9:site\n")
    (tmp_path / "QNER.test.tsv").write_text("query\tentities\nof the\t\npain\t\n")
    sets = (*QUICK, "runs=1", "epochs=1")
    result = ner.evaluate(read("ner", *sets, folder=tmp_path), system, options("ner", *sets))
    assert result.tables == {}
    assert result.notes["QNER: by type of entity"] == "no figures, for no scored text has an entity"
    assert result.rows["gold_count"].to_list() == [0, 0]


def test_what_is_scored_of_given_tags() -> None:
    sentence = ner.Sentence("abcd", ((0, 1), (1, 2), (2, 3), (3, 4)), ("B-x", "I-x", "O", "B-y"))
    one = _finetuned.Set("mine", [], [sentence])
    rows, types = ner._score(one, [[["B-x", "I-x", "O", "O"]], [["B-x", "O", "O", "B-y"]]])
    assert rows.row(0, named=True) == {
        "dataset": "mine",
        "query": "abcd",
        "gold": "ab (x); d (y)",
        "predicted": "ab (x)",
        "seen": False,
        "gold_count": 2,
        "right_run1": 1,
        "predicted_run1": 1,
        "right_run2": 1,
        "predicted_run2": 2,
    }
    assert types.rows() == [("x", 1, 0.5, 0.5, 0.5), ("y", 1, 0.5, 0.5, 0.5)]


def test_questions_without_a_right_answer_have_no_rank(learnt) -> None:
    result = learnt("answer_ranking")
    without = result.rows.filter(pl.col("gold_count") == 0)
    assert len(without) == 2
    assert without["P@1"].is_null().all()
    assert result.rows["MRR"].drop_nulls().is_between(1 / 3, 1).all()
    assert result.notes["cMedQNLI: questions without a right answer, in no P@1 or MRR"] == 2
    assert (result.rows["P@1_run1"] + result.rows["P@1_run2"]).drop_nulls().to_list() == pytest.approx(
        (2 * result.rows["P@1"].drop_nulls()).to_list()
    )


def test_pair_score_of_the_runs(system) -> None:
    result = run("retrieval", system, "epochs=1", "learning_rate=1e-5", "batch_size=20")
    rows = result.rows
    shares = [rows[f"ordered_run{number}"].sum() / rows["pairs"].sum() for number in (1, 2)]
    assert figure(result, "ordered pairs") == pytest.approx(np.mean(shares))
    scores = [share / (1 - share) if share < 1 else math.inf for share in shares]
    expected = None if math.inf in scores else pytest.approx(np.mean(scores))
    assert figure(result, "PAIR") == expected
    assert result.notes["cMedIR: scored queries whose string stands there before"] == 0


def test_the_same_seed_gives_the_same_runs(system) -> None:
    sets = ("datasets=cMedQQ", "epochs=1", "limit=16")
    once, again, other = (run("sentence_pair", system, *sets, f"seed={seed}") for seed in (0, 0, 1))
    assert once.rows.equals(again.rows)
    # The second run of seed 0 is the first of seed 1.
    assert once.rows["predicted_number_run2"].equals(other.rows["predicted_number_run1"])


def test_only_an_encoder_can_be_fine_tuned() -> None:
    for name in NAMES:
        with pytest.raises(UsageError, match="needs an encoder; tfidf is none"):
            run(name, load_system("tfidf"), "split_dev=true")
