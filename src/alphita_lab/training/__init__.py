"""What recipes share: batches, the loop, checkpoints. No loss lives here (objectives) and no method (recipes).

Rooms, each of which builds on those before it alone: `engine` (the loop and all that it keeps), `terms` (names, pairs,
triples), `sentences` (scored ones), `text` (corpora and definitions). On these stand, apart from each other, `mentions`
(names within texts, entities injected) and `products` (attributes).
"""
