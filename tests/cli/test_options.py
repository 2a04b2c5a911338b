"""Records of options: each field is an option, and a command gets whole records."""

from __future__ import annotations

from dataclasses import dataclass

import click
import pytest
from click.testing import CliRunner

from treeproof.cli.options import argument, option, takes


@dataclass(frozen=True)
class Fruit:
    name: str = argument()
    how_many: int = option(type=int, default=1)
    colour: str | None = option("--paint")


@dataclass(frozen=True)
class Basket:
    how_many: int = option(type=int, default=1)
    full: bool = option(is_flag=True)


@click.command()
@takes(Fruit, Basket)
@click.option("--note")
def pack(fruit: Fruit, basket: Basket, note: str | None) -> None:
    click.echo(f"{fruit} {basket} {note}")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (["pear"], (Fruit("pear", 1, None), Basket(1, False), None)),
        (["fig", "--how-many", "3", "--paint", "red"], (Fruit("fig", 3, "red"), Basket(3, False), None)),
        (["fig", "--note", "ripe", "--full"], (Fruit("fig", 1, None), Basket(1, True), "ripe")),
    ],
)
def test_a_command_gets_a_record_of_each_kind(given: list[str], expected: tuple[Fruit, Basket, str | None]) -> None:
    assert CliRunner().invoke(pack, given).output == "{} {} {}\n".format(*expected)


def test_options_stand_in_the_order_of_records_and_common_ones_once() -> None:
    assert [each.name for each in pack.params] == ["name", "how_many", "colour", "full", "note"]
