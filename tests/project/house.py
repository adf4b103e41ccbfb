"""The rules of the house, read from the sources alone: each function yields faults, one a line.

`Tree(root)` is a copy of the course or a planted one. What it imports is known by dotted names of
modules; `from chapter18.mesh import _layouts` imports the file, not the face beside it, since a
folder's face always runs first and would make every folder a circle.
"""

import ast
import functools
import re
from pathlib import Path
from typing import NamedTuple

# Beside `_shared`, which all may import, the other subjects that a subject imports.
MAY_IMPORT = {
    "planning": {"mesh", "devices"},
    "checkpoints": {"mesh"},
    "recorded": {"planning"},
    "processes": set(),
}
# The sections, in their order.
WORDS = (
    *("tuning", "ensembles", "batching", "mesh"),
    *("steps", "precision", "mixed_precision", "quantization"),
)
CONTENT = {"figures", "exercises"}
NOT_IN_THE_WHEEL = {"course", "recordings", "benchmarks", "tests"}
LARGEST_FILE, SMALLEST_DRAWER, ONE_SCREEN, MOST_FILES = 320, 50, 60, 11


class Module(NamedTuple):
    """A Python file, and the names by which it is imported."""

    path: Path
    name: str
    tree: ast.Module

    @property
    def parts(self):
        return self.name.split(".")

    @property
    def subject(self):
        """`mesh` for chapter18/mesh/_layouts.py and for chapter18/mesh.py; else the top folder."""
        return self.parts[1] if self.name.startswith("chapter18.") else self.parts[0]


class Tree:
    """The Python files and the notebooks' sources under `root`."""

    def __init__(self, root):
        self.root = Path(root)
        folders = ("chapter18", *sorted(NOT_IN_THE_WHEEL))
        paths = [path for name in folders for path in sorted((self.root / name).rglob("*.py"))]
        self.modules = {module.name: module for module in map(self._module, paths)}

    def _module(self, path):
        parts = path.relative_to(self.root).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        return Module(path, name, ast.parse(path.read_text(encoding="utf-8")))

    def of(self, folder):
        """The modules in one folder of the root, by name."""
        return [m for name, m in sorted(self.modules.items()) if name.split(".")[0] == folder]

    @functools.cached_property
    def imports(self):
        """`{name: names of modules of ours that it imports}`, wherever in the file it does."""
        return {
            name: {target for node in ast.walk(module.tree) for target in self._targets(node)}
            for name, module in self.modules.items()
        }

    def _targets(self, node):
        if isinstance(node, ast.Import):
            yield from (a.name for a in node.names if self._is_ours(a.name))
        elif isinstance(node, ast.ImportFrom) and self._is_ours(node.module or ""):
            for alias in node.names:
                longer = f"{node.module}.{alias.name}"
                yield longer if longer in self.modules else node.module

    def _is_ours(self, name):
        return name.split(".")[0] in {"chapter18", *NOT_IN_THE_WHEEL}

    def imported_by_notebooks(self):
        """(file name, dotted name) of each import, also those in programs of child processes."""
        for path in sorted((self.root / "notebooks/source").glob("*.md")):
            text = path.read_text(encoding="utf-8")
            for dotted, *lists in re.findall(
                r"^\s*(?:from|import) (chapter18[\w.]*)(?: import (?:\(([^)]+)\)|([\w, ]+)))?",
                text,
                re.MULTILINE,
            ):
                names = [part.split()[0] for part in "".join(lists).split(",") if part.strip()]
                for name in names or [""]:
                    longer = f"{dotted}.{name}"
                    yield path.name, longer if longer in self.modules else dotted


def _subject(name):
    return name.split(".")[1] if name.startswith("chapter18.") else name.split(".")[0]


def climbing(tree):
    """Rule 1: the ground floor stands on nothing, a subject on the ground floor and few others."""
    for module in tree.of("chapter18"):
        allowed = {module.subject, "_shared"} | MAY_IMPORT.get(module.subject, set())
        if module.subject == "_shared":
            allowed = {"_shared"}
        if module.subject in CONTENT or module.name == "chapter18":
            continue
        for target in sorted(tree.imports[module.name]):
            if target.startswith("chapter18.") and _subject(target) not in allowed | CONTENT:
                yield f"{module.name} imports {target}"


def circles(tree):
    """No circle, of files or of subjects."""
    files = {
        module.name: tree.imports[module.name] - {module.name, _face(module.name)}
        for module in tree.of("chapter18")
    }
    subjects = {}
    for name, targets in files.items():
        targets = {_subject(t) for t in targets if t.startswith("chapter18.")}
        subjects.setdefault(_subject(name), set()).update(targets - {_subject(name)})
    for imports in (files, subjects):
        while imports:
            leaves = {name for name, needs in imports.items() if not needs & set(imports)}
            if not leaves:
                yield f"a circle among {', '.join(sorted(imports))}"
                break
            imports = {name: needs for name, needs in imports.items() if name not in leaves}


def _face(name):
    return name.rpartition(".")[0]


def upwards(tree):
    """Rule 2: nobody needs the notebooks' figures and exercises, the wheel nothing beside it."""
    for module in tree.modules.values():
        top = module.parts[0]
        for target in sorted(tree.imports[module.name]):
            other = target.split(".")[0]
            content = other == "chapter18" and _subject(target) in CONTENT
            if (
                (content and top != "tests" and module.subject != _subject(target))
                or (top == "chapter18" and other in NOT_IN_THE_WHEEL)
                or (top == "tests" and other == "benchmarks")
            ):
                yield f"{module.name} imports {target}"


