"""Alphita inside other libraries: data frames and spaCy. Each file is one of them."""
