"""What short forms stand for: defined in a text, listed, or known in the clinic."""
