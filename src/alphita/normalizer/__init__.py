"""Strings -> concepts.

A mention goes through `reading` (a file's rows), `answering` (candidates, features, ranking, decision) and `writing`
(jobs and their files). Beside the way stand `abbreviations` (what short forms stand for), `rules` (what contradicts
what), `cues` (words that deny or doubt), `confidence` (the statistics of what may be accepted) and `calibrating`
(fitting ranker and confidence).
"""
