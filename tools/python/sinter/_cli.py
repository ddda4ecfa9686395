"""The `sinter` command."""
import signal
import sys


def main() -> int:
    from . import _core
    # As in a program that is not Python: Ctrl-C and a closed pipe end it, where a verb does not say otherwise.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    return _core.run_cli(["sinter", *sys.argv[1:]])


def run() -> None:
    """The console script: exit codes are the command line's."""
    sys.exit(main())
