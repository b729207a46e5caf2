"""What recipes share: batches, the loop, checkpoints. No loss lives here (objectives) and no method (recipes).

Each room builds on those before it: `engine`, `terms`, `sentences`, `text`; then, apart, `mentions` and `products`.
"""
