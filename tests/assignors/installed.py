"""Packages that offer assignors, installed as pip would leave them: modules, and a folder with
metadata beside them.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

HERE = Path(__file__).parent
NASTY = {
    name: f"nasty_assignors:{name}"
    for name in (
        "good",
        "loops",
        "loops_where_told",
        "sleeps_once",
        "raises",
        "exits_politely",
        "exits",
        "crashes",
        "hoards",
        "prints",
        "floods",
        "scribbles",
        "swells",
        "lists",
        "names_numbers",
        "invents",
        "breeds",
        "dies_later",
        "remembers_secrets",
    )
}
ALL = {
    **NASTY,
    "polite": "nasty_assignors:Polite",
    "rack-aware": "rack_aware:assign",
    "missing": "no_such_module:assign",
    "broken": "nasty_assignors:no_such_name",
    "odd": "nasty_assignors:CALLS",
}
MODULES = (HERE / "example", HERE / "nasty")


def package(folder: Path, name: str, assignors: Mapping[str, str]) -> Path:
    """A distribution's metadata in a folder; the folder is to be put on the path."""
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[zkcoord.assignors]\n" + "".join(f"{key} = {value}\n" for key, value in assignors.items())
    )
    return folder


def path(folder: Path) -> tuple[str, ...]:
    """What PYTHONPATH needs for all of them."""
    return (str(package(folder, "nasty", ALL)), *map(str, MODULES))
