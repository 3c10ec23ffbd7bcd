"""A Spark session: made at the edge of a program, and handed to everything else.

    make_session()                            local: all cores of this machine
    make_session("local[2]", memory="4g")
    make_session("spark://host:7077")         a cluster: standalone, yarn, k8s://…; its Pythons must have Runnel
    make_session("sc://host:15002")           a server of Spark Connect

Java and Python are found (java.py), logs are quiet (log4j2.properties), times are UTC, and data goes to Python in Arrow
batches.
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
    """A session, or the one that there is already. `settings` are Spark's own, and have the last word (options of Java
    are added to those that keep logs quiet).

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
    """Where Spark shows what it does, for a browser; None where it does not, or a server does."""
    try:
        address = spark.sparkContext.uiWebUrl
    except Exception:  # a session of Spark Connect has no context, and several errors to say so
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
    """An InputError that says what to install, if Spark is not there."""
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
        # Scans that differ in their columns only share what they read, and small groups share tasks.
        "spark.sql.adaptive.enabled": "true",
    }
    if master.startswith("local"):
        # Two hundred partitions, which a cluster may need, are mostly overhead on one machine.
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
        # The name of a machine may lead to an address that it does not have, or to one that others reach.
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
