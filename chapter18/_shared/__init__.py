"""The ground floor: what several subjects stand on. It imports nothing of the package above it."""
