"""Collecting samples: batches, progress, and what happens where the integrand fails."""

from __future__ import annotations

import warnings
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np
import pytest

import cbq
from cbq.measures import Gaussian, Uniform
from cbq.problems.problem import Problem
from cbq.runs import CollectWarning, IntegrandError

PRIOR = Uniform([0.0, 1.0], [1.0, 4.0])
THETAS = np.array([[0.5, 2.0], [0.95, 3.0], [0.99, 2.0]])


def family(theta):
    return Gaussian(theta, cov=np.array([[1.0, 0.5], [0.5, 2.0]]))


def f(x, theta):
    return x[:, 0] ** 2 + theta[1] * x[:, 1]


def changed(**options):
    return Problem(**{"integrand": f, "family": family, "prior": PRIOR, **options})


def pointwise(integrand):
    """The same integrand for one point at a time."""
    return lambda x, theta: integrand(x[None], theta)[0]


# batches


@pytest.mark.parametrize("batch", [1, 3, 7, 20, 100])
@pytest.mark.parametrize("vectorized", [True, False])
def test_batches_cover_all_points_once_and_do_not_change_the_samples(batch, vectorized):
    calls = []

    def counting(x, theta):
        calls.append(len(x))
        return f(x, theta)

    problem = changed(integrand=counting if vectorized else pointwise(counting), vectorized=vectorized)
    s = problem.collect(3, [20, 1, 15], rng=0, batch=batch)
    reference = changed().collect(3, [20, 1, 15], rng=0)
    for t in range(3):
        np.testing.assert_array_equal(s.values(t), reference.values(t))
    probe = 3 if vectorized else 1
    assert sum(calls) == 36 + probe
    assert max(calls[1:]) == (min(batch, 20) if vectorized else 1)


@pytest.mark.parametrize("batch", [3, 100])
def test_progress_counts_points(batch):
    seen = []
    changed().collect(4, 10, rng=0, batch=batch, in_flight=1, progress=lambda *numbers: seen.append(numbers))
    assert {total for _, total in seen} == {40}
    done = [n for n, _ in seen]
    assert done[-1] == 40
    assert all(0 < b - a <= batch for a, b in pairwise([0, *done]))


def test_progress_true_draws_a_bar(capsys):
    changed(name="quadratic").collect(3, 10, rng=0, progress=True)
    out, err = capsys.readouterr()
    assert out == ""
    assert "quadratic" in err
    assert "30/30" in err


@pytest.mark.parametrize("progress", [None, False])
def test_no_bar_is_drawn_without_a_terminal(capsys, progress):
    changed().collect(3, 10, rng=0, progress=progress)
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({"batch": 0}, ValueError, "batch must be a whole number, at least 1, but it is 0"),
        ({"in_flight": 0}, ValueError, "in_flight must be a whole number, at least 1"),
        ({"retries": -1}, ValueError, "retries must be a whole number, at least 0"),
        ({"on_error": "ignore"}, ValueError, "on_error must be 'raise' or 'skip', but it is 'ignore'"),
        ({"progress": "yes"}, TypeError, "progress must be True, False, None.* but it is a str"),
        ({"executor": 0}, ValueError, "executor must be a number of processes, at least 1, but it is 0"),
        ({"executor": "pool"}, TypeError, "executor must be None, a number of processes or .* but it is a str"),
    ],
)
def test_collect_refuses(options, kind, message):
    with pytest.raises(kind, match=message):
        changed().collect(3, 4, rng=0, **options)


# failures


def fails(value):
    """An f that fails where x_0 > theta_0 + 1: it raises an exception, or returns a value that is not finite."""

    def broken(x, theta):
        bad = x[:, 0] > theta[0] + 1
        if value is None and np.any(bad):
            raise ZeroDivisionError("flat")
        return np.where(bad, value, f(x, theta)).astype(float)

    return broken


@pytest.mark.parametrize("vectorized", [True, False])
@pytest.mark.parametrize("value", [None, np.nan, -np.inf])
def test_failures_are_left_out(value, vectorized):
    whole = changed().collect(3, 40, rng=0, theta=THETAS)
    integrand = fails(value) if vectorized else pointwise(fails(value))
    problem = changed(integrand=integrand, vectorized=vectorized)
    good = whole.x[..., 0] <= whole.theta[:, :1] + 1
    bad = int(np.count_nonzero(~good))
    assert 3 < bad < 60
    what = "raised ZeroDivisionError: flat" if value is None else f"returned {value}"
    with pytest.warns(CollectWarning, match=f"failed at {bad} of 120 points, at 3 of 3 thetas.*{what}.*more") as caught:
        s = problem.collect(3, 40, rng=0, theta=THETAS, batch=16, on_error="skip")
    assert caught[0].filename == __file__
    assert s.counts.tolist() == np.count_nonzero(good, axis=1).tolist()
    for t in range(3):
        np.testing.assert_array_equal(s.points(t), whole.x[t][good[t]])
        np.testing.assert_array_equal(s.values(t), whole.f[t][good[t]])
    assert s.family is family


