"""Real broker processes for tests: started on any free port, waited for without sleeping, always cleaned up.

A process says through a pipe where it listens; one that dies instead closes the pipe, and the test fails with its log.
Every process carries a mark in its environment by which whatever a test leaves behind is found.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from runnel.network.processes import write_toml

MARK = "RUNNEL_TEST_RUN"
READY_WITHIN_S = 30.0
ENDS_WITHIN_S = 30.0
RUNNEL = str(Path(sys.executable).with_name("runnel"))
BEAT_S = 0.2
# For links that a test breaks: soon dialled again, and kept for long.
QUICK = {"heartbeat_s": BEAT_S, "resume_timeout_s": 20.0}
# For links whose end a test waits for. A busy machine must not be taken for a dead peer: three beats of silence are.
SOON = {"heartbeat_s": 1.0, "resume_timeout_s": 0.5}


class RunningProgram:
    """A program that said something when it was ready (`said`), and its log, line by line as it comes."""

    def __init__(self, popen: subprocess.Popen[bytes], log_path: Path) -> None:
        self.popen = popen
        self.said = ""
        self._log_path = log_path
        self._lines: list[str] = []
        self._more = threading.Condition()
        self._reader = threading.Thread(target=self._read, name="log", daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.popen.stdout is not None
        with self.popen.stdout as stream, open(self._log_path, "wb") as file:
            for line in stream:
                file.write(line)
                with self._more:
                    self._lines.append(line.decode().rstrip("\n"))
                    self._more.notify_all()

    def log(self) -> str:
        """All of it so far; of a program that has ended, all."""
        if self.popen.poll() is not None:
            self._reader.join(ENDS_WITHIN_S)
        with self._more:
            return "\n".join(self._lines)

    def wait_log(self, text: str) -> None:
        """Until a line has this."""
        with self._more:
            if not self._more.wait_for(lambda: text in "\n".join(self._lines), READY_WITHIN_S):
                raise AssertionError(f"{text!r} did not appear in:\n" + "\n".join(self._lines))

    def wait_count(self, text: str, count: int) -> None:
        """Until so many lines have this."""
        with self._more:
            if not self._more.wait_for(
                lambda: sum(text in line for line in self._lines) >= count, READY_WITHIN_S
            ):
                raise AssertionError(f"{text!r} {count} times in:\n" + "\n".join(self._lines))

    def wait_admin(self) -> str:
        """The address of a broker's admin listener, from its log."""
        self.wait_log(" admin=runnel://")
        return f"runnel://{self.log().partition(' admin=runnel://')[2].split()[0]}"

    @property
    def pid(self) -> int:
        return self.popen.pid

    def signal(self, number: signal.Signals) -> None:
        self.popen.send_signal(number)

    def kill(self) -> None:
        """kill -9, and wait until it is gone."""
        self.popen.kill()
        self.popen.wait(ENDS_WITHIN_S)

    def wait(self) -> int:
        """The exit code, once it ends by itself."""
        return self.popen.wait(ENDS_WITHIN_S)

    def stop(self) -> int:
        """SIGTERM; the exit code."""
        self.popen.terminate()
        return self.wait()

    def memory_bytes(self, which: str = "VmRSS") -> int:
        """What the process occupies now (VmRSS), or did at most (VmHWM)."""
        for line in Path(f"/proc/{self.pid}/status").read_text(encoding="ascii").splitlines():
            if line.startswith(f"{which}:"):
                return int(line.split()[1]) * 1024
        raise AssertionError(f"no {which} in /proc/{self.pid}/status")


class RunningPrograms:
    """Starts programs, and ends all of them."""

    def __init__(self, folder: Path, mark: str) -> None:
        self.folder = folder
        self._mark = mark
        self._started: list[RunningProgram] = []

    def start(self, arguments: list[str], name: str, **environment: str) -> RunningProgram:
        """Run a program that takes --ready-fd N and writes a line there when it is ready."""
        reader, writer = os.pipe()
        popen = subprocess.Popen(
            [*arguments, "--ready-fd", str(writer)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            pass_fds=(writer,),
            env={**os.environ, **environment, MARK: self._mark},
        )
        os.close(writer)
        process = RunningProgram(popen, self.folder / f"{name}-{len(self._started)}.log")
        self._started.append(process)
        with os.fdopen(reader, encoding="utf-8") as pipe:
            ready, _, _ = select.select([pipe], [], [], READY_WITHIN_S)
            process.said = pipe.readline().strip() if ready else ""
        if not process.said:
            code = popen.poll()
            raise AssertionError(f"{name} did not get ready (exit code {code}):\n{process.log()}")
        return process

    def broker(
        self,
        name: str,
        neighbours: Mapping[str, object] | None = None,
        listen: str = "127.0.0.1:0",
        linked: bool = True,
        **tables: Any,
    ) -> RunningProgram:
        """Start a broker; `said` is its address. `linked`: with those that it dials.

        It takes in any other broker, unless it is told otherwise: most tests are not about that.
        `tables` are keys and tables of its configuration.
        """
        path = self.folder / f"{name}.toml"
        dialled = {peer: str(address) for peer, address in (neighbours or {}).items()}
        config = {"name": name, "listen": listen, "accept": ["*"], "neighbours": dialled, **tables}
        path.write_text(write_toml(config), encoding="utf-8")
        process = self.start([RUNNEL, "broker", "--config", str(path)], name)
        for peer in dialled if linked else ():
            process.wait_log(f"link-up peer={peer}")
        return process

    def program(self, module: str, *arguments: str, name: str) -> RunningProgram:
        """Start a module that lies beside the tests."""
        command = [sys.executable, "-m", module, *arguments]
        return self.start(command, name, PYTHONPATH=os.pathsep.join(filter(None, sys.path)))

    def end_all(self) -> None:
        """Nothing is left behind: not even what is stopped."""
        for process in self._started:
            if process.popen.poll() is None:
                process.popen.kill()
            process.popen.wait(ENDS_WITHIN_S)
            process.log()  # its reader ends with it


def marked(mark: str) -> list[int]:
    """The processes that carry a mark, zombies aside."""
    wanted = f"{MARK}={mark}".encode()
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and int(folder.name) != os.getpid():
            try:
                if wanted in (folder / "environ").read_bytes().split(b"\0"):
                    found.append(int(folder.name))
            except OSError:  # it ended meanwhile, or is somebody else's
                continue
    return found
