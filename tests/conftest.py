"""What all tests share: how they are spread over processes, and that Ctrl-C and a hang-up mean the same everywhere."""

import signal

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

from support import effort  # noqa: F401 - it brings the profiles of Hypothesis


def pytest_configure() -> None:
    """Programs that are started inherit signals that are ignored, as these are for jobs in the background."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What is slow begins first, so that all processes are busy to the end."""
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)


class OneSpark(LoadScopeScheduling):  # type: ignore[misc]  # it comes without types
    """Tests go one by one to whichever process is free; those of the pipeline all to one, which has the Spark session.

    A session takes its time, and so do the traces and profiles that its tests share. (Marks of groups would be the
    usual way; pytest-xdist 3.8 writes them where pytest 9.2 does not read them.)
    """

    def _split_scope(self, nodeid: str) -> str:
        return "pipeline" if nodeid.startswith("tests/pipeline/") else nodeid


@pytest.hookimpl(optionalhook=True)  # one may run without xdist
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> OneSpark:
    return OneSpark(config, log)
