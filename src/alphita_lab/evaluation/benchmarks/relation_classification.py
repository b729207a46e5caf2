"""Relation classification: which relation holds between two concepts, by a linear softmax over [e_h, e_t].

The Diseases Database task (DDBRC) of Yuan et al. 2020 and 2022, on files of its layout or on the triples of any
terminology. Vectors are used as they are ("accuracy") and, if asked for, trained along ("accuracy, fine-tuned"). A
concept is represented by a random term of its; one without a name by its id, as in the released code. Deviations: an
encoder's own pooling stands for the papers' [CLS]; vectors as they are get one common factor (see
`rescaled`); where averaged word vectors are trained along, it is those of the terms, not of words.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray
from pydantic import Field

from alphita import progress, textio
from alphita.config import Config
from alphita.encoder.encoder import TermEncoder
from alphita.errors import AlphitaError, InputError, UsageError, require
from alphita.terminology.splits import Split
from alphita.terminology.store import Terminology
from alphita.terminology.text import clean_many
from alphita_lab.evaluation.benchmarks import Source, about
from alphita_lab.evaluation.benchmarks._terminology_targets import read_names
from alphita_lab.evaluation.scoring.results import Metric, Result, macro_f1
from alphita_lab.evaluation.systems import ConceptSystem, VectorSystem
from alphita_lab.evaluation.systems.encoder import EncoderSystem
from alphita_lab.graph.triples import held_out_pairs, usable_triples

if TYPE_CHECKING:
    from torch import Tensor

INFO, PUBLISHED = about(__name__)
WARMUP = 0.1
FROZEN_RATE, FROZEN_BATCH = 1e-3, 512
TUNED_RATE, TUNED_BATCH = 2e-5, 96

Int = NDArray[np.int64]


class Options(Config):
    """What is classified, and how."""

    triples: Literal["ddbrc", "terminology"] = Field(
        "ddbrc", description="triples from files in DDBRC's layout, or from a terminology"
    )
    names: str | None = Field(
        None, description="for ddbrc: a file under --data, one id<TAB>name per line, instead of a terminology"
    )
    name: Literal["random", "preferred"] = Field(
        "random",
        description="term that represents a concept (Yuan et al. 2020: random); the first term in a file is preferred",
    )
    split: Literal["random", "stratified"] = Field(
        "random", description="split 4:1 at random (the papers), or stratified by relation (the released code)"
    )
    held_out: Path | None = Field(
        None, description="for a terminology: a saved split (X.split) whose held-out triples are the test part"
    )
    fine_tune: bool = Field(False, description="also train the vectors or the encoder; slow")
    rescale: bool = Field(True, description="scale untrained vectors to values of about 1; off: unchanged")
    epochs: int = Field(50, ge=1, description="passes over the training triples (Yuan et al. 2020)")
    relations: int = Field(14, ge=2, description="for a terminology: number of most frequent relations (DDBRC has 14)")
    rare: int = Field(50, ge=5, description="for a terminology: minimum triples of a relation")
    max_triples: int = Field(131_741, ge=10, description="for a terminology: size of a seeded sample (DDBRC's number)")
    seed: int = Field(
        72, ge=0, description="seed for split, sample, terms and training (released code: 72 for the split)"
    )


@dataclass(frozen=True)
class Examples:
    """Triples of numbered concepts and relations, (n,) int64 each."""

    heads: Int
    tails: Int
    relations: Int

    def __len__(self) -> int:
        return len(self.heads)


@dataclass(frozen=True)
class ClassifierSettings:
    """How to train; the seed is of the first weights and of the order."""

    epochs: int
    seed: int
    classes: int


@dataclass(frozen=True)
class Data:
    """Triples to learn from and to classify; `terms`: the name of each concept, None where it has none."""

    concepts: list[str]
    terms: list[str | None] | None
    relations: list[str]
    train: Examples
    test: Examples
    notes: dict[str, Any] = field(default_factory=dict)


def load(source: Source, options: Options) -> Data:
    """Read the triples, split them if they are not, and choose the terms."""
    notes: dict[str, Any] = {}
    if options.held_out is not None and options.triples != "terminology":
        raise UsageError(
            "relation_classification.held_out is for a terminology's triples: "
            "--set relation_classification.triples=terminology"
        )
    if options.triples == "terminology":
        terminology = source.require_terminology()
        triples, notes = _of_terminology(terminology, options)
        if options.held_out is not None:
            train, test, facts = _held_out(triples, terminology, options.held_out)
            notes |= facts
        else:
            train, test = _split(triples, options, terminology.path)
    elif (whole := source.file("relation_all.txt", optional=True)) is not None:
        triples = _read_whole(whole)
        train, test = _split(triples, options, whole)
    else:
        parts = [[source.files(f"{kind}_{part}.txt")[0] for kind in "xy"] for part in ("train", "test")]
        train, test = (_read_part(pairs, labels) for pairs, labels in parts)
    concepts = list(dict.fromkeys(concept for head, _, tail in [*train, *test] for concept in (head, tail)))
    relations = sorted({relation for _, relation, _ in [*train, *test]})
    notes |= _overlap(train, test)
    terms = _terms(concepts, source, options)
    learnt, scored = (_numbered(part, concepts, relations) for part in (train, test))
    return Data(concepts, terms, relations, learnt, scored, notes)


Triple = tuple[str, str, str]


def _read_part(pairs: Path, labels: Path) -> list[Triple]:
    """Read x_*.txt (head, tab, tail) and y_*.txt (relation), line by line."""
    heads_tails, relations = _lines(pairs), _lines(labels)
    if len(heads_tails) != len(relations):
        raise InputError(f"{len(heads_tails)} lines, but {labels.name} has {len(relations)}", file=pairs)
    triples = []
    for (number, line), (other, relation) in zip(heads_tails, relations, strict=True):
        fields = [part.strip() for part in line.split("\t")]
        if len(fields) != 2 or not all(fields):
            raise InputError("not two ids with a tab between", file=pairs, line=number, value=line)
        if not relation.strip():
            raise InputError("names no relation", file=labels, line=other)
        triples.append((fields[0], relation.strip(), fields[1]))
    return triples


def _read_whole(path: Path) -> list[Triple]:
    """Read relation_all.txt: a head line, then head|relation|tail|source; those of the source "diseasedb" are taken."""
    triples = []
    for number, line in _lines(path)[1:]:
        fields = [part.strip() for part in line.split("|")]
        if len(fields) != 4 or not all(fields):
            raise InputError("not head|relation|tail|source", file=path, line=number, value=line)
        if fields[3] == "diseasedb":
            triples.append((fields[0], fields[1], fields[2]))
    if not triples:
        raise InputError("holds no triple of the source diseasedb", file=path)
    return triples


def _lines(path: Path) -> list[tuple[int, str]]:
    lines = [line.removesuffix("\r") for line in textio.read_text(path).split("\n")]
    while lines and not lines[-1].strip():
        lines.pop()
    if not lines:
        raise InputError("holds no line", file=path)
    return list(enumerate(lines, 1))


def _of_terminology(terminology: Terminology, options: Options) -> tuple[list[Triple], dict[str, Any]]:
    """Return a sample of the triples of the most frequent relations, no pair of concepts under two of them."""
    triples, facts = usable_triples(terminology, rare=options.rare, inverse=0.8)
    counts = np.bincount(triples[:, 1], minlength=len(terminology.relation_labels))
    chosen = [row for row in np.argsort(-counts, kind="stable")[: options.relations] if counts[row]]
    facts["less_frequent_relations_left_out"] = int((counts > 0).sum()) - len(chosen)
    triples = triples[np.isin(triples[:, 1], chosen)]
    pairs = triples[:, 0] * terminology.n_concepts + triples[:, 2]
    values, times = np.unique(pairs, return_counts=True)
    single = np.isin(pairs, values[times == 1])
    notes = facts | {"triples_left_out_for_a_second_relation": int((~single).sum())}
    triples = triples[single]
    if len(triples) > options.max_triples:
        rows = np.random.default_rng(options.seed).permutation(len(triples))[: options.max_triples]
        triples = triples[np.sort(rows)]
    ids = {int(row): terminology.concept_id(row) for row in np.unique(triples[:, [0, 2]])}
    named = [(ids[head], terminology.relation_labels[label], ids[tail]) for head, label, tail in triples.tolist()]
    return named, notes


def _split(triples: list[Triple], options: Options, file: Path) -> tuple[list[Triple], list[Triple]]:
    labels = [relation for _, relation, _ in triples]
    counts = Counter(labels)
    if len(counts) < 2:
        remedy = (
            "allow rarer ones by --set relation_classification.rare=5" if options.triples == "terminology" else None
        )
        raise InputError(f"needs two relations at least, and has {len(counts)}", file=file, remedy=remedy)
    if options.split == "stratified" and min(counts.values()) < 2:
        rare = min(counts, key=lambda label: counts[label])
        raise InputError("a relation of one triple cannot be in both parts", file=file, value=rare)
    model_selection = require("sklearn.model_selection", "evaluate")
    train, test = model_selection.train_test_split(
        triples, test_size=0.2, random_state=options.seed, stratify=labels if options.split == "stratified" else None
    )
    return train, test


def _held_out(
    triples: list[Triple], terminology: Terminology, path: Path
) -> tuple[list[Triple], list[Triple], dict[str, Any]]:
    """Return the triples that may be learnt from, those between held-out pairs of concepts, and what to note."""
    rows, facts = held_out_pairs(terminology, Split.load(path), path)
    pairs = {frozenset((terminology.concept_id(head), terminology.concept_id(tail))) for head, tail in rows.tolist()}
    train = [triple for triple in triples if frozenset((triple[0], triple[2])) not in pairs]
    test = [triple for triple in triples if frozenset((triple[0], triple[2])) in pairs]
    relations = {relation for _, relation, _ in train}
    if not test or len(relations) < 2:
        raise InputError(
            f"needs held-out triples to classify and two relations to learn, and has {len(test)} and {len(relations)}",
            file=path,
            remedy="give a terminology of several relations, or allow rarer ones by "
            "--set relation_classification.rare=5; or hold out another share",
        )
    return train, test, facts


def _overlap(train: Sequence[Triple], test: Sequence[Triple]) -> dict[str, int]:
    pairs, labels = {(head, tail) for head, _, tail in train}, {relation for _, relation, _ in train}
    return {
        "test_pairs_also_in_train": sum((head, tail) in pairs for head, _, tail in test),
        "test_pairs_turned_round_in_train": sum((tail, head) in pairs for head, _, tail in test),
        "test_triples_of_a_relation_not_in_train": sum(relation not in labels for _, relation, _ in test),
    }


def _numbered(triples: Sequence[Triple], concepts: Sequence[str], relations: Sequence[str]) -> Examples:
    places = {name: row for row, name in enumerate(concepts)}
    labels = {name: row for row, name in enumerate(relations)}
    table = [(places[head], places[tail], labels[relation]) for head, relation, tail in triples]
    return Examples(*np.array(table, np.int64).reshape(-1, 3).T.copy())


def _terms(concepts: Sequence[str], source: Source, options: Options) -> list[str | None] | None:
    if options.names and options.triples == "ddbrc":
        names: dict[str, list[str]] = {}
        for concept_id, name in zip(*read_names(source.named(options.names)), strict=True):
            names.setdefault(concept_id, []).append(name)
        names_of = [names.get(concept, []) for concept in concepts]
    elif source.terminology is not None:
        names_of = _names_in(source.terminology, concepts)
    else:
        return None
    drawn = np.random.default_rng(options.seed).random(len(concepts))
    if options.name == "preferred":
        drawn[:] = 0
    return [
        names_of_concept[int(place * len(names_of_concept))] if names_of_concept else None
        for names_of_concept, place in zip(names_of, drawn, strict=True)
    ]


def _names_in(terminology: Terminology, concepts: Sequence[str]) -> list[list[str]]:
    """Return the names of concepts, the preferred one first; an id that is not known may be a bare CUI."""
    aliases = terminology.side_table("aliases")
    rows = dict(zip(aliases.column("alias").to_pylist(), aliases.column("concept").to_pylist(), strict=True))
    rows |= {concept_id: row for row, concept_id in enumerate(terminology.concept_ids.to_pylist())}
    terms, offsets = terminology.training_terms()
    strings = terminology.terms.column("string")
    names_of: list[list[str]] = []
    for concept in concepts:
        row = rows.get(concept, rows.get(f"UMLS:{concept}"))
        names_of.append([] if row is None else strings.take(terms[offsets[row] : offsets[row + 1]]).to_pylist())
        if row is not None and not names_of[-1] and (name := str(terminology.concept_names[row].as_py())) != concept:
            # None of its terms trains: machine translations, say.
            names_of[-1].append(name)
    return names_of


def evaluate(data: Data, system: object, options: Options) -> Result:
    """Train and score one system; one row a test triple."""
    vectors = _vectors(data, system)
    known = np.isfinite(vectors).all(axis=1)
    covered = known & np.array([data.terms is None or term is not None for term in data.terms or data.concepts])
    if isinstance(system, ConceptSystem) and not isinstance(system, VectorSystem):
        covered = known
    vectors = filled(vectors)
    settings = ClassifierSettings(options.epochs, options.seed, len(data.relations))
    encoder = isinstance(system, EncoderSystem)
    used = rescaled(vectors) if options.rescale else vectors
    predicted = {"": classify_vectors(used, data.train, data.test, settings, decay=encoder, tune=False)}
    if options.fine_tune:
        predicted["_fine_tuned"] = _fine_tuned(data, system, vectors, settings)
    test, train = data.test, data.train
    seen = np.zeros(len(data.concepts), bool)
    seen[train.heads] = seen[train.tails] = True
    rows = pl.DataFrame(
        {
            "head": [data.concepts[row] for row in test.heads],
            "tail": [data.concepts[row] for row in test.tails],
            "relation": [data.relations[row] for row in test.relations],
            "relation_number": test.relations,
            "seen": np.array(["none", "one", "both"])[seen[test.heads].astype(int) + seen[test.tails]],
            "covered": covered[test.heads] & covered[test.tails],
        }
    )
    metrics: list[Metric] = []
    for ending, numbers in predicted.items():
        rows = rows.with_columns(
            pl.Series(f"predicted{ending}", [data.relations[row] for row in numbers]),
            pl.Series(f"predicted_number{ending}", numbers),
            pl.Series(f"right{ending}", numbers == test.relations),
        )
        label = ", fine-tuned" if ending else ""
        metrics += [
            Metric(f"accuracy{label}", (f"right{ending}",)),
            Metric(f"macro F1{label}", ("relation_number", f"predicted_number{ending}"), macro_f1),
        ]
    notes = {
        "concepts": len(data.concepts),
        "relations": len(data.relations),
        "train": len(train),
        "test": len(test),
        "concepts_without_a_name_or_vector": int((~covered).sum()),
        **data.notes,
    }
    return Result(rows, tuple(metrics), ("relation", "seen", "covered"), notes=notes)


def _vectors(data: Data, system: object) -> NDArray[np.float32]:
    """Return the vector of each concept, (n_concepts, d), NaN where there is none."""
    if isinstance(system, VectorSystem):
        return system.encode(clean_many(_named(data), system.rules))
    if isinstance(system, ConceptSystem):
        return system.encode_concepts(data.concepts)
    raise UsageError(
        "relation_classification needs a system with vectors of terms or of concepts; "
        f"{getattr(system, 'name', system)} has neither"
    )


def _named(data: Data) -> list[str]:
    """Return the term of each concept; of one without a name the id."""
    if data.terms is None:
        raise UsageError(
            "relation_classification needs names of the concepts: --terminology (the UMLS, for DDBRC), or "
            "--set relation_classification.names=FILE"
        )
    return [concept_id if term is None else term for concept_id, term in zip(data.concepts, data.terms, strict=True)]


def _fine_tuned(
    data: Data, system: object, vectors: NDArray[np.float32], settings: ClassifierSettings
) -> NDArray[np.int64]:
    if not isinstance(system, EncoderSystem):
        return classify_vectors(vectors, data.train, data.test, settings, decay=False, tune=True)
    kept = system.encoder
    if kept.pooling == "legacy_coder":
        raise UsageError("an encoder is fine-tuned with its own pooling, mean or cls, not with legacy_coder")
    # A copy in full precision: the system's own weights stay as they are.
    encoder = TermEncoder.load(kept.folder, precision="fp32", pooling=kept.pooling, max_length=kept.max_length)
    terms = clean_many(_named(data), system.rules)
    return classify_terms(encoder, terms, data.train, data.test, settings)


# softmax(W [e_h, e_t] + b), section 4.6 of Yuan et al. 2022, trained with the papers' settings (appendix A.4): 50
# epochs; vectors as they are, learning rate 1e-3 and batches of 512; an encoder trained along, 2e-5 and 96; vectors of
# concepts trained along, 1e-3 and 512. Optimiser and schedule are those of the released code: Adam without weight
# decay; for encoders 10% warm-up, then linear decay to 0; for other vectors a constant rate.


def filled(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return vectors (n, d) with the mean of the others in place of rows of NaN, as the released code has it."""
    known = np.asarray(np.isfinite(vectors).all(axis=1))
    if not known.any():
        raise AlphitaError("the system has a vector for none of the concepts")
    mean = vectors[known].mean(axis=0)
    return np.where(known[:, None], vectors, mean).astype(np.float32)


