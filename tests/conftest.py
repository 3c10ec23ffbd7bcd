"""What all tests share: Ctrl-C and a hang-up mean the same wherever they run."""

import signal


def pytest_configure() -> None:
    """Programs that are started inherit signals that are ignored, as these are for jobs in the background."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
