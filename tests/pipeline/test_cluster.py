"""The pipeline on two executors in separate processes, of which one is killed in the middle of a job."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow.dataset as ds

from runnel.lab.run import ScenarioRun
from runnel.pipeline.jobs import Job
from runnel.pipeline.scale import outline_network, plan_parts
from runnel.planning.documents.constraints import Constraints
from runnel.planning.documents.plan import from_json
from runnel.planning.planner import PlanOptions
from support.sparked import LENGTH, QUICK_JAVA

TABLES = ("publishers", "subscriptions", "vectors", "brokers", "links")

DRIVER = '''
import sys
from pathlib import Path

from runnel.planning.documents.constraints import Constraints
from runnel.planning.documents.plan import to_json
from runnel.planning.planner import PlanOptions
from runnel.pipeline.jobs import Job
from runnel.pipeline.scale import outline_network, plan_parts
from runnel.pipeline.session import make_session

trace, out, length = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
quick = sys.argv[4]


def fatal(batches):
    """The first task kills the executor that runs it; when the task is run again, it passes."""
    import os, signal
    for batch in batches:
        try:
            with open(out / "killed", "x") as told:
                daemon = Path(f"/proc/{os.getppid()}/stat").read_text().rsplit(")", 1)[1].split()
                executor = int(daemon[1])
                told.write(Path(f"/proc/{executor}/cmdline").read_text())
            os.kill(executor, signal.SIGKILL)
        except FileExistsError:
            pass
        yield batch


class Dangerous(Job):
    def write(self, frame, name):
        Job.write(self, frame.mapInArrow(fatal, frame.schema) if name == "vectors" else frame, name)


spark = make_session(
    "local-cluster[2,1,1024]",
    memory="1g",
    ui=False,
    settings={
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.adaptive.enabled": "false",
        "spark.driver.extraJavaOptions": quick,
        "spark.executor.extraJavaOptions": quick,
    },
)
job = Dangerous(spark, trace, out, length)
job.make_profiles()
plan = plan_parts(job, outline_network(job, job.make_network().brokers), PlanOptions(), Constraints())
(out / "plan.json").write_bytes(to_json(plan))
spark.stop()
'''


def test_a_killed_executor_does_not_lose_the_job(
    run: ScenarioRun, done: Job, tmp_path: Path
) -> None:
    script, out = tmp_path / "driver.py", tmp_path / "out"
    script.write_text(DRIVER)
    out.mkdir()
    command = [sys.executable, str(script), str(run.trace), str(out), str(LENGTH), QUICK_JAVA]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert "CoarseGrainedExecutorBackend" in (out / "killed").read_text()
    assert "Lost executor" in ended.stderr
    for name in TABLES:
        one, other = (
            sorted(map(str, ds.dataset(where / name).to_table().to_pylist()))
            for where in (done.out, out)
        )
        assert one == other, name
    there = outline_network(done, done.make_network().brokers)
    plan = plan_parts(done, there, PlanOptions(), Constraints())
    assert from_json((out / "plan.json").read_bytes()) == plan
