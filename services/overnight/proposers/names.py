"""What a constant's name says of it: its kind, whether it may be tuned, how promising it is.

Only names are judged here; values and ranges are `space`'s.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from overnight.contracts.tunable import parts


class Kind(StrEnum):
    """What a constant is for, as its name tells."""

    LR = "lr"  #: a step size
    DECAY = "decay"  #: weight decay
    EPSILON = "epsilon"  #: a tiny positive number
    FRACTION = "fraction"  #: a share or probability in [0, 1]
    BETA = "beta"  #: a smoothing factor in [0, 1), interesting near 1
    CLIP = "clip"  #: a norm or value that is cut off
    BATCH = "batch"  #: examples or tokens a step
    ACCUMULATION = "accumulation"  #: micro-steps a step
    DEPTH = "depth"  #: layers
    HEADS = "heads"  #: parts that a width is divided into
    WIDTH = "width"  #: size of a layer
    LENGTH = "length"  #: context or sequence length
    SIZE = "size"  #: trees, leaves, components, experts: how much a model holds
    SPAN = "span"  #: steps of a schedule
    SWITCH = "switch"  #: on or off
    CHOICE = "choice"  #: one of a closed set
    OTHER = "other"


@dataclass(frozen=True)
class Lore:
    """What is known of a kind before anything was tried."""

    promise: float  #: how early it is tried; only the order counts
    first: int  #: direction of the first step: +1 or -1
    up: str  #: why more may help
    down: str  #: why less may help


LORE: dict[Kind, Lore] = {
    Kind.LR: Lore(
        100,
        +1,
        "a larger step size may learn more within the budget",
        "a smaller step size may be steadier",
    ),
    Kind.DEPTH: Lore(
        90,
        -1,
        "more layers may fit what fewer can't",
        "fewer layers run more steps within the budget",
    ),
    Kind.CHOICE: Lore(
        75,
        +1,
        "another way of doing it may suit this budget",
        "another way of doing it may suit this budget",
    ),
    Kind.BATCH: Lore(
        70,
        -1,
        "larger batches give steadier gradients",
        "smaller batches give more updates within the budget",
    ),
    Kind.SWITCH: Lore(
        65, +1, "switching it on may be worth its cost", "without it there may be more steps"
    ),
    Kind.WIDTH: Lore(
        60,
        +1,
        "a wider layer may fit what a narrow one can't",
        "a narrower layer runs more steps within the budget",
    ),
    Kind.SIZE: Lore(
        55,
        +1,
        "a larger model may fit what a small one can't",
        "a smaller model is faster and may generalise better",
    ),
    Kind.FRACTION: Lore(
        50, +1, "a larger share may suit a short run", "a smaller share may suit a short run"
    ),
    Kind.DECAY: Lore(
        40, +1, "more decay may generalise better", "less decay may fit more within the budget"
    ),
    Kind.BETA: Lore(
        35,
        -1,
        "a longer memory may smooth the noise",
        "a shorter memory adapts faster in a short run",
    ),
    Kind.SPAN: Lore(
        33, -1, "a longer phase may be steadier", "a shorter phase leaves more of the budget"
    ),
    Kind.LENGTH: Lore(
        30, -1, "a longer context tells more a step", "a shorter context runs more steps"
    ),
    Kind.ACCUMULATION: Lore(
        30, -1, "more micro-steps give steadier gradients", "fewer micro-steps give more updates"
    ),
    Kind.HEADS: Lore(25, -1, "more heads can look at more things", "fewer heads are wider each"),
    Kind.CLIP: Lore(20, +1, "cutting off less may learn more", "cutting off more may be steadier"),
    Kind.OTHER: Lore(15, +1, "more of it may help", "less of it may help"),
    Kind.EPSILON: Lore(
        5, -1, "a larger floor may be steadier", "a smaller floor leaves the update as it is"
    ),
}


_LAST_WORD = {
    **dict.fromkeys(
        ("FRAC", "FRACTION", "RATIO", "PROB", "PROBABILITY", "DROPOUT", "SMOOTHING"), Kind.FRACTION
    ),
    **dict.fromkeys(("WARMUP", "WARMDOWN", "COOLDOWN"), Kind.FRACTION),
    **dict.fromkeys(("STEPS", "ITERS", "ITERATIONS"), Kind.SPAN),
}
_ANY_WORD: tuple[tuple[frozenset[str], Kind], ...] = (
    (frozenset({"DROPOUT"}), Kind.FRACTION),
    (frozenset({"LR", "ETA"}), Kind.LR),
    (frozenset({"WD"}), Kind.DECAY),
    (frozenset({"EPS", "EPSILON"}), Kind.EPSILON),
    (frozenset({"BETA", "BETAS", "MOMENTUM", "EMA"}), Kind.BETA),
    (frozenset({"ACCUM", "ACCUMULATION"}), Kind.ACCUMULATION),
    (frozenset({"BATCH", "BATCHSIZE", "BS", "MICROBATCH"}), Kind.BATCH),
    (frozenset({"CLIP", "CLIPPING"}), Kind.CLIP),
    (frozenset({"WIDTH", "DIM", "DIMS", "HIDDEN", "EMBD", "EMBED", "UNITS"}), Kind.WIDTH),
    (frozenset({"DEPTH", "LAYERS", "LAYER", "BLOCKS"}), Kind.DEPTH),
    (
        frozenset(
            {
                "ESTIMATORS",
                "TREES",
                "LEAF",
                "LEAVES",
                "COMPONENTS",
                "NEIGHBORS",
                "NEIGHBOURS",
                "CLUSTERS",
                "BINS",
                "EXPERTS",
                "NODES",
            }
        ),
        Kind.SIZE,
    ),
    (frozenset({"REG", "REGULARIZATION", "LAMBDA", "PENALTY"}), Kind.DECAY),
    (frozenset({"HEADS", "HEAD"}), Kind.HEADS),
    (frozenset({"SEQ", "CONTEXT", "CTX", "LENGTH", "SEQLEN"}), Kind.LENGTH),
)


def kind_of(name: str) -> Kind:
    """The kind of a number by its name alone."""
    words = parts(name)
    present = frozenset(words)
    if words[-1] in _LAST_WORD:
        return _LAST_WORD[words[-1]]
    if {"LEARNING", "RATE"} <= present or words[-2:] == ("STEP", "SIZE"):
        return Kind.LR
    if {"WEIGHT", "DECAY"} <= present:
        return Kind.DECAY
    if words[-2:] == ("BLOCK", "SIZE"):
        return Kind.LENGTH
    for known, kind in _ANY_WORD:
        if known & present:
            return kind
    return Kind.OTHER
