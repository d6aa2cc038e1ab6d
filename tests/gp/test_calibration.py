"""Calibration: amplitudes against refitted integrals, and predictive distributions against their parts."""

from dataclasses import fields

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import optimize, stats

import cbq
from cbq import MOBQ, Auto, Calibration, Selection
from cbq.embeddings.many import Integrals
from cbq.estimators import CBQFit, MOBQFit
from cbq.gp.calibration import Increments, LocalAmplitude, useful_groups
from cbq.gp.kronecker import GridPoints, grid_amplitude
from cbq.gp.pooled import ExactGP
from cbq.gp.selection import KernelChoice, KernelMember
from cbq.kernels import RBF, Matern, XThetaKernel
from cbq.linalg import Jitter
from cbq.measures import Gaussian, Uniform
from refusals import refusals

NONE = Jitter(start=0.0)
KERNEL = Matern(1.5, 0.8)
OWNERS = np.repeat(np.arange(6), 5)
U = np.random.default_rng(0).normal(size=(30, 1))
F = np.column_stack([np.sin(2 * U[:, 0]), np.abs(U[:, 0] - 0.2)])
MEASURES = [Gaussian(mean, 1.0) for mean in (-1.0, 0.0, 0.7)]
INTEGRALS = Integrals(KERNEL, MEASURES, np.zeros((3, 0)))
MU, Z = INTEGRALS.mean(U), INTEGRALS.variance()


def integral(rows, noise=0.0, f=F):
    """Means (M, C) and variances (M,) of the integrals given some values, by explicit inverses."""
    inverse, one = np.linalg.inv(KERNEL(U[rows]) + noise * np.eye(len(rows))), np.ones(len(rows))
    S = one @ inverse @ one
    beta = one @ inverse @ f[rows] / S
    mean = beta + MU[:, rows] @ inverse @ (f[rows] - beta)
    gap = 1.0 - MU[:, rows] @ inverse @ one
    return mean, Z - np.einsum("mi,ij,mj->m", MU[:, rows], inverse, MU[:, rows]) + gap**2 / S


def refitted(groups, noise=0.0, f=F):
    """The amplitudes (M, C) by refitting without each group of rows."""
    every = np.arange(len(U))
    mean, variance = integral(every, noise, f)
    others = [integral(np.setdiff1d(every, rows), noise, f) for rows in groups]
    return sum((mean - m) ** 2 for m, _ in others) / sum(v - variance for _, v in others)[:, None]


# Amplitudes --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("noise", [0.0, 0.2])
def test_the_amplitude_is_what_refitting_without_each_theta_moves(noise):
    found = LocalAmplitude(ExactGP(KERNEL, U, F, NONE, noise), OWNERS)(MU)
    expected = refitted([np.flatnonzero(t == OWNERS) for t in range(6)], noise)
    assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize(
    "owners", [None, np.arange(30), np.zeros(30, int), np.repeat([0, 1], 15)], ids=["none", "own", "one", "two"]
)
def test_where_thetas_say_little_points_are_left_out(owners):
    assert useful_groups(owners, 30) is None
    found = LocalAmplitude(ExactGP(KERNEL, U, F, NONE), owners)(MU)
    assert_allclose(found, refitted([[i] for i in range(30)]), rtol=1e-6)


@pytest.mark.parametrize("noise", [0.0, 0.2])
def test_the_errors_of_groups_are_those_of_averages_that_are_predicted_by_refitting(noise):
    averages, errors = [], []
    for t in range(6):
        mine, others = np.flatnonzero(t == OWNERS), np.flatnonzero(t != OWNERS)
        inverse, one = np.linalg.inv(KERNEL(U[others]) + noise * np.eye(25)), np.ones(25)
        beta = one @ inverse @ F[others] / (one @ inverse @ one)
        predicted = beta + KERNEL(U[mine], U[others]) @ inverse @ (F[others] - beta)
        averages.append(np.mean(F[mine], axis=0))
        errors.append(averages[-1] - np.mean(predicted, axis=0))
    without_the_largest = np.sort(np.square(errors), axis=0)[:5]
    expected = np.sqrt(np.mean(without_the_largest, axis=0)) / np.std(averages, axis=0)
    found = LocalAmplitude(ExactGP(KERNEL, U, F, NONE, noise), OWNERS, np.tile(np.arange(5), 6)).group_errors
    assert_allclose(found, expected, rtol=1e-6)


