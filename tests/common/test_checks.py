"""Arguments of every kind pass the same checks: masked arrays, flags, seeds, sizes, and numbers far too large."""

from __future__ import annotations

from copy import deepcopy

import numpy as np
import pytest

import cbq
from cbq import kernels, measures
from cbq.common.checks import did_you_mean, generator, listed
from cbq.linalg import Jitter, factor
from cbq.measures import Beta, Empirical, Gamma, Gaussian, LogNormal, StudentT, TruncatedGaussian, Uniform
from cbq.runs import IntegrandError
from refusals import refusals


def family(theta):
    return Gaussian(theta, 1.0)


def integrand(x, theta):
    return x[:, 0] + theta[0]


PROBLEM = cbq.Problem(integrand, family, Uniform(0.0, 1.0), exact=lambda theta: theta[:, 0])
SAMPLES = PROBLEM.collect(6, 5, rng=0)
THETA, X, F = SAMPLES.theta, SAMPLES.x, SAMPLES.f
FIT = cbq.LSMC().fit(SAMPLES)
TABLE = {"theta": [1.0, 1.0, 2.0], "x": [0.1, 0.2, 0.3], "f": [1.0, 2.0, 3.0]}
INPUTS = {"a": np.linspace(0.0, 1.0, 40)}
OUTPUTS = {"u": np.zeros(40), "v": np.cos(np.arange(40.0))}


def masked(values):
    """The values with a mask at the first; underneath is -999."""
    values = np.array(values, dtype=float)
    first = np.arange(values.size).reshape(values.shape) == 0
    return np.ma.array(np.where(first, -999.0, values), mask=first)


def rows(values, make=list):
    """One array for each theta, the first of them masked."""
    parts = [masked(values[0]), *values[1:]]
    if make is list:
        return parts
    held = np.empty(len(parts), dtype=object)
    held[:] = parts
    return held


def structured(values):
    table = np.ma.zeros(len(values), dtype=[("u", float), ("v", float)])
    table["v"] = masked(values)
    return table


