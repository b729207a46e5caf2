"""A terminology's relations as a graph: triples chosen and split, embeddings trained by PyKEEN, ranks, saved vectors.

`triples` chooses and splits, `models` holds one file a model, `kge` trains, `store` is the artefact of vectors and
`ranks` the place of a triple's ends among all entities. Only `kge` needs PyKEEN; saved vectors are scored without it.
"""
