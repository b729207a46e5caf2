"""From free text to concepts: mentions, what each means, and what the text says of it."""
