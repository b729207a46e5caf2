"""A calibration carried over from another index, for a terminology that has nothing to fit one on.

A list with one name a concept has no synonym to hold out, so no ranker can be fitted on it. One that was fitted on
another terminology orders its candidates, too: what it looks at (equal strings, cosines, letters, tokens, meaning) is
not of one terminology, as long as the encoder is the same. Its confidence is that of the other terminology, and no
threshold is certified here: nothing of this index was measured. An audit of a job's answers (`alphita normalize
--audit`) tells how far it may be trusted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from alphita.errors import InputError
from alphita.index.store import Encoder, Index
from alphita.normalizer.abbreviations import Abbreviations
from alphita.normalizer.calibration_store import FOLDER, Calibration
from alphita.normalizer.meaning import encode_definitions


def carry_over(index: Index, encoder: Callable[[], Encoder], source: Index) -> Calibration:
    """Return the calibration of `source` for `index`.

    Args:
        index: what it is to be for.
        encoder: gives the index's encoder, for its definitions.
        source: a calibrated index of the same encoder.

    Raises:
        InputError: the source is not calibrated, or its encoder is another.
    """
    given = Calibration.load(source.path / FOLDER, source)
    encoders = [one.manifest["model_hash"] for one in (index, source)]
    if encoders[0] != encoders[1]:
        raise InputError(
            "its encoder is another than this index's, and the ranker reads cosines of its own", file=source.path,
            field="model_hash", value=encoders[1],
            remedy=f"build the index with that encoder: alphita index --model {source.model_path}",
        )  # fmt: skip
    fields = {
        "index_hash": index.content_hash,
        "carried_over_from": {
            "index": source.content_hash, "calibration": given.fields["content_hash"],
            "terminology": source.manifest["terminology_hash"], "population": given.figures["population"],
        },
    }  # fmt: skip
    return replace(
        given, accept=dict.fromkeys(given.accept), figures={}, definitions=encode_definitions(index, encoder),
        abbreviations=Abbreviations.of_index(index), fields=fields, pictures={},
    )  # fmt: skip
