"""The figures of the notebooks, a file a section; the library does without them."""
