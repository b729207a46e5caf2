"""What trains on sentences that people judged, and the phase of a run that trains on strings of any kind."""