MASKS = {
    "theta": (lambda: cbq.Samples(masked(THETA), X, F, family), "theta must not be masked, but 1 of its 6 values are"),
    "x": (lambda: cbq.Samples(THETA, masked(X), F, family), "x must not be masked"),
    "f": (lambda: cbq.Samples(THETA, X, masked(F), family), r"f must not be masked.*lists of arrays may differ"),
    "x of one theta": (lambda: cbq.Samples(THETA, rows(X), F, family), r"x\[0\] must not be masked"),
    "f of one theta": (lambda: cbq.Samples(THETA, X, rows(F), family), r"f\[0\] must not be masked"),
    "f as objects": (lambda: cbq.Samples(THETA, X, rows(F, tuple), family), r"f\[0\] must not be masked"),
    "with_values": (lambda: SAMPLES.with_values(masked(F)), "f must not be masked"),
    "a column": (
        lambda: cbq.Samples.from_frame({**TABLE, "f": masked(TABLE["f"])}, family),
        "column 'f' of the table must not be masked",
    ),
    "a mean": (lambda: Gaussian(masked([0.0, 1.0]), 1.0), "mean must not be masked"),
    "a rate": (lambda: Gamma(2.0, masked([1.0, 2.0])), "rate must not be masked"),
    "a masked number": (lambda: Gamma(2.0, np.ma.masked), "rate must not be masked"),
    "in a list": (lambda: Gamma(2.0, [1.0, np.ma.masked]), "rate must not be masked"),
    "points of a measure": (lambda: Gaussian(0.0, 1.0).logpdf(masked([0.5, 1.0])), "x must not be masked"),
    "atoms": (lambda: Empirical(masked([1.0, 2.0])), "points must not be masked"),
    "transport": (lambda: Gaussian(0.0, 1.0).transport(masked([0.5, 0.6])), "u must not be masked"),
    "predict": (lambda: FIT.predict(masked(THETA)), "theta must not be masked"),
    "interval": (lambda: FIT.interval(masked(THETA)), "theta must not be masked"),
    "draws": (lambda: FIT.sample(masked(THETA), 2, 0), "theta must not be masked"),
    "to_frame": (lambda: FIT.to_frame(masked(THETA)), "theta must not be masked"),
    "evaluate, theta": (lambda: PROBLEM.evaluate(masked([0.5]), [0.1]), "theta must not be masked"),
    "evaluate, x": (lambda: PROBLEM.evaluate(0.5, masked([0.1, 0.2])), "x must not be masked"),
    "exact": (lambda: PROBLEM.exact(masked(THETA)), "theta must not be masked"),
    "collect, theta": (lambda: PROBLEM.collect(None, 2, theta=masked(THETA), rng=0), "theta must not be masked"),
    "collect, N": (lambda: PROBLEM.collect(2, np.ma.array([2, 3], mask=[0, 1]), rng=0), "N must not be masked"),
    "truth": (lambda: cbq.compare(SAMPLES, cbq.LSMC(), masked(THETA[:, 0])), "truth must not be masked"),
    "truth of a figure": (lambda: FIT.plot(THETA, truth=masked(THETA[:, 0])), "truth must not be masked"),
    "draws of a prior": (lambda: cbq.value_at_risk(FIT, masked(np.linspace(0, 1, 400))), "prior must not be masked"),
    "outputs": (lambda: cbq.evpi({**OUTPUTS, "v": masked(OUTPUTS["v"])}), "column 'v' of outputs must not be masked"),
    "a structured table": (lambda: cbq.evpi(structured(OUTPUTS["v"])), "outputs must not be masked"),
    "inputs": (
        lambda: cbq.evppi(OUTPUTS, {"a": masked(INPUTS["a"])}, [["a"]]),
        "column 'a' of inputs must not be masked",
    ),
    "a lengthscale": (lambda: kernels.RBF(masked([1.0, 2.0])), "lengthscale must not be masked"),
    "points of a kernel": (lambda: kernels.RBF(1.0)(masked([1.0, 2.0])), "x must not be masked"),
    "weights of pairs": (lambda: kernels.RBF(1.0).contract([1.0, 2.0], masked(np.eye(2))), "G must not be masked"),
    "a matrix": (lambda: factor(masked(np.eye(2))), "K must not be masked"),
    "the value of exact": (
        lambda: cbq.Problem(integrand, family, Uniform(0, 1), exact=lambda t: masked(t[:, 0])).exact([0.5, 0.6]),
        "the value of exact must not be masked",
    ),
    "the value of truth": (lambda: cbq.compare(SAMPLES, cbq.LSMC(), lambda t: masked(t[:, 0])), "truth must not be"),
}

test_masked_values_are_refused_with_the_remedy = refusals(MASKS, ValueError)


def test_an_integrand_must_not_return_masked_values():
    problem = cbq.Problem(lambda x, theta: masked(x[:, 0]), family, Uniform(0.0, 1.0))
    with pytest.raises(IntegrandError, match=r"real numbers.*its value must not be masked"):
        problem.collect(2, 3, rng=0)


def test_an_empty_mask_hides_nothing():
    plain = cbq.Samples(THETA, X, F, family)
    given = cbq.Samples(np.ma.array(THETA), [np.ma.array(x, mask=False) for x in X], np.ma.array(F), family)
    assert np.array_equal(plain.x, given.x)
    assert np.array_equal(plain.f, given.f)
    assert type(given.theta) is np.ndarray


def test_columns_of_pandas_may_be_nullable_but_hold_no_missing_value():
    pd = pytest.importorskip("pandas")
    whole = pd.DataFrame({"a": pd.Series([1, 2], dtype="Int64"), "b": [0.5, 1.5]})
    assert np.array_equal(Gaussian(whole, 1.0).mean, [[1.0, 0.5], [2.0, 1.5]])
    missing = pd.DataFrame({"a": pd.Series([1, None], dtype="Int64"), "b": [0.5, 1.5]})
    with pytest.raises(TypeError, match="mean must hold real numbers, but its type is DataFrame and it holds <NA>"):
        Gaussian(missing, 1.0)
    with pytest.raises(ValueError, match="theta must be finite, but it is"):
        FIT.predict(missing["a"])


