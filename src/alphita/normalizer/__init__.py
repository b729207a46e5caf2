"""Strings -> concepts. The way of one mention, module by module:

1.  `reading.files`, `reading.rows`: a row of the input becomes a checked `MentionRow`; `writing.run` takes chunks.
2.  `writing.remembering`: what people settled of this string answers it, and the way ends here.
3.  `answering.pipeline` (`ask`): the string is cleaned and read in other ways, too: short forms written out
    (`abbreviations.expanding`), words put right (`answering.spelling`), laboratory wording (`answering.laboratory`).
4.  `answering.candidates`: strings of the index are found by each route: exact, letters, vectors.
5.  `answering.table`: their concepts, each once, by the term that speaks best for it.
6.  `answering.features`: numbers about each candidate; `rules` tell in what mention and term contradict each other.
7.  `answering.ranker`, `answering.calibration_store`: which candidate is meant or none (NIL), and how sure that is;
    without a calibration a module of `answering.rankings`.
8.  `answering.doubts`, `answering.said`: why an answer is for a person to look at, however sure it is.
9.  `answering.results`, `answering.records`: a `Result` is made of the rows, and of it the mappings of an output.
10. `writing.answers`, `writing.lines`, `writing.parts`: equal questions share an answer; its lines are written chunk
    by chunk, so that a killed job can go on.

`answering.normalizer` holds steps 3 to 9 together, for one call of Python as for a file. Beside the way stand
`calibrating` (ranker and confidence are fitted), `confidence` (the statistics of what may be accepted), `cues` (words
that deny or doubt) and `spec` (the options).
"""
