"""How Sphinx makes the site of docs/ (`make docs`). Its source is the whole checkout: pages link to
each other, and to files beside them, as they do in the repository, and each such link is checked.

The pages stay plain Markdown, with nothing in them for the generator but the directives of
docs/reference. What a reader wants is in `navigation` here: a page that is not in it is a warning,
and each warning fails the build.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pygments.lexers.special import TextLexer

if TYPE_CHECKING:
    from sphinx.application import Sphinx

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))  # the reference is made from the docstrings of this checkout

from zkcoord import __version__  # noqa: E402

INDENT = "    "

project = "zkcoord"
version = release = __version__
root_doc = "README"
extensions = ["myst_parser", "sphinx.ext.autodoc"]
# README.html comes from the front page; index.html leads there
include_patterns = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "tests/README.md", "docs/**.md"]
exclude_patterns = [".*", "build", "dist", "**/__pycache__", "docs/site"]

navigation = {
    "Start": [
        "zkcoord <self>",
        "Installing </docs/install>",
        "A tutorial of fifteen minutes </docs/tutorial>",
    ],
    "Move here": [
        "From kafka-python </docs/from-kafka-python>",
        "From confluent-kafka </docs/from-confluent-kafka>",
        "From the old consumer </docs/from-the-old-consumer>",
        "Migration, step by step </docs/migration>",
    ],
    "Use": [
        "The consumer </docs/consumer>",
        "Message streams </docs/streams>",
        "Spark </docs/spark>",
        "The gateway </docs/gateway>",
        "Assignors </docs/assignors>",
    ],
    "Run": [
        "Operation </docs/operations>",
        "The console </docs/console>",
        "The guardian </docs/guardian>",
        "Security </docs/security>",
        "Benchmarks </docs/benchmarks>",
        "Past one machine </docs/scale>",
    ],
    "Understand": [
        "Design </docs/design>",
        "The protocol </docs/protocol>",
        "The specification </docs/spec/README>",
        "The simulator </docs/simulator>",
        "Chaos </docs/chaos>",
        "Faults found </docs/faults>",
        "Contributing </CONTRIBUTING>",
        "The tests </tests/README>",
    ],
    "Reference": [
        "The consumer's names </docs/reference/consumer>",
        "Message streams' names </docs/reference/streams>",
        "Spark's names </docs/reference/spark>",
        "An assignor's names </docs/reference/assignors>",
        "Errors </docs/reference/errors>",
        "Changes </CHANGELOG>",
    ],
    "Raw tables": [
        f"/docs/figures/{name}"
        for name in (
            "side",
            "figures",
            "consumer",
            "commit",
            "scale",
            "topics",
            "spark",
            "handovers",
            "audit",
            "faults",
        )
    ],
}

# Markdown as the repository's own host shows it: the same names of headings, numbered alike
myst_heading_anchors = 6
# raw tables and one section of docs/operations.md begin below the level that would be next
suppress_warnings = ["myst.header"]
highlight_language = "text"
smartquotes = False

# docstrings: `code` in single backticks
default_role = "code"
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_mock_imports = ["pyspark", "pyarrow", "pandas", "py4j", "confluent_kafka"]
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 120
toc_object_entries_show_parents = "hide"

html_theme = "furo"
html_title = f"zkcoord {release}"
html_static_path = ["static"]
html_extra_path = ["extra"]
html_css_files = ["zkcoord.css"]
html_copy_source = False
html_show_copyright = False

# external links are reported by the nightly run, and fail nothing
linkcheck_timeout = 10
linkcheck_workers = 4


def add_navigation(app: Sphinx, docname: str, content: list[str]) -> None:
    """The front page has all others below it, where its reader does not see them."""
    if docname != app.config.root_doc:
        return
    for caption, pages in app.config.navigation.items():
        listed = "\n".join(pages)
        content[0] += f"\n```{{toctree}}\n:hidden:\n:caption: {caption}\n\n{listed}\n```\n"


def add_options(app: Sphinx, docname: str, content: list[str]) -> None:
    """Where a page of the reference has a comment for it, the table of options, from the code."""
    for mark, table in (("consumer", consumer_options), ("Spark", spark_options)):
        comment = f"<!-- options: {mark} -->"
        if comment in content[0]:
            content[0] = content[0].replace(comment, "\n".join(table()))


def cell(text: object) -> str:
    """A value in a table; of a function its name, of a class too."""
    shown = getattr(text, "__name__", None) or repr(text)
    return "`" + shown.replace("|", "\\|").replace("\n", " ") + "`"


def consumer_options() -> Iterator[str]:
    """Every option of `KafkaConsumer`, its default, and what it takes."""
    from zkcoord.consumer.option_types import OPTION_TYPES
    from zkcoord.consumer.options import CHANGED_DEFAULTS, DEFAULT_CONFIG, OWN_DEFAULTS

    yield "| option | default | whose | what it takes |\n|---|---|---|---|"
    for name, default in sorted(DEFAULT_CONFIG.items()):
        whose = "kafka-python's"
        if name in CHANGED_DEFAULTS:
            whose = "kafka-python's, with another default"
        if name in OWN_DEFAULTS:
            whose = "of zkcoord's own"
        says = OPTION_TYPES[name].says.replace("|", "\\|")
        yield f"| `{name}` | {cell(default)} | {whose} | {says} |"


def spark_options() -> Iterator[str]:
    """Every option of the source, and each of Spark's own Kafka source that it refuses."""
    from sphinx.ext.autodoc.mock import mock

    with mock(autodoc_mock_imports):
        from zkcoord.consumer.spark import option_names as names
    yield "| option | of a stream | of a batch | as `KafkaConsumer`'s |\n|---|---|---|---|"
    for name in sorted({*names.STREAM_OPTIONS, *names.BATCH_OPTIONS}):
        taken = (name in kind for kind in (names.STREAM_OPTIONS, names.BATCH_OPTIONS))
        same = names.GROUP_OPTIONS.get(name)
        columns = [*("yes" if t else "" for t in taken), f"`{same}`" if same else ""]
        yield f"| `{name}` | {' | '.join(columns)} |"
    yield "\n| refused is | of | because |\n|---|---|---|"
    for of, refused in (
        ("both", names.REFUSED),
        ("a stream", names.STREAM_REFUSED),
        ("a batch", names.BATCH_REFUSED),
    ):
        for name, why in sorted(refused.items()):
            yield f"| `{name}` | {of} | {why} |"


def as_text(
    app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]
) -> None:
    """What is indented in a docstring stands there as it is: examples, and trees of errors."""
    shown: list[str] = []
    for line in lines:
        begins = line.startswith(INDENT) and shown[-1:] == [""]
        if begins and not next((x for x in reversed(shown) if x), "").startswith((INDENT, "* ")):
            shown += ["::", ""]
        shown.append(line)
    lines[:] = shown


def setup(app: Sphinx) -> dict[str, Any]:
    """What Sphinx calls."""
    app.add_config_value("navigation", {}, "env")
    app.add_lexer("mermaid", TextLexer)  # a diagram that is shown as what it was written in
    app.connect("source-read", add_navigation)
    app.connect("source-read", add_options)
    app.connect("autodoc-process-docstring", as_text)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
