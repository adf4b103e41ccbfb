"""The linter of the prose, in both languages.

- `persian`: all rules of a Persian cell, `persian.faults(cell)`, and those of its markup;
  `persian_spelling` has those of letters, half-spaces, numbers and punctuation, and
  `persian_terms` those of the glossary (`glossary.tsv`: one Persian term for each English one)
- `twins`: what an English cell and its Persian twin must share
- `cells`: reads the Markdown of notebooks and pages for all of them
"""
