"""Functions that jump, as probabilities do: the kernels that explain them, and runs that close in on the jump."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import ndtr
from scipy.stats import uniform

import cbq
from cbq.embeddings.many import Integrals, LineRule, line_for
from cbq.estimators.multioutput.suggestion import EXPLORATION, between_steepest, steepest_pairs
from cbq.kernels import RBF, Matern, TensorProduct, Warped
from cbq.linalg import Jitter
from cbq.measures import Beta, Categorical, Gamma, Gaussian, Poisson, Product, Uniform
from cbq.samples.runs import Runs

CUT = 0.4
pytestmark = pytest.mark.filterwarnings("ignore:(equal values|not learnt|few points|few thetas):cbq.FitWarning")


def beyond(x, theta):
    return np.where(x[:, 0] > CUT, 1.0, 0.0)


def probability(**options):
    """P(X > 0.4), X ~ N(theta, 0.5^2), as a function of theta."""
    options = {"depends_on_theta": False, **options}
    return cbq.Problem(beyond, lambda theta: Gaussian(theta, std=0.5), Uniform(-1.0, 1.0), **options)


def gap(samples):
    """The distance between the runs next to the jump, one on either side."""
    x, above = samples.all_points[:, 0], samples.table[:, 0] > 0.5
    return np.min(x[above]) - np.max(x[~above])


@pytest.mark.parametrize("depends_on_theta", [False, True])
def test_runs_close_in_on_a_jump_and_the_probability_is_known(depends_on_theta):
    problem = probability(depends_on_theta=depends_on_theta)
    answers = [problem.solve(budget=90, rng=seed) for seed in (1, 2, 3)]
    assert np.median([gap(answer.samples) for answer in answers]) < 0.01  # a design that fills space leaves 0.03
    theta = np.linspace(-0.95, 0.95, 39)
    truth = ndtr((theta - CUT) / 0.5)
    assert np.median([np.max(np.abs(answer.fit.predict(theta) - truth)) for answer in answers]) < 0.02
    for low, high in (answer.fit.interval(theta, 0.95) for answer in answers):
        assert np.mean((low <= truth) & (truth <= high)) > 0.9


def test_suggested_runs_lie_in_the_gap_that_holds_the_jump():
    x = np.linspace(-2.03, 2.97, 41)
    theta = np.clip(x, -1.0, 1.0)
    made = cbq.Samples(
        theta, x[:, None], beyond(x[:, None], None)[:, None], probability().family, depends_on_theta=False
    )
    fit = cbq.MOBQ(kernel_x=Matern(0.5)).fit(made)
    assert fit.jumping == [0]
    below, above = np.max(x[x <= CUT]), np.min(x[x > CUT])
    found = fit.suggest(5).x[:, 0]
    assert np.mean((found > below) & (found < above)) >= 0.6


def test_the_prior_of_suggested_runs_may_be_one_of_scipy():
    fit = cbq.MOBQ(kernel_x=Matern(0.5), kernel_theta=RBF()).fit(
        probability(depends_on_theta=True).collect(12, 5, rng=0)
    )
    assert np.all(np.abs(fit.suggest(6, uniform(-0.5, 1.0)).theta) <= 0.5)


def test_a_smooth_f_does_not_jump():
    samples = cbq.problems.get("butterfly").collect(12, 10, rng=0, design="sobol")
    assert not cbq.MOBQ().fit(samples).jumping


def test_with_lengthscales_for_each_input_a_jump_is_explained_by_the_input_that_it_is_in():
    problem = probability(depends_on_theta=True)
    samples = problem.collect(60, 2, rng=0, design="sobol")
    (member, *_) = cbq.MOBQ().fit(samples).groups[0].chosen.members
    assert member.kernel.is_roughest
    on_x, on_theta = (np.exp(part.log_lengthscales[0]) for part in (member.kernel.on_x, member.kernel.on_theta))
    assert on_theta > 3 * on_x  # f does not vary with theta


@pytest.mark.parametrize(
    ("kernel", "rough"),
    [
        (Matern(0.5), True),
        (Matern(1.5), False),
        (RBF(), False),
        (Warped(Matern(0.5), "log"), True),
        (TensorProduct(Matern(0.5)), True),
        (Matern(0.5) + RBF(), True),
    ],
    ids=lambda each: repr(each) if isinstance(each, cbq.kernels.Kernel) else "",
)
def test_which_kernels_are_rough(kernel, rough):
    assert kernel.is_roughest is rough


def test_the_steepest_pairs_are_those_found_one_by_one():
    rng = np.random.default_rng(0)
    u, f = rng.standard_normal((40, 2)), rng.standard_normal((40, 2)) * [1.0, 1e6]
    scaled = u / np.std(u, axis=0), f / np.std(f, axis=0)
    apart, change = (np.linalg.norm(each[:, None] - each, axis=-1) for each in scaled)
    assert np.min(apart[apart > 0]) > EXPLORATION.least_volume**0.5
    slopes = change / (apart + np.eye(40))
    expected = {}
    for i in range(40):
        j = int(np.argmax(slopes[i]))
        if np.argmax(slopes[j]) == i and i < j:
            expected[i, j] = apart[i, j] * change[i, j]
    found = [tuple(pair) for pair in steepest_pairs(u, f).tolist()]
    assert found == sorted(expected, key=lambda pair: -expected[pair])
    assert len(found) > 3


def test_the_steepest_pair_holds_the_jump_however_many_points_there_are():
    u = np.linspace(0.0, 1.0, 3 * 256)[:, None]
    cut = 2 * 256 + 5
    assert steepest_pairs(u, np.where(u >= u[cut], 1.0, 0.0)).tolist() == [[cut - 1, cut]]
    assert len(steepest_pairs(u, np.zeros_like(u))) == 0


def test_gaps_that_hardly_matter_are_left_alone():
    near = np.array([[0.0], [0.5], [0.5 + 1e-6], [1.0]])
    values = np.array([[0.0], [0.0], [1.0], [1.0]])
    assert [1, 2] not in steepest_pairs(near, values).tolist()
    near[2] += 0.01
    assert steepest_pairs(near, values).tolist() == [[1, 2]]


def test_candidates_lie_between_their_pairs_and_in_the_supports():
    samples = probability(depends_on_theta=True).collect(12, 5, rng=0)
    fit = cbq.MOBQ(kernel_x=Matern(0.5), kernel_theta=Matern(0.5)).fit(samples)
    found = between_steepest(fit, None, np.random.default_rng(0))
    assert len(found) > 0
    inputs = np.column_stack([samples.all_points, samples.theta[samples.owners]])
    u = found.inputs(of_theta=True)
    assert np.all((u >= np.min(inputs, axis=0)) & (u <= np.max(inputs, axis=0)))
    alone = cbq.MOBQ(kernel_x=Matern(0.5)).fit(probability().collect(12, 5, rng=0))
    theta = between_steepest(alone, None, np.random.default_rng(0)).theta
    assert np.all(np.isin(theta, alone.samples.theta))  # f does not depend on it: that of one of the two


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_outputs_and_inputs_that_are_constant_do_not_hide_a_jump():
    u = np.column_stack([np.linspace(0.0, 1.0, 21), np.full(21, 10.0)])
    step = np.where(u[:, 0] > 0.42, 1.0, 0.0)
    for constant in (0.0, 10.0, 1e100):
        assert steepest_pairs(u, np.column_stack([step, np.full(21, constant)])).tolist() == [[8, 9]]


def test_a_constant_output_does_not_jump():
    def both(x, theta):
        return np.column_stack([beyond(x, theta), np.full(len(x), 10.0)])

    def neither(x, theta):
        return np.column_stack([np.sin(x[:, 0]), np.full(len(x), 10.0)])

    for f, expected in ((both, [0]), (neither, [])):
        problem = cbq.Problem(f, probability().family, Uniform(-1.0, 1.0), depends_on_theta=False)
        assert cbq.MOBQ().fit(problem.collect(15, 16, rng=0, design="sobol")).jumping == expected


def test_thetas_outside_of_the_prior_are_not_asked_for():
    """A family may have measures at the thetas of the prior only."""
    centres = {0.0: -0.5, 1.0: 0.0, 2.0: 0.5}
    problem = cbq.Problem(
        lambda x, theta: np.where(x[:, 0] + theta[0] > 0.9, 1.0, 0.0),
        lambda theta: Gaussian(centres[float(theta[0])], std=0.5),
        Categorical([1 / 3, 1 / 3, 1 / 3]),
    )
    answer = problem.solve(budget=45, rng=0)
    assert set(np.unique(answer.samples.theta)) <= set(centres)
    rough = cbq.MOBQ(kernel_x=Matern(0.5), kernel_theta=Matern(0.5)).fit(answer.samples)
    assert rough.jumping == [0]
    assert set(np.unique(rough.suggest(5, problem.prior).theta)) <= set(centres)


def test_nothing_lies_between_atoms():
    problem = cbq.Problem(
        lambda x, theta: np.where(x[:, 0] > 4.0, 1.0, 0.0),
        lambda theta: Poisson(theta[0]),
        Uniform(2.0, 6.0),
        depends_on_theta=False,
    )
    fit = cbq.MOBQ().fit(problem.collect(8, 6, rng=0))
    assert len(between_steepest(fit, None, np.random.default_rng(0))) == 0


@pytest.mark.parametrize(
    ("measure", "x", "inside"),
    [
        (lambda t: Uniform(0.0, t), [[0.5], [1.5], [-0.1]], [True, True, False]),  # stacked, one for each theta
        (lambda t: Product([Gaussian(t, 1.0), Categorical([0.5, 0.5])]), [[9.0, 1.0], [0.0, 0.5], [1.0, 0.0]], None),
        (lambda t: cbq.measures.Empirical([[0.0], [1.0]]), [[0.0], [1.0], [0.5]], [False, False, False]),
    ],
    ids=["bounded", "with atoms", "without a density"],
)
def test_runs_know_whether_they_are_in_the_support(measure, x, inside):
    inside = [True, False, True] if inside is None else inside
    theta = np.array([[1.0], [2.0], [3.0]])
    runs = Runs(theta, np.array(x))
    assert_array_equal(runs.inside(lambda thetas: [measure(float(t[0])) for t in thetas]), inside)


def test_a_drawn_design_too_gains_from_a_rough_kernel():
    """A smooth kernel rings about a jump, on Sobol points, too."""
    problem = probability()
    theta = np.linspace(-1.0, 1.0, 41)
    truth = ndtr((theta - CUT) / 0.5)
    errors = []
    for kernel in ("auto", RBF()):
        fits = [cbq.MOBQ(kernel_x=kernel).fit(problem.collect(15, 16, rng=s, design="sobol")) for s in range(5)]
        errors.append(np.median([np.sqrt(np.mean((fit.predict(theta) - truth) ** 2)) for fit in fits]))
    assert errors[0] < 0.5 * errors[1]


@pytest.mark.parametrize("measure", [Gamma(2.0, 1.0), Product([Gamma(2.0, 1.0), Beta(2.0, 3.0)])], ids=["d1", "d2"])
def test_lines_of_rough_kernels_are_as_exact_as_panels(measure):
    """The mean of the process bends at its points, and a rule that does not know them errs by the mass of a node."""
    d = measure.dim
    x = np.vstack([measure.sample(20, 0), measure.sample(1, 1) + 1e-9])
    kernel = TensorProduct(Matern(0.5, np.arange(1.0, d + 1))) if d > 1 else Matern(0.5, 1.0)
    exact = cbq.embed(kernel, measure).mean(x)
    errors = []
    for points in (x, None):
        line = line_for(kernel, [measure], x=points)
        found = Integrals(kernel, [measure], np.zeros((1, 1)), line).mean(x)
        errors.append(np.max(np.abs(found - exact)))
    assert errors[0] < 1e-12
    assert errors[1] > 1e-7


def test_lines_without_points_inside_stay_as_they_are():
    line = LineRule.of([Gamma(2.0, 1.0)])
    assert line.split_at(np.array([-1.0, line.edges[-1], 1e9])) is line
    again = line.split_at(np.array([1.0, 1.0, 2.0]))
    assert_array_equal(np.setdiff1d(again.edges, line.edges), np.setdiff1d([1.0, 2.0], line.edges))


def test_a_rough_kernel_is_a_line_between_neighbours():
    """What makes it right beside a jump: with long lengthscales, its mean is the linear interpolant."""
    u, f = np.array([0.0, 0.3, 0.31, 1.0])[:, None], np.array([0.0, 0.0, 1.0, 1.0])
    process = cbq.gp.pooled.ExactGP(Matern(0.5, 1e4), u, f[:, None], Jitter(start=0.0))
    at = np.array([0.1, 0.305, 0.6, 0.9])
    mean = process.mean(Matern(0.5, 1e4)(at[:, None], u))[:, 0]
    assert_allclose(mean, np.interp(at, u[:, 0], f), atol=1e-4)
