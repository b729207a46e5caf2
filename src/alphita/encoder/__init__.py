"""Strings to vectors: `TermEncoder` in encoder.py; what it is made of lies beside it."""