def rescaled(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return vectors (n, d) times one factor, so that their mean square length is d: numbers of about 1."""
    size = float(np.sqrt((vectors.astype(np.float64) ** 2).mean()))
    scaled: NDArray[np.float32] = (vectors / max(size, 1e-12)).astype(np.float32)
    return scaled


def classify_vectors(
    vectors: NDArray[np.float32],
    train: Examples,
    test: Examples,
    settings: ClassifierSettings,
    *,
    decay: bool,
    tune: bool,
) -> Int:
    """Train on vectors of concepts (n_concepts, d), finite; return the predicted relation of each test triple, (m,)."""
    torch = require("torch", "train")
    torch.manual_seed(settings.seed)
    table = torch.nn.Embedding.from_pretrained(torch.from_numpy(np.array(vectors)), freeze=not tune)
    linear = torch.nn.Linear(2 * vectors.shape[1], settings.classes)

    def logits(heads: Tensor, tails: Tensor) -> Tensor:
        out: Tensor = linear(torch.cat([table(heads), table(tails)], dim=1))
        return out

    parameters = [*linear.parameters(), *(table.parameters() if tune else ())]
    _fit(logits, parameters, train, settings, FROZEN_RATE, FROZEN_BATCH, decay=decay)
    return _predict(logits, test, 8192)


def classify_terms(
    encoder: TermEncoder, terms: Sequence[str], train: Examples, test: Examples, settings: ClassifierSettings
) -> Int:
    """Train a classifier and the encoder under it on the concepts' terms; return the predicted relations, (m,)."""
    torch = require("torch", "train")
    from alphita_lab.training.engine.forward import TermForward

    torch.manual_seed(settings.seed)
    forward = TermForward(encoder)
    linear = torch.nn.Linear(2 * encoder.dim, settings.classes).to(forward.device)
    tokens = encoder.tokenize(terms)

    def logits(heads: Tensor, tails: Tensor) -> Tensor:
        rows, places = torch.cat([heads, tails]).unique(return_inverse=True)
        vectors = forward([tokens[row] for row in rows.tolist()])[places.to(forward.device)]
        out: Tensor = linear(torch.cat([vectors[: len(heads)], vectors[len(heads) :]], dim=1))
        return out

    forward.module.train()
    parameters = [*linear.parameters(), *(p for p in forward.module.parameters() if p.requires_grad)]
    _fit(logits, parameters, train, settings, TUNED_RATE, TUNED_BATCH, decay=True)
    forward.module.eval()
    return _predict(logits, test, 512)


def _fit(
    logits: Callable[[Any, Any], Any],
    parameters: list[Any],
    train: Examples,
    settings: ClassifierSettings,
    rate: float,
    batch: int,
    *,
    decay: bool,
) -> None:
    torch = require("torch", "train")
    optimizer = torch.optim.Adam(parameters, lr=rate)
    steps_an_epoch = -(-len(train) // batch)
    total = settings.epochs * steps_an_epoch
    warmup = int(WARMUP * total)
    heads, tails, relations = (torch.from_numpy(column) for column in (train.heads, train.tails, train.relations))
    order = np.random.default_rng(settings.seed)
    with progress.bar("Relations", total, "steps") as bar:
        for epoch in range(settings.epochs):
            shuffled = torch.from_numpy(order.permutation(len(train)))
            for number, rows in enumerate(shuffled.split(batch)):
                if decay:
                    step = epoch * steps_an_epoch + number
                    up, down = step / max(1, warmup), (total - step) / max(1, total - warmup)
                    for group in optimizer.param_groups:
                        group["lr"] = rate * min(up, down)
                scores = logits(heads[rows], tails[rows])
                loss = torch.nn.functional.cross_entropy(scores, relations[rows].to(scores.device))
                if not torch.isfinite(loss):
                    raise AlphitaError(f"the loss is no longer finite in epoch {epoch + 1}")
                optimizer.zero_grad(set_to_none=True)
                loss.backward()
                optimizer.step()
                bar.advance(1)


def _predict(logits: Callable[[Any, Any], Any], test: Examples, batch: int) -> Int:
    torch = require("torch", "train")
    parts = []
    with torch.inference_mode():
        for start in range(0, len(test), batch):
            rows = slice(start, start + batch)
            scores = logits(torch.from_numpy(test.heads[rows]), torch.from_numpy(test.tails[rows]))
            parts.append(scores.argmax(dim=1).cpu().numpy())
    return np.concatenate(parts).astype(np.int64) if parts else np.empty(0, np.int64)
