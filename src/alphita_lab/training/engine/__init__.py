"""The engine of training: steps, the loop around them, what it keeps, and the phases and processes of a run."""