def test_there_are_no_errors_of_groups_where_the_first_grouping_is_of_no_use():
    process = ExactGP(KERNEL, U, F, NONE)
    assert_array_equal(LocalAmplitude(process, np.arange(30), OWNERS).group_errors, [0.0, 0.0])
    assert_array_equal(LocalAmplitude(process).group_errors, [0.0, 0.0])


def test_of_several_groupings_the_largest_amplitude_counts():
    columns = np.tile(np.arange(5), 6)
    process = ExactGP(KERNEL, U, F, NONE)
    by_theta, by_column = (LocalAmplitude(process, each)(MU) for each in (OWNERS, columns))
    assert_allclose(LocalAmplitude(process, OWNERS, columns)(MU), np.maximum(by_theta, by_column), rtol=1e-14)
    assert_allclose(LocalAmplitude(process, OWNERS, None)(MU), by_theta, rtol=1e-14)


@pytest.mark.parametrize("lengthscale", [0.3, 1.2])
def test_an_analytic_kernel_has_the_geometric_mean_with_the_likeliest_amplitude_if_that_is_larger(lengthscale):
    kernel, jitter = RBF(lengthscale), 1e-6
    inverse = np.linalg.inv(kernel(U) + jitter * np.eye(30))
    P = inverse - np.outer(inverse.sum(axis=0), inverse.sum(axis=0)) / inverse.sum()
    mu = Integrals(kernel, MEASURES, np.zeros((3, 0))).mean(U)
    gap = 1.0 - mu @ inverse.sum(axis=0)
    w = mu @ inverse + np.outer(gap, inverse.sum(axis=0)) / inverse.sum()
    moves2, variance = np.zeros((3, 2)), np.zeros(3)
    for t in range(6):
        rows = np.flatnonzero(t == OWNERS)
        covariance = np.linalg.inv(P[np.ix_(rows, rows)])
        moves2 += (w[:, rows] @ covariance @ (P @ F)[rows]) ** 2
        variance += np.einsum("mi,ij,mj->m", w[:, rows], covariance, w[:, rows])
    moved, likeliest = moves2 / variance[:, None], np.einsum("ic,ij,jc->c", F, P, F) / 29
    assert np.any(moved < likeliest)
    found = LocalAmplitude(ExactGP(kernel, U, F, NONE, jitter), OWNERS)(mu)
    assert_allclose(found, np.where(moved < likeliest, np.sqrt(moved * likeliest), moved), rtol=1e-4)


def test_points_of_a_shared_design_are_left_out_at_all_thetas():
    problem = cbq.Problem(lambda x, t: np.sin(x[:, 0] + t[0] * x[:, 1]), wide, Uniform(0.5, 2.0))
    shared = problem.collect(6, 8, rng=0, design="sobol", scramble="common")
    fit = MOBQ(Matern(1.5, 0.8), Matern(1.5, 1.0)).fit(shared)
    process = fit._parts[0][0].process
    mu = fit._parts[0][0].integrals(shared.theta, list(shared.measures)).mean(process.nodes)
    by_theta, by_place = (LocalAmplitude(process, each)(mu) for each in (shared.owners, np.tile(np.arange(8), 6)))
    assert_allclose(fit._amplitudes[0](mu), np.maximum(by_theta, by_place), rtol=1e-12)
    assert np.any(by_place > by_theta)


def test_amplitudes_follow_scale_and_ignore_shift_and_order():
    plain = LocalAmplitude(ExactGP(KERNEL, U, F, NONE), OWNERS)(MU)
    moved = LocalAmplitude(ExactGP(KERNEL, U, 5.0 - 3.0 * F, NONE), OWNERS)(MU)
    assert_allclose(moved, 9.0 * plain, rtol=1e-8)
    order = np.random.default_rng(1).permutation(30)
    mixed = LocalAmplitude(ExactGP(KERNEL, U[order], F[order], NONE), 7 - OWNERS[order])(MU[:, order])
    assert_allclose(mixed, plain, rtol=1e-8)


