"""What the parsers are fed: noise, nearly valid texts, and what has broken parsers elsewhere."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

DEEP = 100_000
#: Each stands for a kind: not finite, out of range, too many digits, deep, doubled, not text, ...
NASTY_VALUES = (
    "NaN", "Infinity", "-Infinity", "1e999", "-1e999", "1" * 5000, "-" + "9" * 4301, "0x1f", "1_0",
    "٣", "٣.١", "[" * DEEP, '{"a":' * DEEP,  # noqa: RUF001
    '"\\ud800"', '"\\u0000"', '"\\u202e\\u001b[2J"',
    '"' + "x" * 70_000 + '"', '{"k":1,"k":2}', "\ufeff{}", "null", "true", "-0", "1e-999", "[]",
    "{}", '""', "1.", ".5", "+1", "'a'", "{a:1}", "[1,]", "/**/1", '{"__proto__":{}}', "\x00",
    '"\x1b]52;c;aGk=\x07"', '{"\\u001b[31m\\nkey":1}', f'{{"{"k" * 5000}":1}}',
)  # fmt: skip
NASTY = (
    b"", b"\n", b"\r\n", b"\0" * 64, b"\xff\xfe\x00", b"\xef\xbb\xbf", b"\xc3", b"\xed\xa0\x80",
    b"a: &a [x]\nb: [*a, *a]\n", b"a: !!python/object/apply:os.system ['true']\n", b"<<: *x\n",
    b"? [a, b]\n: 1\n", b"a: 1\na: 2\n", b"--- 1\n--- 2\n", b"%YAML 9.9\n---\na: 1\n", b"- " * 5000,
    b"{" * 5000, b"a: 0o777\nb: 1:30\nc: 2001-01-01\n", b"a: |\n\tx\n", b"\x1b[2J", b"\x9b31m",
    b"x" * 200_000, b"val_bpb: " + b"9" * 5000, b"val_bpb: nan\n---\nval_bpb: 1\r", b"../../etc",
    b"val_bpb: 1_0\n", "val_bpb: ٣\n".encode(), b"a\tb\tc\td", b"100644 blob x\ty", b"%2e%2e/x",
    *(value.encode("utf-8", "surrogatepass") for value in NASTY_VALUES),
)  # fmt: skip


def json_like() -> st.SearchStrategy[Any]:
    """Values of the right outer shape with anything inside."""
    leaves = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20)
    return st.recursive(
        leaves,
        lambda inner: (
            st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
        ),
        max_leaves=12,
    )


@st.composite
def mutated(draw: st.DrawFn, seeds: tuple[bytes, ...]) -> bytes:
    """A valid text with a few places cut, doubled, replaced or overwritten."""
    data = draw(st.sampled_from(seeds))
    for _ in range(draw(st.integers(0, 3))):
        start = draw(st.integers(0, len(data)))
        end = min(len(data), start + draw(st.sampled_from([0, 1, 1, 2, 7, 40])))
        patch = draw(
            st.binary(max_size=4)
            | st.sampled_from(
                [b"", data[start:end] * 2, b"null", b"-1", b"1e999", b'"', b"\n", b","]
            )
            | st.sampled_from(NASTY)
        )
        data = data[:start] + patch + data[end:]
    return data


@st.composite
def fields_changed(draw: st.DrawFn, seeds: tuple[bytes, ...]) -> bytes:
    """A valid JSON object with one field, at any depth, replaced, added or taken away."""
    lines = draw(st.sampled_from(seeds)).rstrip(b"\n").split(b"\n")
    number = draw(st.integers(0, len(lines) - 1))
    where = value = json.loads(lines[number])
    while isinstance(where, dict) and where:
        key = draw(st.sampled_from(sorted(where)))
        if isinstance(where[key], dict) and where[key] and draw(st.booleans()):
            where = where[key]
            continue
        match draw(st.sampled_from(["set", "drop", "add"])):
            case "set":
                where[key] = draw(json_like())
            case "drop":
                del where[key]
            case _:
                where[draw(st.text(max_size=10))] = draw(json_like())
        break
    lines[number] = json.dumps(value).encode("utf-8", "surrogatepass")
    return b"\n".join([*lines, b""]) if len(lines) > 1 else lines[0]


def anything(seeds: tuple[bytes, ...]) -> st.SearchStrategy[bytes]:
    """All of it."""
    kinds = [st.binary(max_size=200), st.sampled_from(NASTY), mutated((*seeds, b""))]
    objects = tuple(seed for seed in seeds if seed.lstrip().startswith(b"{"))
    if objects:
        kinds.append(fields_changed(objects))
    return st.one_of(kinds)
