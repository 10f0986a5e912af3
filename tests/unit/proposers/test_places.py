"""Which members of classes, calls, dicts and options are constants, and which are set elsewhere."""

from __future__ import annotations

import pytest

from overnight.contracts.errors import ProposerError
from overnight.proposers.constants import Value, parse
from overnight.proposers.places import Form
from overnight.proposers.space import Knob, build_space

CONFIG = "@dataclass\nclass Config:\n    lr: float = 1e-3\n"
ARGS = "p.add_argument('--lr', default=1e-3)\n"


def members(text: str) -> list[str]:
    found = parse("a.py", text).constants
    return [constant.name for constant in found if constant.form is not Form.NAME]


def tuned(text: str) -> dict[str, Knob]:
    try:
        return {knob.name: knob for knob in build_space({"a.py": parse("a.py", text)}, {}).knobs}
    except ProposerError:
        return {}


@pytest.mark.parametrize(
    ("text", "name", "value", "new", "changed"),
    [
        (CONFIG, "Config.lr", 1e-3, 3e-3, CONFIG.replace("1e-3", "3e-3")),
        ("class A:\n    LR = 1  # x\n", "A.LR", 1, 2, "class A:\n    LR = 2  # x\n"),
        ("c = Config(lr=1e-3, b = 2)\n", "c.lr", 1e-3, 2e-3, "c = Config(lr=2e-3, b = 2)\n"),
        ("c = dict(\n  lr=( 0.1 ),\n)\n", "c.lr", 0.1, 0.2, "c = dict(\n  lr=( 0.2 ),\n)\n"),
        ("run(Adam(p, lr=0.1))\n", "Adam.lr", 0.1, 0.2, "run(Adam(p, lr=0.2))\n"),
        ("CONFIG = {'lr': -0.1}\n", "CONFIG.lr", -0.1, -0.2, "CONFIG = {'lr': -0.2}\n"),
        ("def f():\n    " + ARGS, "--lr", 1e-3, 2e-3, "def f():\n    " + ARGS.replace("1e", "2e")),
        ("BETAS = (0.9, 0.9)\n", "BETAS[1]", 0.9, 0.8, "BETAS = (0.9, 0.8)\n"),
        ("def main(lr): pass\nif 1:\n    main(lr=0.1)\n", "main.lr", 0.1, 0.2,
         "def main(lr): pass\nif 1:\n    main(lr=0.2)\n"),
    ],
)  # fmt: skip
def test_a_member_is_found_and_its_literal_alone_is_changed(
    text: str, name: str, value: Value, new: Value, changed: str
) -> None:
    source = parse("a.py", text)

    assert {c.name: c.value for c in source.constants}[name] == value
    assert source.rewrite({name: new}) == changed


@pytest.mark.parametrize(
    "text",
    [
        CONFIG + "c = Config(lr=lr_for(3))\n",  # every object gets another one
        CONFIG + "def f():\n    return Config(0.1)\n",
        CONFIG + "c = Config(**loaded)\n",
        CONFIG + "    def __post_init__(self):\n        self.lr = 2\n",
        CONFIG + "config.lr *= 2\n",
        "class Colour(Enum):\n    lr = 1\n",
        "class EvalConfig:\n    lr = 1\n",
        "class A:\n    lr = B\n",
        "c = Config(lr=1e-3)\nc.lr = 2\n",
        "e = [Config(lr=1), Config(lr=2)]\n",
        "c = Config(lr=B)\n",
        "def f():\n    return Config(lr=1e-3)\n",
        "print(lr=1e-3)\n",
        "from x import train\ntrain(lr=1e-3)\n",
        "evaluator = Evaluator(lr=8)\n",
        "CONFIG = {'lr': 1e-3}\nCONFIG['lr'] = 3\n",
        "TABLE = {'lr': 1e-3}\n",
        "CONFIG = {'lr': 1e-3, **x}\nCONFIG = 3\n",
        ARGS + "args = p.parse_args()\nargs.lr = args.lr * world\n",
        ARGS + "q.add_argument('--lr', default=1)\n",
        "p.add_argument('--lr', type=float)\n",
        "p.add_argument('data', default=3)\n",
    ],
)
def test_what_is_set_again_computed_or_anothers_is_left_alone(text: str) -> None:
    assert members(text) == []


def test_a_rate_that_a_loop_hands_on_is_still_a_constant() -> None:
    text = "CONFIG = {'lr': 0.1}\nfor g in groups:\n    g['lr'] = CONFIG['lr'] * 0.5\n"

    assert members(text) == ["CONFIG.lr"]


def test_closed_sets_come_from_types_options_and_comparisons_of_members() -> None:
    text = (
        'Act = Literal["gelu", "relu"]\n'
        'NORM: Literal["rms", "layer"] = "rms"\n'
        "@dataclass\nclass Config:\n"
        '    act: Act = "gelu"\n    heads: Literal[2, 4] = 2\n    mode: str = "a"\n'
        'p.add_argument("--pool", default="max", choices=["max", "mean"])\n'
        'CONFIG = {"decay": "cosine"}\nif CONFIG["decay"] == "linear": pass\n'
        'def f(c): return c.mode in ("a", "b")\n'
    )
    found = tuned(text)

    assert {name: knob.values for name, knob in found.items()} == {
        "NORM": ("rms", "layer"), "Config.act": ("gelu", "relu"), "Config.heads": (2, 4),
        "Config.mode": ("a", "b"), "--pool": ("max", "mean"), "CONFIG.decay": ("linear", "cosine"),
    }  # fmt: skip


def test_what_only_a_configuration_would_name_is_tuned_there_alone() -> None:
    text = "{} = {}(bins=3, early=True, top=5, depth=4)\n"
    anybody, config = tuned(text.format("m", "Model")), tuned(text.format("config", "Model"))

    assert set(anybody) == {"m.bins", "m.depth"}
    assert set(config) == {"config.bins", "config.depth", "config.early", "config.top"}


@pytest.mark.parametrize(
    "line",
    ["p.add_argument('--seed', default=3)", "p.add_argument('--epochs', default=3)",
     "p.add_argument('--log-every', default=3)", "c = Config(eval_batch=3, num_workers=2)",
     "class Config:\n    vocab_size: int = 50304\n    out_dir: str = 'x'",
     "c = Config(lr=1e-3)  # a\nc.lr = 2"],
)  # fmt: skip
def test_seeds_measurement_and_budget_are_left_alone_there_too(line: str) -> None:
    assert tuned(f"{line}\n") == {}