def test_draws_of_the_process_have_its_amplitude():
    """A move D has the variance A V, so that the expectation of sum D^2 is A sum V, whatever the correlations."""
    draws = np.linalg.cholesky(KERNEL(U)) @ np.random.default_rng(2).normal(size=(30, 4000))
    found = LocalAmplitude(ExactGP(KERNEL, U, 2.0 * draws, NONE), OWNERS)(MU)
    assert_allclose(np.mean(found, axis=1), 4.0, rtol=0.1)


def test_of_a_constant_nothing_moves():
    found = LocalAmplitude(ExactGP(KERNEL, U, np.full((30, 1), 0.1), NONE), OWNERS)(MU)
    assert_allclose(found, 0.0, atol=1e-20)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_few_points_are_no_error(n):
    for owners in (None, np.arange(n), np.zeros(n, int)):
        found = LocalAmplitude(ExactGP(KERNEL, U[:n], F[:n], NONE), owners)(MU[:, :n])
        assert np.all(np.isfinite(found))
        assert np.all(found >= 0)


def test_on_a_grid_thetas_and_points_are_left_out():
    v, theta = np.random.default_rng(3).normal(size=(7, 1)), np.linspace(0.0, 2.0, 5)[:, None]
    f = (np.sin(2 * v[:, 0]) * (1 + theta))[None]
    grid = GridPoints(theta, v, Gaussian(0.0, 1.0), f, np.ones((1, 5, 1)), np.zeros(1), np.ones(1))
    kernel = XThetaKernel(Matern(1.5, 0.8), Matern(2.5, 1.0), 1)
    choice = KernelChoice((KernelMember(kernel, 1.0, 1.0),), 1)
    amplitude = grid_amplitude(choice, grid, NONE, 1000)
    u = amplitude.nodes  # all points, in some order
    assert_allclose(np.sort(u, axis=0), np.sort(grid.u, axis=0), rtol=0)
    mu = Integrals(kernel, [grid.measure], np.array([[0.3], [1.0]])).mean(u)
    dense = ExactGP(kernel, u, np.sin(2 * u[:, :1]) * (1 + u[:, 1:]), NONE)
    both = [LocalAmplitude(dense, np.unique(u[:, j], return_inverse=True)[1]) for j in (0, 1)]
    assert_allclose(amplitude(mu), np.max([each(mu) for each in both], axis=0), rtol=1e-10)
    assert len(grid_amplitude(choice, grid, NONE, 20).nodes) <= 20


# Predictive distributions ------------------------------------------------------------------------------------------

NEW = np.linspace(1.1, 2.9, 5)


def normal(theta):
    return Gaussian(theta[0], 1.0)


def wide(theta):
    return Gaussian([theta[0], 0.0], cov=[1.0, 0.5])


def drawn(T=8, N=10, outputs=False, seed=0, noise=0.0):
    rng = np.random.default_rng(seed)
    theta = np.linspace(1.0, 3.0, T)
    x = rng.normal(theta[:, None], 1.0, (T, N))
    f = np.stack([np.sin(3 * x), np.abs(x - 2.0)], axis=-1) if outputs else np.sin(3 * x)
    f = f + noise * rng.normal(size=f.shape)
    return cbq.Samples(theta, x, f, normal, depends_on_theta=False, stochastic=noise > 0)


def assembled(fit, theta, c):
    """The squared scales (M,) of output c, from the processes of all kernels."""
    (group,) = (each for each in fit.groups if c in each.outputs)
    j, points = group.outputs.index(c), fit._points.outputs(group.outputs)
    few = points.thinned(fit.calibrated_by.points)
    total, means = 0.0, []
    for weight, member in zip(group.chosen.weights, group.chosen.members, strict=True):
        process = ExactGP(member.kernel, points.u, points.f, fit.jitter, member.noise)
        integrals = Integrals(member.kernel, [normal(t) for t in theta[:, None]], theta[:, None])
        mu = integrals.mean(points.u)
        means.append(process.mean(mu)[:, j])
        if len(means) > 1:
            total = total + weight * (means[-1] - means[0]) ** 2
            continue
        calibrating = ExactGP(member.kernel, few.u, few.f, fit.jitter, member.noise)
        amplitude = LocalAmplitude(calibrating, few.owners)(integrals.mean(few.u))[:, j]
        total = total + amplitude * process.variance(mu, integrals.variance())[:, j] + process.rounding[j] ** 2
    return points.scale[j] ** 2 * total


