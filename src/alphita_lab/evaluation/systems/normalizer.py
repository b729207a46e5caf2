"""The normaliser itself: index, candidates by every route and a ranking of one's choice, made of a benchmark's names.

    normalizer:alphita-en                          with all that an index is given, and the model's general calibration
    normalizer:alphita-en,fit=own                  the ranker fitted on the names alone: no labels
    normalizer:alphita-en,borrow=false,learn=no    without borrowed names and short forms, without a head
    normalizer:path/to/model,ranking=fusion        or vectors, letters, exact
    normalizer:path/to/model,contexts=false        abbreviations are not looked for in the text around a mention

A model without a general calibration has its ranker fitted on the names that mentions are ranked against, each taken
as not there; so has any with `fit=own`. Of an encoder that was trained on these very names it would think too well:
`split=S.split` gives those that it was not trained on. Names of which a concept has one each have nothing to fit on:
`calibration=X.index` takes over the ranker of that index, which has the same encoder.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from alphita import drafts
from alphita.answer.calibration_store import FOLDER, Calibration
from alphita.answer.candidates import ranking_of
from alphita.answer.normalizer import Normalizer
from alphita.calibrate.fitting import fit
from alphita.calibrate.transfer import carry_over
from alphita.encoder.encoder import TermEncoder
from alphita.encoder.resolve import DEFAULT
from alphita.errors import UsageError
from alphita.index.choice import Choice
from alphita.index.lookup import EXTERNAL
from alphita.index.sources import choice_hash, enrichment_of
from alphita.index.store import Index, build
from alphita.terminology.splits import Split
from alphita.terminology.text import DEFAULT_RULES
from alphita_lab.evaluation.systems import Answer, Found, encoder, refuse_unknown, truth

if TYPE_CHECKING:
    from alphita.answer.records import Candidate
    from alphita.terminology.store import Terminology

OPTIONS = ("ranking", "contexts", "split", "calibration", "fit", "borrow", "learn", "seed", "precision", "name")
# What the name of a system does not tell.
USUAL = {"contexts": "true", "borrow": "true", "learn": "seconds", "fit": "general"}
PREFIX = "NAME"
KEPT = 2


@dataclass(frozen=True)
class NormalizerOptions:
    """How the normaliser is made of names and fitted."""

    ranking: str = "learned"
    contexts: bool = True
    split: Path | None = None
    calibration: Path | None = None
    fit_own: bool = False
    choice: Choice = field(default_factory=Choice)
    seed: int = 0


class NormalizerSystem:
    """The normaliser, as a benchmark sees it. Ranks concepts; a pair of strings has the encoder's cosine."""

    def __init__(self, terms: TermEncoder, name: str, options: NormalizerOptions, facts: dict[str, Any]) -> None:
        self.name, self.facts, self.rules = name, facts, DEFAULT_RULES
        self._encoder, self._options = terms, options
        self._pairs = encoder.EncoderSystem(terms, name, rules=DEFAULT_RULES, facts=facts)

    def rank_concepts(
        self,
        queries: Sequence[str],
        ids: Sequence[str],
        names: Sequence[str],
        k: int,
        contexts: Sequence[str | None] | None,
    ) -> list[list[Answer]]:
        """Return the k concepts that the normaliser finds for each query, best first."""
        normalizer, id_of = self._normalizer(ids, names)
        given = contexts if self._options.contexts else None
        return [
            [Answer(id_of[found.concept_id], _own_name(found), found.similarity) for found in result.candidates]
            for result in normalizer.normalize(list(queries), top_k=k, contexts=given)
        ]

    def neighbours(self, queries: Sequence[str], terms: Sequence[str], k: int) -> Found:
        return self._pairs.neighbours(queries, terms, k)

    def similarity(self, left: Sequence[str], right: Sequence[str]) -> NDArray[np.float32]:
        return self._pairs.similarity(left, right)

    def _normalizer(self, ids: Sequence[str], names: Sequence[str]) -> tuple[Normalizer, dict[str, str]]:
        options = self._options
        index_of_names = _made_of(self._encoder, ids, names, options.choice)
        calibration = None
        if ranking_of(options.ranking).learned:
            if options not in index_of_names.calibrations:
                index_of_names.calibrations[options] = self._calibrate(index_of_names)
            calibration = index_of_names.calibrations[options]
        normalizer = Normalizer(
            index_of_names.opened,
            encoder=index_of_names.encoder,
            ranking=options.ranking,
            calibration=calibration,
            floor=-1,
        )
        return normalizer, index_of_names.id_of

    def _calibrate(self, made: _Made) -> Calibration:
        options = self._options
        if options.calibration is not None:
            return carry_over(made.opened, lambda: made.encoder, Index.open(options.calibration))
        general = made.opened.model_path / FOLDER
        if options.split is None and not options.fit_own and general.exists():
            return Calibration.load(general, made.opened)
        split: Split | None = None
        if options.split is not None:
            split = Split.load(options.split)
            trained = made.opened.manifest.get("trained")
            # Checked here, for what is made of a benchmark's names is never what was trained on.
            if trained is not None and trained.get("split") not in (None, split.hash):
                raise UsageError(f"{self.name} was trained with another split than {options.split}; give that one")
            new = {old: number for number, old in made.id_of.items()}
            ids = [new.get(concept_id, concept_id) for concept_id in split.concept_ids]
            split = Split(split.strings, ids, split.parts, split.facts)
        return fit(made.opened, lambda: made.encoder, split=split, seed=options.seed)


