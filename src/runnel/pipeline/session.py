"""Makes the Spark session. Commands and tests make one and pass it to everything else.

    make_session()                            local: all cores of this machine
    make_session("local[2]", memory="4g")
    make_session("spark://host:7077")         a cluster (also yarn, k8s://…); Runnel must be installed in its Pythons
    make_session("sc://host:15002")           a server of Spark Connect

It finds Java and Python (java.py), reduces logging (log4j2.properties), sets the time zone to UTC, and turns on Arrow
for data that goes to Python.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from runnel.errors import InputError
from runnel.pipeline.java import find_java, make_launcher

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOCAL = "local[*]"
MEMORY = "4g"
_LOGS = Path(__file__).with_name("log4j2.properties")
_JOINED = ("spark.driver.extraJavaOptions",)
_MEMORY = re.compile(r"\d+[kmgt]b?", re.IGNORECASE)
_MASTER = re.compile(r"local(\[.+\])?|local-cluster\[.+\]|yarn|(spark|k8s|sc)://.+")


def make_session(
    master: str = LOCAL,
    *,
    memory: str = MEMORY,
    name: str = "runnel",
    ui: bool = True,
    progress: bool = False,
    settings: dict[str, str] | None = None,
) -> SparkSession:
    """Make a session, or return the running one. `settings` are Spark's own and win over the defaults (options for Java
    are added to the default ones).

    >>> make_session("loca[2]")
    Traceback (most recent call last):
    runnel.errors.InputError: 'loca[2]' is no master of Spark: take local[2], spark://HOST:PORT, yarn, \
k8s://URL or sc://HOST:PORT
    """
    _check(master, memory)
    require_spark()
    ours, theirs = _settings(master, memory, ui, progress), settings or {}
    both = {key: f"{ours[key]} {theirs[key]}" for key in _JOINED if key in ours and key in theirs}
    chosen = ours | theirs | both
    spark = _connect(master, chosen) if master.startswith("sc://") else _start(master, name, chosen)
    from runnel.pipeline.source import TraceSource

    spark.dataSource.register(TraceSource)
    return spark


def ui_address(spark: SparkSession) -> str | None:
    """The address of Spark's web page; None if it has none, or if it is a server's."""
    try:
        address = spark.sparkContext.uiWebUrl
    except Exception:  # a session of Spark Connect has no context; the kind of error varies
        return None
    return str(address) if address else None


def _check(master: str, memory: str) -> None:
    if not _MASTER.fullmatch(master):
        raise InputError(
            f"{master!r} is no master of Spark: take local[2], spark://HOST:PORT, yarn, k8s://URL or sc://HOST:PORT"
        )
    if not _MEMORY.fullmatch(memory):
        raise InputError(f"{memory!r} is no amount of memory: take one such as 4g or 900m")


def require_spark() -> None:
    """An InputError that says what to install, if Spark is not installed."""
    try:
        import pyspark  # noqa: F401 - only to see whether it is there
    except ImportError:
        raise InputError(
            "the pipeline runs on Spark, which is not installed: pip install 'runnel[spark]'"
        ) from None


def _settings(master: str, memory: str, ui: bool, progress: bool) -> dict[str, str]:
    found = {
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.python.filterPushdown.enabled": "true",
    }
    if master.startswith("sc://"):
        return found
    found |= {
        "spark.driver.memory": memory,
        "spark.ui.enabled": str(ui).lower(),
        "spark.ui.showConsoleProgress": str(progress).lower(),
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={_LOGS.as_uri()}",
        # Scans of the same files share their input, and small partitions share tasks.
        "spark.sql.adaptive.enabled": "true",
    }
    if master.startswith("local"):
        # The default of 200 partitions may suit a cluster; on one machine it is mostly overhead.
        found["spark.sql.shuffle.partitions"] = str(4 * (os.cpu_count() or 1))
    else:
        found["spark.executor.memory"] = memory
    return found


def _start(master: str, name: str, settings: dict[str, str]) -> SparkSession:
    from pyspark.sql import SparkSession

    java = find_java(os.environ)
    os.environ["JAVA_HOME"] = str(make_launcher(java))
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    if master.startswith("local"):
        # The host name may resolve to an address of another machine, or to one that others can reach.
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder.master(master).appName(name)
    for key, value in settings.items():
        builder = builder.config(key, value)
    try:
        return builder.getOrCreate()
    except Exception as error:
        raise InputError(
            f"Spark does not start with master {master}: {_first_line(error)}; "
            f"Java is {java.program}, version {java.version}"
        ) from error


def _connect(master: str, settings: dict[str, str]) -> SparkSession:
    from pyspark.sql import SparkSession

    try:
        spark = SparkSession.builder.remote(master).getOrCreate()
    except ImportError as error:
        raise InputError(
            f"{master} needs what Spark Connect needs: pip install 'pyspark[connect]' ({_first_line(error)})"
        ) from None
    except Exception as error:
        raise InputError(f"{master} does not answer: {_first_line(error)}") from error
    for key, value in settings.items():
        spark.conf.set(key, value)
    return spark


def _first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)