FLAGGED = {
    "Samples": lambda flag: cbq.Samples(THETA, X, F, family, depends_on_theta=flag),
    "from_frame": lambda flag: cbq.Samples.from_frame(TABLE, family, depends_on_theta=flag),
    "Problem": lambda flag: cbq.Problem(integrand, family, Uniform(0, 1), depends_on_theta=flag),
    "vectorized": lambda flag: cbq.Problem(integrand, family, Uniform(0, 1), vectorized=flag),
    "return_std": lambda flag: FIT.predict(THETA, return_std=flag),
    "return_cov": lambda flag: FIT.predict(THETA, return_cov=flag),
    "antithetic": lambda flag: FIT.sample(THETA, 2, 0, antithetic=flag),
    "calibrate": lambda flag: cbq.CBQ(calibrate=flag),
    "ard": lambda flag: cbq.MOBQ(ard=flag),
    "to_fit": lambda flag: kernels.RBF().to_fit([0.0, 1.0], flag),
    "overwrite": lambda flag: factor(np.eye(2), overwrite=flag),
}


@pytest.mark.parametrize("call", FLAGGED.values(), ids=FLAGGED)
def test_a_flag_is_true_or_false(call):
    for value in (True, False, np.True_, np.False_):
        call(value)
    for value in ("False", "", None, 0, 1, [], np.array([True])):
        with pytest.raises(ValueError, match="must be True or False, but it is"):
            call(value)


def test_numpy_booleans_mean_what_they_say():
    assert cbq.Samples(THETA, X, F, family, depends_on_theta=np.False_).depends_on_theta is False
    with pytest.raises(ValueError, match="log_theta=True goes with kernel_theta='auto'"):
        cbq.CBQ(log_theta=np.True_, kernel_theta=kernels.RBF())


@pytest.mark.parametrize(
    "rng",
    ["a", 1.5, 2.0, -1, True, None, [], [1, -2], [1, True], [1.0], [[1]], np.array(0.5), np.array([True]), np.random],
)
def test_what_is_no_generator_and_no_seed_is_refused_by_name(rng):
    for draw in (
        lambda: Gaussian(0.0, 1.0).sample(2, rng),
        lambda: FIT.sample(THETA, 2, rng),
        lambda: PROBLEM.collect(2, 2, rng=rng),
        lambda: cbq.nested_expectation(FIT, np.square, Uniform(0, 1), rng=rng),
        lambda: cbq.evppi(OUTPUTS, INPUTS, [["a"]], rng=rng),
    ):
        with pytest.raises(TypeError, match=r"rng must be a numpy.random.Generator, an integer seed.*pass rng=0"):
            draw()


@pytest.mark.parametrize("seed", [0, np.int64(3), np.uint8(7), 10**400], ids=["0", "int64", "uint8", "10**400"])
def test_any_whole_number_is_a_seed(seed):
    expected = Gaussian(0.0, 1.0).sample(3, np.random.default_rng(seed))
    assert np.array_equal(Gaussian(0.0, 1.0).sample(3, seed), expected)


