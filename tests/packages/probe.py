"""Run by the Python of an environment in which a wheel is installed, with nothing of the checkout
in sight: which modules cannot be imported, and is the extension there? One line of JSON.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import pkgutil
from pathlib import Path

OURS = ("zkcoord", "consumer", "migrations")
EXTENSION = "consumer.spark.decode._rdk"


def modules() -> list[str]:
    """All of them, but for what runs when it is imported by a name that ends with __main__."""
    found = []
    for name in OURS:
        package = importlib.import_module(name)
        found += [name, *(m.name for m in pkgutil.walk_packages(package.__path__, f"{name}."))]
    return [name for name in found if not name.endswith("__main__") and name != EXTENSION]


def imported(name: str) -> str:
    """ "" where it can be imported; the package that it lacks; else what is wrong."""
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        top = (error.name or "").partition(".")[0]
        return top if top and top not in OURS else f"{name}: {error!r}"
    except Exception as error:
        return f"{name}: {error!r}"
    return ""


def extension() -> str:
    """The version of librdkafka that it finds in confluent-kafka's module; "" where it is not
    there. It is loaded from its file, because its package needs pyarrow.
    """
    import confluent_kafka.cimpl

    found = importlib.util.find_spec("consumer.spark")
    assert found is not None and found.origin is not None
    files = sorted((Path(found.origin).parent / "decode").glob("_rdk*.so"))
    if not files:
        return ""
    spec = importlib.util.spec_from_file_location(EXTENSION, files[0])
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return str(module.load(confluent_kafka.cimpl.__file__))


if __name__ == "__main__":
    names = modules()
    print(
        json.dumps(
            {
                "modules": len(names),
                "lacking": sorted({imported(name) for name in names} - {""}),
                "extension": extension(),
            }
        )
    )
