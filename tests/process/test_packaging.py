"""What is handed to others: wheel and sdist, service and container; each is tried as far as its tools are here."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from process.processes import RUNNEL, RunningPrograms
from runnel.node.config import load_config
from runnel.version import __version__

ROOT = Path(__file__).parents[2]
PACKAGING = ROOT / "packaging"
SERVICE = PACKAGING / "runnel-broker.service"


def run(*command: str | Path, within_s: float = 600, **kwargs: object) -> str:
    """What a command prints; it must end well."""
    done = subprocess.run(
        [str(word) for word in command],
        capture_output=True,
        text=True,
        timeout=within_s,
        check=False,
        **kwargs,  # type: ignore[call-overload]
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return str(done.stdout + done.stderr)


# -- wheel and sdist ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `make dist` builds, from a copy, so that the checkout's own build is not disturbed."""
    folder = tmp_path_factory.mktemp("dist")
    probe = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
    wanted = ["setuptools>=77", "cython>=3.1,<4"]
    if subprocess.run([*probe, "-d", folder / "probe", *wanted], check=False).returncode:
        pytest.skip("what builds a wheel cannot be had: no package index answers")
    copy = folder / "copy"
    for name in ("LICENSE", "MANIFEST.in", "README.md", "pyproject.toml", "setup.py"):
        copy.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, copy)
    for name in ("native", "src", "packaging"):
        ignored = shutil.ignore_patterns("*.so", "*.egg-info", "__pycache__")
        shutil.copytree(ROOT / name, copy / name, ignore=ignored)
    run(sys.executable, "-m", "build", "--outdir", folder / "out", copy)
    return folder / "out"


@pytest.fixture(scope="module")
def installed(dist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of a fresh environment with the wheel; what it depends on is that of this one."""
    folder = tmp_path_factory.mktemp("fresh")
    run(sys.executable, "-m", "venv", folder)
    (wheel,) = dist.glob("*.whl")
    run(folder / "bin" / "pip", "install", "--quiet", "--no-deps", "--no-index", wheel)
    (packages,) = (folder / "lib").glob("python*/site-packages")
    # A folder that is named in a .pth comes last, and its own .pth files, such as that of this checkout, do not count.
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    return folder / "bin"


@pytest.mark.slow
def test_the_sdist_has_what_a_build_needs_and_nothing_of_this_machine(dist: Path) -> None:
    (sdist,) = dist.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"native/engine.hpp", "packaging/Containerfile", "src/runnel/py.typed"} <= names
    assert not [name for name in names if name.endswith((".so", ".pyc"))]


@pytest.mark.slow
def test_a_broker_runs_from_the_wheel(
    installed: Path, processes: RunningPrograms, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYTHONPATH", raising=False)  # which would lead to the checkout
    assert f"runnel {__version__}, compiled engine" in run(installed / "runnel", "--version")
    where = run(installed / "python", "-c", "import runnel; print(runnel.__file__)", cwd="/")
    assert Path(where.strip()).is_relative_to(installed.parent)
    command = [str(installed / "runnel"), "broker", "--name", "B1", "--listen", "127.0.0.1:0"]
    broker = processes.start(command, "B1")
    assert '"name": "B1"' in run(installed / "runnel", "status", broker.said, "--json")
    assert broker.stop() == 0


# -- the service --------------------------------------------------------------------------------------


def settings() -> dict[str, str]:
    """What the service's unit says, key by key."""
    return dict(re.findall(r"^(\w+)=(.*)$", SERVICE.read_text(encoding="utf-8"), re.MULTILINE))


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="there is no systemd-analyze")
def test_systemd_takes_the_unit_and_finds_it_well_enclosed(tmp_path: Path) -> None:
    unit = tmp_path / SERVICE.name
    text = SERVICE.read_text(encoding="utf-8")
    unit.write_text(text.replace("/opt/runnel/bin/runnel", RUNNEL))  # which must be there
    said = run("systemd-analyze", "verify", unit)
    assert SERVICE.name not in said, said
    run("systemd-analyze", "security", "--offline=yes", "--threshold=20", unit)


def test_the_service_has_a_user_of_its_own_and_time_to_drain() -> None:
    config, unit = load_config(PACKAGING / "broker.toml"), settings()
    assert unit["User"] == "runnel" and unit["DynamicUser"] == "yes"
    assert float(unit["TimeoutStopSec"]) > config.drain_s + 10
    assert config.state.startswith(f"/var/lib/{unit['StateDirectory']}/")
    assert unit["ExecStart"].endswith("runnel broker --config /etc/runnel/broker.toml")


