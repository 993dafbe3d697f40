"""The packages that are installed beside this one, `consumer` and `migrations`, under names that
are ours: `zkcoord.consumer` and `zkcoord.migrations`.

A user's project may well have a `consumer.py` or a package `migrations`, which Python then finds
first, and neither side can be renamed. So the name below `zkcoord` always means ours:

* Mostly the name beside is ours, too. Then both name the same modules, and whatever one of them
  imported the other has.
* Where it is somebody else's (it was imported before, or would be found first), ours are loaded
  below `zkcoord` alone, and what they import of each other is looked for there: of the name beside
  they take nothing, and leave it nothing.

Which of the two it is, is decided when the name is imported first.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Sequence
from importlib.abc import InspectLoader, Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType

HOME = Path(__file__).resolve().parents[1]
PREFIX = "zkcoord."
NAMES = ("consumer", "migrations")


def stand_in(name: str) -> None:
    """Put the package `name` that is installed beside `zkcoord` in the place of
    `zkcoord.[name]`.
    """
    full = PREFIX + name
    if _beside_is_ours(name):
        sys.modules[full] = importlib.import_module(name)
        return
    _FINDER.apart.add(full)
    spec = importlib.util.spec_from_file_location(
        full,
        HOME / name / "__init__.py",
        loader=_ApartLoader(full, str(HOME / name / "__init__.py")),
        submodule_search_locations=[str(HOME / name)],
    )
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[full] = module
    spec.loader.exec_module(module)


def _beside_is_ours(name: str) -> bool:
    """Whether the package that is imported as `name` is, or will be, the one beside us."""
    known = sys.modules.get(name)
    spec = importlib.util.find_spec(name) if known is None else known.__spec__
    origin = None if spec is None else spec.origin
    ours = HOME / name / "__init__.py"
    if origin is None or not ours.is_file():
        return spec is not None and origin is not None and not ours.is_file()
    return Path(origin).resolve() == ours


class _SameModuleLoader(Loader):
    """Gives a module that exists under its name beside."""

    def __init__(self, name: str) -> None:
        self._name = name
        # What the module says of where it is from.
        self._spec: ModuleSpec | None = None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """The module that there is."""
        module = importlib.import_module(self._name)
        self._spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """It has run."""
        module.__spec__ = self._spec

    def get_code(self, fullname: str) -> CodeType | None:
        """For `python -m`."""
        spec = importlib.util.find_spec(self._name)
        loader = None if spec is None else spec.loader
        return loader.get_code(self._name) if isinstance(loader, InspectLoader) else None


class _ApartLoader(SourceFileLoader):
    """Loads a module whose imports of the packages beside are of those below `zkcoord`. It is
    compiled each time: what is cached is of the other name.
    """

    def get_code(self, fullname: str) -> CodeType:
        """The module's code."""
        import ast  # takes a while, and is needed where a name is somebody else's

        tree = ast.parse(self.get_data(self.path), self.path)
        for node in ast.walk(tree):
            # the only form in which the packages import of themselves and of each other: `from
            # consumer.errors import ...` becomes `from zkcoord.consumer.errors import ...`
            if isinstance(node, ast.ImportFrom) and not node.level and node.module:
                is_ours = node.module.partition(".")[0] in NAMES
                node.module = PREFIX + node.module if is_ours else node.module
        code: CodeType = compile(tree, self.path, "exec", dont_inherit=True)
        return code


class _Finder(MetaPathFinder):
    """Finds what is below the names of ours. `apart`: those that are loaded below `zkcoord`."""

    def __init__(self) -> None:
        self.apart: set[str] = set()

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The module below one of the names, or None for whatever else."""
        top = ".".join(fullname.split(".")[:2])
        if fullname == top or top.removeprefix(PREFIX) not in NAMES or not top.startswith(PREFIX):
            return None
        if top not in self.apart:
            beside = fullname.removeprefix(PREFIX)
            found = importlib.util.find_spec(beside)
            if found is None:
                return None
            return ModuleSpec(
                fullname,
                _SameModuleLoader(beside),
                origin=found.origin,
                is_package=found.submodule_search_locations is not None,
            )
        found = PathFinder.find_spec(fullname, path, target)
        if found is not None and isinstance(found.loader, SourceFileLoader):
            found.loader = _ApartLoader(fullname, found.loader.path)
        return found


_FINDER = _Finder()
sys.meta_path.insert(0, _FINDER)
