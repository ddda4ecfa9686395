# SPDX-License-Identifier: Apache-2.0
"""The `sinter` command."""
import signal
import sys


def main() -> int:
    from . import _core, _verbs
    words = sys.argv[1:]
    if _verbs.is_ours(words):
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        return _verbs.main(words)
    # As in a program that is not Python: Ctrl-C and a closed pipe end it, where a verb does not say otherwise.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    return _core.run_cli(["sinter", *words])


def run() -> None:
    """The console script: exit codes are the command line's."""
    sys.exit(main())
