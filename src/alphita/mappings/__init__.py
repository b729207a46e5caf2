"""Mappings: the record of one, and the formats that hold them."""