def test_the_first_failure_is_in_the_warning():
    whole = changed().collect(3, 40, rng=0, theta=THETAS)
    t, i = np.argwhere(whole.x[..., 0] > whole.theta[:, :1] + 1)[0]
    with pytest.warns(CollectWarning) as caught:
        changed(integrand=fails(np.nan)).collect(3, 40, rng=0, theta=THETAS, on_error="skip")
    place = f"theta index t = {t} (theta = {whole.theta[t]}), point i = {i} (x = {whole.x[t, i]})"
    assert place in str(caught[0].message)


def test_a_point_fails_if_one_of_its_outputs_does():
    def two(x, theta):
        return np.column_stack([f(x, theta), np.where(x[:, 0] > theta[0] + 1, np.nan, 1.0)])

    with pytest.warns(CollectWarning, match="failed at"):
        s = changed(integrand=two).collect(3, 40, rng=0, theta=THETAS, on_error="skip")
    assert s.C == 2
    assert np.all(s.all_points[:, 0] <= s.theta[s.owners, 0] + 1)


def test_a_theta_without_any_value_is_dropped():
    def broken(x, theta):
        return np.full(len(x), np.nan) if theta[0] == 0.95 else f(x, theta)

    with pytest.warns(CollectWarning, match="No point is left at theta index t = 1: dropped"):
        s = changed(integrand=broken).collect(3, 5, rng=0, theta=THETAS, on_error="skip")
    whole = changed().collect(3, 5, rng=0, theta=THETAS)
    np.testing.assert_array_equal(s.theta, THETAS[[0, 2]])
    np.testing.assert_array_equal(s.f, whole.f[[0, 2]])
    assert s.measure(1).equals(whole.measure(2))


def test_a_failure_at_the_first_theta_does_not_end_a_run_that_skips_failures():
    def broken(x, theta):
        if theta[0] == 0.5:
            raise ZeroDivisionError
        return f(x, theta)

    with pytest.warns(CollectWarning, match="theta index t = 0: dropped"):
        s = changed(integrand=broken).collect(3, 5, rng=0, theta=THETAS, on_error="skip")
    np.testing.assert_array_equal(s.theta, THETAS[1:])


def test_an_integrand_that_always_fails_ends_the_run_at_once():
    calls = []

    def broken(x, theta):
        calls.append(len(x))
        raise KeyError("beta")

    with pytest.raises(IntegrandError, match="raised KeyError at theta index t = 0"):
        changed(integrand=broken).collect(50, 1000, rng=0, on_error="skip")
    assert sum(calls) < 20


def test_a_failing_point_costs_one_more_call_per_point_of_its_batch():
    calls = []

    def broken(x, theta):
        calls.append(len(x))
        return fails(None)(x, theta)

    whole = changed().collect(1, 64, rng=0, theta=THETAS[:1])
    bad = whole.x[0, :, 0] > 1.5
    hit = [bool(np.any(bad[i : i + 8])) for i in range(0, 64, 8)]
    assert True in hit
    assert False in hit
    with pytest.warns(CollectWarning):
        changed(integrand=broken).collect(1, 64, rng=0, theta=THETAS[:1], batch=8, on_error="skip")
    probe = [3] if not np.any(bad[:3]) else [3] + [1] * (1 + int(np.argmin(bad[:3])))
    assert calls == probe + [n for failing in hit for n in ([8] + [1] * 8 if failing else [8])]


def test_wrong_shapes_are_not_skipped():
    with pytest.raises(IntegrandError, match=r"returned shape \(2, 3\)"):
        changed(integrand=lambda x, theta: x.T).collect(3, 4, rng=0, on_error="skip")
    with pytest.raises(IntegrandError, match=r"returned shape \(8, 2\).*t = 1.* but \(8,\) is needed"):
        changed(integrand=lambda x, theta: x[:, 0] if theta[0] < 0.9 else x).collect(
            3, 8, rng=0, theta=THETAS, on_error="skip"
        )


class Unspeakable(Exception):
    """An error that does not say what it is."""

    def __str__(self):
        raise RuntimeError("never")

    __repr__ = __str__


def speechless(x, theta):
    raise Unspeakable