@pytest.mark.parametrize(
    "make",
    [
        lambda: [1, 2, 10**30],
        lambda: (np.int64(4), 5),
        lambda: np.arange(4, dtype=np.uint8),
        lambda: np.random.SeedSequence(6, spawn_key=(1,)),
        lambda: np.random.PCG64DXSM(7),
        lambda: np.random.Generator(np.random.Philox(8)),
        lambda: np.random.RandomState(9),
    ],
    ids=["list", "tuple", "array", "SeedSequence", "BitGenerator", "Generator", "RandomState"],
)
def test_whatever_makes_a_generator_of_numpy_is_taken(make):
    expected = np.random.default_rng(make()).normal(size=(3, 1))
    assert np.array_equal(Gaussian(0.0, 1.0).sample(3, make()), expected)
    one, other = (PROBLEM.collect(2, 2, rng=make()) for _ in range(2))
    assert one == other
    assert one != PROBLEM.collect(2, 2, rng=0)
    values = [each.normal() for each in generator(make()).spawn(3)]
    assert len(set(values)) == 3
    assert values == [each.normal() for each in generator(make()).spawn(3)]
    assert values == [each.normal() for each in deepcopy(generator(make())).spawn(3)]


def test_generators_advance_and_seeds_do_not():
    stream, seeds = np.random.RandomState(0), np.random.SeedSequence(0)
    first, second = (Gaussian(0.0, 1.0).sample(3, stream) for _ in range(2))
    assert not np.array_equal(first, second)
    assert np.array_equal(Gaussian(0.0, 1.0).sample(3, seeds), Gaussian(0.0, 1.0).sample(3, seeds))


HUGE = 10**400
VAST = np.broadcast_to(0.5, (10**15,))  # takes no memory, but its copy would
SIZES = {
    "T": (lambda: PROBLEM.collect(HUGE, 2, rng=0), r"T must be a whole number.*it is 10\*\*399 or more"),
    "many T": (lambda: PROBLEM.collect(10**13, 2, rng=0), r"T = 10000000000000 thetas .* takes at least 1.86e.07 GiB"),
    "N": (lambda: PROBLEM.collect(2, HUGE, rng=0), "N must be a whole number"),
    "many N": (
        lambda: PROBLEM.collect(2, 10**15, rng=0),
        "N = 1000000000000000 points at 2 thetas takes at least .* GiB",
    ),
    "one N": (lambda: PROBLEM.collect(2, [3, 10**15], rng=0), r"N = \[3, 1000000000000000\] points at 2 thetas"),
    "batch": (lambda: PROBLEM.collect(2, 2, rng=0, batch=HUGE), "batch must be a whole number"),
    "executor": (lambda: PROBLEM.collect(2, 2, rng=0, executor=HUGE), "executor must be a number of processes"),
    "processes": (lambda: PROBLEM.collect(2, 2, rng=0, executor=10**6), "at most 1024 are started"),
    "draws": (lambda: Gaussian(0.0, 1.0).sample(10**15, 0), "n = 1000000000000000 draws from .* takes at least .* GiB"),
    "draws of a mixture": (
        lambda: measures.Mixture([1.0], [Gaussian(0.0, 1.0)]).sample(10**15, 0),
        "n = 1000000000000000 draws",
    ),
    "draws of a fit": (
        lambda: FIT.sample(THETA, 10**15, 0),
        "sampling size = 1000000000000000 functions at theta, 6 of them takes",
    ),
    "a vast theta": (
        lambda: FIT.predict(VAST),
        r"theta of shape .* takes at least 7.45e\+06 GiB of memory, but .* GiB are available",
    ),
    "a vast x": (lambda: Gaussian(0.0, 1.0).logpdf(VAST), "x of shape .* takes"),
    "a joint theta": (
        lambda: FIT.predict(np.zeros(10**6), return_cov=True),
        "the covariance of I at theta, 1000000 of them takes at least",
    ),
    "a Gram matrix": (lambda: kernels.RBF(1.0)(np.zeros(10**6)), r"Gram matrix of shape \(1000000, 1000000\) takes"),
    "a covariance": (lambda: Gaussian(np.zeros(10**6), 1.0), "covariance for a mean in 1000000 dimensions takes"),
    "thetas of a prior": (
        lambda: cbq.value_at_risk(FIT, Uniform(0, 1), n=10**15),
        "n = 1000000000000000 thetas takes",
    ),
    "a grid": (lambda: FIT.plot(points=10**15), "points = 1000000000000000 in each coordinate takes"),
    "a dimension": (lambda: cbq.problems.get("linear", dim=10**7), "dim = 10000000 dimensions takes"),
    "trend": (lambda: cbq.CBQ(trend=HUGE), r"trend must be .*but it is 10\*\*399 or more"),
    "noise": (lambda: cbq.CBQ(noise=HUGE), "noise must be a variance"),
    "borrow": (lambda: cbq.CBQ(borrow=HUGE), "borrow must be a number of points"),
    "degree": (lambda: cbq.LSMC(degree=HUGE), "degree must be a whole number"),
    "ridge": (lambda: cbq.LSMC(ridge=1e308), "ridge must be a number"),
    "nystrom": (lambda: cbq.MOBQ(nystrom=HUGE), "nystrom must be a number of landmarks"),
    "folds": (lambda: cbq.compare(SAMPLES, folds=HUGE), "folds must be an integer"),
    "level": (lambda: FIT.interval(THETA, HUGE), "level must lie between 0 and 1"),
    "threshold": (lambda: cbq.expected_loss(FIT, Uniform(0, 1), threshold=HUGE), "threshold must be a finite number"),
    "jitter": (lambda: Jitter(HUGE), "start must be a finite number"),
    "a factor": (lambda: 1e308 * kernels.RBF(1.0), "factor of a kernel must be from 1e-300 to 1e"),
    "far theta": (
        lambda: cbq.LSMC(degree=3).fit(SAMPLES).predict(1e100),
        r"theta is \de\+100 standard deviations .* a polynomial of degree 3 overflows",
    ),
    "huge theta": (lambda: FIT.predict(1e308), r"theta must be at most 1e\+153 in size, but it is 1e\+308"),
    "step": (lambda: cbq.problems.get("sir", step=1e-300), "step must be positive and at most 0.25 days, and no less"),
}
test_what_is_far_too_large_is_refused_before_it_begins = refusals(SIZES, (ValueError, MemoryError))


