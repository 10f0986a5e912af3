"""What a pattern was made from, it finds: the line that the script prints gives the number back."""

from __future__ import annotations

import ast
import re

from hypothesis import given
from hypothesis import strategies as st

from overnight.contracts.loop import MetricSpec, RegexSource
from overnight.sessions.sources.code import script_of

words = st.lists(
    st.text(alphabet="abcdefgLoss_valéß", min_size=1, max_size=8), min_size=1, max_size=3
)
around = st.sampled_from(["", "step {i}: ", "[epoch 3] ", "a=1, ", "| ", "\t", "("])
between = st.sampled_from([": ", ":", " ", "=", " = ", " : ", ":   "])
behind = st.sampled_from(["", ",", " ", "ms", "%", ")", " nats", ", lr: {i}", "; done", " |"])
numbers = st.floats(allow_nan=False, allow_infinity=False, width=32)


@given(words, around, between, behind, numbers)
def test_the_pattern_finds_the_number_in_the_line_that_it_was_read_from(
    label: list[str], before: str, sep: str, after: str, number: float
) -> None:
    text = f"{before}{' '.join(label)}{sep}{{x}}{after}"
    (call,) = (n for n in ast.walk(ast.parse(f"print(f{text!r})")) if isinstance(n, ast.Call))
    line = eval(compile(ast.Expression(call.args[0]), "line", "eval"), {"x": number, "i": 7})
    script = script_of("train.py", f"print(f{text!r})\n")

    for printed in script.printed:
        MetricSpec(name=printed.name)  # a name that loads
        if printed.regex is not None:
            RegexSource(regex=printed.regex)
    named = [one for one in script.printed if one.regex and one.name not in ("step", "lr")]
    for one in named[:1]:
        assert one.regex is not None
        found = re.search(one.regex, line)
        assert found is not None, (one.regex, line)
        assert float(found[1]) == number, (one.regex, line)
