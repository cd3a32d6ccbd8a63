"""Gates: what they say, when they fail, and what is said of those that cannot be read."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import proportio as pp
from proportio.commands.gates import Gate, parse


@pytest.mark.parametrize(
    ("text", "subject", "name", "operator", "limit"),
    [
        ("shift", "shift", None, ">", 0.0),
        ("  shift ", "shift", None, ">", 0.0),
        ("unknown > 0.05", "unknown", None, ">", 0.05),
        ("unknown>=5%", "unknown", None, ">=", 0.05),
        ("unknown < 1e-3", "unknown", None, "<", 0.001),
        ("share:fraud > 0.03", "share", "fraud", ">", 0.03),
        ("share:fraud<=.5", "share", "fraud", "<=", 0.5),
        ("share:-1 > 0", "share", "-1", ">", 0.0),
        ("share:'not fraud' < 1", "share", "not fraud", "<", 1.0),
        ('share:"a: \\"b\\" > c" > 0.5', "share", 'a: "b" > c', ">", 0.5),
        ("share:CD4+Tcm > 12.5 %", "share", "CD4+Tcm", ">", 0.125),
    ],
)
def test_a_gate_is_read(text: str, subject: str, name: str | None, operator: str, limit: float) -> None:
    gate = parse(text)
    assert (gate.subject, gate.name, gate.operator) == (subject, name, operator)
    assert gate.limit == pytest.approx(limit)


@pytest.mark.parametrize(
    ("text", "says", "place"),
    [
        ("", "'shift', 'unknown' or 'share:' expected at the end", 1),
        ("drift", "'shift', 'unknown' or 'share:' expected before 'drift'", 1),
        ("shift > 3", "the gate should end before '> 3'", 7),
        ("unknown", "one of <, <=, > and >= expected at the end", 8),
        ("unknown = 3", "one of <, <=, > and >= expected", 9),
        ("unknown > much", "a share expected before 'much'", 11),
        ("unknown > 5", "a share lies from 0 to 1", 11),
        ("unknown > 500%", "a share lies from 0 to 1", 11),
        ("unknown > 0.5.1", "the gate should end before '.1'", 14),
        ("unknown > -1", "a share expected before '-1'", 11),
        ("share > 0.5", "a colon and a class expected", 6),
        ("share: > 0.5", "a class expected", 7),
        ("share:not fraud > 0.5", "one of <, <=, > and >= expected before 'fraud > 0.5'", 11),
        ("share:'a > 0.5", "a class expected", 7),
    ],
)
def test_a_gate_that_does_not_parse_shows_the_place_and_the_grammar(text: str, says: str, place: int) -> None:
    with pytest.raises(pp.InputError) as caught:
        parse(text)
    message = str(caught.value)
    assert says in message and f"(character {place})" in message and "write shift, unknown > 0.05" in message


@given(
    st.text(alphabet=st.sampled_from("shiftunkowar:'\"\\<>=.0159e%- \n\té\ud800"), max_size=30) | st.text(max_size=40)
)
def test_any_text_is_a_gate_or_an_error_of_ours(text: str) -> None:
    try:
        gate = parse(text)
    except pp.ProportioError:
        return
    assert 0 <= gate.limit <= 1


@given(st.text(min_size=1, max_size=20))
def test_any_class_can_be_named_in_quotes(name: str) -> None:
    quoted = name.replace("\\", "\\\\").replace('"', '\\"')
    assert parse(f'share:"{quoted}" > 0.5').name == name


def estimate(low: float, point: float, high: float, verdict: str = "label shift explains this batch") -> Any:
    """An estimate of two classes whose unknown share and share of b are as given."""
    return SimpleNamespace(
        classes=np.array(["a", "b"]),
        proportions=np.array([1 - point, point]),
        unknown=point,
        interval=lambda level, of="proportions": (
            np.array([low, high]) if of == "unknown" else np.array([[0, 1], [low, high]])
        ),
        label_shift_test=lambda: SimpleNamespace(verdict=verdict, pvalue=0.01, effect_size=point, tolerance=0.1),
    )


@pytest.mark.parametrize("subject", ["unknown", "share:b"])
@pytest.mark.parametrize(
    ("gate", "limits", "failed", "strictly"),
    [
        ("> 0.1", (0.12, 0.2, 0.3), True, True),
        ("> 0.1", (0.08, 0.2, 0.3), False, True),  # the point is beyond, the data do not support it
        ("> 0.1", (0.1, 0.1, 0.3), False, False),
        (">= 0.1", (0.1, 0.1, 0.3), True, True),
        ("< 0.1", (0.01, 0.05, 0.09), True, True),
        ("< 0.1", (0.01, 0.05, 0.12), False, True),
        ("<= 0.1", (0.01, 0.05, 0.1), True, True),
    ],
)
def test_a_gate_fails_when_the_whole_interval_does(
    subject: str, gate: str, limits: tuple[float, float, float], failed: bool, strictly: bool
) -> None:
    est = estimate(*limits)
    assert parse(f"{subject} {gate}").decide(est).failed is failed
    assert parse(f"{subject} {gate}").decide(est, strict=True).failed is strictly


def test_the_shift_gate_follows_the_verdict_and_strictly_the_effect() -> None:
    gate = parse("shift")
    assert gate.decide(estimate(0, 0.2, 1, "something else is in it")).failed
    assert not gate.decide(estimate(0, 0.2, 1, "too little data to tell")).failed
    assert gate.decide(estimate(0, 0.2, 1, "too little data to tell"), strict=True).failed
    assert not gate.decide(estimate(0, 0.05, 1, "something else is in it"), strict=True).failed


def test_what_a_model_can_never_answer_is_refused() -> None:
    with pytest.raises(pp.InputError, match="'c' is not a class of the model, which knows a, b"):
        Gate("share:c > 0.5", "share", "c").check(["a", "b"], True)
    with pytest.raises(pp.InputError, match="this model is hard"):
        parse("unknown > 0.5").check(["a", "b"], False)
    parse("share:1 > 0.5").check([0, 1], False)  # integer classes go by their digits
