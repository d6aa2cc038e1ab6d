"""No text about an object holds an address in memory: functions of the user have names, and texts do not change."""

from __future__ import annotations

import numpy as np
import pytest

import cbq
import hostile
from cbq import kernels, measures
from cbq.common.checks import named, shown
from cbq.voi import studies


def trial(row, n, rng):
    return row["a"] + rng.standard_normal(n).mean()


class Callable:
    def __call__(self, x, theta=None):
        return x[:, 0]


def draws():
    a, b = np.random.default_rng(0).standard_normal((2, 60))
    return {"inputs": {"a": a, "b": b}, "outputs": {"u": 0 * a, "v": a + 0.3 * b}}


WITH_FUNCTIONS = {
    "Warped": lambda: kernels.Warped(kernels.RBF(1.0), lambda x: x),
    "Warped by an object": lambda: kernels.Warped(kernels.RBF(1.0), Callable()),
    "Unnormalised": lambda: measures.Unnormalised(lambda x: -x[..., 0], np.negative, dim=1),
    "Custom": lambda: studies.Custom(trial),
    "Trial": lambda: studies.Trial([trial, studies.Normal(2.0)]),
    "Problem": lambda: cbq.Problem(Callable(), lambda t: measures.Gaussian(t, 1.0), measures.Uniform(0, 1)),
    "CBQ": lambda: cbq.CBQ(kernel_x=kernels.Warped(kernels.RBF(1.0), lambda x: x)),
    "ConditionalMeasure": lambda: hostile.samples().conditional,
    "AdaptiveAnswer": lambda: hostile.problem().solve(budget=16, rng=0),
    "EvsiTable by a function": lambda: cbq.evsi(**draws(), pars="a", study=trial, sizes=[5, 20]),
}


@pytest.mark.filterwarnings("ignore::cbq.FitWarning")  # of fits to hardly any samples
@pytest.mark.parametrize("make", (every := {**hostile.SUBJECTS, **WITH_FUNCTIONS}).values(), ids=every)
def test_no_text_about_an_object_holds_an_address(make, tmp_path):
    subject = make()
    texts = [repr(subject), str(subject)]
    texts += [getattr(subject, name)() for name in ("_repr_html_", "summary") if hasattr(subject, name)]
    if hasattr(subject, "report"):
        subject.report(tmp_path / "report.html")
        texts.append((tmp_path / "report.html").read_text(encoding="utf-8"))
    assert not [text for text in texts if " at 0x" in text]


def test_functions_have_names():
    assert named(trial) == "test_addresses.trial"
    assert named(Callable()) == "test_addresses.Callable"
    assert repr(studies.Custom(trial)) == "Custom(simulate=test_addresses.trial, vectorised=False, arms=1)"
    assert shown([trial]) == "[<function trial>]"
