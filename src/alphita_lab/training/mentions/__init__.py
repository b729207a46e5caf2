"""What trains on mentions of names in texts and on decisions about mentions, injected entities among it."""
