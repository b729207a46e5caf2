"""Statistics of confidence: how reliable an answer is, and which answers can be accepted without review."""
