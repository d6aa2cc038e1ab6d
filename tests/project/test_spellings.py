"""Parameters of measures are typed right the first time: what could be read in two ways has two names."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import numpy as np
import pytest
from scipy import stats

from cbq.measures import Exponential, Gamma, Gaussian, LogNormal, Normal, StudentT, TruncatedGaussian
from refusals import refusals

BATCH = np.arange(6.0).reshape(2, 3, 1) * np.ones(2)


@pytest.mark.parametrize("kind", [Gaussian, LogNormal])
@pytest.mark.parametrize(
    ("mean", "std", "cov"),
    [
        (0.3, 2.0, [[4.0]]),
        ([0.3, 1.0], 2.0, [[4.0, 0.0], [0.0, 4.0]]),
        ([0.3, 1.0], [2.0, 3.0], [[4.0, 0.0], [0.0, 9.0]]),
        (BATCH[0, :2], BATCH[0, :2] + 1, [[[1.0, 0.0], [0.0, 1.0]], [[4.0, 0.0], [0.0, 4.0]]]),  # two in two dimensions
        (BATCH, BATCH[0] + 1, ((BATCH[0] + 1) ** 2)[..., None] * np.eye(2) * np.ones((2, 1, 1, 1))),
    ],
    ids=["scalar", "shared", "diagonal", "square batch", "nested batch"],
)
def test_std_is_the_root_of_a_diagonal_cov(kind, mean, std, cov):
    assert kind(mean, std=std).equals(kind(mean, cov=cov))


def test_std_of_a_normal_is_that_of_its_draws():
    assert Normal is Gaussian
    assert Normal(1.0, std=0.2).logpdf(1.3) == pytest.approx(stats.norm(1.0, 0.2).logpdf(1.3), rel=1e-14)
    assert LogNormal(1.0, std=0.2).logpdf(1.3) == pytest.approx(stats.lognorm(0.2, scale=np.e).logpdf(1.3), rel=1e-13)


@pytest.mark.parametrize("kind", [Gaussian, LogNormal])
@pytest.mark.parametrize(
    ("bare", "said"),
    [
        (0.25, "cov=0.25.*std=0.5.*std=0.25"),
        ([0.25, 4.0], r"cov=\[0.25, 4\].*std=\[0.5, 2\]"),
        (np.full((3, 2), 2.0), r"cov=c.*std=numpy.sqrt\(c\)"),
        ([1.0, 2.0], "std="),
    ],
    ids=["scalar", "vector", "batch", "partly one"],
)
def test_a_bare_number_that_may_be_a_std_is_deprecated_at_the_line_of_the_call(kind, bare, said):
    with pytest.warns(DeprecationWarning, match=rf"{kind.__name__}\(mean, .*{said}") as caught:
        found = kind([0.0, 0.0], bare)
    assert caught[0].filename == __file__
    assert found.equals(kind([0.0, 0.0], cov=bare))


@pytest.mark.parametrize("bare", [1, [1.0, 1.0], [[2.0, 0.5], [0.5, 3.0]], np.eye(2)[None] * 2])
def test_a_bare_matrix_or_one_can_mean_one_thing_only(bare):
    Gaussian([0.0, 0.0], bare)  # warnings are errors


def test_a_script_shows_the_deprecation(tmp_path):
    script = tmp_path / "mine.py"
    script.write_text("from cbq.measures import Gaussian\n\nGaussian(0.0, 0.25)\n")
    said = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True).stderr
    assert "mine.py:3: DeprecationWarning: Gaussian(mean, 0.25)" in said
    assert "Gaussian(0.0, 0.25)" in textwrap.dedent(said)


def test_scale_is_the_inverse_of_the_rate():
    assert Gamma([2.0, 3.0], scale=4.0).equals(Gamma([2.0, 3.0], 0.25))
    assert Exponential(scale=[2.0, 4.0]).equals(Exponential([0.5, 0.25]))
    assert Gamma(2.0, scale=3.0).logpdf(1.3) == pytest.approx(stats.gamma(2.0, scale=3.0).logpdf(1.3), rel=1e-14)


def test_parameters_that_are_left_out_have_the_usual_values():
    assert StudentT(3.0).equals(StudentT(3.0, 0.0, 1.0))
    assert TruncatedGaussian(1.0, 2.0, upper=0.5).equals(TruncatedGaussian(1.0, 2.0, -np.inf, 0.5))


WRONG = {
    "none": (lambda: Gaussian(0.0), r"takes one of cov and std, but it was given none: write Gaussian\(mean, std"),
    "both": (lambda: LogNormal(0.0, cov=1.0, std=1.0), "it was given cov and std"),
    "bare and std": (lambda: Gaussian(0.0, 1.0, std=1.0), "given std and positional argument 2"),
    "three": (lambda: Gaussian(0.0, 1.0, 1.0), "given positional argument 2 and positional argument 3"),
    "no rate": (lambda: Gamma(2.0), "neither of them arrived"),
    "rate and scale": (lambda: Exponential(1.0, scale=1.0), "both arrived"),
}


test_one_spread_is_needed = refusals(WRONG, TypeError)


@pytest.mark.parametrize(
    ("std", "said"), [([1.0, 2.0, 3.0], r"std has shape \(3,\)"), (-1.0, "positive"), (np.eye(2), "positive")]
)
def test_a_std_is_positive_and_one_for_each_coordinate(std, said):
    with pytest.raises(ValueError, match=said):
        Gaussian([0.0, 0.0], std=std)
