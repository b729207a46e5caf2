"""Reviewing mappings: what people decide about them, and the store that remembers it."""
