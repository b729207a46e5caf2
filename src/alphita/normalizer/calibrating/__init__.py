"""What ranker and confidence are fitted and tested on, and the fitting."""
