"""A terminology's relations as a graph: triples chosen and split, embeddings trained by PyKEEN, ranks, saved vectors.

`triples` chooses, splits and ranks, `models` holds a file a model, `kge` trains, `store` is the artefact of vectors.
Only `kge` needs PyKEEN; saved vectors are scored without it.
"""