def test_the_digits_of_an_integer_do_not_fill_the_screen():
    for value in (10**400, -(10**5000), [0.5] * 10**5, "a" * 10**6):
        with pytest.raises(ValueError, match="folds") as caught:
            cbq.compare(SAMPLES, folds=value)
        assert len(str(caught.value)) < 200


@pytest.mark.filterwarnings("ignore:few thetas:cbq.FitWarning")
def test_a_trend_of_any_degree_falls_back_on_what_the_thetas_identify():
    fit = cbq.CBQ(trend=10**12).fit(SAMPLES)
    assert "too few distinct thetas for a trend of degree 1000000000000: degree 4 is used" in fit.summary()
    assert np.all(np.isfinite(fit.predict(THETA)))


EMPTY = {
    "mean": (lambda: Gaussian([], 1.0), r"mean has shape \(0,\), but a measure has at least one dimension"),
    "means": (lambda: LogNormal(np.empty((3, 0)), 1.0), r"mean has shape \(3, 0\)"),
    "lower": (lambda: Uniform([], 1.0), r"lower has shape \(0,\)"),
    "upper": (lambda: Uniform(0.0, [[]]), r"upper has shape \(1, 0\)"),
    "N": (lambda: PROBLEM.collect(2, [], rng=0), r"N has shape \(0,\)"),
    "a path": (lambda: FIT.save(""), "path must be the name of a file, but '' is empty"),
    "NUL": (lambda: FIT.save("a\0b"), "path must be the name of a file.*contains NUL"),
    "NUL in a checkpoint": (lambda: PROBLEM.collect(2, 2, rng=0, checkpoint="\0"), "checkpoint must be the name"),
}
test_what_is_empty_is_named = refusals(EMPTY, ValueError)

