"""The command line: finds the command, and turns errors into one line and an exit code."""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from contextlib import suppress
from typing import NoReturn

import click

from treeproof import __version__
from treeproof.cli import screen
from treeproof.cli.stopping import LikeCtrlC
from treeproof.errors import InvalidInput, SoundnessError, UnsupportedModel
from treeproof.visible import shortened, visible

COMMANDS = {
    "demo": "demo",
    "verify": "verify",
    "explain": "explain",
    "inspect": "inspect",
    "suggest": "suggest",
    "map": "map:map_command",
    "guard": "guard",
    "train": "train",
    "check": "check",
    "proof": "proof",
    "reproduce": "reproduce",
}
"""The module of each command in `cli/commands/`, and its name there if that differs."""


class Commands(click.Group):
    """Commands that are imported on demand."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """The commands, in the order in which to try them."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """The command with this name."""
        if cmd_name not in COMMANDS:
            return None
        module, _, name = COMMANDS[cmd_name].partition(":")
        command: click.Command = getattr(importlib.import_module(f"treeproof.cli.commands.{module}"), name or cmd_name)
        return command


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="treeproof")
def program() -> None:
    """How secure is a tree-based classifier really? Exact answers, with evidence."""


def main(arguments: list[str] | None = None) -> NoReturn:
    """Runs a command; exits with 0, 1 (a --fail-under was missed), 2 (bad input), 3 (a SoundnessError) or 130 (Ctrl-C).

    After SIGTERM it is 143.
    """
    screen.begin()
    code = _run(arguments)
    missing = screen.lost()
    if missing:
        code = _refused(f"cannot write to standard output: {missing}")
    sys.exit(code)


def _run(arguments: list[str] | None) -> int:
    """Runs a command, says what went wrong, and returns the exit code."""
    stdout, stop = sys.stdout, LikeCtrlC()
    try:
        with stop:
            return int(program.main(arguments, prog_name="treeproof", standalone_mode=False) or 0)
    except SystemExit as ended:
        # If a pipe is closed, click wraps it and ends with 1; but whoever closed it has seen enough.
        return int(ended.code or 0) if sys.stdout is stdout else 0
    except click.exceptions.NoArgsIsHelpError as error:
        screen.put(error.format_message() + "\n")
        return 2
    except click.ClickException as error:
        return _refused(error.format_message())
    except InvalidInput as error:
        return _refused(_in_options(error))
    except SoundnessError as error:
        # Evidence of others that does not hold is bad input; not to believe what was found here is a bug.
        return _refused(str(error), 3 if error.report else 2)
    except UnsupportedModel as error:
        return _refused(str(error))
    except (KeyboardInterrupt, click.Abort):
        _complain("interrupted")
        return stop.exit_code
    except MemoryError as error:
        return _refused(f"there is not enough memory{f': {error}' if str(error) else ''}")
    except Exception as error:
        if isinstance(error.__cause__, KeyboardInterrupt):  # it came while Python made a class
            _complain("interrupted")
            return stop.exit_code
        if isinstance(error, OSError) and error.filename is None:  # click's own printing
            screen.lose(error)
            return 2
        if os.environ.get("TREEPROOF_TRACEBACK"):
            traceback.print_exc()
        return _refused(
            f"unexpected {type(error).__name__}: {error} (this is a bug; please report it, with what is printed if "
            "TREEPROOF_TRACEBACK=1 is set)"
        )


OPTIONS = {
    "allow_pickle": "--allow-pickle",
    "budget": "--budget",
    "chunk_rows": "--chunk-rows",
    "classes": "--classes",
    "max_boxes": "--max-boxes",
    "max_bytes": "--max-bytes",
    "max_depth": "--depth",
    "max_seconds": "--max-seconds",
    "n_estimators": "--trees",
    "n_jobs": "--jobs",
    "p": "--norm",
    "proof_limit": "--proof-limit",
    "sample": "--sample",
    "seed": "--seed",
    "timeout": "--timeout",
}
"""What the library's arguments are called here."""

WAYS_OUT = {
    "allow_pickle": "or use --allow-pickle if you trust the file",
    "attacker": "use treeproof verify, or --delta",
    "category": 'column=any (in a file ["column", [null, null]]) lets the attacker change it to any known value',
    "categories": "read it in Python with tp.load_model(path, categories=X_train) and give the file of tp.save_model",
    "confirm": "leave --confirm out",
    "decimal": "if it is one with a decimal comma, say so with --decimal ,",
    "drop": "name the label with --label and columns that are not features with --drop",
    "label": "name one of them with --label",
    "labels": "--classes renames them",
    "max_bytes": "raise --max-bytes if you trust the file",
    "near category": "column=any gives neighbours any value that the model knows, column=A,B the values A and B",
    "p": "for L0 use --l0",
    "resume": "--resume goes on from them",
    "separator": "say so with --separator, as in --separator ';' or --separator tab",
}
"""What to do instead, where that differs from Python."""


def _in_options(error: InvalidInput) -> str:
    """The library's message in terms of the command line."""
    if error.argument not in OPTIONS and error.argument not in WAYS_OUT:
        return str(error)
    return error.of(OPTIONS.get(error.argument, error.argument), WAYS_OUT.get(error.argument, ""))


def _refused(message: str, code: int = 2) -> int:
    _complain(f"treeproof: {shortened(visible(' '.join(message.split())), screen.MAX_CHARACTERS)}")
    return code


def _complain(line: str) -> None:
    with suppress(OSError):  # nobody listens there
        click.echo(line, err=True)
