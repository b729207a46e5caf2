"""The normaliser: cleaning, candidates from all routes, ranking, confidence, and NIL if no concept fits."""

from __future__ import annotations

import copy
import itertools
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence, Set, ValuesView
from collections.abc import Mapping as AnyMapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, fields, replace
from numbers import Integral, Real
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from alphita import machine
from alphita.answer.calibration_store import FOLDER, Assurance, Calibration, RankedAnswers, ordered
from alphita.answer.candidates import MAX_CONCEPTS, Ranking, ranking_of
from alphita.answer.decision import ACCEPT, NIL, REVIEW, Thresholds
from alphita.answer.filters import Allowed, Filters, types_of
from alphita.answer.omop import OmopConcepts
from alphita.answer.pipeline import Pipeline, Questions, Scored, questions_of
from alphita.answer.records import DEFAULT_FLOOR, Result
from alphita.answer.results import Named, ResultBuilder
from alphita.errors import UsageError
from alphita.index.encoding import Encoder
from alphita.index.lookup import DEPTH, EXACT, LETTERS, How
from alphita.index.store import Index
from alphita.mappings.record import Decision
from alphita.mention.abbreviations import Abbreviations
from alphita.mention.assertion import SAYS_NOTHING, SEVERAL, bare_code
from alphita.mention.reader import Mention
from alphita.mention.short_forms import ClinicalAbbreviations
from alphita.registry import unknown
from alphita.terminology.text import clean_many

AUTO = "auto"


@dataclass(frozen=True, kw_only=True)
class NormalizerOptions:
    """Options of a normaliser; you can also pass each of them to `Normalizer` by name.

    Attributes:
        ranking: exact, letters, vectors, fusion or learned; "auto": `learned` with a calibration, else `vectors`.
        calibration: a calibration from `alphita calibrate`, or its folder; by default that of the index, otherwise the
            general one of its model, if any.
        floor: similarity, -1 to 1, below which the answer is NIL; a learned ranking has its own threshold.
        error: the allowed share of errors among accepted answers, 0 to 1; by default 0.05. Without a calibration, no
            answer is accepted.
        nil_error: the allowed share, among NIL answers, of those that have a concept, 0 to 1; by default 0.05.
        target: answer with codes of this code system, a prefix such as "SNOMEDCT", for concepts that have one.
        filters: the concepts that can be answers; all by default.
        billable: only codes that can be billed; see `Filters`.
        abbreviations: your own list: a CSV or TSV with the columns short and long.
        precision: see `TermEncoder.load`.
        device: see `TermEncoder.load`.
        threads: see `TermEncoder.load`.
    """

    ranking: str = AUTO
    calibration: Calibration | Path | str | None = None
    floor: float = DEFAULT_FLOOR
    error: float | None = None
    nil_error: float | None = None
    target: str | None = None
    filters: Filters | None = None
    billable: bool = False
    abbreviations: Path | str | None = None
    precision: str = "auto"
    device: str = "auto"
    threads: int | None = None

    def changed(self, options: dict[str, Any]) -> NormalizerOptions:
        """Return a copy with some options replaced, by name."""
        for name in options.keys() - set(NAMES):
            raise UsageError(unknown("option", name, NAMES))
        made = replace(self, **options)
        for name in ("floor", "error", "nil_error"):
            if not isinstance(value := getattr(made, name), Real) and (value is not None or name == "floor"):
                raise UsageError(f"{name} must be a number, not {value!r}")
        if not -1.0 <= made.floor <= 1.0:
            raise UsageError(f"floor must be between -1 and 1, not {made.floor}")
        return made


NAMES = tuple(each.name for each in fields(NormalizerOptions))


DEFAULT_ERROR = 0.05
# Mention, context, language.
Row = tuple[str, str | None, str | None]
# Distinct mentions per block, one block per thread: their candidates' features take a few dozen megabytes.
MENTIONS_AT_ONCE = 1_024
# Strings examined first per requested concept: most strings name one concept, and most concepts have few strings.
STRINGS_PER_CONCEPT = 4


