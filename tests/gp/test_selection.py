"""The choice of kernels: errors against refitting without points and thetas, and which kernels are kept."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import cbq
from cbq import Selection
from cbq.estimators.multioutput.candidates import candidate_kernels, pooled_points
from cbq.gp.pooled import NOISES, ExactGP
from cbq.gp.selection import (
    KernelChoice,
    KernelMember,
    PooledPoints,
    choose_kernel,
    judge,
    keep,
    left_out_residuals,
    processes_of,
)
from cbq.gp.sparse import noisy_kernels
from cbq.kernels import RBF, Matern, Warped, XThetaKernel
from cbq.kernels.combinations import SumKernel
from cbq.linalg import Jitter
from cbq.measures import Gaussian, LogNormal, Uniform
from refusals import refusals

NONE, SMALL = Jitter(start=0.0), Jitter(start=1e-13)
ROUGH = Matern(1.5, 0.6)
OWNERS = np.repeat(np.arange(6), 5)


LINE = cbq.Problem(
    lambda x, t: np.abs(x[:, 0] - 0.7), lambda t: Gaussian(t[0], 1.0), Uniform(0.0, 2.0), depends_on_theta=False
)


def points(n=30, outputs=2, owners=OWNERS, seed=0, **options):
    rng = np.random.default_rng(seed)
    u = rng.normal(size=(n, 1))
    f = np.column_stack([np.sin(2 * u[:, 0]), np.abs(u[:, 0] - 0.2)])[:, :outputs]
    given = {"spread": rng.uniform(0.5, 2.0, f.shape), "shift": np.zeros(outputs), "scale": np.ones(outputs)}
    return PooledPoints(u, f, **(given | options), owners=owners)


def predicted(V, f, rest, left):
    """The residuals (b, C) of kriging with an unknown constant, by explicit inverses: f (left) given f (rest)."""
    inverse, one = np.linalg.inv(V[np.ix_(rest, rest)]), np.ones((len(rest), 1))
    beta = (one.T @ inverse @ f[rest]) / (one.T @ inverse @ one)
    return f[left] - beta - V[np.ix_(left, rest)] @ inverse @ (f[rest] - beta)


def values_at(kernel, u):
    """The embeddings of four values of f, which serve as integrals."""
    return kernel(np.tile(np.linspace(-0.8, 0.9, 4)[:, None], (1, u.shape[1])), u)


def moved(kernel, given, noise=0.0):
    """The mean square by which integrals move, by refitting without each theta, or without each point."""
    V, every, mu = kernel(given.u) + noise * np.eye(given.n), np.arange(given.n), values_at(kernel, given.u)

    def integrals(rest):
        inverse, one = np.linalg.inv(V[np.ix_(rest, rest)]), np.ones((len(rest), 1))
        beta = (one.T @ inverse @ given.f[rest]) / (one.T @ inverse @ one)
        return beta + mu[:, rest] @ inverse @ (given.f[rest] - beta)

    groups = every[:, None] if given.owners is None else [every[given.owners == t] for t in np.unique(given.owners)]
    moves = [integrals(every) - integrals(np.delete(every, group)) for group in groups]
    return np.mean(np.sum(np.square(moves), axis=0))


def refitted(kernel, given, noise=0.0):
    """The first two mean squares of `judge`, by refitting without each point and without each theta."""
    n, V = given.n, kernel(given.u) + noise * np.eye(given.n)
    share = np.ones(n) if given.share is None else given.share
    every = np.arange(n)
    single = np.concatenate([predicted(V, given.f, np.delete(every, i), [i]) for i in every]) / given.spread
    groups = [every] if given.owners is None else [every[given.owners == t] for t in np.unique(given.owners)]
    means = [np.mean(predicted(V, given.f, np.setdiff1d(every, g), g), axis=0) for g in groups if len(g) < n]
    first = np.mean(np.average(single**2, axis=0, weights=share))
    if not means:
        return first, None
    return first, np.mean(np.average(np.square(means), axis=0, weights=[np.sum(share[g]) for g in groups]))


# Errors ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("outputs", [1, 2])
@pytest.mark.parametrize("noise", [0.0, 0.3])
@pytest.mark.parametrize("shares", [False, True], ids=["drawn", "chosen"])
def test_the_error_is_the_geometric_mean_of_errors_without_points_and_without_thetas(outputs, noise, shares):
    share = np.random.default_rng(1).dirichlet(np.ones(30)) if shares else None
    given = points(outputs=outputs, share=share)
    single, averaged = refitted(ROUGH, given, noise)
    found = judge(ROUGH, given, NONE, noise)
    assert_allclose(found.error, np.sqrt(np.sqrt(single) * np.sqrt(averaged)), rtol=1e-8)
    assert (found.kernel, found.noise) == (ROUGH, noise)
    if noise == 0:
        assert_allclose(found.residual, np.sqrt(single), rtol=1e-8)
    third = judge(ROUGH, replace(given, integrals=values_at), NONE, noise)
    assert_allclose(third.error, (single * averaged * moved(ROUGH, given, noise)) ** (1 / 6), rtol=1e-8)
    assert third.residual == found.residual
    alone = replace(given, integrals=values_at, owners=None)
    assert_allclose(judge(ROUGH, alone, NONE, noise).error, (single * moved(ROUGH, alone, noise)) ** 0.25, rtol=1e-8)


def test_few_thetas_with_many_points_do_not_hide_what_lies_between_them():
    """Neighbours at the same theta predict a value however badly a kernel knows f elsewhere."""
    problem = cbq.Problem(
        lambda x, t: np.exp(-t[0] * x[:, 0]) * np.sin(3 * t[0]), lambda t: Uniform(0.0, 1.0), Uniform(0.5, 4.0)
    )
    theta = np.linspace(0.7, 3.8, 40)
    exact = np.sin(3 * theta) * (1 - np.exp(-theta)) / theta
    for seed in range(2):
        fit = cbq.MOBQ().fit(problem.collect(15, 40, rng=seed, design="sobol"))
        assert np.max(np.abs(fit.predict(theta) - exact)) < 3e-4  # 2e-3 and 3e-2 by moves without single values


def test_noise_explains_a_part_of_the_residuals():
    given, noise = points(outputs=1), 0.3
    V, one = ROUGH(given.u) + noise * np.eye(30), np.ones(30)
    P = np.linalg.inv(V)
    P -= np.outer(P @ one, P @ one) / (one @ P @ one)
    amplitude = given.f[:, 0] @ P @ given.f[:, 0] / 29
    single, _ = refitted(ROUGH, given, noise)
    explained = np.mean(noise * amplitude / given.spread**2)
    assert_allclose(judge(ROUGH, given, NONE, noise).residual, np.sqrt(max(single - explained, 0.0)), rtol=1e-8)


@pytest.mark.parametrize(
    "owners", [None, np.arange(30), np.repeat([0, 1], 15), np.zeros(30, int)], ids=["none", "own", "two", "one"]
)
def test_without_thetas_of_several_points_single_values_decide(owners):
    given = points(owners=owners)
    single, _ = refitted(ROUGH, replace(given, owners=None))
    found = judge(ROUGH, given, NONE)
    assert_allclose([found.error, found.residual], np.sqrt(single), rtol=1e-8)


@pytest.mark.parametrize("scale", [1e-3, -7.0])
def test_errors_follow_scale_and_ignore_shift_and_order(scale):
    given = points()
    error = judge(ROUGH, given, NONE).error
    moved = replace(given, f=scale * given.f + 5.0, spread=abs(scale) * given.spread)
    assert_allclose(judge(ROUGH, moved, NONE).error, np.sqrt(abs(scale)) * error, rtol=1e-7)
    order = np.random.default_rng(3).permutation(30)
    assert_allclose(judge(ROUGH, given.take(order), NONE).error, error, rtol=1e-9)


def test_of_a_constant_there_is_no_error():
    found = judge(ROUGH, replace(points(), f=np.full((30, 2), 0.1)), NONE)
    assert_allclose([found.error, found.residual], 0.0, atol=1e-12)


def test_a_kernel_without_a_factor_is_the_worst():
    twice = points().take(np.repeat(np.arange(15), 2))
    found = judge(ROUGH, twice, Jitter(start=0.0, ceiling=0.0))
    assert (found.error, found.residual) == (np.inf, np.inf)
    chosen = choose_kernel([ROUGH], twice, SMALL)  # a jitter makes it regular
    assert np.isfinite(chosen.members[0].error)


def test_one_point_and_two_are_no_error():
    for n in (1, 2, 3):
        assert np.isfinite(judge(ROUGH, points(n, owners=np.arange(n)), SMALL).error)


# The choice --------------------------------------------------------------------------------------------------------


def members(*errors):
    return [KernelMember(Matern(1.5, 1.0 + i), error, error) for i, error in enumerate(errors)]


@pytest.mark.parametrize(
    ("options", "errors", "kept"),
    [
        ({}, [3.0, 1.0, 1.9], [1.0, 1.9]),
        ({}, [1.0, 1.5, 1.2, 1.7], [1.0, 1.2, 1.5]),
        ({"most": 1}, [1.1, 1.0], [1.0]),
        ({"within": 1.0}, [1.1, 1.0, 1.0], [1.0, 1.0]),
        ({"within": 5.0, "most": 9}, [4.0, 1.0, 5.1, 5.0], [1.0, 4.0, 5.0]),
        ({}, [0.0, 1e-17, 0.5], [0.0, 1e-17]),  # both are rounding
        ({}, [np.inf, np.inf], [np.inf, np.inf]),
    ],
)
def test_the_best_is_first_and_the_rest_cannot_be_told_apart(options, errors, kept):
    choice = keep(members(*errors), 7, Selection(**options))
    assert [each.error for each in choice.members] == kept
    assert choice.tried == 7


def test_weights_are_inverse_squares_of_errors():
    choice = KernelChoice(tuple(members(1.0, 1.5, 2.0)), 3)
    assert_allclose(choice.weights, np.array([1.0, 1 / 2.25, 0.25]) / (1.0 + 1 / 2.25 + 0.25), rtol=1e-14)
    assert_allclose(KernelChoice(tuple(members(0.0, 0.0)), 2).weights, 0.5)
    best = choice.best()
    assert [each.error for each in best.members] == [1.0]
    assert_array_equal(best.weights, [1.0])
    assert (choice.kernel, choice.residual, choice.noise) == (choice.members[0].kernel, 1.0, 0.0)


def test_given_kernels_are_judged_as_they_are():
    given, kernels = points(), [Matern(0.5, 0.5), Matern(1.5, 0.6), RBF(0.4)]
    judged = {kernel: judge(kernel, given, SMALL).error for kernel in kernels}
    chosen = choose_kernel(kernels, given, SMALL, options=Selection(within=1e6, most=9, promising=1e6))
    assert [repr(each.kernel) for each in chosen.members] == list(map(repr, sorted(kernels, key=judged.__getitem__)))
    assert_allclose([each.error for each in chosen.members], sorted(judged.values()), rtol=1e-12)
    assert chosen.tried == 3
    alone = choose_kernel(kernels, given, SMALL, options=Selection(most=1))
    assert [repr(each.kernel) for each in alone.members] == [repr(min(kernels, key=judged.__getitem__))]


@pytest.mark.parametrize("kernel", [Matern(1.5), Matern(2.5), RBF()], ids=repr)
def test_no_lengthscale_a_step_away_has_a_smaller_error(kernel):
    given = points()
    found = choose_kernel([kernel], given, SMALL).members[0]
    for step in (-0.5, 0.5):
        beside = found.kernel.with_log_lengthscales(found.kernel.log_lengthscales + step)
        assert judge(beside, given, SMALL).error >= found.error


def test_lengthscales_of_coordinates_that_do_not_matter_are_long():
    u = np.random.default_rng(0).normal(size=(80, 2))
    f = np.sin(2 * u[:, :1])
    given = PooledPoints(u, f, np.ones_like(f), np.zeros(1), np.ones(1))
    chosen = choose_kernel([RBF()], given, SMALL)
    short, long = np.exp(chosen.kernel.log_lengthscales)
    assert long > 20 * short
    one = choose_kernel([RBF()], given, SMALL, ard=False)
    assert one.kernel.n_lengthscales == 1
    assert chosen.members[0].error < 0.1 * one.members[0].error


def test_more_points_than_are_judged_are_thinned():
    given = points(60, owners=np.repeat(np.arange(6), 10))
    chosen = choose_kernel([ROUGH], given, NONE, options=Selection(judged=20, screened=10))
    assert_allclose(chosen.members[0].error, judge(ROUGH, given.thinned(20), NONE).error, rtol=1e-12)


def chosen_for(f, measure, n=60):
    x = measure.sample(n, rng=np.random.default_rng(5)).reshape(1, n)
    samples = cbq.Samples([1.0], x, f(x), lambda theta: measure, depends_on_theta=False)
    return choose_kernel(candidate_kernels(samples, "auto", "auto"), pooled_points(samples)[0], SMALL)


def test_the_kernel_is_as_smooth_as_f_and_on_its_coordinates():
    normal, lognormal = Gaussian(0.0, 1.0), LogNormal(0.0, cov=0.5)
    assert isinstance(chosen_for(np.sin, normal).kernel, RBF)
    assert isinstance(chosen_for(lambda x: np.abs(x - 0.3), normal).kernel, Matern)
    on_logs = chosen_for(lambda x: np.sin(3 * np.log(x)), lognormal)
    assert isinstance(on_logs.kernel, Warped)
    assert on_logs.tried == 8
    assert chosen_for(lambda x: np.where(x > 0.3, 1.0, 0.0), normal).kernel.is_roughest
    assert np.isinf(chosen_for(np.sin, Uniform(0.5, 1.5)).kernel.smoothness)  # as well on x as on its logarithm


def test_the_noise_of_draws_is_the_likeliest_of_all_that_are_tried():
    given = points(outputs=1)
    given = replace(given, f=given.f + 0.4 * np.random.default_rng(1).normal(size=given.f.shape))
    one, y = np.ones(30), given.f[:, 0]

    def loss(kernel, noise):
        """Twice the negative restricted log-likelihood at the best amplitude."""
        inverse = np.linalg.inv(kernel(given.u) + noise * np.eye(30))
        S = one @ inverse @ one
        rest = y - one @ inverse @ y / S
        return 29 * np.log(rest @ inverse @ rest / 29) - np.linalg.slogdet(inverse)[1] + np.log(S)

    able = NOISES[NOISES > 1e-9]  # below, the dense matrix is singular
    for kernel, noise in noisy_kernels([ROUGH, RBF(0.7)], given, False):
        assert_allclose(loss(kernel, noise), min(loss(kernel, each) for each in able), atol=1e-8)
    chosen = choose_kernel([ROUGH, RBF(0.7)], given, SMALL, noisy=True, options=Selection(within=1e6))
    found = {type(each.kernel): each for each in chosen.members}
    for kernel, noise in noisy_kernels([ROUGH, RBF(0.7)], given, False):
        assert found[type(kernel)].noise == noise
        assert_allclose(found[type(kernel)].error, judge(kernel, given, SMALL, noise).error, rtol=1e-12)


def test_processes_and_residuals_are_of_the_kernels_that_were_chosen():
    given = points()
    choice = KernelChoice((KernelMember(ROUGH, 1.0, 1.0, 0.1), KernelMember(RBF(0.5), 1.5, 1.5, 0.2)), 2)
    processes = processes_of(choice, given, None, SMALL)
    assert [process.noise[0] for process in processes] == [0.1, 0.2]
    assert_allclose(processes[0].amplitude, ExactGP(ROUGH, given.u, given.f, SMALL, 0.1).amplitude, rtol=1e-14)
    assert len(processes_of(choice.best(), given, np.arange(0, 30, 3), SMALL)[0].nodes) == 10
    V = ROUGH(given.u) + 0.1 * np.eye(30)
    every = np.arange(30)
    expected = np.concatenate([predicted(V, given.f, np.delete(every, i), [i]) for i in every]) / given.spread
    assert_allclose(left_out_residuals(choice, given, NONE, 30), expected, rtol=1e-7, atol=1e-10)


def test_a_kernel_of_x_and_theta_is_judged_too():
    theta = np.repeat(np.linspace(1.0, 3.0, 6), 5)
    given = points()
    given = replace(given, u=np.column_stack([given.u, theta]), f=given.f * theta[:, None])
    kernel = XThetaKernel(Matern(1.5, 0.6), Matern(2.5, 0.9), 1)
    single, averaged = refitted(kernel, given)
    assert_allclose(judge(kernel, given, NONE).error, (single * averaged) ** 0.25, rtol=1e-8)


# Options -----------------------------------------------------------------------------------------------------------

test_what_is_no_selection = refusals(
    {
        **{
            f"{name} = {value}": (lambda name=name, value=value: Selection(**{name: value}), f"{name} must be {says}")
            for name, values, says in (
                ("within", (0.9, -1.0, np.nan, np.inf, "two", None, True), "a ratio of errors, 1 or more"),
                ("promising", (0.0, np.inf), "a ratio of errors, 1 or more"),
                ("most", (0, 1.5, "all", None, True), "a whole number, 1 or more"),
                ("screened", (0, -5), "a whole number, 1 or more"),
                ("judged", (0, 2.5), "a whole number, 1 or more"),
                ("refined", (0,), "a whole number, 1 or more"),
                ("shaped", (0,), "a whole number, 1 or more"),
                ("step", (0.0, 2.0, np.nan, "fine"), "a number from 0.01 to 1"),
            )
            for value in values
        },
    },
    ValueError,
)

test_what_is_no_option = refusals(
    {
        "selection": (lambda: cbq.MOBQ(selection=3), "selection must be a cbq.Selection, but it is 3"),
        "its class": (lambda: cbq.MOBQ(selection=Selection), "selection must be a cbq.Selection"),
    },
    TypeError,
)


def test_a_sum_of_functions_of_one_input_each_is_learnt_as_one():
    def family(theta):
        return Gaussian(np.append(theta, np.zeros(4)), cov=np.ones(5))

    problem = cbq.Problem(
        lambda x, t: np.sum(np.sin(x + np.arange(5.0)), axis=1), family, Uniform(0.0, 2.0), depends_on_theta=False
    )
    samples = problem.collect(8, 12, rng=0)
    found = {name: cbq.MOBQ(kernel).fit(samples) for name, kernel in {"auto": "auto", "radial": RBF()}.items()}
    assert isinstance(found["auto"].groups[0].chosen.kernel, SumKernel)
    theta = np.linspace(0.2, 1.8, 9)
    truth = np.exp(-0.5) * (np.sin(theta) + np.sum(np.sin(np.arange(1.0, 5.0))))
    error = {name: np.max(np.abs(fit.predict(theta) - truth)) for name, fit in found.items()}
    assert error["auto"] < 0.01 * error["radial"]


def test_a_list_of_kernels_is_chosen_from():
    samples = LINE.collect(8, 10, rng=0)
    kernels = [RBF(), Matern(1.5)]
    fit = cbq.MOBQ(kernels).fit(samples)
    assert fit.groups[0].chosen.tried == 2
    errors = [cbq.MOBQ(kernel).fit(samples).groups[0].chosen.members[0].error for kernel in kernels]
    best = cbq.MOBQ(kernels[int(np.argmin(errors))]).fit(samples)
    assert_allclose(fit.predict([0.3, 1.2]), best.predict([0.3, 1.2]), rtol=1e-12)
    again = cbq.MOBQ(kernels[::-1]).fit(samples)
    assert_array_equal(again.predict([0.3, 1.2]), fit.predict([0.3, 1.2]))
    assert cbq.MOBQ(kernels) == cbq.MOBQ(tuple(kernels))  # a list that grows later changes no estimator


@pytest.mark.parametrize("kernels", [[], ["auto"], [RBF(), 1.0], [RBF], "rbf", None], ids=repr)
@pytest.mark.parametrize("name", ["kernel_x", "kernel_theta"])
def test_other_lists_are_refused(kernels, name):
    with pytest.raises(TypeError, match=f"{name} must be 'auto', a kernel such as .* or a list of kernels, but it is "):
        cbq.MOBQ(**{name: kernels})
    with pytest.raises(TypeError, match=f"{name} must be 'auto' or a kernel such as "):
        cbq.CBQ(**{name: [RBF()]})


def test_lengthscales_that_are_given_stay_in_a_list():
    problem = cbq.Problem(
        lambda x, t: np.sin(3 * x[:, 0]) + 0.1 * x[:, 1],
        lambda t: Gaussian([t[0], 0.0], cov=[1.0, 1.0]),
        Uniform(0.0, 2.0),
        depends_on_theta=False,
    )
    given = RBF([0.6, 7.0])
    fit = cbq.MOBQ([given, RBF(), Matern(2.5)], selection=Selection(within=1e6, most=50, promising=1e6, refined=9)).fit(
        problem.collect(8, 10, rng=0)
    )
    kernels = [member.kernel for member in fit.groups[0].chosen.members]
    assert any(isinstance(k, RBF) and np.allclose(k.lengthscale, given.lengthscale, rtol=1e-12) for k in kernels)