def speechless_above(x, theta):
    if np.any(x > theta):
        raise Unspeakable
    return x.ravel()[0] if x.ndim == 1 else x[:, 0]


@pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")
@pytest.mark.parametrize("vectorized", [True, False])
@pytest.mark.parametrize("executor", [None, 1, "threads"])
def test_an_error_without_a_message_is_reported_by_its_type(executor, vectorized):
    options = {"rng": 0, "progress": False}
    with ThreadPoolExecutor(1) as threads:
        options["executor"] = threads if executor == "threads" else executor
        line = Problem(speechless, lambda theta: Gaussian(theta, std=1.0), Uniform(0, 1), vectorized=vectorized)
        for call in (lambda: line.collect(2, 3, **options), lambda: line.solve(budget=16, **options)):
            with pytest.raises(IntegrandError, match=r"the integrand raised Unspeakable at .*: a Unspeakable\."):
                call()
        line = Problem(speechless_above, lambda theta: Gaussian(theta, std=1.0), Uniform(0, 1), vectorized=vectorized)
        with pytest.warns(CollectWarning, match="it raised Unspeakable: a Unspeakable"):
            line.collect(2, 8, on_error="skip", **options)


def test_a_family_whose_error_has_no_message_is_reported_by_its_type():
    line = Problem(lambda x, theta: x[:, 0], lambda theta: speechless(None, theta), Uniform(0, 1))
    with pytest.raises(ValueError, match=r"the family gives no measure at .*: Unspeakable: a Unspeakable\."):
        line.collect(2, 3, rng=0)


def test_too_many_outputs_are_refused_in_words():
    huge = np.broadcast_to(0.0, 2**21)
    line = Problem(lambda x, theta: huge, lambda theta: Gaussian(theta, std=1.0), Uniform(0, 1), vectorized=False)
    for call in (lambda: line.evaluate(0.5, [1.0]), lambda: line.collect(2, 3, rng=0), lambda: line.solve(rng=0)):
        with pytest.raises(IntegrandError, match="2097152 values at each point, but f has at most 1048576 outputs"):
            call()
    wide = Problem(
        lambda x, theta: huge[: 2**20], lambda theta: Gaussian(theta, std=1.0), Uniform(0, 1), vectorized=False
    )
    says = r"f with 1048576 outputs at 1000000 points takes at least 1\.56e\+04 GiB of memory"
    with pytest.raises(MemoryError, match=says):
        wide.collect(10, 100_000, rng=0)


def test_there_is_no_warning_without_failures():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        s = changed().collect(3, 8, rng=0, on_error="skip")
    np.testing.assert_array_equal(s.f, changed().collect(3, 8, rng=0).f)


def test_an_error_has_the_index_of_the_point_at_its_theta():
    whole = changed().collect(3, 40, rng=0, theta=THETAS)
    t, i = np.argwhere(whole.x[..., 0] > whole.theta[:, :1] + 1)[-1]
    theta = THETAS[t : t + 1]

    def last(x, theta):
        return np.where(x[:, 0] == whole.x[t, i, 0], np.nan, 1.0)

    assert i >= 10
    with pytest.raises(IntegrandError) as caught:
        changed(integrand=last).collect(3, 40, rng=0, theta=THETAS, batch=10)
    assert (caught.value.t, caught.value.i) == (t, i)
    np.testing.assert_array_equal(caught.value.theta, theta[0])
    assert "with checkpoint='run.sqlite'" in str(caught.value)


def test_a_refused_call_leaves_the_generator_as_it_was():
    rng, same = np.random.default_rng(3), np.random.default_rng(3)
    with pytest.raises(ValueError, match="scramble='common'"):
        cbq.problems.get("butterfly").collect(2, 3, rng=rng, scramble="common")
    assert rng.integers(2**40) == same.integers(2**40)


def test_a_budget_is_split_into_three_points_each_where_there_are_thetas_enough():
    """50 x 3 was the best of six splits of 150 runs; 6 thetas are the least for one coordinate, 12 for two."""
    for p, budget, expected in ((1, 150, (50, 3)), (1, 17, (8, 2)), (1, 4, (4, 1)), (2, 35, (17, 2)), (2, 36, (12, 3))):
        prior = cbq.measures.Uniform(np.zeros(p), np.ones(p))
        problem = cbq.Problem(lambda x, theta: x[:, 0], lambda theta: cbq.measures.Gaussian(theta[0], 1.0), prior)
        samples = problem.collect(budget=budget, rng=0, progress=False)
        assert (samples.T, samples.counts.max(), samples.counts.min()) == (*expected, expected[1])
