"""The tooling of the course: what builds, runs and publishes the notebooks; not in the wheel.

`__main__` reads the command line (`python -m course --help`); each command has a file:
`running`; `building` with `built` (what a notebook on the disk holds) and `interface` (the page of
the public interface); `editions`; `website` with its templates in `site/`; `links`. All of them
stand on `sections`. `prose/` is the linter of the text, in both languages.
"""