def behind_the_face(tree):
    """Rule 3: underscore files are for their own subject, its exercises and tests."""
    for module in tree.modules.values():
        if module.parts[0] == "tests":
            continue
        for target in sorted(tree.imports[module.name]):
            if _is_internal(target) and not _may_see(module, target):
                yield f"{module.name} imports {target}"
    for source, target in tree.imported_by_notebooks():
        if _is_internal(target) or target.startswith("chapter18._shared"):
            yield f"{source} imports {target}"


def _is_internal(target):
    return any(part.startswith("_") for part in target.split(".")[1:])


def _may_see(module, target):
    if target.startswith("chapter18._shared"):
        # The ground floor serves the whole repository; only readers go by the faces.
        return True
    if module.parts[:2] == ["chapter18", "exercises"] and module.parts[-1] == _subject(target):
        return True
    return module.parts[0] == target.split(".")[0] and module.subject == _subject(target)


def sizes(tree):
    """Rule 4: what is large gets a folder and a face, what is small belongs inside a neighbour."""
    importers = {}
    for name, targets in tree.imports.items():
        for target in targets:
            if name.split(".")[0] == target.split(".")[0] and name != _face(target):
                importers.setdefault(target, set()).add(name)
    for module in tree.of("chapter18"):
        lines = len(module.path.read_text(encoding="utf-8").splitlines())
        if module.path.name == "__init__.py":
            if lines > ONE_SCREEN:
                yield f"{module.name}: a face of {lines} lines"
            files = list(module.path.parent.glob("*.py"))
            if len(files) > MOST_FILES and module.name != "chapter18":
                yield f"{module.name}: {len(files)} files"
        elif lines > LARGEST_FILE:
            yield f"{module.name}: {lines} lines"
        elif lines <= SMALLEST_DRAWER and module.path.stem.startswith("_"):
            users = importers.get(module.name, set())
            if len(users) == 1:
                yield f"{module.name}: {lines} lines that only {users.pop()} imports"
        if module.path.stem == "utils":
            yield f"{module.name}: a name that says nothing"


def public(tree):
    """(name, the node that defines it) of each public name: a face's, or a single file's own."""
    for module in tree.of("chapter18"):
        if _is_internal(module.name) or module.subject in CONTENT or module.name == "chapter18":
            continue
        for name in _exported(module):
            found = _definition(tree, module, name)
            if found is not None:
                yield f"{module.name}.{name}", found


def _exported(module):
    for node in module.tree.body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__":
            return ast.literal_eval(node.value)
    kinds = (ast.FunctionDef, ast.ClassDef)
    named = [node.name for node in module.tree.body if isinstance(node, kinds)]
    return [name for name in named if not name.startswith("_")]


def _definition(tree, module, name):
    for node in module.tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == name:
            return node
        if isinstance(node, ast.ImportFrom) and node.module in tree.modules:
            for alias in node.names:
                if (alias.asname or alias.name) == name:
                    return _definition(tree, tree.modules[node.module], alias.name)
    return None


def faces_without_all(tree):
    """A folder's face says what is public."""
    for module in tree.of("chapter18"):
        is_face = module.path.name == "__init__.py" and len(module.parts) == 2
        if is_face and module.subject not in {*CONTENT, "_shared"}:
            names = [getattr(n.targets[0], "id", "") for n in module.tree.body if _is_assign(n)]
            if "__all__" not in names:
                yield f"{module.name} has no __all__"
            if not ast.get_docstring(module.tree):
                yield f"{module.name} has no docstring"


def _is_assign(node):
    return isinstance(node, ast.Assign)


def untyped(tree):
    """Rule 5: a public name has types and a docstring, which says what a `raise` in it means."""
    for name, node in public(tree):
        functions = [(name, node)] if isinstance(node, ast.FunctionDef) else _methods(name, node)
        if not ast.get_docstring(node):
            yield f"{name} has no docstring"
        for label, function in functions:
            yield from _untyped_parts(label, function)
        text = ast.get_docstring(node) or ""
        raises = any(isinstance(part, ast.Raise) for part in ast.walk(node))
        if isinstance(node, ast.FunctionDef) and raises and "aises" not in text:
            yield f"{name} raises, and does not say so"
        for field in node.body if isinstance(node, ast.ClassDef) else []:
            kind = ast.unparse(field.annotation) if isinstance(field, ast.AnnAssign) else ""
            if kind in {"tuple", "list", "dict", "object"}:
                yield f"{name}.{ast.unparse(field.target)} is a bare {kind}"


def _methods(name, node):
    for part in node.body:
        if isinstance(part, ast.FunctionDef) and not part.name.startswith("_"):
            yield f"{name}.{part.name}", part
        elif isinstance(part, ast.FunctionDef) and part.name == "__init__":
            yield f"{name}", part


def _untyped_parts(label, function):
    arguments = function.args
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    every += [a for a in (arguments.vararg, arguments.kwarg) if a]
    bare = [a.arg for a in every if a.annotation is None and a.arg not in {"self", "cls"}]
    if bare:
        yield f"{label}: no type for {', '.join(bare)}"
    if function.returns is None and function.name != "__init__":
        yield f"{label}: no type for its result"


RULES = (climbing, circles, upwards, behind_the_face, sizes, faces_without_all, untyped)