def _own_name(found: Candidate) -> str:
    """Return the matched term; for a borrowed one, which is none of the names that are ranked, the preferred name."""
    return found.concept_name if EXTERNAL in found.routes else found.matched_term


class _Made(NamedTuple):
    """An index of names, in a folder that goes with it."""

    opened: Index
    encoder: TermEncoder
    id_of: dict[str, str]
    calibrations: dict[NormalizerOptions, Calibration]
    folder: contextlib.ExitStack


# The indexes of the last names: several rankings of one encoder share them.
_LAST: OrderedDict[tuple[str, str, Choice], _Made] = OrderedDict()


def _made_of(terms: TermEncoder, ids: Sequence[str], names: Sequence[str], choice: Choice) -> _Made:
    listed = "\0".join([str(len(ids)), *ids, *names]).encode("utf-8", "surrogatepass")
    key = (terms.content_hash, hashlib.sha256(listed).hexdigest(), choice)
    if key not in _LAST:
        kept = contextlib.ExitStack()
        atexit.register(kept.close)
        folder = kept.enter_context(drafts.scratch())
        numbers = {old: f"{PREFIX}:{number:09}" for number, old in enumerate(dict.fromkeys(ids))}
        terminology = _terminology(folder / "names.terminology", [numbers[concept_id] for concept_id in ids], names)
        index = build(terminology, terms, folder / "names.index", enrichment=enrichment_of(choice))
        has_head = index.manifest["model_hash"] != index.base_model_hash
        used = TermEncoder.load(index.model_path) if has_head else terms
        _LAST[key] = _Made(index, used, {new: old for old, new in numbers.items()}, {}, kept)
        if len(_LAST) > KEPT:
            _LAST.popitem(last=False)[1].folder.close()
    _LAST.move_to_end(key)
    return _LAST[key]


def _terminology(path: Path, ids: Sequence[str], names: Sequence[str]) -> Terminology:
    """Make a terminology of names; the first of each concept is its preferred one."""
    import polars as pl

    from alphita.terminology import store
    from alphita.terminology.model import Tables

    seen: set[str] = set()
    preferred = [not (concept_id in seen or seen.add(concept_id)) for concept_id in ids]  # type: ignore[func-returns-value]
    concepts = pl.DataFrame({"id": list(dict.fromkeys(ids))}).with_columns(source=pl.lit(PREFIX))
    terms = pl.DataFrame({"concept": list(ids), "string": list(names), "preferred": preferred})
    terms = terms.with_columns(language=pl.lit("und"), source=pl.lit(PREFIX))
    store.save(Tables(concepts, terms), path)
    return store.load_terminology(path)


def load(argument: str, options: Mapping[str, str]) -> NormalizerSystem:
    """Open the normaliser with an encoder."""
    refuse_unknown("normalizer", options, OPTIONS)
    ranking = options.get("ranking", "learned")
    ranking_of(ranking)
    contexts, borrow = (truth("the normalizer", options, key, True) for key in ("contexts", "borrow"))
    if (fitted := options.get("fit", "general")) not in ("general", "own"):
        raise UsageError(f"option fit of the normalizer is general or own, not {fitted!r}")
    choice = Choice(borrow=borrow, learn=options.get("learn", "seconds"))  # type: ignore[arg-type]
    choice_hash(choice)
    seed = options.get("seed", "0")
    if not seed.isdecimal():
        raise UsageError(f"option seed of the normalizer is a whole number, 0 or more, not {seed!r}")
    argument = argument or DEFAULT
    opened = TermEncoder.load(argument, precision=options.get("precision", "auto"))
    if "split" in options and "calibration" in options:
        raise UsageError("options split and calibration of the normalizer exclude each other: the one is to fit by")
    given = {"contexts": contexts, "borrow": borrow, "learn": choice.learn, "fit": fitted}
    facts = {
        "kind": "normalizer",
        "encoder": argument,
        "content_hash": opened.content_hash,
        "ranking": ranking,
        **given,
        "split": options.get("split"),
        "calibration": options.get("calibration"),
        "seed": int(seed),
    }
    written = {key: str(value).lower() if isinstance(value, bool) else value for key, value in given.items()}
    others = [f",{key}={value}" for key, value in written.items() if value != USUAL[key]]
    short = Path(argument).name if Path(argument).exists() else argument
    name = options.get("name") or "".join([f"normalizer:{short},{ranking}", *others])
    split, source = (Path(options[key]) if key in options else None for key in ("split", "calibration"))
    how = NormalizerOptions(ranking, contexts, split, source, fitted == "own", choice, int(seed))
    return NormalizerSystem(opened, name, how, facts)
