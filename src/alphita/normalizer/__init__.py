"""Strings -> concepts: clean-up, exact match, nearest terms, concepts."""
