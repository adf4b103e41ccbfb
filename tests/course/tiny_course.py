"""A course of two tiny notebooks, for tests of the commands that build, run and stamp one."""

HEAD = """\
---
jupytext:
  text_representation:
    extension: .md
    format_name: myst
kernelspec:
  display_name: Python 3
  language: python
  name: python3
chapter18:
"""

FRONT = """\
  title: {number} · {title} · بخش
  minutes: 1
  accelerator: {en: the same, fa: همان}
  quick:
    rows: 2
---

# {title}

Read `rows`.

"""

SETUP = """\
```{code-cell} ipython3
:tags: [setup]

REPOSITORY = ""  # OWNER/NAME
import os
import sys
```

"""

PARAMETERS = """\
```{code-cell} ipython3
:tags: [parameters]

rows = 3
rate = 0.5
label = "a"
```

"""

PRINT = """\
```{code-cell} ipython3
print(rows, rate, label, sys.executable, os.environ.get("JAX_DISABLE_MOST_OPTIMIZATIONS"))
```
"""

BODY = f"""\
{PRINT}
```{{code-cell}} ipython3
import matplotlib.pyplot as plt

plt.plot(range(rows))
plt.show()
```
"""

PYPROJECT = """\
[project]
name = "tiny"

[project.optional-dependencies]
test = []
"""


def write(root, **bodies):
    """Write a course with sections 01_first and 02_second into `root`; return `root`.

    `first` and `second` replace the text of those sections after the front matter.
    """
    source = root / "notebooks" / "source"
    source.mkdir(parents=True)
    for number, name in enumerate(("first", "second"), start=1):
        body = bodies.get(name, SETUP + PARAMETERS + BODY)
        text = HEAD + FRONT.replace("{title}", name.title()).replace("{number}", str(number)) + body
        (source / f"{number:02}_{name}.md").write_text(text, encoding="utf-8")
    (root / "pyproject.toml").write_text(PYPROJECT, encoding="utf-8")
    for page in ("README.md", "colab_links.md"):
        linked = "# Tiny\n\n<!-- links:begin -->\nold\n<!-- links:end -->\n"
        (root / page).write_text(linked, encoding="utf-8")
    return root
