"""What the name of a constant tells of whether it may be tuned. Pure words."""

from __future__ import annotations

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
