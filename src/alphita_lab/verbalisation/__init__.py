"""Verbalisation: texts that say what a concept means - definitions, descriptions from the graph, generated ones."""
