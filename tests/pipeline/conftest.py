"""One Spark session for all tests of the pipeline, and the traces that they share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from runnel.lab.run import ScenarioRun, run_scenario
from runnel.lab.scenario import make_scenario
from runnel.pipeline.jobs import Job
from runnel.pipeline.session import make_session
from support.sparked import LENGTH, QUICK_JAVA, SCENARIO

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The session; a small one, in which a shuffle is worth two tasks."""
    made = make_session(
        "local[2]",
        memory="1g",
        name="tests",
        ui=False,
        settings={
            "spark.sql.shuffle.partitions": "2",
            "spark.default.parallelism": "2",
            "spark.sql.adaptive.enabled": "false",
            # What is run once is not worth being compiled; commands that tests start do compile, and come to the same.
            "spark.sql.codegen.wholeStage": "false",
            "spark.sql.codegen.factoryMode": "NO_CODEGEN",
            "spark.driver.extraJavaOptions": QUICK_JAVA,
        },
    )
    yield made
    made.stop()


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> ScenarioRun:
    """A simulated network and its trace."""
    return run_scenario(make_scenario(SCENARIO), tmp_path_factory.mktemp("run"))


@pytest.fixture(scope="session")
def done(spark: SparkSession, run: ScenarioRun, tmp_path_factory: pytest.TempPathFactory) -> Job:
    """Its profiles."""
    out: Path = tmp_path_factory.mktemp("out")
    job = Job(spark, run.trace, out, LENGTH)
    job.make_profiles()
    return job
