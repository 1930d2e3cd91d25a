import signal


def pytest_configure() -> None:
    """A run that is told to end clears away what it has started, as it does after Ctrl-C."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
