"""Files of mentions, row by row."""
