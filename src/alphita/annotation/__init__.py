"""From a paragraph to concepts: mentions found in free text, what each means, and what the text says of it.

texts.py        files -> documents
line_ends.py    a text with line feeds alone, and the places in the one that was given
tokens.py       a text -> sentences and words, with their places in the text as it was given
names.py        the names of an index by their roots, and what is alike them
equivalents.py  words that stand for each other, learned from the synonyms of the terminology
finding.py      names in a text, in any order and inflection; a shared head belongs to each part
windows.py      other phrases that may mean a concept, for the encoder and the ranker to judge
overlaps.py     which of several spans stands: one rule
context.py      negated, possible, family, historical, hypothetical: by the cues of `normalizer.cues`
modifiers.py    side and severity
annotator.py    all of it, in order
formats/        what is written
job.py          many documents, resumable
"""
