"""The command line: finds the command, and turns errors into one line and an exit code."""

from __future__ import annotations

import importlib
import os
import sys
from typing import NoReturn

import click

from treeproof import __version__
from treeproof.cli.stopping import LikeCtrlC
from treeproof.errors import InvalidInput, SoundnessError, UnsupportedModel

COMMANDS = {
    "demo": "demo",
    "verify": "verify",
    "inspect": "inspect",
    "map": "map:map_command",
    "guard": "guard",
    "train": "train",
    "check": "check",
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
    """Runs a command; exits with 0, 1 (a --fail-under was missed), 2 (bad input) or 130 (Ctrl-C; 143 after SIGTERM)."""
    stop = LikeCtrlC()
    try:
        with stop:
            sys.exit(program.main(arguments, prog_name="treeproof", standalone_mode=False))
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message())
        sys.exit(2)
    except click.ClickException as error:
        _stop(error.format_message())
    except InvalidInput as error:
        _stop(_in_options(error))
    except (UnsupportedModel, SoundnessError) as error:
        _stop(str(error))
    except (KeyboardInterrupt, click.Abort):
        click.echo("interrupted", err=True)
        sys.exit(stop.exit_code)
    except BrokenPipeError:
        # Whoever reads the output has seen enough; nothing more must be written to it at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)


OPTIONS = {
    "allow_pickle": "--allow-pickle",
    "budget": "--budget",
    "classes": "--classes",
    "max_boxes": "--max-boxes",
    "max_depth": "--depth",
    "max_seconds": "--max-seconds",
    "n_estimators": "--trees",
    "n_jobs": "--jobs",
    "p": "--norm",
    "timeout": "--timeout",
}
"""What the library's arguments are called here."""

WAYS_OUT = {
    "allow_pickle": "or use --allow-pickle if you trust the file",
    "attacker": "use treeproof verify, or --delta",
    "p": "for L0 use --l0",
}
"""What to do instead, where that differs from Python."""


def _in_options(error: InvalidInput) -> str:
    """The library's message in terms of the command line."""
    if error.argument not in OPTIONS and error.argument not in WAYS_OUT:
        return str(error)
    return error.of(OPTIONS.get(error.argument, error.argument), WAYS_OUT.get(error.argument, ""))


def _stop(message: str) -> NoReturn:
    click.echo(f"treeproof: {' '.join(message.split())}", err=True)
    sys.exit(2)
