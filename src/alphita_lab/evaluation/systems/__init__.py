"""Systems: what a benchmark scores. Each kind offers `load(argument, options) -> System`.

On the command line a system is written `KIND`, `KIND:ARGUMENT` or, for an encoder, just its name, each with options
after commas:

    alphita-en      minilm      path/to/model      GanjinZero/coder_eng,pooling=legacy_coder,max_length=32
    biolord-2023-c      sapbert-xlmr      medcpt      (`PUBLISHED`, from the hub)
    tfidf       bm25      exact_match      edit_distance
    word_vectors:glove.txt      concept_vectors:cui2vec.csv      graph_vectors:open.vectors
    normalizer:path/to/model,ranking=learned
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from alphita import registry
from alphita.encoder.resolve import SHIPPED, TRAINED
from alphita.errors import UsageError

PACKAGE = "alphita_lab.evaluation.systems"
SHARING_A_FILE = dict.fromkeys(("bm25", "edit_distance", "exact_match", "tfidf"), "_lexical")
ENCODER = "encoder"
# Published encoders by a short name, each with the vector that its authors take.
PUBLISHED = {
    "biolord-2023": "FremyCompany/BioLORD-2023,pooling=mean",
    "biolord-2023-c": "FremyCompany/BioLORD-2023-C,pooling=mean",
    "biolord-2023-m": "FremyCompany/BioLORD-2023-M,pooling=mean",
    "biolord-2023-s": "FremyCompany/BioLORD-2023-S,pooling=mean",
    "medcpt": "ncbi/MedCPT-Query-Encoder,pooling=cls,max_length=64",
    "sapbert": "cambridgeltl/SapBERT-from-PubMedBERT-fulltext,pooling=cls,max_length=25",
    "sapbert-xlmr": "cambridgeltl/SapBERT-UMLS-2020AB-all-lang-from-XLMR,pooling=cls,max_length=25",
}
NAMED = (*SHIPPED, *TRAINED, "minilm", *PUBLISHED)

# Similarity (q, k) float32 and rows (q, k) int64.
Found = tuple[NDArray[np.float32], NDArray[np.int64]]


@runtime_checkable
class System(Protocol):
    """Anything that can tell which strings are alike.

    Attributes:
        name: as reports print it; unique in one report.
        rules: the cleaning rules (`alphita.terminology.text`) for strings given to it; benchmarks apply them.
    """

    name: str
    facts: dict[str, Any]
    rules: tuple[str, ...]

    def neighbours(self, queries: Sequence[str], terms: Sequence[str], k: int) -> Found:
        """Return the k most similar terms of each query.

        Args:
            queries: q cleaned strings.
            terms: n cleaned strings, distinct.
            k: 1 or more.

        Returns:
            Similarity (q, min(k, n)) float32 and rows of the terms, most similar first, equals by row. Where the system
            finds fewer (no string in common, a query of unknown words): 0 and -1.
        """
        ...

    def similarity(self, left: Sequence[str], right: Sequence[str]) -> NDArray[np.float32]:
        """Return the similarity of each pair of strings, (n,); NaN where the system cannot represent one of them."""
        ...


@runtime_checkable
class VectorSystem(System, Protocol):
    """A system that has a vector for a string."""

    def encode(self, strings: Sequence[str]) -> NDArray[np.float32]:
        """Return (n, d) float32; a row of NaN for a string that it cannot represent."""
        ...


class Answer(NamedTuple):
    """A concept that a query may name.

    Attributes:
        name: its name that speaks for it, as it was given.
    """

    concept_id: str
    name: str
    similarity: float


@runtime_checkable
class ConceptRanker(System, Protocol):
    """A system that ranks concepts itself, by all their names, and may read the text that a query stands in."""

    def rank_concepts(
        self,
        queries: Sequence[str],
        ids: Sequence[str],
        names: Sequence[str],
        k: int,
        contexts: Sequence[str | None] | None,
    ) -> list[list[Answer]]:
        """Return up to k concepts of each query, best first.

        Args:
            queries: q mentions, as written.
            ids: n concept ids, one a name.
            names: n names, as written.
            k: 1 or more.
            contexts: the text of each query, or None; None: there is none.
        """
        ...


@runtime_checkable
class ConceptSystem(Protocol):
    """A system that has a vector for a concept, whatever its names."""

    name: str
    facts: dict[str, Any]

    def encode_concepts(self, ids: Sequence[str]) -> NDArray[np.float32]:
        """Return (n, d) float32; a row of NaN for a concept that it does not know."""
        ...


def load_system(spec: str) -> System | ConceptSystem:
    """Open the system that `spec` names; see the head of this file."""
    head, options = _parsed(spec)
    kind, colon, argument = head.partition(":")
    kinds = registry.names(PACKAGE)
    if kind not in kinds:
        if colon and not Path(head).exists() and "/" not in kind:
            raise UsageError(registry.unknown("system", kind, kinds))
        # The hub's names hold a slash, so a single word that is no folder can only be meant for one of these.
        if not colon and "/" not in head and head not in NAMED and not Path(head).expanduser().exists():
            choices = [kind for kind in kinds if kind != ENCODER]
            raise UsageError(
                f"{registry.unknown('system', head, [*choices, *NAMED])}, or give the folder of a model or a hub name "
                "like owner/model"
            )
        kind, argument = ENCODER, head
    system: System | ConceptSystem = registry.load(PACKAGE, kind).load(argument, options)
    return system


def name_of(spec: str) -> str:
    """Return the name of a system that is not open: its option `name`, or all that `spec` says."""
    return _parsed(spec)[1].get("name", spec)


def _parsed(spec: str) -> tuple[str, dict[str, str]]:
    head, *pairs = spec.split(",")
    if head in PUBLISHED and not Path(head).exists():
        known, *own = PUBLISHED[head].split(",")
        pairs, head = [f"name={head}", *own, *pairs], known
    options: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals:
            raise UsageError(f"{pair!r} in {spec!r} is not of the form option=value")
        options[key.strip()] = value.strip()
    return head, options


def refuse_unknown(kind: str, options: Mapping[str, str], known: Sequence[str]) -> None:
    """Raise UsageError if an option is not among those that this kind of system takes."""
    for key in options:
        if key not in known:
            if not known:
                raise UsageError(f"the system {kind} takes no options, so not {key!r}")
            raise UsageError(registry.unknown(f"option of {kind}", key, known))


def truth(kind: str, options: Mapping[str, str], key: str, default: bool) -> bool:
    """Return an option that is true or false."""
    value = options.get(key, str(default)).lower()
    if value not in ("true", "false"):
        raise UsageError(f"option {key} of {kind} is true or false, not {value!r}")
    return value == "true"


def count(kind: str, options: Mapping[str, str], key: str, what: str) -> int | None:
    """Return an option that is a number, 1 or more; None where it is not given."""
    value = options.get(key)
    if value is not None and not (value.isdecimal() and int(value)):
        raise UsageError(f"option {key} of {kind} is a number of {what}, not {value!r}")
    return int(value) if value else None
