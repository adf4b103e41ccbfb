"""The exercises of the notebooks and their checkers, a file a section."""
