"""The `runnel` program as a user runs it: in a directory of its own, with nothing left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import uuid
from pathlib import Path
from types import TracebackType
from typing import Any

from process.processes import MARK, marked

PROGRAM = [sys.executable, "-m", "runnel"]
WITHIN_S = 60.0


class RunningCommand:
    """A command that runs; what it says on stderr is read line by line."""

    def __init__(self, popen: subprocess.Popen[str]) -> None:
        self.popen = popen
        self.said = ""
        self.out = ""
        # Both outputs are read all along, or the program would wait for its reader.
        self._changed = threading.Condition()
        self._readers = [
            threading.Thread(target=self._read, args=(stream, name), daemon=True)
            for stream, name in ((popen.stderr, "said"), (popen.stdout, "out"))
        ]
        for reader in self._readers:
            reader.start()

    def _read(self, stream: Any, name: str) -> None:
        for line in stream:
            with self._changed:
                setattr(self, name, getattr(self, name) + line)
                self._changed.notify_all()
        with self._changed:
            self._changed.notify_all()
        stream.close()

    def until(self, text: str) -> RunningCommand:
        """Wait until it has said something, on either output."""
        with self._changed:
            found = self._changed.wait_for(
                lambda: text in self.said + self.out or self.popen.poll() is not None, WITHIN_S
            )
            assert found and text in self.said + self.out, f"{text!r} in {self.said}{self.out}"
        return self

    def end(self, number: signal.Signals | None = None) -> int:
        """Wait for the end, after a signal if one is given; the exit code."""
        if number is not None:
            self.popen.send_signal(number)
        code = self.popen.wait(WITHIN_S)
        for reader in self._readers:
            reader.join(WITHIN_S)
        return code


class Shell:
    """A directory in which commands are run; in the end no process of theirs may be left."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._mark = uuid.uuid4().hex
        self._started: list[RunningCommand] = []
        self._env = {key: value for key, value in os.environ.items() if key != "RUNNEL_BROKER"}
        self._env[MARK] = self._mark

    def __enter__(self) -> Shell:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        for command in self._started:
            if command.popen.poll() is None:
                command.popen.kill()
            command.end()
        left = self.left()
        for pid in left:
            os.kill(pid, signal.SIGKILL)
        if error is None:
            assert left == [], "a process was left behind"

    def become(self, user: str, password_file: Path) -> None:
        """Let commands say from now on that they are this user."""
        self._env |= {"RUNNEL_USER": user, "RUNNEL_PASSWORD_FILE": str(password_file)}

    def left(self) -> list[int]:
        """The processes that are still there."""
        return marked(self._mark)

    def run(self, *arguments: str, code: int = 0, stdin: str = "") -> str:
        """Run a command to its end; what it prints. It must end with this exit code."""
        done = subprocess.run(
            [*PROGRAM, *arguments],
            cwd=self.folder,
            env=self._env,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=WITHIN_S,
        )
        assert done.returncode == code, f"{done.returncode}: {done.stdout}{done.stderr}"
        return done.stdout if code == 0 else done.stdout + done.stderr

    def json(self, *arguments: str, code: int = 0) -> Any:
        """Run a command that prints JSON."""
        return json.loads(self.run(*arguments, code=code))

    def start(self, *arguments: str) -> RunningCommand:
        """Run a command beside the test."""
        popen = subprocess.Popen(
            [*PROGRAM, *arguments],
            cwd=self.folder,
            env=self._env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        command = RunningCommand(popen)
        self._started.append(command)
        return command
