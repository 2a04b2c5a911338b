"""The command line: finds the command, turns errors into one line and an exit code."""

from __future__ import annotations

import importlib
import os
import sys
from typing import NoReturn

import click

from treeproof import __version__
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
"""Per command its module in `cli/commands/`, and its name there if it is another."""


class Commands(click.Group):
    """Commands that are imported when they are asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """The commands, the first to try first."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """The command of this name."""
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
    """Runs a command; exits with 0, 1 (a --fail-under was missed), 2 (bad input) or 130 (Ctrl-C)."""
    try:
        sys.exit(program.main(arguments, prog_name="treeproof", standalone_mode=False))
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message())
        sys.exit(2)
    except click.ClickException as error:
        _stop(error.format_message())
    except (InvalidInput, UnsupportedModel, SoundnessError) as error:
        _stop(str(error))
    except (KeyboardInterrupt, click.Abort):
        click.echo("interrupted", err=True)
        sys.exit(130)
    except BrokenPipeError:
        # Whoever read our output has seen enough; nothing must be written to it at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)


IN_OPTIONS = {
    "pass allow_pickle=True": "say --allow-pickle",
    "allow_pickle=True": "--allow-pickle",
    "; None means no limit": "",
    ", or None for no limit": "",
    ", -1 for all, or None": ", or -1 for all",
    "n_jobs": "--jobs",
    "max_seconds": "--max-seconds",
    "max_boxes": "--max-boxes",
    "n_estimators": "--trees",
    "max_depth": "--depth",
    "for L0 use Attacker.l0": "for L0 use --l0",
    "use treeproof.verify, which takes it, or an attacker with intervals": "use treeproof verify, or --delta",
}
"""What the library's messages call things, and what they are called here."""


def _stop(message: str) -> NoReturn:
    for name, option in IN_OPTIONS.items():
        message = message.replace(name, option)
    click.echo(f"treeproof: {' '.join(message.split())}", err=True)
    sys.exit(2)
