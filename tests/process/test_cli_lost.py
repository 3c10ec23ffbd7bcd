"""What the commands say when a broker is not there: never was, is gone, or comes back. B1 – B2, each by itself."""

from __future__ import annotations

import re
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest

from process.commands import RunningCommand, Shell


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    with Shell(tmp_path) as one:
        yield one


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def broker(shell: Shell, name: str, port: int, *more: str) -> RunningCommand:
    config = shell.folder / f"{name}.toml"
    config.write_text(
        f'name = "{name}"\nlisten = "127.0.0.1:{port}"\n'
        "[link]\nheartbeat_s = 0.1\nresume_timeout_s = 0.3\n"
    )
    return shell.start("broker", "--config", str(config), *more).until("listening")


def test_sub_and_advertise_say_that_the_broker_is_lost_and_back(shell: Shell) -> None:
    port = free_port()
    at = f"127.0.0.1:{port}"
    first = broker(shell, "B1", port)
    sub = shell.start("sub", "a = 1", "-b", at, "--count", "1").until("ready at B1")
    held = shell.start("advertise", "a = 1", "-b", at).until("is advertised")
    first.end(signal.SIGKILL)
    for one in (sub, held):
        one.until(f"lost B1 (runnel://{at}), trying again")
    second = broker(shell, "B1", port)
    sub.until(f"back at B1 (runnel://{at}); events may be missing")
    held.until(f"back at B1 (runnel://{at}); advertised again")
    shell.run("pub", "a=1", "-b", at)
    assert sub.end() == 0
    assert held.end(signal.SIGINT) == second.end(signal.SIGTERM) == 0


def test_a_client_whose_name_is_taken_ends_and_says_why(shell: Shell) -> None:
    port = free_port()
    at = f"127.0.0.1:{port}"
    one = broker(shell, "B1", port)
    sub = shell.start("sub", "a = 1", "-b", at, "--name", "me").until("ready")
    held = shell.start("advertise", "a = 1", "-b", at, "--name", "me").until("is advertised")
    assert sub.end() == 1 and "another client called me" in sub.said
    other = shell.start("sub", "a = 1", "-b", at, "--name", "me").until("ready")
    assert held.end() == 1 and "another client called me" in held.said
    assert other.end(signal.SIGINT) == one.end(signal.SIGTERM) == 0


def test_sub_with_a_timeout_says_that_nobody_was_there(shell: Shell) -> None:
    told = shell.run("sub", "TRUE", "--timeout", "0.5", "-b", f"127.0.0.1:{free_port()}", code=1)
    assert "no broker could be reached within 0.5 s" in told and "Connection refused" in told


def test_pub_says_what_it_waits_for(shell: Shell) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # takes the connection, says nothing
        at = f"127.0.0.1:{silent.getsockname()[1]}"
        told = shell.run("pub", "a=1", "-b", at, code=1)
        assert told.startswith(f"waiting for a broker at runnel://{at}\n")
        assert "waiting" not in shell.run("pub", "a=1", "-b", at, "--quiet", code=1)


GREETINGS = {
    "ssh": (b"SSH-2.0-OpenSSH_9.2\r\n", "answers, but does not speak Runnel"),
    "http": (b"HTTP/1.1 400 Bad Request\r\n\r\n", "answers, but does not speak Runnel"),
    "silent": (b"", "it may be stopped or overloaded, or no Runnel broker"),
}


@pytest.mark.parametrize("kind", GREETINGS)
def test_status_names_a_server_that_is_no_broker(shell: Shell, kind: str) -> None:
    greeting, expected = GREETINGS[kind]
    with socket.create_server(("127.0.0.1", 0)) as server:

        def greet() -> None:
            connection, _ = server.accept()
            with connection:
                connection.sendall(greeting)
                connection.recv(1 << 16)
                while connection.recv(1 << 16):
                    pass

        thread = Thread(target=greet)
        thread.start()
        at = f"127.0.0.1:{server.getsockname()[1]}"
        assert f"{at} " in (told := shell.run("status", at, "--timeout", "1", code=1))
        assert expected in told
        thread.join()


def test_status_and_explain_say_who_does_not_answer(shell: Shell) -> None:
    ports = free_port(), free_port()
    at = f"127.0.0.1:{ports[0]}"
    one = broker(shell, "B1", ports[0])
    two = broker(shell, "B2", ports[1], "--neighbour", f"B1={at}").until("link-up peer=B1")
    one.until("link-up peer=B2")
    two.end(signal.SIGKILL)
    one.until("link-lost peer=B2")  # B1 has forgotten it, and yet knows that it was there
    table = shell.run("status", "-b", at, code=1)
    assert re.search("B2 +does not answer", table) and "what is behind it is unknown" in table
    told = shell.run("explain", "--event", "a=1", "--from", "B1", "--to", "x", "-b", at, code=2)
    assert "B2 does not answer; what is behind it is unknown" in told
    back = broker(shell, "B2", ports[1], "--neighbour", f"B1={at}").until("link-up peer=B1")
    shell.run("status", "-b", at)
    assert back.end(signal.SIGTERM) == one.end(signal.SIGTERM) == 0
