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


class NormalizerSystem:
    """The normaliser, as a benchmark sees it. Ranks concepts; a pair of strings has the encoder's cosine."""

    def __init__(
        self,
        terms: TermEncoder,
        name: str,
        *,
        ranking: str,
        contexts: bool,
        split: Path | None,
        calibration: Path | None,
        fit_own: bool,
        choice: Choice,
        seed: int,
        facts: dict[str, Any],
    ) -> None:
        self.name, self.facts, self.rules = name, facts, DEFAULT_RULES
        self._encoder, self._ranking, self._contexts, self._split, self._seed = terms, ranking, contexts, split, seed
        self._source, self._fit_own, self._choice = calibration, fit_own, choice
        self._pairs = encoder.EncoderSystem(terms, name, rules=DEFAULT_RULES, facts=facts)

    def rank_concepts(
        self,
        queries: Sequence[str],
        ids: Sequence[str],
        names: Sequence[str],
        k: int,
        contexts: Sequence[str | None] | None,
    ) -> list[list[Answer]]:
        """See `ConceptRanker`."""
        normalizer, id_of = self._normalizer(ids, names)
        given = contexts if self._contexts else None
        results = normalizer.normalize(list(queries), top_k=k, contexts=given)
        return [
            [
                Answer(id_of[candidate.concept_id], _own_name(candidate), candidate.similarity)
                for candidate in result.candidates
            ]
            for result in results
        ]

    def neighbours(self, queries: Sequence[str], terms: Sequence[str], k: int) -> Found:
        """See `System`; by the encoder alone."""
        return self._pairs.neighbours(queries, terms, k)

    def similarity(self, left: Sequence[str], right: Sequence[str]) -> NDArray[np.float32]:
        """Return the cosine of each pair."""
        return self._pairs.similarity(left, right)

    def _normalizer(self, ids: Sequence[str], names: Sequence[str]) -> tuple[Normalizer, dict[str, str]]:
        """Return the normaliser of some names, and the id of each of its concepts."""
        made = _made_of(self._encoder, ids, names, self._choice)
        calibration = None
        if ranking_of(self._ranking).learned:
            given = (str(self._split), str(self._source), self._seed, self._fit_own)
            if given not in made.calibrations:
                made.calibrations[given] = self._calibrate(made)
            calibration = made.calibrations[given]
        normalizer = Normalizer(
            made.opened, encoder=made.encoder, ranking=self._ranking, calibration=calibration, floor=-1
        )
        return normalizer, made.id_of

    def _calibrate(self, made: _Made) -> Calibration:
        if self._source is not None:
            return carry_over(made.opened, lambda: made.encoder, Index.open(self._source))
        general = made.opened.model_path / FOLDER
        if self._split is None and not self._fit_own and general.exists():
            return Calibration.load(general, made.opened)
        split = None if self._split is None else _renamed(self._loaded_split(made.opened), made.id_of)
        return fit(made.opened, lambda: made.encoder, split=split, seed=self._seed)

    def _loaded_split(self, index: Index) -> Split:
        """Return the split; checked here, for what is made of a benchmark's names is never what was trained on."""
        assert self._split is not None
        split, trained = Split.load(self._split), index.manifest.get("trained")
        if trained is not None and trained.get("split") not in (None, split.hash):
            raise UsageError(f"{self.name} was trained with another split than {self._split}; give that one")
        return split


def _own_name(found: Candidate) -> str:
    """Return the matched term; for a borrowed one, which is none of the names that are ranked, the preferred name."""
    return found.concept_name if EXTERNAL in found.routes else found.matched_term


class _Made(NamedTuple):
    """An index of names, in a folder that goes with it."""

    opened: Index
    encoder: TermEncoder
    id_of: dict[str, str]
    calibrations: dict[tuple[str, str, int, bool], Calibration]
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
        numbers = {one: f"{PREFIX}:{number:09}" for number, one in enumerate(dict.fromkeys(ids))}
        terminology = _terminology(folder / "names.terminology", [numbers[concept_id] for concept_id in ids], names)
        index = build(terminology, terms, folder / "names.index", enrichment=enrichment_of(choice))
        has_head = index.manifest["model_hash"] != index.base_model_hash
        used = TermEncoder.load(index.model_path) if has_head else terms
        _LAST[key] = _Made(index, used, {new: one for one, new in numbers.items()}, {}, kept)
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


def _renamed(split: Split, id_of: Mapping[str, str]) -> Split:
    new = {one: number for number, one in id_of.items()}
    return Split(
        split.strings, [new.get(concept_id, concept_id) for concept_id in split.concept_ids], split.parts, split.facts
    )


def load(argument: str, options: Mapping[str, str]) -> NormalizerSystem:
    """Open the normaliser with an encoder."""
    refuse_unknown("normalizer", options, OPTIONS)
    ranking = options.get("ranking", "learned")
    ranking_of(ranking)
    contexts, borrow = (
        truth("the normalizer", options, "contexts", True),
        truth("the normalizer", options, "borrow", True),
    )
    if (fitted := options.get("fit", "general")) not in ("general", "own"):
        raise UsageError(f"option fit of the normalizer is general or own, not {fitted!r}")
    choice = Choice(borrow=borrow, learn=options.get("learn", "seconds"))  # type: ignore[arg-type]
    choice_hash(choice)
    seed = options.get("seed", "0")
    if not seed.isdecimal():
        raise UsageError(f"option seed of the normalizer is a whole number, 0 or more, not {seed!r}")
    argument = argument or DEFAULT
    opened = TermEncoder.load(argument, precision=options.get("precision", "auto"))
    short = Path(argument).name if Path(argument).exists() else argument
    facts = {
        "kind": "normalizer",
        "encoder": argument,
        "content_hash": opened.content_hash,
        "ranking": ranking,
        "contexts": contexts,
        "borrow": borrow,
        "learn": choice.learn,
        "fit": fitted,
        "split": options.get("split"),
        "calibration": options.get("calibration"),
        "seed": int(seed),
    }
    if "split" in options and "calibration" in options:
        raise UsageError("options split and calibration of the normalizer exclude each other: the one is to fit by")
    split = Path(options["split"]) if "split" in options else None
    source = Path(options["calibration"]) if "calibration" in options else None
    told = {"contexts": str(contexts).lower(), "borrow": str(borrow).lower(), "learn": choice.learn, "fit": fitted}
    others = [f",{name}={value}" for name, value in told.items() if value != USUAL[name]]
    name = options.get("name") or "".join([f"normalizer:{short},{ranking}", *others])
    return NormalizerSystem(
        opened,
        name,
        ranking=ranking,
        contexts=contexts,
        split=split,
        calibration=source,
        fit_own=fitted == "own",
        choice=choice,
        seed=int(seed),
        facts=facts,
    )