GAMMA = cbq.embed(kernels.RBF(1.0), Gamma(2.0, 1.0), "transport")
LOG = cbq.embed(kernels.Warped(kernels.RBF(1.0), "log"), LogNormal(0.0, 1.0))
NAMED = {
    "a class, to predict": (lambda: FIT.predict(THETA, progress=Gaussian), "progress must be .* the class Gaussian"),
    "a class, to collect": (lambda: PROBLEM.collect(2, 2, rng=0, progress=dict), "progress must be .* the class dict"),
    "atoms": (lambda: measures.LogMeasure(measures.Poisson(3.0)), r"measure .* must be continuous.*Poisson"),
    "two dimensions": (lambda: measures.LogMeasure(LogNormal([0.0, 0.0], 1.0)), "measure .* must be one-dimensional"),
    "negative x": (lambda: measures.LogMeasure(Gaussian(0.0, 1.0)), "measure .* must be of positive x"),
    "an atom at the end": (lambda: GAMMA.cross(measures.Poisson(3.0)), r"other = Poisson\(rate=3\) does not fit"),
    "a point outside": (lambda: GAMMA.cross(Empirical([-1.0, 1.0])), "other = Empirical.* does not fit the kernel"),
    "log of a negative x": (lambda: LOG.cross(Gaussian(0.0, 1.0)), "other = Gaussian.* does not fit the kernel"),
    "log of zero": (lambda: LOG.cross(Empirical([0.0, 1.0])), "other = Empirical.* does not fit the kernel"),
}
test_the_argument_at_fault_is_named = refusals(NAMED, (ValueError, TypeError))


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.uint8, np.longdouble])
def test_net_benefits_of_any_type_of_number_are_those_of_float64(kind):
    outputs = {"u": np.zeros(40), "v": np.round(100 * np.cos(np.arange(40.0)) ** 2)}
    found = cbq.voi.ceac({name: values.astype(kind) for name, values in outputs.items()})
    np.testing.assert_array_equal(found.to_frame().to_numpy(), cbq.voi.ceac(outputs).to_frame().to_numpy())


def test_a_hundred_thousand_names_take_no_time():
    names = [f"input {i}" for i in range(100_000)]  # comparing all pairs would take minutes
    assert cbq.Names(x=names).x == tuple(names)
    with pytest.raises(ValueError, match="'input 7' of x occurs twice"):
        cbq.Names(x=[*names, "input 7"])


LIST: list = []
LIST.extend([LIST, LIST])
WRONG = {
    "itself": (lambda: FIT.predict(LIST), "theta is a list that contains itself"),
    "itself, as an index": (lambda: Gaussian(np.zeros((3, 1)), 1.0)[LIST], "index is a list that contains itself"),
    "far in a tail": (lambda: TruncatedGaussian(1e15, 1.0, 0.0, 1.0), "too far from the mean in units of std"),
    "a huge mean": (lambda: Gaussian(1e200, 1.0), r"mean must be at most 1e\+153 in size, but it is 1e\+200"),
    "a huge shape": (lambda: Beta(1e200, 1.0), r"a must be at most 1e\+153 in size"),
    "a tiny df": (lambda: StudentT(1e-200, 0.0, 1.0), "df must be at least 1e-153, but it is 1e-200"),
    "exact": (
        lambda: cbq.Problem(integrand, family, Uniform(0, 1), exact=lambda t: {}["a"]).exact(0.5),
        "the function exact raised KeyError: 'a'",
    ),
    "exact is NaN": (
        lambda: cbq.Problem(integrand, family, Uniform(0, 1), exact=lambda t: t[:, 0] * np.nan).exact(0.5),
        "the value of exact must be finite",
    ),
    "truth": (lambda: cbq.compare(SAMPLES, cbq.LSMC(), lambda t: 1 / 0), "the function truth raised ZeroDivisionError"),
    "phi": (lambda: cbq.nested_expectation(FIT, lambda I: {}["a"], Uniform(0, 1)), "phi was given .* and failed: 'a'"),
    "log_density": (
        lambda: measures.Unnormalised(lambda x: {}["a"], dim=1).logpdf(0.5),
        "the function log_density raised KeyError",
    ),
    "a warp": (lambda: kernels.Warped(kernels.RBF(1.0), lambda x: {}["a"])(0.5), "the warp of x, raised KeyError"),
}
test_errors_from_below_name_the_argument = refusals(WRONG, ValueError)

