"""The calibration of an index: ranker, outcomes, thresholds and figures, in X.index/calibration.

It is an artefact for one index, and refused by any other; or a general one (see `general`) for one encoder, refused
with any other, in X.index/model/calibration:

    manifest.json      the index's hash, or the encoder's; the split's, settings, counts
    arrays.safetensors ranker and outcomes, plain arrays
    figures.json       expected calibration error, risk and coverage, accuracies by ranking
    abbreviations.json the terminology's abbreviations and their meanings
    reliability.svg, risk_coverage.svg
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from alphita import artefact, textio
from alphita.answer.candidates import CandidateTable
from alphita.answer.decision import ACCEPT, NIL, NONE, RIGHT, Kind, Outcomes
from alphita.answer.features import MENTION_NAMES, NAMES, Cosines, Definitions, Features
from alphita.answer.ranker import DIGITS, Probabilities, Ranker
from alphita.errors import InputError, UsageError
from alphita.mention.abbreviations import Abbreviations
from alphita.mention.reader import SHORT_CAPITALS
from alphita.mention.short_forms import ClinicalAbbreviations

if TYPE_CHECKING:
    from alphita.index.store import Index

KIND = "calibration"
FOLDER = "calibration"
# The kind of confidence: thresholds were tested on strings of this index, or transferred from others.
CERTIFIED: Final = "certified"
ESTIMATED: Final = "estimated"
Assurance = Literal["certified", "estimated"]
# The evidence for the best candidate: from the ranker, the candidate and the mention. A short mention that equals no
# term is more often an abbreviation than a misspelling.
OF_CANDIDATE = (
    *("equal", "cosine", "letters", "edit_ratio", "words_of_mention_in_term", "words_of_term_in_mention"),
    *("borrowed_term", "homonyms", "expanded", "meant_otherwise", "only_in_mention", "only_in_term"),
    *("preferred_cosine", "preferred_cosine_behind_best"),
)
OF_MENTION = ("characters", "known_words", "named_elsewhere", "other_words")
AT_CANDIDATE, AT_MENTION = [*map(NAMES.index, OF_CANDIDATE)], [*map(MENTION_NAMES.index, OF_MENTION)]
EVIDENCE = (
    *("log_probability", "log_odds_to_second", "log_odds_to_nil", "log_odds_of_nil"),
    *(*OF_CANDIDATE, *OF_MENTION, "short_and_not_equal", "log_expansion_share"),
)
# Rarer meanings of a short form count as this rare.
MIN_SHARE = 0.02
TINY = 1e-9


class RankedAnswers(NamedTuple):
    """The calibrated answers to n questions.

    Attributes:
        order: (c,) rows of the table, question by question, best first.
        top: (n,) int64 the row of each question's best candidate; -1 if there is none.
        confidence: (n,) float64, calibrated probability that the best candidate is right, 0 to 1.
        nil: (n,) float64, calibrated probability that no concept fits.
        score: (c,) float64, the ranker's scores.
    """

    order: NDArray[np.int64]
    top: NDArray[np.int64]
    confidence: NDArray[np.float64]
    nil: NDArray[np.float64]
    score: NDArray[np.float64]


@dataclass(frozen=True)
class Calibration:
    """The calibration of one index.

    Attributes:
        ranker: orders the candidates and scores NIL.
        outcomes: the probabilities that the best candidate is right, that another is, and that none fits.
        accept: allowed error -> least confidence of an accepted answer; None: cannot be certified.
        nil: allowed error -> least probability of NIL of a NIL answer; None: cannot be certified.
        estimated: the same thresholds, by `ACCEPT` and `NIL`, where none can be certified.
        definitions: vectors of the concepts' definitions, which the ranker uses.
        fields: for the manifest: hashes, settings, counts.
    """

    ranker: Ranker
    outcomes: Outcomes
    accept: Mapping[float, float | None]
    nil: Mapping[float, float | None]
    estimated: Mapping[Kind, Mapping[float, float]] = field(default_factory=dict)
    figures: Mapping[str, Any] = field(default_factory=dict)
    definitions: Definitions | None = None
    abbreviations: Abbreviations | None = None
    cosines: Cosines | None = None
    fields: Mapping[str, Any] = field(default_factory=dict)
    pictures: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_general(self) -> bool:
        """Whether it was made for an encoder, and so for every index with it."""
        return bool(self.fields.get("general"))

    @property
    def is_of_others(self) -> bool:
        """Whether it was fitted on other indexes than its own."""
        return self.is_general or "carried_over_from" in self.fields

    def assurance(self, error: float) -> Assurance:
        """Return whether the threshold for an allowed error was tested on strings of its own index."""
        return ESTIMATED if self.is_of_others or self.accept.get(error) is None else CERTIFIED

    @property
    def origin(self) -> str:
        """Its origin, in words; empty if it was fitted on its own index."""
        if self.is_general:
            # Several may be of one source, as "MeSH" and "MeSH, drugs".
            sources = dict.fromkeys(one["name"].partition(",")[0] for one in self.fields["vocabularies"])
            return "general calibration, fitted on " + ", ".join(sources)
        carried = self.fields.get("carried_over_from")
        if not carried:
            return ""
        return "taken over from another index" if "index" in carried else "general calibration, lent by another model"

    def __call__(
        self, table: CandidateTable, features: Features, penalty: NDArray[np.float64] | None = None
    ) -> RankedAnswers:
        """Answer the questions whose candidates are in `table`; a penalty, (c,), is taken off the ranker's scores."""
        probabilities = self.ranker(features.candidates, features.mentions, table.offsets, penalty)
        order, top = ordered(table, probabilities.score)
        found = self.outcomes(evidence_of(table, features, probabilities, order, top))
        there = top >= 0
        confidence, nil = np.where(there, found[:, RIGHT], 0.0), np.where(there, found[:, NONE], 1.0)
        return RankedAnswers(order, top, confidence, nil, probabilities.score)

    def threshold(self, kind: Kind, error: float) -> float | None:
        """Return the threshold of accepted or NIL answers for an allowed error; None: there is none."""
        tested = self.accept if kind == ACCEPT else self.nil
        if error not in tested:
            name, known = "error" if kind == ACCEPT else "nil_error", ", ".join(f"{one:g}" for one in tested)
            raise UsageError(f"no threshold was tested for an error of {error} ({name}); choose from {known}")
        certified = tested[error]
        return self.estimated.get(kind, {}).get(error) if certified is None else certified

    def save(self, path: Path, *, force: bool = False) -> None:
        """Write the calibration folder."""
        from safetensors.numpy import save_file

        arrays = {f"ranker.{name}": values for name, values in self.ranker.to_arrays().items()}
        arrays |= {f"outcomes.{name}": values for name, values in self.outcomes.to_arrays().items()}
        if self.definitions is not None:
            arrays |= {f"definitions.{name}": values for name, values in self.definitions._asdict().items()}
        if self.cosines is not None:
            arrays |= {f"cosines.{name}": values for name, values in self.cosines._asdict().items()}
        settings = {
            "accept": _written(self.accept),
            "nil": _written(self.nil),
            "estimated": {kind: _written(one) for kind, one in self.estimated.items()},
            "features": list(NAMES),
            "mention_features": list(MENTION_NAMES),
            "evidence": list(EVIDENCE),
        }
        with artefact.create(path, KIND, force=force) as draft:
            save_file(
                {name: np.ascontiguousarray(values) for name, values in arrays.items()},
                draft.path / "arrays.safetensors",
            )
            (draft.path / "settings.json").write_text(json.dumps(settings, indent=1) + "\n", encoding="utf-8")
            (draft.path / "figures.json").write_text(json.dumps(self.figures, indent=1) + "\n", encoding="utf-8")
            # Those of a general calibration belong to the index for which it was loaded.
            if self.abbreviations is not None and not self.is_general:
                kept = json.dumps(self.abbreviations.to_json(), ensure_ascii=False)
                (draft.path / "abbreviations.json").write_text(kept + "\n", encoding="utf-8")
            for name, picture in self.pictures.items():
                (draft.path / f"{name}.svg").write_text(picture, encoding="utf-8")
            # Those of a loaded calibration contain its whole manifest.
            draft.fields.update({name: value for name, value in self.fields.items() if name not in artefact.RESERVED})

    @classmethod
    def load(cls, path: Path, index: Index, *, encoder: str | None = None) -> Calibration:
        """Open the calibration of an index, or a general one for it."""
        from safetensors import SafetensorError
        from safetensors.numpy import load_file

        remedy = _remedy(index, path)
        try:
            manifest = artefact.verify(path, KIND)
        except InputError as error:
            raise InputError(
                error.problem, file=error.file or path, field=error.field, value=error.value, remedy=remedy
            ) from None
        _check_made_for(manifest, index, encoder or index.base_model_hash, path, remedy)
        try:
            settings = textio.json_file(path / "settings.json")
            arrays = load_file(path / "arrays.safetensors")
            figures = textio.json_file(path / "figures.json")
            kept = path / "abbreviations.json"
            abbreviations = Abbreviations.from_json(textio.json_file(kept)) if kept.exists() else None
            if manifest.get("general"):
                abbreviations = Abbreviations.of_index(index)
            elif abbreviations is not None:
                abbreviations = abbreviations.with_clinic(ClinicalAbbreviations.of_index(index))
            wanted = [list(NAMES), list(MENTION_NAMES), list(EVIDENCE)]
            if [settings["features"], settings["mention_features"], settings["evidence"]] != wanted:
                raise InputError("this calibration was made by another version of alphita", file=path, remedy=remedy)
            ranker = Ranker.from_arrays(_under(arrays, "ranker."))
            outcomes = Outcomes.from_arrays(_under(arrays, "outcomes."))
            definitions = _under(arrays, "definitions.")
            accept, nil = (_read(settings[kind]) for kind in (ACCEPT, NIL))
            estimated: dict[Any, Any] = {kind: _read(some) for kind, some in settings["estimated"].items()}
            kept_definitions = Definitions(**definitions) if definitions else None
            cosines = Cosines(**found) if (found := _under(arrays, "cosines.")) else None
            _check_shapes(ranker, outcomes, kept_definitions, cosines, index)
        except (OSError, ValueError, KeyError, TypeError, SafetensorError) as error:
            raise InputError(f"damaged calibration: {error}", file=path, remedy=remedy) from None
        return cls(
            ranker, outcomes, accept, nil, estimated, figures, kept_definitions, abbreviations, cosines, manifest
        )


