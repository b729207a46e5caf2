"""Names of a terminology, held out, translated or misspelt, to be linked to the concepts that they name."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from alphita import progress
from alphita.calibrate.noise import slip
from alphita.config import Config
from alphita.errors import InputError, UsageError
from alphita.terminology.languages import among, speaks
from alphita.terminology.reading import rows_of
from alphita.terminology.splits import Split, hold_out_synonyms, uniform
from alphita.terminology.store import Terminology
from alphita.terminology.text import clean
from alphita_lab.evaluation.benchmarks import NotGiven, Source, benchmark
from alphita_lab.evaluation.benchmarks import _terminology_targets as names
from alphita_lab.evaluation.benchmarks._terminology_targets import Data, evaluate
from alphita_lab.evaluation.scoring.linking import Queries, Targets
from alphita_lab.training.sentences.scored_pairs import listed

SAVED_SPLIT = "a saved split (X.split) instead of a new one; its test part is scored, and all of it is held out"


class SynonymOptions(Config):
    """How names are held out."""

    split: Path | None = Field(None, description=SAVED_SPLIT)
    fraction: float = Field(0.3, gt=0, le=1, description="share of the concepts with several names, of a new split")
    seed: int = Field(42, ge=0, description="seed of a new split")


@benchmark(SynonymOptions, evaluate)
def held_out_synonyms(source: Source, options: SynonymOptions) -> Data:
    """Held-out synonyms: names taken out of a terminology, to be linked to the concepts they were taken from.

    The split is `alphita.terminology.splits.hold_out_synonyms`: one exact synonym of a share of the concepts that have
    several, chosen by a seeded hash; or a split that was saved, such as the one that a model was trained without. The
    targets are all other names of the live concepts.
    """
    terminology = source.require_terminology()
    split = _open_split(terminology, options.split)
    if split is None:
        split = hold_out_synonyms(terminology, fraction=options.fraction, seed=options.seed)
    if not len(split.part("test")):
        raise UsageError("nothing is held out: too few concepts have several exact names; raise the fraction")
    targets, removed = names.names_of(terminology, exclude=split.cleaned)
    return _data(source, terminology, split, targets, removed, options.split)


class TranslationOptions(Config):
    """Which language is held out, and what remains."""

    language: str = Field("", description="whose names are the queries, e.g. it; must be given")
    target_language: str = Field("", description="names to rank against, e.g. en; all other languages by default")
    machine: bool = Field(False, description="also use machine translations as queries")
    fraction: float = Field(1.0, gt=0, le=1, description="share of the concepts whose names are queries")
    seed: int = Field(42, ge=0, description="seed for the choice of concepts")
    split: Path | None = Field(None, description=SAVED_SPLIT)


@benchmark(TranslationOptions, evaluate)
def held_out_translations(source: Source, options: TranslationOptions) -> Data:
    """Held-out translations: names in one language, to be linked to their concepts by names in the other languages.

    The split takes the exact names in the language out of the terminology; machine translations are queries only if
    asked for. A name that is also a name in another language ("coma") is not held out, for it would be found by its
    spelling; such names are counted. What remains as targets are the names in all other languages, or in one of them. A
    held-out name that several concepts have in that language counts as right for any of them.
    """
    terminology = source.require_terminology()
    languages = set(filter(None, terminology.terms.column("language").combine_chunks().dictionary.to_pylist()))
    for name, tag in {"language": options.language, "target_language": options.target_language or None}.items():
        if tag is not None and not among(languages, [tag]):
            raise (UsageError if tag else NotGiven)(
                f"{name} is {tag!r}, and {terminology.path.name} has names in {', '.join(sorted(languages))}; "
                f"set it by --set {name}=..."
            )
    if speaks(options.target_language, options.language):
        raise UsageError(f"target_language {options.target_language!r} is of language={options.language!r}")
    split = _open_split(terminology, options.split)
    if split is None:
        split = hold_out_translations(
            terminology, options.language, machine=options.machine, fraction=options.fraction, seed=options.seed
        )
    if not len(split.part("test")):
        raise UsageError(f"no name in {options.language!r} is held out: {split.facts}")
    targets, removed = names.names_of(
        terminology, languages=listed(options.target_language), not_languages=(options.language,), exclude=split.cleaned
    )
    data = _data(source, terminology, split, targets, removed, options.split)
    data.notes.update({"language": options.language, "target language": options.target_language or "others"})
    return data


def _open_split(terminology: Terminology, path: Path | None) -> Split | None:
    if path is None:
        return None
    split = Split.load(path)
    if len(split) and not rows_of(terminology, split.concept_ids):
        raise InputError(
            f"no concept of this split is in {terminology.path.name}",
            file=path,
            value=split.concept_ids[0],
            remedy="give the terminology that it was made of",
        )
    return split


def _data(
    source: Source, terminology: Terminology, split: Split, targets: Targets, removed: int, path: Path | None
) -> Data:
    """Return a query for each string of the test part; a string held out of several concepts is one query."""
    test = split.part("test")
    gold: dict[str, dict[str, None]] = {}
    for string, concept_id in zip(test.strings, test.concept_ids, strict=True):
        gold.setdefault(string, {})[concept_id] = None
    dictionary = names.dictionary_of(terminology, targets, {concept_id: concept_id for concept_id in test.concept_ids})
    columns = {"semantic_type": dictionary.types_of(gold.values())}
    queries = Queries([(string,) for string in gold], [(dictionary.gold(ids),) for ids in gold.values()], columns)
    notes = dictionary.notes | _covered_notes(queries, targets, source.benchmark, path or terminology.path)
    notes |= {"names taken out of the targets": removed, "split": split.hash}
    notes |= {f"split, {name.replace('_', ' ')}": value for name, value in split.facts.items()}
    return Data(queries, targets, notes)


def _covered_notes(queries: Queries, targets: Targets, benchmark: str, file: Path) -> dict[str, Any]:
    """Return how many queries no target is right for, and print it; nothing where there are none."""
    known = frozenset(targets.ids)
    lost = sum(not all(wanted & known for wanted in gold) for gold in queries.gold)
    if lost == len(queries):
        raise InputError(
            f"of {len(queries)} held-out names none is of a concept that has a name to be found by",
            file=file,
            value=", ".join(sorted(queries.gold[0][0])),
            remedy="give the terminology that the names were held out of, or names in another language as targets",
        )
    if not lost:
        return {}
    progress.say(
        f"{benchmark}: {lost:,} of {len(queries):,} held-out names are of concepts that have no name to be found by; "
        "they count as wrong"
    )
    return {"queries whose concept has no name among the targets": lost}


def hold_out_translations(
    terminology: Terminology, language: str, *, machine: bool = False, fraction: float = 1.0, seed: int
) -> Split:
    """Hold out the exact names in one language of a share of the live concepts."""
    live = ~np.asarray(terminology.retired)[terminology.term_concept]
    in_language = names.has(terminology, "language", lambda tag: speaks(tag, language))
    wanted = (
        live
        & in_language
        & names.has(terminology, "scope", lambda scope: scope == "exact")
        & ~names.has(terminology, "type", lambda kind: kind == "obsolete")
        & (machine | names.has(terminology, "status", lambda status: status != "machine"))
    )
    empty = terminology.find_key("")
    if empty is not None:
        wanted &= np.asarray(terminology.term_key) != empty
    rows = np.flatnonzero(wanted)
    pairs = terminology.term_concept[rows].astype(np.int64) * terminology.n_keys + terminology.term_key[rows]
    rows = rows[np.sort(np.unique(pairs, return_index=True)[1])]
    concepts, places = np.unique(terminology.term_concept[rows], return_inverse=True)
    ids = [terminology.concept_id(concept) for concept in concepts]
    drawn = np.array([uniform(seed, "concept", concept_id) < fraction for concept_id in ids], bool)[places]
    elsewhere = np.zeros(terminology.n_keys, bool)
    elsewhere[terminology.term_key[live & ~in_language]] = True
    same = elsewhere[terminology.term_key[rows]]
    kept = drawn & ~same
    facts = {
        "method": "hold_out_translations",
        "language": language,
        "machine": machine,
        "fraction": fraction,
        "seed": seed,
        "terminology_hash": terminology.content_hash,
        "held_out": int(kept.sum()),
        "dropped_as_equal_to_a_kept_term": int((drawn & same).sum()),
    }
    strings = names.strings_of(terminology, rows[kept])
    return Split(strings, [ids[place] for place in places[kept]], ["test"] * len(strings), facts)


# Draws for one name, after which it is left out.
TRIES = 4


class MisspeltOptions(Config):
    """Which names are misspelt, and how much."""

    language: str = Field("", description="language of all names, both queries and targets, e.g. it; all by default")
    number: int = Field(2000, ge=1, description="number of random concepts, with one name each")
    slips: int = Field(1, ge=1, description="misspellings per name")
    seed: int = Field(42, ge=0, description="seed for the sample and the misspellings")


@benchmark(MisspeltOptions, evaluate)
def misspelt_names(source: Source, options: MisspeltOptions) -> Data:
    """Misspelt names: a terminology's names with slips of the typist, to be linked to their concepts by all names.

    One exact name of each drawn concept gets one slip or more: a letter dropped, doubled, mistyped, put in, or swapped
    with the next, in a word of four letters or more, never its first. A string that is then a name of its own is drawn
    again, and left out if it stays one. All names of the live concepts are targets, the ones as written among them, so
    that accuracy@1 is the share of misspellings that are corrected to the right concept. The slips are the same for
    every system. (Amore Bondarenko et al. 2022, §3.1, say that their extended encoder gains 5 points in the precision
    of spelling correction, which they measured elsewhere, by the context of words in records; this is without context.)
    """
    terminology = source.require_terminology()
    rows, offsets = names.terms_in(terminology, options.language or None)
    chance = random.Random(options.seed)
    named = np.flatnonzero(np.diff(offsets)).tolist()
    drawn = sorted(chance.sample(named, min(options.number, len(named))))
    chosen = np.array([rows[chance.randrange(offsets[concept], offsets[concept + 1])] for concept in drawn], np.int64)
    written = [clean(name) for name in names.strings_of(terminology, chosen)]
    misspelt = [_misspelt(name, terminology, options.slips, chance) for name in written]
    kept = [place for place, string in enumerate(misspelt) if string]
    if not kept:
        raise UsageError(f"no name of {terminology.path.name} can be misspelt; it needs words of four letters or more")
    targets, _ = names.names_of(terminology, languages=listed(options.language))
    in_language = names.has(terminology, "language", lambda tag: not options.language or speaks(tag, options.language))
    queries = Queries(
        [(misspelt[place],) for place in kept],
        [(_concepts_named(terminology, chosen[place], in_language),) for place in kept],
        {"written": [written[place] for place in kept]},
    )
    notes = {
        "targets": f"the names of {terminology.path.name}",
        "language": options.language or "all",
        "slips": options.slips,
        "seed": options.seed,
        "names drawn": len(drawn),
        "names left out": len(drawn) - len(kept),
    }
    return Data(queries, targets, notes)


def _misspelt(name: str, terminology: Terminology, slips: int, chance: random.Random) -> str:
    """Return the name with some slips; "" where none of the tries gives a string that is no name."""
    for _ in range(TRIES):
        string = name
        for _ in range(slips):
            string = slip(string, chance)
        if string != name and terminology.find_key(string) is None:
            return string
    return ""


def _concepts_named(terminology: Terminology, term: int, in_language: NDArray[np.bool_]) -> frozenset[str]:
    """Return the ids of all live concepts that have the same name in the language."""
    terms = terminology.terms_of_key(int(terminology.term_key[term]))
    concepts = terminology.term_concept[terms[in_language[terms]]].tolist()
    return frozenset(terminology.concept_id(concept) for concept in concepts if not terminology.retired[concept])
