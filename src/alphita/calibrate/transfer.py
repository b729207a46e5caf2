"""Transfers a calibration from another index, for a terminology without synonyms to fit one on.

A list with one name per concept has no synonyms to hold out, so no ranker can be fitted on it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from alphita.answer.calibration_store import FOLDER, Calibration
from alphita.answer.features import Cosines, encode_definitions
from alphita.encoder.encoder import TermEncoder
from alphita.encoder.resolve import DEFAULT, resolve
from alphita.errors import InputError
from alphita.index.encoding import Encoder
from alphita.index.neighbours import full, unit
from alphita.index.store import Index
from alphita.mention.abbreviations import Abbreviations

# The share of an allowed error for which the threshold must be certified elsewhere.
MARGIN = 0.5
# Minimum and maximum strings for comparing two encoders; nearest neighbours of each; and quantiles.
MIN_COMPARED, MAX_COMPARED = 200, 2_000
NEAREST = 40
QUANTILES = 101


def carry_over(index: Index, encoder: Callable[[], Encoder], source: Index) -> Calibration:
    """Return the calibration of `source` for `index`."""
    own, general = source.path / FOLDER, source.model_path / FOLDER
    given = Calibration.load(general if general.exists() and not own.exists() else own, source)
    encoders = [opened.base_model_hash for opened in (index, source)]
    if encoders[0] != encoders[1]:
        raise InputError(
            "its encoder is another than this index's, and the ranker reads cosines of its own",
            file=source.path,
            field="model_hash",
            value=encoders[1],
            remedy=f"build the index with that encoder: alphita index --model {source.model_path}",
        )
    # A transferred calibration has no figures of its own.
    before = given.fields.get("carried_over_from", {})
    fields = {
        "index_hash": index.content_hash,
        "carried_over_from": {
            "index": source.content_hash,
            "calibration": given.fields["content_hash"],
            "terminology": source.manifest["terminology_hash"],
            "population": given.figures.get("population", before.get("population")),
        },
    }
    return replace(
        given,
        accept=given.accept if given.is_of_others else with_margin(given.accept),
        nil=given.nil if given.is_of_others else with_margin(given.nil),
        estimated={},
        figures={},
        definitions=None if given.definitions is None else encode_definitions(index, encoder),
        abbreviations=Abbreviations.of_index(index),
        fields=fields,
        pictures={},
    )


def with_margin(accept: Mapping[float, float | None]) -> dict[float, float | None]:
    """Return for each allowed error the threshold of the greatest error that is at most half of it; None without
    one."""
    thresholds = {}
    for error in accept:
        stricter = [other for other in accept if other <= MARGIN * error]
        thresholds[error] = accept[max(stricter)] if stricter else None
    return thresholds


def adapt(index: Index, source: Encoder, general: Path) -> Calibration:
    """Return the general calibration of another encoder for `index`."""
    given = Calibration.load(general, index, encoder=source.content_hash)
    if len(index) < MIN_COMPARED:
        raise InputError(
            f"it has {len(index)} strings; at least {MIN_COMPARED} are needed to compare its encoder with another",
            file=index.path,
            remedy="build the index with the model that the calibration came with",
        )
    rows = np.sort(np.random.default_rng(0).permutation(len(index))[:MAX_COMPARED])
    theirs = unit(source.encode([index.strings[row] for row in rows.tolist()]))
    fields = {
        "index_hash": index.content_hash,
        "carried_over_from": {
            "model": source.content_hash,
            "calibration": given.fields["content_hash"],
            "population": given.figures["population"],
        },
    }
    cosines = Cosines(_quantiles(full(index.vectors[rows])), _quantiles(theirs))
    return replace(given, figures={}, cosines=cosines, fields=fields, pictures={})


def adapt_where_missing(index: Index, *, threads: int | None = None) -> bool:
    """Give an index without a calibration of its own or its model's that of the default model; tell whether it has
    one."""
    place = index.model_path / FOLDER
    if place.exists() or (index.path / FOLDER).exists():
        return True
    if len(index) < MIN_COMPARED:
        return False
    source = TermEncoder.load(DEFAULT, threads=threads)
    adapt(index, source, resolve(DEFAULT) / FOLDER).save(place)
    return True


def _quantiles(vectors: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return quantiles of the cosines of (n, dim) vectors of length 1, each with its nearest others, and 1 at last."""
    cosines = vectors @ vectors.T
    np.fill_diagonal(cosines, -np.inf)
    near = np.partition(cosines, -NEAREST, axis=1)[:, -NEAREST:]
    quantiles = np.append(np.quantile(near, np.linspace(0, 1, QUANTILES)), 1.0)
    return np.minimum(quantiles, 1.0).astype(np.float64)
