"""What trains on terms: names and their pairs, triples and translations, negatives, and batches of them."""
