"""GMLake: a GPU memory allocator that stitches scattered free memory together.

  gmlake run -- COMMAND                what memory does it need? Also without a GPU
  gmlake compare -- COMMAND            and how much with PyTorch's allocators and with GMLake?
  gmlake replay TRACE                  how much memory does this run need, under which allocator?
  gmlake report TRACE -o report.html   where does the memory go? A page to look at
  gmlake plot TRACE -o picture.png     the same as pictures, one at a time
  gmlake workloads run paper           the paper's evaluation, from real model code
  gmlake convert SNAPSHOT -o TRACE     keep a PyTorch memory snapshot in a compact form
  gmlake fidelity SNAPSHOT             is replay true to your PyTorch's allocator?
  gmlake top                           the GMLake processes of this machine, live
  gmlake doctor                        what works on this machine, and what to do about the rest
  gmlake options                       every option of every allocator

`gmlake VERB --help` explains a verb, with examples.
"""

from __future__ import annotations

import argparse
import io
import os
import signal
import sys
from collections.abc import Iterable
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from gmlake.errors import Error, InvalidArgument, UserError
from gmlake.output import one_line

FAILURE, BAD_INPUT, INTERRUPTED = 1, 2, 130


class Parser(argparse.ArgumentParser):
    """Reports a mistake in one sentence, as the verbs themselves do."""

    def parse_known_args(self, args: Iterable[str] | None = None, namespace: Any = None) -> tuple[Any, list[str]]:
        """Refuse what is left over here: argparse would hand it on to the parser of all verbs, whose help lacks it."""
        found, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return found, unknown

    def error(self, message: str) -> NoReturn:
        """End with the status for bad input."""
        self.exit(_fail(f"{message}; see '{self.prog} --help'", BAD_INPUT))


def main(argv: list[str] | None = None) -> int:
    """Run one verb; returns the exit status."""
    _prepare_streams()
    try:
        _heed_interrupts()
        parser = _parser()
        args = parser.parse_args(argv)
        if args.run is None:
            parser.print_help(sys.stderr)
            return BAD_INPUT
        status = args.run(args)
        sys.stdout.flush()
        return int(status)
    except KeyboardInterrupt:
        print("gmlake: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read the output has gone; this keeps the interpreter's last flush from complaining about it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILURE
    except (UserError, InvalidArgument) as error:
        return _fail(error, BAD_INPUT)
    except Error as error:
        return _fail(error, FAILURE)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        return _fail(f"{where}{error.strerror or error}", FAILURE)
    except MemoryError:
        return _fail("this needs more memory than there is", FAILURE)


def _fail(error: Exception | str, status: int) -> int:
    print(f"gmlake: error: {one_line(str(error))}", file=sys.stderr)
    return status


def _heed_interrupts() -> None:
    """The first interrupt ends what is under way, in order; another, while that takes its time, the process at once.

    Raised again inside of what the first one set off, it would leave threads behind that abort with the interpreter.
    """

    def interrupt(number: int, frame: FrameType | None) -> NoReturn:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        raise KeyboardInterrupt

    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, interrupt)


def _prepare_streams() -> None:
    """Let no command end because of what it prints: what goes to a closed stream goes nowhere.

    In UTF-8 only names of files may not be encodable, and their very bytes are printed; elsewhere a question mark is.
    """
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="surrogateescape" if stream.encoding.lower() == "utf-8" else "replace")
        elif stream is None:
            setattr(sys, name, Path(os.devnull).open("w"))  # noqa: SIM115, open until the end


def _parser() -> argparse.ArgumentParser:
    # Here, because they take longest, and may be interrupted like all else.
    from gmlake import __version__
    from gmlake.commands import COMMANDS
    from gmlake.helptext import HelpFormatter

    parser = Parser(prog="gmlake", description=__doc__, formatter_class=HelpFormatter)
    parser.set_defaults(run=None)
    parser.add_argument("--version", action="version", version=f"gmlake {__version__}")
    verbs = parser.add_subparsers(metavar="VERB", parser_class=Parser, help="one of these")
    for command in COMMANDS:
        verb = verbs.add_parser(command.NAME, description=command.__doc__, formatter_class=HelpFormatter)
        command.add_arguments(verb)
        verb.set_defaults(run=command.run)
    return parser


if __name__ == "__main__":
    sys.exit(main())