def mixture_reach(factor, level):
    """The half-width of the interval of an equal mixture of three Gaussians with the scales 1 / factor, 1, factor."""
    scales = np.array([1 / factor, 1.0, factor])
    return optimize.brentq(lambda q: np.mean(stats.norm.cdf(q / scales)) - 0.5 * (1 + level), 0.0, 10.0 * factor)


CASES = {
    "one kernel": (drawn(), {"kernel_x": Matern(1.5, 0.9)}),
    "chosen": (drawn(), {"selection": Selection(1e6, 5, promising=1e6)}),
    "two outputs": (drawn(outputs=True), {"selection": Selection(1e6, promising=1e6)}),
    "a part of the points": (drawn(), {"kernel_x": Matern(2.5, 0.9), "calibration": Calibration(points=30)}),
    "other options": (drawn(), {"calibration": Calibration(factor=2.0, common=0.0)}),
    "draws": (drawn(noise=0.3), {"kernel_x": Matern(1.5, 0.9)}),
    "one theta": (drawn(T=1, N=15), {"kernel_x": Matern(1.5, 0.9)}),
    "two thetas": (drawn(T=2, N=8), {"kernel_x": Matern(1.5, 0.9)}),
    "one point each": (drawn(T=20, N=1), {"kernel_x": Matern(1.5, 0.9)}),
}
pytestmark = pytest.mark.filterwarnings("ignore:(few thetas|few points|not learnt|beyond):cbq.FitWarning")


@pytest.mark.parametrize(("samples", "options"), CASES.values(), ids=CASES)
def test_scales_are_amplitude_disagreement_rounding_and_a_common_error(samples, options):
    fit, level = MOBQ(**options).fit(samples), 0.9
    factor, common = fit.calibrated_by.factor, fit.calibrated_by.common
    reach, std2 = mixture_reach(factor, level), (factor**-2 + 1 + factor**2) / 3
    mean, std = (each.reshape(5, -1) for each in fit.predict(NEW, return_std=True))
    low, high = (each.reshape(5, -1) for each in fit.interval(NEW, level))
    cov = fit.predict(NEW, return_cov=True)[1].reshape(5, 5, -1)
    for c in range(samples.C or 1):
        average = np.mean(np.sqrt(assembled(fit, samples.theta[:, 0], c)))
        scales2 = assembled(fit, NEW, c) + (common * average) ** 2
        assert_allclose(std[:, c], np.sqrt(scales2 * std2), rtol=1e-6)
        assert_allclose(high[:, c] - mean[:, c], reach * np.sqrt(scales2), rtol=1e-6)
        assert_allclose(mean[:, c] - low[:, c], reach * np.sqrt(scales2), rtol=1e-6)
        assert_allclose(np.diag(cov[..., c]), std[:, c] ** 2, rtol=1e-6)
        assert np.min(np.linalg.eigvalsh(cov[..., c])) >= -1e-12 * np.max(cov[..., c])


def test_the_mean_is_that_of_the_best_kernel():
    samples = drawn()
    several, alone = (MOBQ(selection=Selection(1e6, k, promising=1e6)).fit(samples) for k in (5, 1))
    assert len(several.groups[0].chosen.members) > 1
    assert_array_equal(several.predict(NEW), alone.predict(NEW))
    wide, narrow = (fit.predict(NEW, return_std=True)[1] for fit in (several, alone))
    assert np.all(wide > narrow)


def test_a_common_error_adds_to_all_covariances():
    samples, kernel = drawn(), Matern(1.5, 0.9)
    with_it, without = (
        MOBQ(kernel, calibration=Calibration(common=common)).fit(samples).predict(NEW, return_cov=True)[1]
        for common in (0.25, 0.0)
    )
    added = with_it - without
    assert_allclose(added, added[0, 0], rtol=1e-6)
    assert added[0, 0] > 0


