"""The linter of the prose: Persian spelling and terms, and twins that say the same."""