def _written(thresholds: Mapping[float, float | None]) -> list[list[float | None]]:
    return [[error, threshold] for error, threshold in thresholds.items()]


def _read(thresholds: Any) -> dict[float, float | None]:  # noqa: ANN401 - JSON
    return {float(error): None if threshold is None else float(threshold) for error, threshold in thresholds}


def ordered(table: CandidateTable, score: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the rows of the table, question by question, best first, and each question's best row (-1: none)."""
    order = np.lexsort((-np.round(score, DIGITS), table.request))
    filled = np.diff(table.offsets) > 0
    top = np.full(len(filled), -1, np.int64)
    top[filled] = order[table.offsets[:-1][filled]]
    return order, top


def evidence_of(
    table: CandidateTable,
    features: Features,
    probabilities: Probabilities,
    order: NDArray[np.int64],
    top: NDArray[np.int64],
) -> NDArray[np.float64]:
    """Return the evidence for each question's best candidate, (n, len(EVIDENCE)); zeros if there is none."""
    n = len(top)
    found = np.zeros((n, len(EVIDENCE)))
    filled = np.flatnonzero(top >= 0)
    row = top[filled]
    second = np.full(n, TINY)
    several = np.flatnonzero(np.diff(table.offsets) > 1)
    second[several] = np.maximum(probabilities.probability[order[table.offsets[several] + 1]], TINY)
    first, nil = np.maximum(probabilities.probability[row], TINY), probabilities.nil[filled]
    columns: dict[str, NDArray[Any]] = {
        "log_probability": np.log(first),
        "log_odds_to_second": np.log(first) - np.log(second[filled]),
        "log_odds_to_nil": np.log(first) - np.log(np.maximum(probabilities.nil[filled], TINY)),
        "log_odds_of_nil": np.log(np.maximum(nil, TINY)) - np.log(np.maximum(1 - nil, TINY)),
        **dict(zip(OF_CANDIDATE, features.candidates[row].T[AT_CANDIDATE], strict=True)),
        **dict(zip(OF_MENTION, features.mentions[filled].T[AT_MENTION], strict=True)),
    }
    is_short = columns["characters"] < np.log1p(SHORT_CAPITALS + 0.5)
    columns["short_and_not_equal"] = is_short & (columns["equal"] == 0)
    # Odds are proportional to the share, which is 1 for readings that are not expansions.
    share = features.candidates[row, NAMES.index("expansion_share")]
    columns["log_expansion_share"] = np.where(columns["expanded"] > 0, np.log(np.maximum(share, MIN_SHARE)), 0.0)
    for place, name in enumerate(EVIDENCE):
        found[filled, place] = columns[name]
    return found


def _remedy(index: Index, path: Path) -> str:
    """Return the command that makes a calibration for an index in place of that at `path`."""
    force = " --force" if (index.path / FOLDER).exists() else ""
    own = f"fit it again: alphita calibrate --index {index.path}{force}"
    return f"build the index again with alphita index, or {own}" if path == index.model_path / FOLDER else own


def _check_made_for(manifest: Mapping[str, Any], index: Index, encoder: str, path: Path, remedy: str) -> None:
    is_general = bool(manifest.get("general"))
    name, wanted = ("model_hash", encoder) if is_general else ("index_hash", index.content_hash)
    if manifest.get(name) != wanted:
        problem = f"this calibration was made for another {'encoder' if is_general else 'index'}"
        raise InputError(problem, file=path, field=name, value=manifest.get(name), remedy=remedy)


def _check_shapes(
    ranker: Ranker, outcomes: Outcomes, definitions: Definitions | None, cosines: Cosines | None, index: Index
) -> None:
    """Raise ValueError if arrays do not fit the features, the evidence or the index, by answering an empty question."""
    if not ranker.candidates or not ranker.mentions:
        raise ValueError("it has no ranker")
    candidates, mentions = (np.zeros((1, len(names)), np.float32) for names in (NAMES, MENTION_NAMES))
    ranker(candidates, mentions, np.array([0, 1]))
    outcomes(np.zeros((1, len(EVIDENCE))))
    if definitions is not None and (
        definitions.row.shape != (len(index.segment.concepts),) or definitions.vectors.shape[1:] != (index.dim,)
    ):
        raise ValueError("its definitions are not of this index's concepts")
    if cosines is not None and (cosines.own.shape != cosines.lender.shape or (np.diff(cosines.own) < 0).any()):
        raise ValueError("its cosines do not fit together")


def _under(arrays: Mapping[str, NDArray[Any]], prefix: str) -> dict[str, NDArray[Any]]:
    return {name.removeprefix(prefix): values for name, values in arrays.items() if name.startswith(prefix)}
