"""BC5CDR: diseases and chemicals in 1,500 abstracts, mapped to MeSH through CTD's dictionaries.

Diseases are ranked against the names of diseases and chemicals against those of chemicals, alone or with the names of
the training mentions; without a dictionary of chemicals these are left out and counted. Everything else is as in
`ncbi_disease`; the corpus itself tells the parts of most mentions of several concepts.
"""

from __future__ import annotations

from alphita.errors import InputError
from alphita_lab.evaluation.benchmarks import Source, _dictionary, _folds, _pubtator, about
from alphita_lab.evaluation.benchmarks.ncbi_disease import BEFORE, Options, ranked, training
from alphita_lab.evaluation.scoring.results import Result, merge_notes
from alphita_lab.evaluation.systems import System

INFO, PUBLISHED = about(__name__)
_FOLDER = "CDR_Data/CDR.Corpus.v010516/"
CORPUS = {
    part: (f"CDR_{name}Set.PubTator.txt", f"{_FOLDER}CDR_{name}Set.PubTator.txt", f"{part}_corpus.txt")
    for part, name in (("test", "Test"), ("dev", "Development"), ("train", "Training"))
}
_DICTIONARIES = {
    "Disease": ("CTD_diseases*.tsv", "medic*.txt"),
    "Chemical": ("CTD_chemicals*.tsv", "ctd_chemical*.txt"),
}


def load(source: Source, options: Options) -> _folds.Parts:
    """Read the corpus and the dictionaries."""
    path = source.files(*CORPUS[options.part])[0]
    corpus = _pubtator.read(path)
    with_mentions = options.mentions == "train"
    before = training(source, [CORPUS[part] for part in BEFORE[options.part]], needed=with_mentions)
    parts, notes = [], [dict(corpus.notes)]
    for type_, files in _DICTIONARIES.items():
        of_type = _of_type(corpus.mentions, type_)
        dictionaries = source.files(*files, optional=type_ == "Chemical")
        if not dictionaries:
            notes.append({"chemicals left out, for want of a dictionary": len(of_type)})
        elif of_type:
            part, counts = ranked(
                _pubtator.Corpus(of_type),
                _dictionary.read(dictionaries[0]),
                None if before is None else _of_type(before, type_),
                with_mentions=with_mentions,
            )
            parts.append(part)
            notes.append(counts)
    if not parts:
        raise InputError("has no mention of the type Disease (nor Chemical, with its dictionary)", file=path)
    return _folds.Parts(parts, merge_notes(*notes))


def _of_type(mentions: list[_pubtator.Mention], type_: str) -> list[_pubtator.Mention]:
    return [mention for mention in mentions if mention.type == type_]


def evaluate(data: _folds.Parts, system: System, options: Options) -> Result:
    """Score one system."""
    return _folds.evaluate(system, data, subsets=("type", "composite"))