def test_a_broker_runs_with_the_configuration_of_the_service(
    processes: RunningPrograms, tmp_path: Path
) -> None:
    text = (PACKAGING / "broker.toml").read_text(encoding="utf-8")
    text = re.sub(r":7[01]01\"", ':0"', text).replace("/var/lib/runnel", str(tmp_path))
    (tmp_path / "broker.toml").write_text(text)
    broker = processes.start([RUNNEL, "broker", "--config", str(tmp_path / "broker.toml")], "B1")
    broker.wait_log(" admin=runnel://127.0.0.1:")
    assert broker.stop() == 0


def test_a_broker_needs_no_rights_but_a_directory_for_its_state(
    processes: RunningPrograms,
) -> None:
    """As the service and the container run it: another user, without capabilities, who owns nothing else."""
    nobody = ["--reuid=65534", "--regid=65534", "--clear-groups"]
    as_nobody = ["setpriv", *nobody, "--no-new-privs", "--bounding-set=-all", RUNNEL]
    if os.geteuid() or not shutil.which("setpriv"):
        pytest.skip("only root may run a program as somebody else, with setpriv")
    if subprocess.run([*as_nobody, "--version"], capture_output=True, check=False).returncode:
        pytest.skip("another user cannot run what is installed here")
    with TemporaryDirectory() as name:
        folder, state = Path(name), Path(name) / "state"
        folder.chmod(0o755)
        state.mkdir(mode=0o700)
        os.chown(state, 65534, 65534)
        text = (PACKAGING / "broker.toml").read_text(encoding="utf-8")
        text = re.sub(r":7[01]01\"", ':0"', text).replace("/var/lib/runnel", str(state))
        (folder / "broker.toml").write_text(text)
        broker = processes.start([*as_nobody, "broker", "--config", f"{folder}/broker.toml"], "B1")
        process = Path(f"/proc/{broker.pid}/status").read_text(encoding="ascii")
        assert re.search(r"^Uid:\s+65534\s+65534", process, re.MULTILINE)
        assert re.search(r"^CapEff:\s+0+$", process, re.MULTILINE)
        assert '"name": "B1"' in run(RUNNEL, "status", broker.said, "--json")
        assert broker.stop() == 0


# -- the container ------------------------------------------------------------------------------------


def test_the_container_copies_what_is_there_and_ends_as_its_own_user() -> None:
    lines = (PACKAGING / "Containerfile").read_text(encoding="utf-8").splitlines()
    copied = [line.split()[1:-1] for line in lines if re.match(r"COPY (?!--from)", line)]
    assert copied
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    for path in (path for paths in copied for path in paths):
        assert (ROOT / path).exists()
        assert f"!{path.split('/')[0]}" in ignored
    assert [line for line in lines if line.startswith("USER ")] == ["USER runnel"]


def container_engine() -> str | None:
    """A program that can build and run containers here."""
    for engine in ("podman", "docker"):
        if shutil.which(engine):
            done = subprocess.run([engine, "info"], capture_output=True, check=False)
            if done.returncode == 0:
                return engine
    return None


@pytest.mark.slow
def test_a_broker_runs_in_a_container() -> None:
    engine = container_engine()
    if engine is None:
        pytest.skip("no container engine runs here")
    image, name = f"runnel-test-{os.getpid()}", f"runnel-broker-{os.getpid()}"
    run(engine, "build", "-f", PACKAGING / "Containerfile", "-t", image, ROOT, within_s=1_800)
    try:
        run(engine, "run", "--detach", "--name", name, image)
        assert run(engine, "exec", name, "id", "-un").strip() == "runnel"
        wait = "until runnel status --json | grep B1; do :; done"
        run(engine, "exec", name, "sh", "-c", wait, within_s=60)
        run(engine, "stop", "--time", "30", name)
        code = run(engine, "inspect", "--format", "{{.State.ExitCode}}", name)
        assert code.strip() == "0"
    finally:
        subprocess.run([engine, "rm", "--force", name], capture_output=True, check=False)
        subprocess.run([engine, "rmi", "--force", image], capture_output=True, check=False)
