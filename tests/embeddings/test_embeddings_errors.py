"""The errors of embeddings, what an embedding records about itself, and the registry."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate, stats
from scipy.special import erfcx, log_ndtr

import cbq
from cbq.embeddings import Embedding, NoEmbedding, Pair, available_pairs, embed, register
from cbq.kernels import RBF, Additive, Matern, ProductKernel, Stein, TensorProduct, Warped
from cbq.measures import (
    Beta,
    Binomial,
    Empirical,
    Exponential,
    Gamma,
    Gaussian,
    LogMeasure,
    LogNormal,
    Mixture,
    Product,
    ScipyDistribution,
    StudentT,
    TruncatedGaussian,
    Uniform,
    Unnormalised,
)
from refusals import refusals

K = RBF(1.0)
COV = [[1.0, 0.5], [0.5, 2.0]]
NORMAL = Gaussian(0, 1)
NORMAL_2 = Gaussian([0, 0], 1)
CORRELATED = Gaussian([0, 0], cov=COV)
MIXTURE = Mixture([0.4, 0.6], [Gaussian(-1, 1), Gaussian(1, cov=2)])

BAD_VALUES = {
    "method": (
        lambda: embed(K, NORMAL, "exact"),
        "method must be 'auto', 'closed-form', 'quadrature' or 'transport', but it is 'exact'",
    ),
    "method none": (lambda: embed(K, NORMAL, None), "but it is None"),
    "no lengthscale": (lambda: embed(RBF(), NORMAL).mean(0.0), "has no lengthscale yet: pass one"),
    "no lengthscale, panels": (lambda: embed(Matern(), Gamma(2, 1)).mean(1.0), "has no lengthscale yet: pass one"),
    "no lengthscale, mixture of scales": (lambda: embed(Matern(), NORMAL_2), "has no lengthscale yet: pass one"),
    "lengthscales": (
        lambda: embed(RBF([1.0, 2.0, 3.0]), NORMAL_2).mean(np.ones((4, 2))),
        "has 3 lengthscales, but the points have 2 coordinates: pass one number, or one lengthscale per coordinate",
    ),
    "lengthscales, variance": (
        lambda: embed(RBF([1.0, 2.0]), NORMAL).variance,
        "2 lengthscales, but the points have 1",
    ),
    "lengthscales, matern": (lambda: embed(Matern(1.5, [1.0, 2.0]), NORMAL).mean(0.0), "has 2 lengthscales"),
    "lengthscales, uniform": (lambda: embed(RBF([1.0, 2.0]), Uniform(0, 1)).mean(0.0), "has 2 lengthscales"),
    "lengthscales, transport": (
        lambda: embed(RBF([1.0, 2.0]), Gamma(2, 1), "transport").mean(1.0),
        "has 2 lengthscales, but the points have 1",
    ),
    "lengthscales, quadrature": (lambda: embed(RBF([1.0, 2.0]), NORMAL, "quadrature").mean(0.0), "has 2 lengthscales"),
    "coordinates": (
        lambda: embed(Additive([K, K]), Gaussian([0, 0, 0], 1)),
        "Additive has kernels for 2 coordinates, but the points have 3",
    ),
    "points": (
        lambda: embed(K, NORMAL_2).mean(np.ones((4, 3))),
        r"x has shape \(4, 3\), but points in 2 dimensions must have shape \(\.\.\., n, 2\)",
    ),
    "point": (lambda: embed(K, NORMAL_2).mean([1.0, 2.0]), r"write x\[None, :\] for a single point"),
    "nan": (lambda: embed(K, NORMAL).mean([0.0, np.nan]), "x must be finite, but 1 of its 2 values are NaN or inf"),
    "batch": (
        lambda: embed(K, Gaussian(np.zeros((3, 1)), 1)).mean(np.ones((2, 5, 1))),
        r"x \(2,\), measure \(3,\) do not fit together",
    ),
    "log of negative x": (
        lambda: embed(Warped(K, "log"), LogNormal(0, 1)).mean([1.0, -1.0]),
        "kernel on log x needs positive x, but the smallest is -1",
    ),
    "log of a normal": (
        lambda: embed(Warped(K, "log"), NORMAL),
        "must be of positive x, but the support .* begins at -inf",
    ),
    "gaussianise outside": (
        lambda: embed(K, Gamma(2, 1), "transport").mean([1.0, -1.0]),
        "points inside the support of their measure, but 1 coordinates lie on its boundary or outside",
    ),
    "cross dims": (lambda: embed(K, NORMAL).cross(NORMAL_2), "the measures have 1 and 2 dimensions: they must agree"),
    "cross batch": (
        lambda: embed(K, Gaussian(np.zeros((3, 1)), 1)).cross(Gaussian(np.zeros((2, 1)), 1)),
        r"cross: the batch shapes self \(3,\), other \(2,\) do not fit together",
    ),
    "registered": (
        lambda: register(RBF, Gaussian)(Embedding),
        r"\(RBF, Gaussian\) has an embedding already, RBFGaussian: derive a kernel type of your own and register",
    ),
}

BAD_TYPES = {
    "kernel": (lambda: embed("rbf", NORMAL), r"must be a cbq kernel such as cbq.kernels.RBF\(0.5\), but it is 'rbf'"),
    "kernel type": (lambda: embed(RBF, NORMAL), "kernel must be a cbq kernel"),
    "measure": (
        lambda: embed(K, "normal"),
        "a measure of cbq.measures or a scipy.stats distribution with its parameters is needed, but a str arrived",
    ),
    "swapped": (lambda: embed(NORMAL, K), r"kernel must be a cbq kernel .* but it is Gaussian\(mean=0"),
    "not frozen": (lambda: embed(K, stats.norm), r"norm has no parameters yet: freeze it .* scipy.stats.norm\(0, 1\)"),
    "cross": (lambda: embed(K, NORMAL).cross(3.0), "with its parameters is needed, but a float arrived"),
}

NO_CLOSED_FORM = {
    "slow quantiles": (
        lambda: embed(K, stats.exponnorm(1.5)),
        "no closed form for RBF under ScipyDistribution: .* pass method='transport' .* method='quadrature' .* register "
        "a rule",
    ),
    "slow quantiles, matern": (
        lambda: embed(Matern(1.5, 1.0), stats.exponnorm(1.5), "closed-form"),
        "'transport'.*'quadrature'",
    ),
    "slow quantiles in a sum": (
        lambda: embed(K + 2 * K, stats.exponnorm(1.5)),
        "no closed form for RBF under ScipyDistribution",
    ),
    "slow quantiles in a mixture": (lambda: embed(K, Mixture([1.0], [stats.exponnorm(1.5)])), "no closed form for RBF"),
    "unnormalised": (lambda: embed(K, Unnormalised(np.sum, dim=1)), "no closed form for RBF under Unnormalised"),
    "stein, uniform": (
        lambda: embed(Stein(K), Uniform(0, 1)),
        "does not integrate to zero under Uniform.* does not vanish at the ends .* Warped.base, 'gaussianise'",
    ),
    "stein, exponential": (
        lambda: embed(Stein(K), Exponential(1)),
        r"zero under Exponential.* use coordinates without ends, Warped\(Stein\(base\), 'log'\) for positive x",
    ),
    "stein, gamma": (lambda: embed(Stein(K), Gamma(0.8, 1)), "zero under Gamma.* does not vanish at the ends"),
    "stein, gamma batch": (lambda: embed(Stein(K), Gamma([3.0, 0.8], 1)), "does not vanish at the ends"),
    "stein, beta": (lambda: embed(Stein(K), Beta(2, 1)), "zero under Beta"),
    "stein, truncated": (lambda: embed(Stein(K), TruncatedGaussian(0, 1, -np.inf, 2)), "zero under TruncatedGaussian"),
    "stein, product": (lambda: embed(Stein(K), Product([NORMAL, Exponential(1)])), "does not vanish at the ends"),
    "stein, mixture": (lambda: embed(Stein(K), Mixture([0.5, 0.5], [NORMAL, Uniform(0, 1)])), "does not vanish"),
    "stein, atoms": (lambda: embed(Stein(K), Empirical([0.0, 1.0])), "needs a score, and Empirical.* is discrete"),
    "stein, other measure": (
        lambda: embed(Stein(K).bind(NORMAL), StudentT(3, 0, 1)),
        "bound to Gaussian.* under that measure only, not under StudentT.*: pass an unbound Stein kernel",
    ),
    "stein, cross": (
        lambda: embed(Stein(K), NORMAL).cross(StudentT(3, 0, 1)),
        "that measure only, not under StudentT",
    ),
    "tensor product, correlated": (
        lambda: embed(TensorProduct(Matern(1.5, 1.0)), CORRELATED),
        r"not independent\. Put the kernel on independent coordinates, Warped\(kernel, 'whiten'\) for a Gaussian",
    ),
    "tensor product, lognormal": (
        lambda: embed(TensorProduct(Matern(1.5, 1.0)), LogNormal([0, 0], cov=COV)),
        "'gaussianise'.* for any measure",
    ),
    "quadrature in four": (
        lambda: embed(K, Gaussian(np.zeros(4), 1), "quadrature"),
        r"quadrature works in up to 3 dimensions, but Gaussian\(mean=.*has 4: use a kernel with a closed form",
    ),
    "quadrature over atoms": (lambda: embed(K, Empirical([0.0, 1.0]), "quadrature"), "smooth transport, not Empirical"),
    "quadrature, unnormalised": (lambda: embed(K, Unnormalised(np.sum, dim=1), "quadrature"), "not Unnormalised"),
    "correlated lognormal": (
        lambda: embed(K, LogNormal([0, 0], cov=COV)),
        r"coordinates of a correlated LogNormal: put the kernel on log x, Warped\(kernel, 'log'\)",
    ),
    "correlated lognormal, matern": (
        lambda: embed(Matern(0.5, 1.0), LogNormal([0, 0], cov=COV)),
        "put the kernel on log x",
    ),
    "log of a plane": (
        lambda: embed(Warped(K, "log"), CORRELATED),
        "the measure of log x is not known for Gaussian.*Use method='quadrature'",
    ),
    "function": (
        lambda: embed(Warped(K, np.sin), NORMAL),
        "measure of x warped by sin is known for Empirical measures only, not Gaussian.*method='quadrature'",
    ),
    "two materns": (
        lambda: embed(Matern(1.5, 1.0) * Matern(0.5, 1.0), CORRELATED),
        "may hold one radial kernel .* use TensorProduct kernels, or method='quadrature'",
    ),
    "gaussianised cross": (
        lambda: embed(Warped(K, "gaussianise"), Gamma(3, 2)).cross(Exponential(2)),
        "gaussianised under Gamma.* has no known measure if x follows Exponential.*method='quadrature'",
    ),
    "transport cross": (
        lambda: embed(K, Gamma(3, 2), "transport").cross(embed(K, Beta(2, 2), "transport")),
        "gaussianised under Gamma.* if x follows Beta",
    ),
    "cross, plane": (
        lambda: embed(K, CORRELATED).cross(Uniform([0, 0], [1, 1])),
        "its coordinates are not independent",
    ),
    "cross, blocks": (
        lambda: embed(TensorProduct(Matern(1.5, 1.0)), NORMAL_2).cross(CORRELATED),
        "do not split into the same independent blocks; use a kernel that has one",
    ),
}

test_bad_values_are_refused_with_the_reason = refusals(BAD_VALUES, ValueError)
test_bad_types_are_refused_with_the_reason = refusals(BAD_TYPES, TypeError)
test_pairs_without_a_closed_form_say_what_to_do = refusals(NO_CLOSED_FORM, NoEmbedding)


def test_the_original_exception_is_kept():
    with pytest.raises(NoEmbedding) as caught:
        embed(Warped(K, np.sin), NORMAL)
    assert isinstance(caught.value.__cause__, TypeError)


# what the errors recommend


RECOMMENDED = {
    "whiten": (Warped(TensorProduct(Matern(1.5, 1.0)), "whiten"), CORRELATED, "auto"),
    "log": (Warped(K, "log"), LogNormal([0, 0], cov=COV), "auto"),
    "gaussianise": (Warped(TensorProduct(Matern(1.5, 1.0)), "gaussianise"), LogNormal([0, 0], cov=COV), "auto"),
    "transport": (K, stats.laplace(), "transport"),
    "quadrature": (K, stats.laplace(), "quadrature"),
    "function by quadrature": (Warped(K, np.sin), NORMAL, "quadrature"),
}


@pytest.mark.parametrize(("kernel", "measure", "method"), RECOMMENDED.values(), ids=RECOMMENDED)
def test_what_the_errors_recommend_works(kernel, measure, method):
    e = embed(kernel, measure, method)
    x = e.measure.transport(np.full((1, e.measure.dim), 0.4))
    assert 0 < e.mean(x)[0] < 1
    if method != "quadrature":
        assert 0 < e.variance < 1


# what an embedding records about itself


CLOSED = {
    "rbf-gaussian": (K, CORRELATED),
    "matern-gaussian": (Matern(1.5, 1.0), NORMAL),
    "matern-plane": (Matern(1.5, 1.0), CORRELATED),
    "uniform": (Matern(2.5, 1.0), Uniform(0, 1)),
    "exponential": (K, Exponential(1)),
    "panels": (K, Gamma(2, 1)),
    "mixture": (K, MIXTURE),
    "atoms": (K, Empirical([0.0, 1.0])),
    "sum": (K + Matern(0.5, 1.0), NORMAL),
    "scaled": (2 * K, NORMAL),
    "product": (K * Matern(0.5, 1.0), NORMAL),
    "tensor": (TensorProduct(Matern(0.5, 1.0)), NORMAL_2),
    "additive": (Additive(Matern(0.5, 1.0)), CORRELATED),
    "stein": (Stein(K), CORRELATED),
    "whiten": (Warped(K, "whiten"), Uniform(0, 1)),
    "log": (Warped(K, "log"), LogNormal(0, 1)),
    "gaussianise": (Warped(K, "gaussianise"), Beta(2, 2)),
}


@pytest.mark.parametrize("method", ["auto", "closed-form"])
@pytest.mark.parametrize(("kernel", "measure"), CLOSED.values(), ids=CLOSED)
def test_a_closed_form_is_recorded_as_the_method(kernel, measure, method):
    e = embed(kernel, measure, method)
    assert e.method == "closed-form"
    assert isinstance(e.rule, str)
    assert e.rule
    assert e.measure is measure
    assert not e.kernel.needs_measure
    assert type(e.kernel) is type(kernel)
    assert "method='closed-form'" in repr(e)


@pytest.mark.parametrize("measure", [NORMAL, Gamma(2, 1), stats.laplace(), CORRELATED], ids=lambda m: type(m).__name__)
def test_quadrature_and_transport_are_recorded_as_the_method(measure):
    quadrature, transport = embed(K, measure, "quadrature"), embed(K, measure, "transport")
    assert quadrature.method == "quadrature"
    assert "adaptive quadrature" in quadrature.rule
    assert quadrature.kernel is K
    assert transport.method == "transport"
    assert transport.rule.startswith("gaussianise")
    assert isinstance(transport.kernel, Warped)
    assert not transport.kernel.needs_measure
    z = transport.measure.dim
    assert transport.variance == pytest.approx(3 ** (-z / 2), rel=1e-14)  # of a standard normal


USES_PANELS = {
    "gamma": (Matern(1.5, 0.5), Gamma(2, 1), True),
    "lognormal": (K, LogNormal(0, 1), True),
    "log of gamma": (Warped(K, "log"), Gamma(2, 1), True),
    "whitened": (Warped(K, "whiten"), Gamma(2, 1), True),
    "tensor product": (TensorProduct(K), Gamma(2, 1), True),
    "product of kernels": (K * Matern(0.5, 1.0), NORMAL, True),
    "single block": (K, Product([Gamma(2, 1)]), True),
    "gaussian": (K, NORMAL, False),
    "uniform": (Matern(1.5, 0.5), Uniform(0, 1), False),
    "log of lognormal": (Warped(K, "log"), LogNormal(0, 1), False),
    "gaussianised": (Warped(K, "gaussianise"), Gamma(2, 1), False),
    "sum": (K + K, Gamma(2, 1), False),
    "mixture": (K, Mixture([1.0], [Gamma(2, 1)]), False),
}


@pytest.mark.parametrize(("kernel", "measure", "expected"), USES_PANELS.values(), ids=USES_PANELS)
def test_an_embedding_knows_whether_it_is_a_panel_rule(kernel, measure, expected):
    assert embed(kernel, measure).uses_panels is expected


IS_FAST = {
    **{name: (*pair, not panels) for name, (*pair, panels) in USES_PANELS.items() if name not in ("sum", "mixture")},
    "sum": (K + K, NORMAL, True),
    "sum over panels": (K + K, Gamma(2, 1), False),
    "mixture": (K, Mixture([1.0], [NORMAL]), False),
    "draws": (K, Empirical([0.0, 1.0]), False),
    "atoms": (K, Binomial(3, 0.5), True),
    "independent": (TensorProduct(K), Product([NORMAL, Uniform(0, 1)]), True),
    "one panel rule": (TensorProduct(K), Product([NORMAL, Gamma(2, 1)]), False),
}


@pytest.mark.parametrize(("kernel", "measure", "expected"), IS_FAST.values(), ids=IS_FAST)
def test_an_embedding_is_fast_unless_it_needs_panels_or_long_sums(kernel, measure, expected):
    assert embed(kernel, measure).is_fast is expected


def test_embed_does_not_modify_the_kernel():
    kernel, measure = Stein(K), Gaussian([0, 0], cov=COV)
    e = embed(kernel, measure)
    assert kernel.needs_measure
    assert e.kernel is not kernel
    np.testing.assert_array_equal(e.kernel.gram(np.ones((1, 2))), kernel.bind(measure).gram(np.ones((1, 2))))


def test_results_are_copies():
    e = embed(K, NORMAL)
    x = np.zeros((3, 1))
    x.setflags(write=False)
    first = e.mean(x)
    first[:] = 7.0
    np.testing.assert_allclose(e.mean(x), 1 / np.sqrt(2), rtol=1e-14)
    np.testing.assert_array_equal(x, 0.0)


# frozen scipy distributions


FROZEN = {
    "norm": (stats.norm(1, 2), Gaussian(1, cov=4)),
    "batch": (stats.norm([0.0, 1.0], 2), Gaussian([[0.0], [1.0]], cov=4)),
    "multivariate": (stats.multivariate_normal([0, 1], COV), Gaussian([0, 1], cov=COV)),
    "gamma": (stats.gamma(3, scale=0.5), Gamma(3, 2)),
    "uniform": (stats.uniform(-1, 3), Uniform(-1, 2)),
}


@pytest.mark.parametrize(("frozen", "measure"), FROZEN.values(), ids=FROZEN)
def test_frozen_scipy_distributions_are_measures(frozen, measure):
    x = np.full((2, measure.dim), 0.7)
    e, expected = embed(K, frozen), embed(K, measure)
    np.testing.assert_allclose(e.mean(x), expected.mean(x), rtol=1e-13)
    np.testing.assert_allclose(e.variance, expected.variance, rtol=1e-13)
    other = Gaussian(np.zeros(measure.dim), cov=2.0)
    if measure.dim == 1:
        np.testing.assert_allclose(embed(K, other).cross(frozen), embed(K, other).cross(measure), rtol=1e-13)
    np.testing.assert_allclose(e.cross(e), expected.cross(measure), rtol=1e-13)


def test_a_measure_without_a_fast_quantile_function_is_refused():
    with pytest.raises(NoEmbedding, match=r"ScipyDistribution.* no fast quantile function: .*method='quadrature'"):
        embed(K, NORMAL).cross(stats.exponnorm(1.5))


# user-defined rules


def own_types(name):
    """A kernel type and a measure type of a user, for rules of one test: a rule stays registered."""
    return type(f"{name}RBF", (RBF,), {}), type(f"{name}Gaussian", (Gaussian,), {})


class Laplace(ScipyDistribution):
    """A measure type of a user."""


class LaplaceRule(Embedding):
    """RBF under Laplace(0, 1).

    Each half of the measure is exponential: mu(x) = sqrt(pi/2) l e^(l^2/2) sum over +- of e^(-+x) Phi(+-x/l - l).
    X - X' has the density (1 + |r|) e^-|r| / 4: z = (J + l^2 (1 - J)) / 2 with J = sqrt(pi/2) l erfcx(l / sqrt2).
    """

    def _mean(self, x):
        ell, y = float(self.kernel.lengthscale), x[..., 0]
        halves = (np.exp(0.5 * ell**2 - side + log_ndtr(side / ell - ell)) for side in (y, -y))
        return np.sqrt(np.pi / 2) * ell * sum(halves)

    def _variance(self):
        ell = float(self.kernel.lengthscale)
        J = np.sqrt(np.pi / 2) * ell * erfcx(ell / np.sqrt(2))
        return (J + ell**2 * (1 - J)) / 2


def test_a_user_defined_rule():
    kernel, measure = RBF(0.8), Laplace(stats.laplace, loc=0.0, scale=1.0)
    pair = Pair(RBF, Laplace, "RBF under Laplace(0, 1).")
    assert pair not in available_pairs()
    assert embed(kernel, measure).uses_panels
    assert register(RBF, Laplace)(LaplaceRule) is LaplaceRule
    assert pair in cbq.available_pairs()
    e, checked = cbq.embed(kernel, measure), cbq.embed(kernel, measure, "quadrature")
    assert (e.method, e.rule) == ("closed-form", "formula")
    assert type(e) is LaplaceRule
    x = np.array([-1.0, 0.0, 0.3, 2.0])

    def mean(y):
        return integrate.quad(lambda r: np.exp(-0.5 * ((r - y) / 0.8) ** 2 - abs(r)) / 2, -30, 30, points=[0, y])[0]

    np.testing.assert_allclose(e.mean(x), [mean(y) for y in x], rtol=1e-9)
    np.testing.assert_allclose(e.mean(x), checked.mean(x), rtol=1e-11)
    z = 2 * integrate.quad(lambda y: 0.5 * np.exp(-y) * float(e.mean(y)[0]), 0, 40, epsabs=1e-12)[0]
    assert e.variance == pytest.approx(z, rel=1e-9)
    both = cbq.embed(2 * kernel + kernel, measure)
    np.testing.assert_allclose(both.mean(x), 3 * e.mean(x), rtol=1e-14)


def constant(value):
    def rule(kernel, measure):
        """A number."""
        e = Constant(kernel, measure)
        e.value = value
        return e

    return rule


class Constant(Embedding):
    value = 0.0

    def _mean(self, x):
        return np.full(x.shape[:-1], self.value)


def test_derived_types_use_the_rules_of_their_base_types():
    MyRBF, MyGaussian = own_types("Derived")
    assert embed(MyRBF(1.0), MyGaussian(0, 1)).variance == pytest.approx(1 / np.sqrt(3), rel=1e-14)
    register(MyRBF, Gaussian)(constant(0.25))
    assert embed(MyRBF(1.0), NORMAL).mean(0.0) == 0.25
    assert embed(MyRBF(1.0), MyGaussian(0, 1)).mean(0.0) == 0.25
    assert embed(RBF(1.0), NORMAL).mean(0.0) == pytest.approx(1 / np.sqrt(2), rel=1e-14)


def test_ambiguous_rules_are_refused_until_a_more_specific_one_exists():
    MyRBF, MyGaussian = own_types("My")
    register(MyRBF, Gaussian)(constant(0.25))
    register(RBF, MyGaussian)(constant(0.75))
    kernel, measure = MyRBF(1.0), MyGaussian(0, 1)
    says = r"ambiguous embedding for MyRBF under MyGaussian: .*\(MyRBF, Gaussian\), \(RBF, MyGaussian\) all apply"
    with pytest.raises(NoEmbedding, match=says):
        embed(kernel, measure)
    with pytest.raises(NoEmbedding, match=r"register one for \(MyRBF, MyGaussian\)"):
        embed(kernel, measure)
    assert embed(RBF(1.0), measure).mean(0.0) == 0.75
    register(MyRBF, MyGaussian)(constant(0.5))
    assert embed(kernel, measure).mean(0.0) == 0.5


def test_a_pair_is_registered_once():
    kernel, measure = own_types("Once")
    register(kernel, measure)(constant(0.25))
    with pytest.raises(ValueError, match=r"\(OnceRBF, OnceGaussian\) has an embedding already, rule: derive"):
        register(kernel, measure)(constant(0.5))
    assert embed(kernel(1.0), measure(0, 1)).mean(0.0) == 0.25


def test_a_rule_may_raise_no_embedding():
    kernel, _ = own_types("Refusing")

    @register(kernel, ScipyDistribution)
    def rule(kernel, measure):
        """No measure."""
        raise NoEmbedding("not for this measure")

    with pytest.raises(NoEmbedding, match="not for this measure"):
        embed(kernel(1.0), stats.laplace())


def test_available_pairs_are_described_and_in_order():
    pairs = available_pairs()
    names = [(pair.kernel.__name__, pair.measure.__name__) for pair in pairs]
    assert names == sorted(set(names))
    assert all(pair.rule for pair in pairs)
    assert (RBF, Gaussian) in {(pair.kernel, pair.measure) for pair in pairs}
    pairs.clear()
    assert available_pairs()


@pytest.mark.parametrize(
    ("kernel", "measure", "method"),
    [
        (Warped(Stein(K), "log"), Gamma(3, 2), "auto"),
        (Warped(Stein(K), "log"), Mixture([0.5, 0.5], [Gamma(2, 1), Gamma(3, 2)]), "auto"),
        (Warped(Stein(K), "log"), Product([Gamma(3, 2), Gamma(2, 1)]), "auto"),
        (Warped(Stein(K), "whiten"), Gaussian([0, 1], [[1, 0.5], [0.5, 2]]), "auto"),
        (Warped(Stein(K), "gaussianise"), Beta(2, 2), "auto"),
        (Stein(K), Gamma(3, 2), "transport"),
    ],
)
def test_stein_behind_a_warp(kernel, measure, method):
    e = embed(kernel, measure, method)
    x = measure.transport(np.full((2, measure.dim), 0.4))
    np.testing.assert_array_equal(e.mean(x), 0.0)
    assert e.variance == e.cross(e) == e.cross(measure) == 0


@pytest.mark.parametrize(("kernel", "z"), [(Stein(K), 0.0), (Warped(K, "gaussianise"), 3**-0.5)])
def test_cross_of_a_mixture_with_itself(kernel, z):
    e = embed(kernel, MIXTURE)
    assert e.variance == pytest.approx(z, rel=1e-14)
    assert e.cross(e) == pytest.approx(z, rel=1e-14)


@pytest.mark.parametrize(
    ("kernel", "measure"),
    [
        (RBF([1.0, 2.0]), Gamma(2, 1)),
        (Matern(1.5, [1.0, 2.0]), StudentT(3, 0, 1)),
        (RBF([1.0, 2.0]) * Matern(0.5, 1.0), Gaussian(0, 1)),
        (RBF([1.0, 2.0, 3.0]), Uniform([0, 0], [1, 1])),
        (Matern(1.5, [1.0, 2.0, 3.0]), Uniform([0, 0], [1, 1])),
        (RBF([1.0, 2.0, 3.0]), Product([Gamma(2, 1), Gamma(2, 1)])),
        (TensorProduct(RBF([1.0, 2.0, 3.0])), Gaussian([0, 0], 1)),
        (Stein(RBF([1.0, 2.0, 3.0])), Gaussian([0, 0], 1)),
        (Matern(1.5, [1.0, 2.0, 3.0]), Gaussian([0, 0], 1)),
    ],
    ids=lambda v: repr(v)[:40],
)
def test_lengthscales_must_match_the_measure(kernel, measure):
    count = 2 if isinstance(kernel, ProductKernel) else kernel.n_lengthscales
    with pytest.raises(ValueError, match=f"{count} lengthscales"):
        embed(kernel, measure).mean(measure.transport(np.full((1, measure.dim), 0.5)))


@pytest.mark.parametrize("n", [2, 4])
def test_tensor_product_of_a_list_must_match_the_measure(n):
    with pytest.raises(ValueError, match=f"TensorProduct has kernels for {n} coordinates, but the points have 3"):
        embed(TensorProduct([K] * n), Gaussian([0, 0, 0], 1))


@pytest.mark.parametrize("measure", [Gaussian(0, 1), Gamma(2, 1), LogNormal(0, 1), Uniform(0, 1)], ids=repr)
def test_a_batch_of_lengthscales_under_one_measure(measure):
    ell = np.array([[0.5], [1.0], [2.0]])
    e, x = embed(RBF(ell), measure), [0.3, 1.0]
    np.testing.assert_allclose(e.mean(x), [embed(RBF(l[0]), measure).mean(x) for l in ell], rtol=1e-12)
    np.testing.assert_allclose(e.variance, [embed(RBF(l[0]), measure).variance for l in ell], rtol=1e-12)


def test_lengthscales_and_measures_must_broadcast():
    with pytest.raises(ValueError, match=r"lengthscale \(2,\), measure \(3,\) do not fit together"):
        embed(RBF([[1.0], [2.0]]), Gaussian(np.zeros((3, 1)), 1.0))


def test_unnormalised_measures_are_sent_to_stein_kernels():
    with pytest.raises(
        NoEmbedding, match=r"only Stein kernels have one under a measure that is known up to a constant; use Stein\(RBF"
    ):
        embed(K, Unnormalised(score=lambda x: -x, dim=1))


def test_a_refused_registration_registers_nothing():
    before = available_pairs()
    with pytest.raises(ValueError, match="has an embedding already"):
        register(RBF, ScipyDistribution, Gaussian)(lambda kernel, measure: None)
    assert available_pairs() == before


def test_a_mixture_has_a_panel_rule_with_jumps_inside_and_without():
    jumps = Mixture([0.5, 0.5], [Uniform(1.0, 2.0), Uniform(3.0, 4.0)])
    parts = [integrate.quad(lambda x: 0.5 * np.exp(-2 * (np.log(x) - 0.7) ** 2), a, a + 1.0)[0] for a in (1.0, 3.0)]
    np.testing.assert_allclose(cbq.embed(RBF(0.5), LogMeasure(jumps)).mean([[0.7]]), sum(parts), rtol=1e-10)
    smooth = Mixture([0.3, 0.7], [Gamma(2.0, 1.0), Gamma(5.0, 1.0)])
    y = np.linspace(0.0, 1.0, 3)
    densities = [(w, stats.gamma(shape).pdf) for w, shape in ((0.3, 2.0), (0.7, 5.0))]
    for at, value in zip(y, cbq.embed(RBF(0.5), LogMeasure(smooth)).mean(y[:, None]), strict=True):

        def integrand(x, at=at):
            return np.exp(-2 * (np.log(x) - at) ** 2) * sum(w * pdf(x) for w, pdf in densities)

        np.testing.assert_allclose(value, integrate.quad(integrand, 0, 60, limit=400)[0], rtol=1e-7)