TYPES = {
    "samples": (lambda: cbq.compare(None), "samples must be cbq.Samples, or a list of them, but a NoneType arrived"),
    "samples in a list": (lambda: cbq.compare([None]), "samples must be cbq.Samples"),
    "rows": (lambda: cbq.Comparison(None), "rows must be a list of ComparisonRow, but it is None"),
    "components": (lambda: measures.Mixture([1.0], None), "Mixture takes a list of measures, but it was given None as"),
    "measures": (lambda: measures.Product([1.0]), r"is needed, but a float arrived as measures\[0\]"),
    "prior": (lambda: cbq.Problem(integrand, family, None), "is needed, but a NoneType arrived as prior"),
    "dist": (
        lambda: measures.ScipyDistribution("norm", loc=0.0, scale=1.0),
        "dist must be a continuous distribution of scipy",
    ),
    "a big integer": (lambda: kernels.RBF(HUGE), r"its type is int \(10\*\*399 or more\), which float64 cannot hold"),
    "a path": (lambda: cbq.load(3), "path must be the name of a file, but it is 3"),
    "a name": (lambda: cbq.Problem(integrand, family, Uniform(0, 1), name=3), "name must be a string, but it is 3"),
    "a choice": (lambda: FIT.with_choice(None), "choice must be a string"),
    "axes": (lambda: FIT.plot(ax=3), "ax must be axes of matplotlib, as plt.subplots"),
    "jitter": (lambda: factor(np.eye(2), jitter=1e-8), "jitter must be a cbq.linalg.Jitter"),
    "an engine": (lambda: cbq.engine(3).__enter__(), "engine must be a name or have the methods"),
    "types": (lambda: cbq.embeddings.register(kernels.RBF(1.0)), "register takes types of kernel and measure"),
}
test_errors_of_type_name_the_argument = refusals(TYPES, TypeError)


def test_an_index_that_does_not_fit_is_named():
    for call, name in (
        (lambda: Gaussian(np.zeros((3, 1)), 1.0)[5], "index = 5 does not fit the shape"),
        (lambda: Gaussian(np.zeros(3), 1.0).marginal(3), "j must be an integer from 0 to 2, but it is 3"),
        (lambda: Gaussian(np.zeros(3), 1.0).marginal("a"), "j must be an integer from 0 to 2, but it is 'a'"),
        (lambda: SAMPLES.points(6), "t must be an integer from 0 to 5, but it is 6"),
        (lambda: SAMPLES.select("a"), "indices = 'a' does not fit the shape"),
        (lambda: SAMPLES.regrouped([[0, 99]] * 6), r"rows\[0\] = \[0, 99\] does not fit"),
    ):
        with pytest.raises(IndexError, match=name):
            call()


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.longdouble])
def test_levels_of_any_precision_raise_no_warning(kind):
    """Warnings are errors here: the bounds of float64 must not be compared in a smaller type."""
    low, high = FIT.interval(THETA, level=kind(0.75))
    np.testing.assert_array_equal([low, high], FIT.interval(THETA, level=0.75))


def test_did_you_mean():
    known = ["Butterfly", "sir", "linear"]
    assert did_you_mean("buterfly", known, "problems") == "did you mean 'Butterfly'?"
    assert did_you_mean("xyz", known, "problems") == "the problems are 'Butterfly', 'sir', 'linear'."
    assert listed(map(str, range(30)), 2) == "'0', '1' and 28 more"
    with pytest.raises(ValueError, match="there is no problem 'lineer': did you mean 'linear'"):
        cbq.problems.get("lineer")
    with pytest.raises(TypeError, match="has no option dimm: did you mean 'dim'"):
        cbq.problems.get("linear", dimm=3)
