"""E3C: mentions of findings and disorders in English clinical cases, linked to UMLS.

A table with the columns layer, mention and cui. Layer 1 was annotated by people, layer 2 by machine, so only layer 1
is scored unless you ask for more. Mentions without a CUI, or marked CUILESS, are left out and
counted, as are CUIs that are none.
"""

from __future__ import annotations

import re
from typing import Literal

from pydantic import Field

from alphita import textio
from alphita.errors import InputError
from alphita_lab.evaluation.benchmarks import Source, about
from alphita_lab.evaluation.benchmarks import _terminology_targets as names
from alphita_lab.evaluation.benchmarks._terminology_targets import Data
from alphita_lab.evaluation.benchmarks._terminology_targets import evaluate as evaluate

INFO, PUBLISHED = about(__name__)
_CUI = re.compile(r"C\d{7}")


class Options(names.NameOptions):
    """Which mentions, and which names they are ranked against."""

    layer: Literal["layer1", "layer2", "all"] = Field(
        "layer1", description="annotation layer: layer1 by people, layer2 by machine"
    )


def load(source: Source, options: Options) -> Data:
    """Read the mentions."""
    path = source.files("e3c_*.tsv")[0]
    mentions, gold, layers, left_out = [], [], [], {"without a CUI": 0, "CUILESS": 0, "malformed CUI": 0}
    for number, (layer, mention, cui) in textio.columns(path, ("layer", "mention", "cui"), "\t", quotes=None):
        if layer not in ("layer1", "layer2"):
            raise InputError("is neither layer1 nor layer2", file=path, line=number, field="layer", value=layer)
        if not mention:
            raise InputError("is empty", file=path, line=number, field="mention")
        if options.layer not in (layer, "all"):
            continue
        if not _CUI.fullmatch(cui):
            left_out["without a CUI" if not cui else "CUILESS" if cui == "CUILESS" else "malformed CUI"] += 1
            continue
        mentions.append(mention)
        gold.append(cui)
        layers.append(layer)
    if not mentions:
        raise InputError(f"holds no mention of {options.layer} with a CUI", file=path)
    dictionary = names.umls_dictionary(source, gold, options)
    ids = [[cui] for cui in gold]
    columns: names.Columns = {"layer": layers, "semantic_type": dictionary.types_of(ids)}
    data = dictionary.data(mentions, ids, columns, ("layer",) if options.layer == "all" else ())
    data.notes.update(names.counted({f"mentions left out, {why}": count for why, count in left_out.items()}))
    return data
