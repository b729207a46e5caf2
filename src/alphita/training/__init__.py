"""What recipes share: batches, the loop, checkpoints. No loss lives here (objectives) and no method (recipes)."""