class Normalizer:
    """Maps strings to concepts of one index. The encoder is loaded when it is first needed.

    `NormalizerOptions` describes its options; pass them by name, or all together.
    """

    def __init__(
        self,
        index: Index,
        *,
        encoder: Encoder | None = None,
        options: NormalizerOptions | None = None,
        **changes: Any,  # noqa: ANN401 - see `NormalizerOptions`
    ) -> None:
        self.options = given = (options or NormalizerOptions()).changed(changes)
        if encoder is not None:
            index.check_encoder(encoder)
        self.index, self.floor, self.target, self.filters = index, given.floor, given.target, given.filters
        if given.billable:
            self.filters = replace(self.filters or Filters(), billable=True)
        self._encoder = encoder
        self._loading = threading.Lock()
        self._narrowed: dict[Filters, Normalizer] = {}
        self.calibration = fitted = _calibration(index, given.calibration, given.ranking)
        self.ranking = given.ranking if given.ranking != AUTO else "vectors" if fitted is None else "learned"
        self._ranking = ranking_of(self.ranking)
        _check_parts(index, self.ranking, self._ranking, fitted)
        self.error, self.nil_error = (_allowed(one, fitted, index) for one in (given.error, given.nil_error))
        self.thresholds = None
        if fitted is not None:
            self.thresholds = Thresholds(fitted.threshold(ACCEPT, self.error), fitted.threshold(NIL, self.nil_error))
        self.abbreviations = _abbreviations(index, fitted, given.abbreviations)
        self._builder = ResultBuilder(index, self.target, None if fitted is None else fitted.ranker)
        self.allowed = Allowed(index, self.filters, self._builder.targets)
        searched, terms = self.allowed.searched(headings=True)
        self._builder.assignment = self.allowed.assignment()
        self._pipeline = Pipeline(
            searched,
            self.encoder,
            self.abbreviations,
            respell=self._ranking.learned,
            allowed=terms,
            assignment=self._builder.assignment,
            definitions=None if fitted is None else fitted.definitions,
            cosines=None if fitted is None else fitted.cosines,
        )

    @property
    def assurance(self) -> Assurance | None:
        """Kind of confidence: "certified" (tested on this index's strings), "estimated" (on others), or None."""
        return self.calibration.assurance(self.error) if self.calibration is not None else None

    @property
    def omop(self) -> OmopConcepts:
        """What OMOP says of the index's concepts."""
        return self._builder.omop

    @classmethod
    def load(cls, path: Path | str, *, verify: bool | None = None, **options: Any) -> Normalizer:  # noqa: ANN401
        """Open the index at `path` and normalise with it.

        Args:
            path: an index folder.
            verify: see `Index.open`.
            **options: those of the class.

        Raises:
            InputError: the index is damaged, or its files do not belong together.
        """
        return cls(Index.open(path, verify=verify), **options)

    def encoder(self) -> Encoder:
        """Return the encoder, loading it the first time."""
        with self._loading:
            if self._encoder is None:
                from alphita.encoder.encoder import TermEncoder

                how = {name: getattr(self.options, name) for name in ("precision", "device", "threads")}
                encoder: Encoder = TermEncoder.load(self.index.model_path, **how)
                self.index.check_encoder(encoder)
                self._encoder = encoder
            return self._encoder

    def prepare(self, texts: Iterable[str]) -> None:
        """Learn the abbreviations that some texts define, such as "congestive heart failure (CHF)".

        This replaces what was learned from earlier texts. Definitions in a mention or its context need no preparation.

        Args:
            texts: all mentions and contexts of an input.
        """
        self._learn(lambda abbreviations: abbreviations.learn(texts))

    def prepare_counted(self, definitions: Iterable[tuple[str, str, int]]) -> None:
        """Learn as `prepare` does, from definitions that were already extracted.

        Args:
            definitions: short form, long form and count, in the order in which they were found.
        """
        self._learn(lambda abbreviations: abbreviations.learn_counted(definitions))

    def misspelt(self, words: Iterable[str]) -> dict[str, str]:
        """Return the terminology's words for the cleaned words of a text that are misspelt."""
        return self._pipeline.reader.misspelt(words)

    def _learn(self, learn: Callable[[Abbreviations], object]) -> None:
        if self.abbreviations is not None:
            self.abbreviations = _fresh(self.abbreviations)
            learn(self.abbreviations)
            for one in (self, *self._narrowed.values()):
                one._pipeline.reader.abbreviations = self.abbreviations

    @property
    def types(self) -> list[str]:
        """The semantic types and domains of the concepts that can be answers."""
        return types_of(self.index.segment, self.allowed.concepts)

    def of_type(self, name: str) -> Normalizer:
        """Return a normaliser whose answers are also of this semantic type or domain; it shares all else with this one.

        Raises:
            UsageError: no concept that can be an answer has this type.
        """
        return self.narrowed(domain=name)

    def narrowed(self, **filters: Any) -> Normalizer:  # noqa: ANN401 - see `Filters`
        """Return a normaliser with further filters; it shares all else with this one.

        Raises:
            UsageError: no concept passes all filters.
        """
        chosen = replace(self.filters or Filters(), **filters)
        with self._loading:
            if chosen == self.filters:
                return self
            if chosen not in self._narrowed:
                part = copy.copy(self)
                part.filters, part._narrowed, part._builder = chosen, {}, copy.copy(self._builder)
                part.allowed = Allowed(self.index, chosen, self._builder.targets)
                part._builder.assignment = self._pipeline.assignment.among(
                    part.allowed.concepts, billable=chosen.billable
                )
                searched, terms = part.allowed.searched(headings=True)
                part._pipeline = self._pipeline.narrowed(searched, terms, part._builder.assignment)
                self._narrowed[chosen] = part
            return self._narrowed[chosen]

    def normalize(
        self,
        mentions: Sequence[str],
        *,
        top_k: int = 1,
        contexts: Sequence[str | None] | None = None,
        languages: Sequence[str | None] | None = None,
        types: Sequence[str | None] | None = None,
        explain: bool = False,
    ) -> list[Result]:
        """Map each mention to its concept.

        Equal mentions (after cleaning, with equal expansions) are looked up once; in calls with more than a thousand,
        only identical strings are. An empty mention is NIL, without candidates.

        Args:
            mentions: the strings: a list, an iterator, or an array of pyarrow or numpy.
            top_k: number of candidate concepts for each mention, if the index has that many.
            contexts: the surrounding text of each mention, or None; it helps to resolve abbreviations.
            languages: the language of each mention (BCP-47), or None.
            types: the semantic type or domain that each answer must have, such as "Drug", or None.
            explain: add an explanation to each result.

        Returns:
            One result per mention, in order.

        Raises:
            UsageError: `mentions` is not a list of strings, `top_k` is below 1, a list has another length, or a type is
                that of no concept.
        """
        mentions, contexts, languages, types = map(listed, (mentions, contexts, languages, types))
        _check(mentions, top_k, contexts=contexts, languages=languages, types=types)
        nothing: list[str | None] = [None] * len(mentions)
        rows = list(zip(mentions, contexts or nothing, languages or nothing, strict=True))
        if types is not None and any(types):
            return self._by_type(rows, types, top_k, explain)
        if len(rows) <= MENTIONS_AT_ONCE:
            return self._normalized(rows, top_k, explain)
        distinct = list(dict.fromkeys(rows))
        threads = machine.threads()
        # Equal work for each thread. Of several, the first block is half as large, and so is the last: while one thread
        # encodes, which releases Python's lock, another one ranks.
        size = -(-len(distinct) // (threads * -(-len(distinct) // (threads * MENTIONS_AT_ONCE))))
        starts = [0, *range(max(1, size // min(2, threads)), len(distinct), size)]
        blocks = [distinct[start:stop] for start, stop in itertools.pairwise([*starts, len(distinct)])]

        def alone(block: list[Row]) -> list[Result]:
            with machine.one_thread():
                return self._normalized(block, top_k, explain)

        with ThreadPoolExecutor(threads) if threads > 1 else nullcontext() as pool:
            answered = (map if pool is None else pool.map)(alone, blocks)
            found = dict(zip(distinct, itertools.chain.from_iterable(answered), strict=True))
        return [found[row] for row in rows]

    def _by_type(self, rows: list[Row], types: Sequence[str | None], top_k: int, explain: bool) -> list[Result]:
        results: dict[int, Result] = {}
        for name in dict.fromkeys(types):
            places = [place for place, other in enumerate(types) if other == name]
            mentions, contexts, languages = zip(*(rows[place] for place in places), strict=True)
            among = self.of_type(name) if name else self
            given: dict[str, Any] = {"contexts": contexts, "languages": languages, "top_k": top_k, "explain": explain}
            results |= zip(places, among.normalize(mentions, **given), strict=True)
        return [results[place] for place in range(len(rows))]

    @machine.uncollected()
    def _normalized(self, rows: Sequence[Row], top_k: int, explain: bool) -> list[Result]:
        """Answer rows; equal questions only once."""
        contexts, languages = [context for _, context, _ in rows], [language for _, _, language in rows]
        mentions = self._pipeline.read([text for text, _, _ in rows], contexts, languages)
        questions, places = questions_of(mentions)
        with machine.one_thread() if len(questions.requests) == 1 else nullcontext():
            known = self._answer(questions, top_k, explain) if questions.requests else []
        results = [
            self._builder.apply_vetoes(mention, known[place])
            if place >= 0
            else self._builder.empty(mention.text, explain)
            for mention, place in zip(mentions, places, strict=True)
        ]
        for row, named, concepts in self._identified(mentions):
            results[row] = self._builder.from_identifier(mentions[row].text, named, concepts, top_k, explain)
        return results

    def _identified(self, mentions: Sequence[Mention]) -> list[tuple[int, Named, list[int]]]:
        """Return which mentions are identifiers or codes of a concept, and of which ones that can be answers."""
        given = {}
        for row, mention in enumerate(mentions):
            if identifier := mention.identifier or self._coded(mention.text):
                given[row] = identifier
        if not given:
            return []
        names = list(given.values())
        own, coded = self.index.concept_rows(names).tolist(), self.index.coded(names)
        allowed = self.allowed.concepts
        found = []
        for number, row, others in zip(given, own, coded, strict=True):
            named = [row] if row >= 0 else others
            concepts = [concept for concept in named if allowed is None or allowed[concept]]
            if not concepts and named:
                concepts = self._pipeline.assignment.instead(named[0])
            if concepts:
                is_bare = mentions[number].identifier is None and "." not in mentions[number].text
                found.append((number, Named(named[0], is_bare), concepts))
        return found

    def _coded(self, text: str) -> str | None:
        """Return the id of a concept whose code is written without its prefix, and is no name: "E11.9", "E119"."""
        code = bare_code(text)
        if code is None or self.index.rows([clean_many([code], self.index.rules)[0]])[0] >= 0:
            return None
        ids = [f"{source}:{form}" for source in self._builder.sources for form in (code, f"{code[:3]}.{code[3:]}")]
        return next((id for id, row in zip(ids, self.index.concept_rows(ids).tolist(), strict=True) if row >= 0), None)

    def _answer(self, questions: Questions, top_k: int, explain: bool, depth: int = 0) -> list[Result]:
        """Answer distinct questions; if too few concepts are found, search again, deeper."""
        learned = self._ranking.learned
        # The ranker's input, and so the answer and its confidence, must not depend on how many candidates are shown.
        depth = depth or (DEPTH if learned else max(DEPTH, STRINGS_PER_CONCEPT * top_k))
        most = MAX_CONCEPTS if depth == DEPTH else max(MAX_CONCEPTS, top_k)
        scored = self._pipeline.candidates(
            questions,
            How(depth, self._ranking.routes, exact_is_enough=top_k == 1 and not learned and not explain),
            most=most if learned else max(most, top_k),
            featured=learned or explain,
        )
        results = self._results(questions, scored, top_k, explain)
        if not self._ranking.routes & ~EXACT or (scored.exhausted and not learned):
            return results
        short = [place for place, result in enumerate(results) if len(result.candidates) < top_k]
        if short and not (scored.exhausted and most >= top_k):
            again = self._answer(questions.take(short), top_k, explain, depth * 4)
            for place, result in zip(short, again, strict=True):
                results[place] = _lengthened(results[place], result, top_k) if learned else result
        return results

    def _results(self, questions: Questions, scored: Scored, top_k: int, explain: bool) -> list[Result]:
        table = scored.table
        if self._ranking.learned and self.calibration is not None and scored.features is not None:
            answers = self.calibration(table, scored.features, scored.penalty)
            doubts = [mention.doubt for mention in questions.mentions]
            says_nothing = np.array([doubt in SAYS_NOTHING for doubt in doubts], bool)
            answers = answers._replace(nil=np.where(says_nothing, 1.0, answers.nil))
            vetoed = np.append(scored.features.vetoed, True)[answers.top]
            assert self.thresholds is not None
            decisions = self.thresholds.decide(answers.confidence, answers.nil, vetoed)
            # Of a mention of several names each is there, though no concept is all of it.
            known: dict[str, Decision] = {**dict.fromkeys(SAYS_NOTHING, NIL), SEVERAL: REVIEW}
            decisions = [
                known.get(doubt, one) if one == NIL or doubt in SAYS_NOTHING else one
                for doubt, one in zip(doubts, decisions, strict=True)
            ]
            nil = np.array([one == NIL for one in decisions], bool)
            return self._builder.results(questions, scored, answers, nil, top_k, decisions=decisions, explain=explain)
        score = self._ranking.score(table)
        # Equal scores (to 6 decimals): the better rank first.
        standing = self.index.segment.standing[table.term]
        order = np.lexsort((standing, -np.round(score, 6), table.request))
        _, top = ordered(table, score)
        similarity = self._ranking.similarity(table)
        top = (
            np.where(top >= 0, order[np.minimum(table.offsets[:-1], max(len(order) - 1, 0))], -1) if len(order) else top
        )
        nothing = np.full(len(top), np.nan)
        answers = RankedAnswers(order, top, nothing, nothing, score)
        nil = self._below_floor(scored, top, similarity)
        return self._builder.results(questions, scored, answers, nil, top_k, similarity=similarity, explain=explain)

    def _below_floor(
        self, scored: Scored, top: NDArray[np.int64], similarity: NDArray[np.float32]
    ) -> NDArray[np.bool_]:
        found = top >= 0
        below = np.zeros(len(top), bool)
        rows = top[found]
        below[found] = (similarity[rows] < self.floor) & ((scored.table.routes[rows] & 1) == 0)
        return below


def _calibration(index: Index, given: Calibration | Path | str | None, ranking: str) -> Calibration | None:
    if ranking not in (AUTO, "learned"):
        return None
    if isinstance(given, Calibration):
        return given
    if given is not None:
        return Calibration.load(Path(given), index)
    for folder in (index.path / FOLDER, index.model_path / FOLDER):
        if folder.exists():
            return Calibration.load(folder, index)
    return None


def _allowed(error: float | None, calibration: Calibration | None, index: Index) -> float:
    if error is not None and calibration is None:
        raise UsageError(
            f"an allowed error of {error:g} needs a calibration, and there is none here; fit one: "
            f"alphita calibrate --index {index.path} (a ranking other than 'learned' goes without)"
        )
    return DEFAULT_ERROR if error is None else error


def _check_parts(index: Index, name: str, ranking: Ranking, calibration: Calibration | None) -> None:
    if ranking.learned and calibration is None:
        raise UsageError(
            f"the ranking {name!r} needs a calibration, and {index.path} has none; "
            f"fit one: alphita calibrate --index {index.path}"
        )
    if ranking.routes & LETTERS and index.ngrams is None and not ranking.learned:
        raise UsageError(
            f"the ranking {name!r} needs the letters, and {index.path} was built without them; "
            "build it again without --no-letters"
        )


def _lengthened(result: Result, deeper: Result, top_k: int) -> Result:
    """Return the result with further candidates after its own, up to `top_k`."""
    if not result.candidates:
        return deeper
    known = {candidate.concept_id for candidate in result.candidates}
    further = [candidate for candidate in deeper.candidates if candidate.concept_id not in known]
    return replace(result, candidates=(*result.candidates, *further)[:top_k])


def _fresh(kept: Abbreviations) -> Abbreviations:
    """Return the same abbreviations without those learned from an input."""
    return Abbreviations.from_json(kept.to_json()).with_clinic(kept.clinic)


def _abbreviations(index: Index, calibration: Calibration | None, given: Path | str | None) -> Abbreviations | None:
    """Return the abbreviations that are expanded: those of the calibration and of the user's own list."""
    kept = calibration.abbreviations if calibration is not None else None
    if kept is None and given is None:
        return None
    # A separate object: what it learns from an input must not affect others that use the same calibration.
    own = Abbreviations(clinic=ClinicalAbbreviations.of_index(index)) if kept is None else _fresh(kept)
    return own.with_list(Path(given)) if given is not None else own


def listed(values: Any) -> Any:  # noqa: ANN401
    """Return the values of an iterator or of an array (pyarrow's, numpy's) as a list; anything else as it is."""
    if isinstance(values, Iterator | ValuesView):
        return list(values)
    to_list = getattr(values, "to_pylist", None) or getattr(values, "tolist", None)
    return values if to_list is None else to_list()


def _check(mentions: Sequence[str], top_k: int, **columns: Sequence[str | None] | None) -> None:
    if isinstance(mentions, str):
        raise UsageError("normalize takes a list of strings, not one string: normalize([mention])")
    if not (hasattr(mentions, "__len__") and hasattr(mentions, "__iter__")) or isinstance(mentions, AnyMapping | Set):
        raise UsageError(f"normalize takes a list of strings, not {type(mentions).__name__}")
    if not isinstance(top_k, Integral) or top_k < 1:
        raise UsageError(f"top_k must be 1 or more, not {top_k!r}")
    for name, values in columns.items():
        if values is not None and len(values) != len(mentions):
            raise UsageError(f"{len(mentions)} mentions, but {len(values)} {name}")
    for place, mention in enumerate(mentions):
        if not isinstance(mention, str):
            raise UsageError(f"mention {place} is no string but {type(mention).__name__}; give '' for a missing one")
