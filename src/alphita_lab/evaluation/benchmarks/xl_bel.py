"""XL-BEL: mentions from Wikipedia in ten languages, linked to UMLS.

A line is `CUI||mention`; where a mention has several CUIs ("C2051831|C0016842") any of them is right. Many of the
mentions are names of plants and animals, which Remy et al. 2023 leave out by their semantic types; which types those
were is not said. Here they are the plants, algae and animals of the UMLS semantic network without man, and eukaryotes,
for that is where insects and other invertebrates stand.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from alphita import textio
from alphita.errors import InputError, UsageError
from alphita_lab.evaluation.benchmarks import Source, about
from alphita_lab.evaluation.benchmarks import _terminology_targets as names
from alphita_lab.evaluation.benchmarks._terminology_targets import Data
from alphita_lab.evaluation.benchmarks._terminology_targets import evaluate as evaluate

INFO, PUBLISHED = about(__name__)
LANGUAGES = ("de", "en", "es", "fi", "ja", "ko", "ru", "th", "tr", "zh")
ANIMALS = ("Animal", "Invertebrate", "Vertebrate", "Amphibian", "Bird", "Fish", "Reptile", "Mammal")
SPECIES = frozenset({"Plant", "Alga", "Eukaryote", *ANIMALS})


class Options(names.NameOptions):
    """Which queries, and which names they are ranked against."""

    species: Literal["all", "without"] = Field(
        "all",
        description="without: leave out plant and animal species by semantic type (Remy et al. 2023); needs a "
        "terminology with UMLS semantic types; queries of unknown type stay and are counted",
    )


def load(source: Source, options: Options) -> Data:
    """Read the queries of the languages that are there."""
    mentions: list[str] = []
    gold: list[tuple[str, ...]] = []
    languages: list[str] = []
    for path in source.files("*_1k_test_query.txt"):
        language = path.name.split("_")[0]
        if language not in LANGUAGES:
            raise InputError("is no language of XL-BEL", file=path, value=language)
        for number, line in textio.lines(path):
            cuis, bars, mention = line.partition("||")
            ids = tuple(cui.strip() for cui in cuis.split("|"))
            if not bars or not mention.strip() or not all(ids):
                raise InputError("is not CUI||mention", file=path, line=number, value=line)
            mentions.append(mention.strip())
            gold.append(ids)
            languages.append(language)
    if not mentions:
        raise InputError("the files hold no query", file=source.read[0])
    dictionary = names.umls_dictionary(source, (cui for ids in gold for cui in ids), options)
    types = [sorted({name for cui in ids for name in dictionary.types.get(cui, [])}) for ids in gold]
    species = [None if not names_of_types else not SPECIES.isdisjoint(names_of_types) for names_of_types in types]
    if options.species == "without" and not any(types):
        raise UsageError(
            "species=without needs semantic types, and the targets have none for any gold CUI; import the UMLS with "
            "its MRSTY and give it as --terminology"
        )
    missing = sorted(set(LANGUAGES) - set(languages))
    kept = [row for row, one in enumerate(species) if options.species == "all" or not one]
    notes: dict[str, Any] = {"queries of unknown semantic type": species.count(None)}
    notes |= names.counted({"queries left out as plants and animals": len(mentions) - len(kept)})
    notes |= {"languages that are not there": ", ".join(missing)} if missing else {}
    kept_gold = [gold[row] for row in kept]
    columns: names.Columns = {
        "language": [languages[row] for row in kept],
        "semantic_type": dictionary.types_of(kept_gold),
        "species": [species[row] for row in kept],
    }
    subsets = ("language", *(["species"] if options.species == "all" and any(species) else []))
    return dictionary.data([mentions[row] for row in kept], kept_gold, columns, subsets, notes)
