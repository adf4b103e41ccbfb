"""A built course of two tiny bilingual notebooks whose twins link to one another's headings."""

import nbformat
from tiny_course import HEAD

from course import building, built

FRONT = """\
  title: {title}
  minutes: 2½
  accelerator: {en: faster there, fa: آنجا سریع‌تر}
  quick:
    rows: 2
---

"""

FIRST = """\
# First

To [the end](#The-end), to [its twin](02_second.ipynb#Second), to [the next](02_second.ipynb),
[nowhere](#nowhere). Take `fit()` of $q \\le 127$.

```sh
# no heading
```

+++

<div dir="rtl" lang="fa">

# نخستین

به [پایان](#The-end)، به [بعدی](02_second.ipynb#Second)، به [دومی](02_second.ipynb)،
[هیچ‌جا](#nowhere). تابع <code dir="ltr">fit()</code> و $q \\le 127$.

</div>

```{code-cell} ipython3
:tags: [parameters]

rows = 3
```

## The end

Enough.

+++

<div dir="rtl" lang="fa">

## پایان

بس است.

</div>

```{code-cell} ipython3
print(rows)
```
"""

SECOND = """\
# Second

Words.

+++

<div dir="rtl" lang="fa">

# دومین

واژه‌ها.

</div>
"""


def write_course(root, first=FIRST):
    """Write the course into `root`, its notebooks built but not executed; return `root`."""
    source = root / "notebooks" / "source"
    source.mkdir(parents=True)
    for name, called, body in [
        ("01_first", "1 · First · نخستین", first),
        ("02_second", "2 · Second · دومین", SECOND),
    ]:
        path = source / f"{name}.md"
        path.write_text(HEAD + FRONT.replace("{title}", called) + body, encoding="utf-8")
        notebook = building.assemble(path)
        built.seal(notebook)
        nbformat.write(notebook, root / "notebooks" / f"{name}.ipynb")
    return root
