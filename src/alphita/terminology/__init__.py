"""Terminologies: concepts, terms, relations, definitions in columns; loaders, splits, prefixes, cleaning rules."""
