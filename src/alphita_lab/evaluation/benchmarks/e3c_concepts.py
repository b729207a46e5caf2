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
from alphita_lab.evaluation.benchmarks import Info, Source
from alphita_lab.evaluation.benchmarks import _terminology_targets as names
from alphita_lab.evaluation.benchmarks._terminology_targets import Data, evaluate
from alphita_lab.evaluation.scoring.linking import Queries

__all__ = ["INFO", "PUBLISHED", "Options", "evaluate", "load"]

INFO = Info(
    title="mentions of clinical cases (E3C, English) -> UMLS",
    task="normalization",
    citation="Magnini et al. 2021, The E3C Project: European Clinical Case Corpus",
    where="the E3C corpus (https://github.com/hltfbk/E3C-Corpus, CC BY-NC); make of its entities a table "
    "e3c_english.tsv with the columns layer, mention, cui; targets: a UMLS terminology, or open_cui_names.tsv",
    tested_on_real_data=True,
)
PUBLISHED = ()
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
    queries = Queries(
        [(mention,) for mention in mentions],
        [(dictionary.gold([cui]),) for cui in gold],
        {"layer": layers, "semantic_type": [dictionary.type_of([cui]) for cui in gold]},
    )
    notes = dictionary.notes | names.repeated(queries)
    notes |= {f"mentions left out, {why}": count for why, count in left_out.items() if count}
    return Data(queries, dictionary.targets, notes, ("layer",) if options.layer == "all" else ())
