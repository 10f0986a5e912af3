"""What a constant's name says of it: its kind, whether it may be tuned, how promising it is.

Only names are judged here; values and ranges are `space`'s.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


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

#: A win by one of these would be luck, another measurement, another budget or another place.
_NEVER = frozenset(
    {
        "SEED",
        "SEEDS",
        "RNG",
        "DETERMINISTIC",
        "EVAL",
        "EVALUATION",
        "EVALUATOR",
        "VAL",
        "VALID",
        "VALIDATION",
        "TEST",
        "HOLDOUT",
        "FOLD",
        "FOLDS",
        "SPLITS",
        "CV",
        "BUDGET",
        "DEADLINE",
        "TIMEOUT",
        "SECONDS",
        "SECS",
        "MINUTES",
        "HOURS",
        "DEVICES",
        "CUDA",
        "GPU",
        "GPUS",
        "CPU",
        "WORKERS",
        "THREADS",
        "PORT",
        "HOST",
        "URL",
        "URI",
        "PATH",
        "DIR",
        "DIRECTORY",
        "FOLDER",
        "FILE",
        "FILENAME",
        "NAME",
        "PROJECT",
        "VERSION",
        "DEBUG",
        "VERBOSE",
        "LOG",
        "LOGGING",
        "LOGS",
        "PRINT",
        "PROFILE",
        "WANDB",
        "SAVE",
        "CKPT",
        "CHECKPOINT",
        "RESUME",
        "ID",
        "IDX",
        "INDEX",
        "TOKEN",
    }
)
_NEVER_LAST = frozenset({"DEVICE", "TIME", "EVERY", "INTERVAL"})
_NEVER_WHOLE = frozenset({"RANK", "LOCAL_RANK", "WORLD_SIZE", "RANDOM_STATE", "DEVICE_TYPE"})

#: Fixed by data or budget, unless a comment beside the constant gives its range.
_FIXED_BY_DATA = frozenset({"VOCAB", "CLASSES", "LABELS", "FEATURES", "EPOCHS", "EPOCH"})
_HOW_LONG = frozenset({"NUM", "MAX", "TOTAL", "N", "TRAIN", "TRAINING"})
_STEPS = frozenset({"STEPS", "ITERS", "ITERATIONS", "UPDATES", "STEP"})


def parts(name: str) -> tuple[str, ...]:
    """The words of a name in capitals, digits at their ends cut off: beta1 -> BETA."""
    words = (word.rstrip("0123456789") or word for word in name.upper().split("_") if word)
    return tuple(words)


def is_never_tuned(name: str) -> bool:
    """Is this a seed, a measurement, a budget, a place or a machine's matter?"""
    words = parts(name)
    return (
        not words
        or name.startswith("_")
        or any(word in _NEVER or "SEED" in word for word in words)
        or words[-1] in _NEVER_LAST
        or name.upper() in _NEVER_WHOLE
    )


def is_fixed_elsewhere(name: str) -> bool:
    """Does the data or the budget say it, so that only an explicit range makes it tunable?"""
    words = parts(name)
    long = words[-1] in _STEPS and set(words[:-1]) <= _HOW_LONG
    return long or any(word in _FIXED_BY_DATA for word in words)


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
