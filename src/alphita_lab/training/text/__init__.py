"""What trains on text: corpora as tokens, what is masked in them, names found in them, definitions of concepts."""
