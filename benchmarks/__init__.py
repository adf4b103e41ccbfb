"""Ratios against what a user would do otherwise, measured within one run."""