def test_landmarks_are_calibrated_by_their_own_process():
    """With K = Phi Phi' + s2, by refitting without each theta through explicit inverses."""
    kernel = Matern(1.5, 0.9)
    fit = MOBQ(kernel, nystrom=20, calibration=Calibration(common=0.0)).fit(drawn())
    points, process = fit._points, fit._parts[0][0].process
    integrals = Integrals(kernel, [normal(t) for t in NEW[:, None]], NEW[:, None])
    root = np.linalg.cholesky(kernel(process.nodes) + 1e-13 * np.eye(20))
    Phi, psi = (
        np.linalg.solve(root, each.T).T for each in (kernel(points.u, process.nodes), integrals.mean(process.nodes))
    )
    K, mu = Phi @ Phi.T + process.noise[0] * np.eye(points.n), psi @ Phi.T

    def refit(rows):
        """The means and unit variances of integrals given some of the values, up to a constant."""
        inverse = np.linalg.inv(K[np.ix_(rows, rows)])
        S = np.sum(inverse)
        beta = np.sum(inverse @ points.f[rows, 0]) / S
        m = mu[:, rows]
        gap = 1.0 - m @ np.sum(inverse, axis=1)
        mean = beta + m @ inverse @ (points.f[rows, 0] - beta)
        return mean, gap**2 / S - np.einsum("mi,ij,mj->m", m, inverse, m)

    whole = refit(np.arange(points.n))
    parts = [refit(np.flatnonzero(points.owners != t)) for t in np.unique(points.owners)]
    moves2 = sum((whole[0] - mean) ** 2 for mean, _ in parts)
    amplitude = moves2 / sum(variance - whole[1] for _, variance in parts)
    unit = process.variance(integrals.mean(process.nodes), integrals.variance())[:, 0]
    scales2 = points.scale[0] ** 2 * (amplitude * unit + process.rounding[0] ** 2)
    low, high = fit.interval(NEW, 0.5)
    # variances are differences of products with explicit inverses, which lose half of the digits or more
    assert_allclose(high - low, 2 * mixture_reach(fit.calibrated_by.factor, 0.5) * np.sqrt(scales2), rtol=2e-3)


def test_a_saved_fit_answers_to_the_last_bit(tmp_path):
    options = {"selection": Selection(within=30.0, most=4), "calibration": Calibration(3.5, 0.1, 40)}
    fit = MOBQ(**options).fit(drawn(outputs=True))
    fit.save(tmp_path / "fit")
    again = cbq.load(tmp_path / "fit", family=normal)
    assert again.calibrated_by == Calibration(3.5, 0.1, 40)
    assert again.settings == fit.settings
    assert_array_equal(again.predict(NEW, return_cov=True)[1], fit.predict(NEW, return_cov=True)[1])
    assert_array_equal(again.interval(NEW), fit.interval(NEW))


def test_the_summary_names_the_factor():
    text = MOBQ(calibration=Calibration(factor=4.0)).fit(drawn()).summary()
    assert "Predictive distribution: normal, with a scale that is known within a factor of 4." in text
    assert "Leaving out points and thetas moves the estimate" in text


# Auto --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "f",
    [lambda x, t: np.sin(2 * x[:, 0]), lambda x, t: np.sin(x[:, 0] * t[0]), lambda x, t: (x[:, 0] > 1.5) * 1.0],
    ids=["smooth", "turns with theta", "a step"],
)
@pytest.mark.filterwarnings("ignore::cbq.FitWarning")
def test_auto_takes_the_smaller_predicted_error_and_names_the_ratio(f):
    samples = cbq.Problem(f, lambda theta: Gaussian(theta[0], 1.0), Uniform(0.0, 3.0)).collect(12, 10, rng=1)
    theta = np.sort(samples.theta[:, 0])
    nearest = [theta[np.argmin(np.where(theta == t, np.inf, np.abs(theta - t)))] for t in theta]
    both = np.concatenate([theta, 0.5 * (theta + nearest)])  # observed, and between them
    errors = []
    for estimator in (MOBQ(nystrom="auto"), cbq.CBQ()):
        _, std = estimator.fit(samples).predict(both, return_std=True)
        errors.append(np.sqrt(np.mean(std**2)))
    ratio, fit = errors[0] / errors[1], Auto().fit(samples)
    assert isinstance(fit, MOBQFit if ratio <= 1 else CBQFit)
    chosen = "MOBQ" if ratio <= 1 else "CBQ"
    assert fit.choice == f"Chose {chosen}. MOBQ's predicted error is {ratio:.2g} times CBQ's."


