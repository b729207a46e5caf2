"""Vectors and strings -> neighbours."""
