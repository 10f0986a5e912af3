"""`overnight`: parse, call one use case, print. Errors are one line and an exit code."""

from __future__ import annotations

import errno
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from overnight.cli import output, places, services
from overnight.contracts.errors import OvernightError

INTERRUPTED = 130
_MORE_SPACE = ": make room, `overnight clean --dry-run` says what can go"


def main(argv: Sequence[str] | None = None) -> int:
    """Returns the exit code: 0 ok, 1 a result is bad, 2 usage or config, 3 infrastructure."""
    words = list(sys.argv[1:] if argv is None else argv)
    output.prepare()
    try:
        if words and words[0] in services.NAMES:
            return services.run(words[0], words[1:])
        return _call(words)
    except OvernightError as error:
        output.fail(places.as_called(places.as_meant(str(error), words, Path.cwd())))
        return error.exit_code
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        fix = _MORE_SPACE if error.errno in (errno.ENOSPC, errno.EDQUOT) else ""
        output.fail(f"{where}{error.strerror or error}{fix}")
        return OvernightError.exit_code
    except KeyboardInterrupt:
        output.fail("interrupted")
        return INTERRUPTED


def _call(words: list[str]) -> int:
    import typer

    from overnight.cli.app import build

    try:
        code: Any = typer.main.get_command(build()).main(
            words, prog_name="overnight", standalone_mode=False
        )
    except typer.Abort:
        output.fail("interrupted")
        return INTERRUPTED
    except _usage_errors() as error:
        message = error.format_message() if hasattr(error, "format_message") else str(error)
        if type(error).__name__ == "NoArgsIsHelpError":  # its message is the whole help
            sys.stderr.write(message + "\n")
            return 2
        context = getattr(error, "ctx", None)
        if not message:  # no arguments at all: the help is shown already
            return 2
        path = context.command_path if context is not None else "overnight"
        output.fail(f"{message} (see `{places.as_called(f'{path} --help')}`)")
        return 2
    return code if isinstance(code, int) else 0


def _usage_errors() -> type[Exception]:
    """The parser's base class: typer carries its parser inside or takes click, by version."""
    import typer

    for base in typer.BadParameter.__mro__:
        if base.__name__ == "ClickException":
            assert issubclass(base, Exception)
            return base
    return typer.BadParameter


if __name__ == "__main__":
    sys.exit(main())
