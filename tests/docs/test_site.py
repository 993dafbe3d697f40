"""The site is made out of the docs as they are, without a warning; it needs no other host; and a
link that leads nowhere stops it.
"""

from __future__ import annotations

import re
import runpy
import zlib
from pathlib import Path

import pytest

from tests.docs import building
from tests.docs.test_reference import named
from tests.packages.tools import ROOT, MissingToolError, PackagingError, tools
from zkcoord.consumer import DEFAULT_CONFIG
from zkcoord.consumer.spark.option_names import BATCH_OPTIONS, REFUSED, STREAM_OPTIONS

pytestmark = pytest.mark.slow
SMALL = """
import runpy
found = runpy.run_path({path!r})
setup, extensions, myst_heading_anchors = (
    found[name] for name in ("setup", "extensions", "myst_heading_anchors")
)
root_doc = "README"
include_patterns = ["**.md"]
navigation = {{"All": ["/docs/other"]}}
"""
OTHER = "# Another page\n\n## A section: of it\n"


@pytest.fixture(scope="module", autouse=True)
def _there() -> None:
    try:
        tools("site")
    except MissingToolError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """docs/ as it is."""
    return building.build(tmp_path_factory.mktemp("built") / "site")


def test_every_page_is_there(site: Path) -> None:
    pages = [path.relative_to(ROOT) for path in (ROOT / "docs").rglob("*.md")]
    assert len(pages) > 30
    missing = [page for page in pages if not (site / page).with_suffix(".html").is_file()]
    assert not missing
    assert 'url=README.html"' in (site / "index.html").read_text(encoding="utf-8")
    front = (site / "README.html").read_text(encoding="utf-8")
    captions = runpy.run_path(str(building.CONFIGURATION / "conf.py"))["navigation"]
    assert all(f'<span class="caption-text">{caption}</span>' in front for caption in captions)
    assert re.search(r'src="_images/demo-timeline\w*\.png"', front), "README's picture"


def test_a_browser_asks_no_other_host(site: Path) -> None:
    assert not list(building.from_elsewhere(site))


def test_what_would_ask_another_host_is_seen(tmp_path: Path) -> None:
    fonts = "https://fonts.example/x"
    (tmp_path / "a.html").write_text(
        f'<link rel="stylesheet" href="{fonts}"><script src="//cdn.example/a.js"></script>'
        f'<a href="{fonts}">a link</a><link rel="canonical" href="{fonts}"><img src="b.png">'
    )
    (tmp_path / "a.css").write_text(f"@import '{fonts}';\nb {{ background: url(c.png) }}")
    assert len(list(building.from_elsewhere(tmp_path))) == 3


def test_search_finds_words_of_the_pages(site: Path) -> None:
    """The index is a script beside the pages: it is found without a server, too."""
    index = (site / "searchindex.js").read_text(encoding="utf-8")
    assert index.startswith("Search.setIndex(")
    terms = index.partition('"terms":')[2]
    assert all(f'"{word}":' in terms for word in ("quarantin", "zombi", "gateway"))


def test_the_reference_has_all_names(site: Path) -> None:
    inventory = (site / "objects.inv").read_bytes().split(b"\n", 4)[4]
    there = {line.split()[0] for line in zlib.decompress(inventory).decode().splitlines()}
    assert not set(named()) - there
    assert "zkcoord.consumer.KafkaConsumer.poll" in there


def test_the_reference_has_all_options(site: Path) -> None:
    for page, options in (
        ("consumer", DEFAULT_CONFIG),
        ("spark", {*STREAM_OPTIONS, *BATCH_OPTIONS, *REFUSED}),
    ):
        text = (site / "docs" / "reference" / f"{page}.html").read_text(encoding="utf-8")
        missing = [name for name in options if f">{name}</span>" not in text]
        assert not missing, (page, missing)


def small(tmp_path: Path, front: str) -> str:
    """What Sphinx says against a small tree with this as its front page; "" for nothing."""
    source, configuration = tmp_path / "source", tmp_path / "configuration"
    (source / "docs").mkdir(parents=True, exist_ok=True)
    configuration.mkdir()
    (configuration / "conf.py").write_text(
        SMALL.format(path=str(building.CONFIGURATION / "conf.py")), encoding="utf-8"
    )
    (source / "README.md").write_text(f"# Front\n\n{front}\n", encoding="utf-8")
    (source / "docs" / "other.md").write_text(OTHER, encoding="utf-8")
    (source / "Makefile").write_text("all:\n", encoding="utf-8")
    try:
        building.build(tmp_path / "site", source, configuration)
    except PackagingError as error:
        return str(error)
    return ""


def test_links_that_lead_somewhere_pass(tmp_path: Path) -> None:
    links = (
        "[a](docs/other.md#a-section-of-it) [b](Makefile) [c](#front) [d](https://nowhere.example/)"
    )
    assert small(tmp_path, links) == ""


def test_what_leads_nowhere_is_named(tmp_path: Path) -> None:
    """Pages, sections, files, pictures; and a page that no navigation leads to."""
    links = {
        "docs/no-page.md": "[a](docs/no-page.md)",
        "no-section": "[a](docs/other.md#no-section)",
        "no-heading": "[a](#no-heading)",
        "tests/no_file.py": "[a](tests/no_file.py)",
        "no-picture.png": "![a](docs/no-picture.png)",
    }
    (tmp_path / "source" / "docs").mkdir(parents=True)
    (tmp_path / "source" / "docs" / "alone.md").write_text("# Alone\n", encoding="utf-8")
    said = small(tmp_path, " ".join(links.values()))
    assert not [name for name in links if name not in said], said
    assert "alone.md" in said and "toctree" in said, said