# Options -----------------------------------------------------------------------------------------------------------


def test_the_options_are_public_and_frozen():
    assert [field.name for field in fields(cbq.Calibration)] == ["factor", "common", "points"]
    with pytest.raises(AttributeError):
        Calibration().factor = 4.0
    assert MOBQ(calibration=Calibration(factor=4.0)) == MOBQ(calibration=Calibration(4.0))


test_what_is_no_calibration = refusals(
    {
        f"{name} = {value}": (lambda name=name, value=value: Calibration(**{name: value}), f"{name} must be {says}")
        for name, values, says in (
            ("factor", (0.9, -1.0, np.nan, np.inf, "many", None, True), "a ratio of scales, 1 or more"),
            ("common", (-0.1, np.nan, np.inf, "some"), "a ratio of standard deviations, 0 or more"),
            ("points", (2, 100.0, None, True), "a number of points, 3 or more"),
        )
        for value in values
    },
    ValueError,
)

test_what_is_no_option = refusals(
    {
        "calibration": (lambda: MOBQ(calibration=0.5), "calibration must be a cbq.Calibration, but it is 0.5"),
        "rbf": (lambda: MOBQ(calibration=RBF()), "calibration must be a cbq.Calibration"),
    },
    TypeError,
)


# Jumps -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sizes", [(0.1, 0.1, 0.1), (0.001, 0.1, 0.2), (0.2, 0.003, 0.001), (0.01, 0.02, 0.3)])
def test_a_jump_may_be_anywhere_in_its_gap(sizes):
    x = np.cumsum([0.0, 0.1, 0.1, *sizes, 0.1, 0.1])
    left, right = x[3:5]  # the ends of the gap
    density = 1.0 / x[-1]
    f = np.where(x > 0.5 * (left + right), 2.0, 0.0)[:, None]
    process = ExactGP(Matern(0.5, 1e4), x[:, None], f, NONE)
    integrals = Integrals(process.kernel, [Uniform(0.0, x[-1])], np.zeros((1, 0)))
    mu, z = integrals.mean(x[:, None]), integrals.variance()
    amplitude = Increments(process).amplitude(process.functionals(mu).weights)
    variance = (amplitude * process.variance(mu, z)).item()
    assert variance == pytest.approx((2.0 * density * (right - left)) ** 2 / 12.0, rel=0.02)


def test_increments_of_a_draw_have_its_amplitude():
    kernel = Matern(0.5, 1.0)
    draws = np.linalg.cholesky(kernel(U)) @ np.random.default_rng(1).standard_normal((30, 400))
    process = ExactGP(kernel, U, 3.0 * draws, NONE)
    mu = Integrals(kernel, MEASURES, np.zeros((3, 0))).mean(U)
    found = Increments(process).amplitude(process.functionals(mu).weights)
    errors = np.std(found, axis=1) / np.sqrt(400)
    assert np.all(np.abs(np.mean(found, axis=1) - 9.0) < 4.0 * errors)


def test_where_single_points_are_left_out_the_roughest_kernel_sees_jumps_by_their_increments():
    x = np.array([0.0, 0.499, 0.5, 0.6, 0.601, 1.0])[:, None]  # either end of the gap has a close neighbour
    process = ExactGP(Matern(0.5, 1.0), x, np.where(x > 0.55, 1.0, 0.0), NONE)
    mu = Integrals(process.kernel, [Uniform(0.0, 1.0)], np.zeros((1, 0))).mean(x)
    weights = process.functionals(mu).weights
    local, squares = Increments(process).amplitude(weights), weights**2
    moved = squares @ process.process.residuals**2 / (squares @ (1.0 / process.process.precision))
    assert local > moved
    assert_allclose(LocalAmplitude(process, None)(mu), np.sqrt(local * moved), rtol=1e-12)
    by_groups = LocalAmplitude(process, np.array([0, 0, 1, 1, 2, 2]))(mu)  # of points that were drawn
    moves = [group.move(weights) for group in process.process.leave_groups_out(np.arange(6) // 2)]
    assert_allclose(by_groups, sum(D**2 for D, _ in moves) / sum(V for _, V in moves), rtol=1e-12)
