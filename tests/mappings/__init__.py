"""Mapping files."""
