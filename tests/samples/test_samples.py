"""Samples: what they hold, how they are changed, and what they refuse."""

from __future__ import annotations

import copy
import pickle
import tracemalloc

import numpy as np
import pytest
from scipy import stats

import cbq
from cbq.measures import (
    Beta,
    Empirical,
    Exponential,
    Gamma,
    Gaussian,
    LogMeasure,
    Mixture,
    Product,
    Uniform,
    Unnormalised,
)
from cbq.samples import Samples
from cbq.samples.arrays import MIN_SPREAD, spread, units
from cbq.samples.conditional import find_thetas

RNG = np.random.default_rng(7)
THETA = RNG.uniform(1, 3, (4, 2))
X = RNG.standard_normal((4, 5, 3))
F = RNG.standard_normal((4, 5))
SHARED = Gaussian(np.zeros(3), 1.0)
COUNTS = (3, 1, 4, 1)


def ragged(outputs=()):
    x = [RNG.standard_normal((n, 3)) for n in COUNTS]
    f = [RNG.standard_normal((n, *outputs)) for n in COUNTS]
    return Samples(THETA, x, f, SHARED), x, f


def gammas(theta):
    return Gamma(theta[0], theta[1])


# contents


def test_regular_samples():
    s = Samples(THETA, X, F, SHARED, depends_on_theta=False, design="sobol")
    assert (s.T, s.p, s.d, s.C, s.n_evaluations, s.is_ragged) == (4, 2, 3, None, 20, False)
    assert (s.depends_on_theta, s.design, s.family) == (False, "sobol", None)
    assert s.counts.tolist() == [5] * 4
    np.testing.assert_array_equal(s.theta, THETA)
    np.testing.assert_array_equal(s.x, X)
    np.testing.assert_array_equal(s.f, F)
    for t in (0, 3, -1):
        np.testing.assert_array_equal(s.points(t), X[t])
        np.testing.assert_array_equal(s.values(t), F[t])
        np.testing.assert_array_equal(s.x[t], X[t])
    assert "T=4, N=5, p=2, d=3, C=None" in repr(s)
    for method in (s.points, s.values, s.measure):
        with pytest.raises(IndexError):
            method(4)


@pytest.mark.parametrize("outputs", [(), (1,), (2,)])
def test_ragged_samples(outputs):
    s, x, f = ragged(outputs)
    assert s.is_ragged
    assert s.counts.tolist() == list(COUNTS)
    assert outputs == (() if s.C is None else (s.C,))
    assert (s.d, s.n_evaluations) == (3, 9)
    for t in range(4):
        for one, other in ((s.points(t), x[t]), (s.x[t], x[t]), (s.values(t), f[t]), (s.f[t], f[t])):
            np.testing.assert_array_equal(one, other)
    assert "N=1..4" in repr(s)


def test_arrays_without_a_last_axis_mean_one_dimension():
    measure = Gaussian(0.0, 1.0)
    full = Samples(THETA[:, :1], X[..., :1], F, measure)
    for theta, x, f in (
        (THETA[:, 0], X[..., 0], F),
        (list(THETA[:, 0]), list(X[..., 0]), [list(row) for row in F]),
        (THETA[:, 0], [row[:, :1] for row in X], tuple(F)),
    ):
        s = Samples(theta, x, f, measure)
        assert (s.p, s.d, s.C) == (1, 1, None)
        np.testing.assert_array_equal(s.theta, full.theta)
        np.testing.assert_array_equal(s.x, full.x)
        np.testing.assert_array_equal(s.f, full.f)
    one = Samples(2.0, [[0.5, 1.0]], [[1, 2]], measure)
    assert (one.T, one.p, one.x.shape, one.f.dtype) == (1, 1, (1, 2, 1), np.float64)


def test_a_ragged_list_may_be_an_object_array():
    x = np.empty(2, dtype=object)
    x[:] = [np.zeros(2), np.ones(3)]
    s = Samples([1.0, 2.0], x, [np.zeros(2), np.ones(3)], Gaussian(0.0, 1.0))
    assert s.counts.tolist() == [2, 3]


def test_equal_thetas_are_not_merged():
    s = Samples([1.0, 1.0], np.zeros((2, 3)), np.ones((2, 3)), Gaussian(0.0, 1.0))
    assert s.T == 2


def test_samples_are_immutable_copies_of_their_inputs():
    theta, x, f = THETA.copy(), X.copy(), F.copy()
    for array in (theta, x, f):
        array.setflags(write=False)
    s = Samples(theta, x, f, SHARED)
    theta, x, f = THETA.copy(), [row.copy() for row in X], [row.copy() for row in F]
    lists = Samples(theta, x, f, SHARED)
    x[0][:] = f[0][:] = theta[:] = 9.0
    np.testing.assert_array_equal(lists.points(0), X[0])
    np.testing.assert_array_equal(lists.values(0), F[0])
    np.testing.assert_array_equal(lists.theta, THETA)
    for part in (s, lists, s.select([0, 2]), Samples(THETA, X, X[..., :2], SHARED).output(1)):
        arrays = (part.theta, part.counts, part.x, part.f, part.points(0), part.values(1))
        assert not any(array.flags.writeable for array in arrays)
    with pytest.raises(AttributeError, match="cannot be changed"):
        s.theta = THETA


def test_samples_survive_pickling():
    s, _, f = ragged()
    again = pickle.loads(pickle.dumps(s))
    np.testing.assert_array_equal(again.values(2), f[2])


# the measures

GAMMA_X = RNG.uniform(0.1, 2, (4, 5))


@pytest.mark.parametrize(
    ("measure", "has_family"),
    [
        (Gamma(THETA[:, 0], THETA[:, 1]), False),
        ([Gamma(a, b) for a, b in THETA], False),
        ([stats.gamma(a, scale=1 / b) for a, b in THETA], False),
        (stats.gamma(THETA[:, 0], scale=1 / THETA[:, 1]), False),
        (gammas, True),
        (lambda theta: stats.gamma(theta[0], scale=1 / theta[1]), True),
    ],
)
def test_all_ways_to_pass_the_measures(measure, has_family):
    s = Samples(THETA, GAMMA_X, F, measure)
    assert (s.family is measure) == has_family
    assert len(s.measures) == 4
    whole = s.batched_measure()
    assert isinstance(whole, Gamma)
    assert whole.batch_shape == (4,)
    for t, (a, b) in enumerate(THETA):
        reference = stats.gamma(a, scale=1 / b).logpdf(GAMMA_X[t])
        for each in (s.measure(t), s.measures[t], whole[t]):
            assert each.batch_shape == ()
            np.testing.assert_allclose(each.logpdf(GAMMA_X[t]), reference, rtol=1e-12)


def test_one_measure_for_all_thetas():
    s = Samples(THETA, X, F, SHARED)
    assert s.measures == (SHARED,) * 4
    assert s.batched_measure() is SHARED
    assert Samples(THETA, X, F, [SHARED] * 4).batched_measure() is SHARED


def test_a_measure_class_is_a_family():
    s = Samples(THETA[:, 0], GAMMA_X, F, Exponential)
    assert s.family is Exponential
    np.testing.assert_array_equal(s.batched_measure().rate[:, 0], THETA[:, 0])


STACKED = {
    "full covariance": lambda t: Gaussian([t, 1, 2], cov=t * np.array([[2, 1, 0], [1, 2, 1], [0, 1, 2]])),
    "box": lambda t: Uniform(-10.0 * np.ones(3), [20 * t, 30, 40]),
    "product": lambda t: Product([Gaussian([t, 0], cov=2.0), Gaussian(t, cov=1 + t)]),
    "atoms": lambda t: Empirical(t * X[0]),
}
NOT_STACKED = {
    "types": lambda t: Gaussian(np.zeros(1), cov=9.0) if t > 2 else Uniform(-9.0, 9.0),
    "shapes": lambda t: Empirical(np.arange(3 if t > 2 else 4)),
    "blocks": lambda t: Product([Gaussian(t, 1), *([Gaussian(0, 1)] if t > 2 else [Uniform(-9, 9)])]),
    "mixture": lambda t: Mixture([0.5, 0.5], [Gaussian(t, 1.0), Gaussian(0.0, 1.0)]),
    "log measure": lambda t: LogMeasure(Gamma(t, 1.0)),
}


@pytest.mark.parametrize("build", STACKED.values(), ids=STACKED)
def test_measures_of_one_type_are_stacked(build):
    measures = [build(t) for t in (1.0, 2.0, 3.0, 4.0)]
    s = Samples([1, 2, 3, 4], X, F, measures)
    whole = s.batched_measure()
    assert (type(whole), whole.batch_shape) == (type(measures[0]), (4,))
    u = np.full((2, 3), 0.3)
    for t, measure in enumerate(measures):
        assert s.measure(t) is measure
        np.testing.assert_array_equal(whole[t].transport(u), measure.transport(u))


@pytest.mark.parametrize("build", NOT_STACKED.values(), ids=NOT_STACKED)
def test_measures_that_cannot_be_stacked_have_no_batched_measure(build):
    measures = [build(t) for t in (1.0, 2.0, 3.0, 4.0)]
    s = Samples([1, 2, 3, 4], X[..., : measures[0].dim], F, measures)
    assert s.batched_measure() is None
    assert s.measures == tuple(measures)


def test_points_are_not_checked_against_measures_without_a_density():
    by_score = Unnormalised(score=lambda x: -x, dim=3)
    s = Samples(THETA, X, F, by_score, design="mcmc")
    assert s.measure(2) is by_score
    ragged_x = [X[0], X[1][:2], X[2], X[3]]
    ragged_f = [F[0], F[1][:2], F[2], F[3]]
    assert Samples(THETA, ragged_x, ragged_f, [by_score] * 4, design="mcmc").batched_measure() is by_score


# the measure as a function of theta


def test_a_family_gives_the_measure_at_any_theta():
    conditional = Samples(THETA, GAMMA_X, F, gammas).conditional
    new = np.array([[7.0, 2.0], THETA[1]])
    for measure, theta in zip(conditional(new), new, strict=True):
        assert measure.equals(gammas(theta))
    assert conditional.observed_at(2).equals(gammas(THETA[2]))


@pytest.mark.parametrize(
    "measure", [Gamma(THETA[:, 0], THETA[:, 1]), [Gamma(a, b) for a, b in THETA]], ids=["batch", "list"]
)
def test_without_a_family_measures_are_known_at_the_observed_thetas(measure):
    conditional = Samples(THETA, GAMMA_X, F, measure).conditional
    for each, t in zip(conditional(THETA[[3, 1, 3]]), (3, 1, 3), strict=True):
        assert each.equals(Gamma(*THETA[t]))
        assert each.equals(conditional.observed_at(t))
    with pytest.raises(ValueError, match=r"not known at theta = \[9. 9.\], which is none of the 4 .*: pass the family"):
        conditional(np.array([THETA[0], [9.0, 9.0]]))


def test_a_measure_that_all_thetas_share_is_known_everywhere():
    conditional = Samples(THETA, X, F, SHARED).conditional
    assert conditional(np.full((3, 2), 77.0)) == (SHARED,) * 3
    assert conditional.observed_at(1) is SHARED


def test_negative_zero_is_zero_among_thetas():
    measures = [Gaussian(0.0, 1.0), Gaussian(1.0, 1.0)]
    conditional = Samples([0.0, 1.0], np.zeros((2, 3)), np.zeros((2, 3)), measures).conditional
    assert conditional(np.array([[-0.0], [1.0]])) == tuple(measures)


def test_a_family_that_fails_or_changes_its_dimension_at_a_new_theta():
    def family(theta):
        return Gaussian(np.zeros(1 if theta[0] < 5 else 2), cov=1.0 if theta[0] > 0 else -1.0)

    conditional = Samples([1.0, 2.0], np.zeros((2, 3)), np.zeros((2, 3)), family).conditional
    with pytest.raises(ValueError, match=r"no measure at theta index t = 1 \(theta = \[-1.\]\)"):
        conditional(np.array([[1.0], [-1.0]]))
    with pytest.raises(ValueError, match="in 2 dimensions, but x has 1"):
        conditional(np.array([[6.0]]))


def test_find_thetas():
    known = np.array([[1.0, 2.0], [0.0, 1.0], [1.0, 2.0]])
    assert find_thetas(np.array([[-0.0, 1.0], [1.0, 2.0], [2.0, 1.0]]), known).tolist() == [1, 0, -1]


def test_all_points_and_their_log_densities():
    s = Samples(THETA, [GAMMA_X[t, :n] for t, n in enumerate(COUNTS)], [F[t, :n] for t, n in enumerate(COUNTS)], gammas)
    reference = [stats.gamma(a, scale=1 / b).logpdf(s.points(t)[:, 0]) for t, (a, b) in enumerate(THETA)]
    np.testing.assert_allclose(s.log_density(), np.concatenate(reference), rtol=1e-12)
    np.testing.assert_array_equal(s.all_points, np.concatenate([s.points(t) for t in range(4)]))
    atoms = Samples(THETA, X, F, Empirical(X[0]))
    np.testing.assert_array_equal(atoms.log_density(), np.zeros(20))


# parts of samples


@pytest.mark.parametrize(
    ("indices", "chosen"),
    [
        (2, [2]),
        (-1, [3]),
        (slice(1, 3), [1, 2]),
        ([3, 0, 0], [3, 0, 0]),
        (np.array([True, False, False, True]), [0, 3]),
    ],
)
@pytest.mark.parametrize(
    "measure",
    [SHARED, Gaussian(np.ones((4, 3)) * np.arange(4)[:, None], 1.0), [Gaussian(np.ones(3) * t, 1) for t in range(4)]],
)
def test_select(indices, chosen, measure):
    x, f = [RNG.standard_normal((n, 3)) for n in COUNTS], [RNG.standard_normal((n, 2)) for n in COUNTS]
    s = Samples(THETA, x, f, measure, depends_on_theta=False, design="mcmc")
    part = s.select(indices)
    assert (part.T, part.C, part.design, part.depends_on_theta) == (len(chosen), 2, "mcmc", False)
    np.testing.assert_array_equal(part.theta, THETA[chosen])
    for i, t in enumerate(chosen):
        np.testing.assert_array_equal(part.points(i), x[t])
        np.testing.assert_array_equal(part.values(i), f[t])
        assert part.measure(i).equals(s.measure(t))


def test_select_keeps_the_family_and_finds_equal_counts():
    x = [np.full(n, 0.5) for n in COUNTS]
    s = Samples(THETA, x, x, gammas)
    alike = s.select(s.counts == 1)
    assert alike.family is gammas
    assert alike.x.shape == (2, 1, 1)
    with pytest.raises(ValueError, match="at least one of the 4 thetas"):
        s.select([])


def test_outputs():
    f = RNG.standard_normal((4, 5, 2))
    s = Samples(THETA, X, f, SHARED)
    parts = list(s.outputs)
    assert [part.C for part in parts] == [None, None]
    for c, part in enumerate(parts):
        np.testing.assert_array_equal(part.f, f[..., c])
        np.testing.assert_array_equal(part.x, X)
    np.testing.assert_array_equal(s.output(-1).f, f[..., 1])
    single = parts[0]
    assert list(single.outputs) == [single]
    with pytest.raises(IndexError, match="no output 2: f has 2 outputs"):
        s.output(2)
    with pytest.raises(IndexError, match="no output 1: f has 1 output,"):
        single.output(1)


def test_with_values():
    s, _, f = ragged()
    new = s.with_values([np.column_stack([row, -row]) for row in f])
    assert (new.C, s.C) == (2, None)
    np.testing.assert_array_equal(new.output(1).values(2), -f[2])
    np.testing.assert_array_equal(new.points(2), s.points(2))
    with pytest.raises(ValueError, match=r"f must be finite.* t = 1 .*point i = 0"):
        s.with_values([row if t != 1 else row * np.nan for t, row in enumerate(f)])
    with pytest.raises(ValueError, match="x has 3 points and f has 2 values at theta index t = 0"):
        s.with_values([f[0][:2], *f[1:]])


# tables


class Frame:
    """The part of a pandas DataFrame that is used."""

    def __init__(self, columns):
        self.columns, self._columns = list(columns), columns

    def __getitem__(self, name):
        return self._columns[name]


TABLE = {
    "theta": [2.0, 1.0, 2.0, 3.0, 1.0],
    "x_a": [1.0, 2.0, 3.0, 4.0, 5.0],
    "x_b": [10.0, 20.0, 30.0, 40.0, 50.0],
    "f": [5, 4, 3, 2, 1],
}


@pytest.mark.parametrize("kind", [dict, Frame])
def test_a_table_is_grouped_by_theta_in_the_order_of_first_rows(kind):
    s = Samples.from_frame(kind(TABLE), Gaussian(np.zeros(2), 1.0), depends_on_theta=False, design="mcmc")
    assert s.theta.tolist() == [[2.0], [1.0], [3.0]]
    assert s.counts.tolist() == [2, 2, 1]
    assert s.points(0).tolist() == [[1.0, 10.0], [3.0, 30.0]]
    assert s.values(1).tolist() == [4.0, 1.0]
    assert (s.C, s.design, s.depends_on_theta) == (None, "mcmc", False)


def test_a_pandas_table():
    pd = pytest.importorskip("pandas")
    s = Samples.from_frame(pd.DataFrame(TABLE), Gaussian(np.zeros(2), 1.0))
    assert s.values(1).tolist() == [4.0, 1.0]
    again = Samples.from_frame(pd.DataFrame(s.to_columns()), Gaussian(np.zeros(2), 1.0))
    np.testing.assert_array_equal(again.points(0), s.points(0))


def test_thetas_that_differ_in_the_sign_of_zero_are_equal():
    s = Samples.from_frame({"theta": [0.0, -0.0], "x": [1.0, 2.0], "f": [1.0, 2.0]}, Gaussian(0.0, 1.0))
    assert s.T == 1


@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize("d", [1, 3])
@pytest.mark.parametrize("outputs", [(), (1,), (2,)])
def test_to_columns_and_from_frame_are_inverse(p, d, outputs):
    x = [RNG.standard_normal((n, d)) for n in COUNTS]
    f = [RNG.standard_normal((n, *outputs)) for n in COUNTS]
    measure = Gaussian(np.zeros(d), 1.0)
    s = Samples(THETA[:, :p], x, f, measure)
    columns = s.to_columns()
    assert all(column.shape == (9,) for column in columns.values())
    assert len(columns) == p + d + (outputs or (1,))[0]
    again = Samples.from_frame(columns, measure)
    assert s.C == again.C
    np.testing.assert_array_equal(again.theta, s.theta)
    for t in range(4):
        np.testing.assert_array_equal(again.points(t), x[t])
        np.testing.assert_array_equal(again.values(t), f[t])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"theta": None}, r"either one column 'theta' or columns theta_\*, but it has \[\]"),
        ({"f_1": [0.0] * 5}, r"but it has \['f', 'f_1'\]"),
        ({"weight": [0.0] * 5}, r"columns \['weight'\], but only theta, x and f"),
        ({"theta1": [0.0] * 5}, r"columns \['theta1'\]"),
        ({"f": [1.0, 2.0]}, "of one length"),
        ({"f": [[1.0]] * 5}, "must be 1-D"),
        ({"theta": [1.0, np.nan, 1.0, 1.0, 1.0]}, r"theta must be finite, but row 1 holds \[nan\]"),
        ({"f": [1.0, 1.0, np.inf, 1.0, 1.0]}, r"f must be finite, but it is inf at theta index t = 0 .*point i = 1"),
    ],
)
def test_invalid_tables_are_refused(changes, message):
    table = {name: column for name, column in {**TABLE, **changes}.items() if column is not None}
    with pytest.raises(ValueError, match=message):
        Samples.from_frame(table, Gaussian(np.zeros(2), 1.0))


def test_objects_that_are_no_table_are_refused():
    with pytest.raises(TypeError, match=r"a pandas or polars DataFrame or a mapping .* but a ndarray arrived"):
        Samples.from_frame(np.zeros((3, 3)), SHARED)
    with pytest.raises(TypeError, match="must hold real numbers"):
        Samples.from_frame({**TABLE, "f": list("abcde")}, Gaussian(np.zeros(2), 1.0))


# errors


def bad(array, index, value):
    array = np.array(array)
    array[index] = value
    return array


REFUSED = {
    "theta shape": ((X, X, F, SHARED), r"theta has shape \(4, 5, 3\), but it must be \(T, p\)"),
    "no theta": ((np.zeros((0, 2)), X, F, SHARED), r"T and p at least 1"),
    "theta nan": ((bad(THETA, (2, 1), np.nan), X, F, SHARED), r"theta must be finite.*theta index t = 2"),
    "x rows": ((THETA, X[:3], F, SHARED), r"x has shape \(3, 5, 3\), but with T = 4 thetas it must be \(4, N\)"),
    "x flat": ((1.0, X[0, 0], F[:1], SHARED), r"x has shape \(3,\), but with T = 1 theta it"),
    "f rows": ((THETA, X, F[:2], SHARED), r"f has shape \(2, 5\).*\(4, N, C\)"),
    "x list": ((THETA, list(X[:3]), F, SHARED), r"x is a list of 3 arrays, but theta has T = 4 rows"),
    "x item": (
        (THETA, [X[0], X[1], 3.0, X[3]], F, SHARED),
        r"x\[2\] has shape \(\), .* must be \(N_t,\) or \(N_t, d\)",
    ),
    "x items": (
        (THETA, [X[0], X[1], X[2][:, :2], X[3]], F, SHARED),
        r"x\[2\] has shape \(5, 2\) and x\[0\] has \(5, 3\)",
    ),
    "f items": ((THETA, X, [F[0], X[1], F[2], F[3]], SHARED), r"f\[1\] has shape \(5, 3\) and f\[0\] has \(5,\)"),
    "counts": (
        (THETA, X, [F[0], F[1], F[2][:3], F[3]], SHARED),
        r"x has 5 points and f has 3 values at theta index t = 2",
    ),
    "no points": ((THETA, X[:, :0], F[:, :0], SHARED), r"x has no point at theta index t = 0"),
    "no point": ((THETA, [X[0], X[1], X[2][:0], X[3]], F, SHARED), r"x has no point at theta index t = 2"),
    "no outputs": ((THETA, X, X[..., :0], SHARED), r"f has an empty last axis"),
    "x nan": ((THETA, bad(X, (1, 3, 0), np.nan), F, SHARED), r"x must be finite.* t = 1 .*point i = 3: correct it"),
    "f inf": (
        (THETA, X, bad(F, ([3, 3], [1, 4]), np.inf), SHARED),
        r"f must be finite.* t = 3 .*i = 1, and 1 more are like",
    ),
    "outside": (
        (THETA, bad(GAMMA_X, (2, 4), -0.5), F, gammas),
        r"density of its measure is positive.*-0.5.* t = 2 .*i = 4",
    ),
    "edge": (
        (THETA, bad(GAMMA_X, (1, 0), 0.0), F, [Beta(2, 2 + t) for t in range(4)]),
        r"density of its measure is positive",
    ),
    "x dim": ((THETA, X[..., :2], F, SHARED), r"Gaussian\(mean=.* in 3 dimensions, but x has 2"),
    "x without d": ((THETA, X[..., 0], F, SHARED), r"in 3 dimensions, but x has 1.*without the last axis d is 1"),
    "batch": (
        (THETA, X, F, Gaussian(np.zeros((3, 3)), cov=np.ones((3, 3, 3)) * np.eye(3))),
        r"batch shape \(3,\).* must be \(4,\)",
    ),
    "list of measures": ((THETA, X, F, [SHARED] * 3), r"a list of 3 measures, but theta has T = 4 rows"),
    "batch in list": ((THETA, X, F, [SHARED] * 3 + [SHARED[None]]), r"theta index t = 3 .*a batch of shape \(1,\)"),
    "family batch": (
        (THETA, X, F, lambda t: SHARED[None]),
        r"theta index t = 0 .*a batch of shape \(1,\).*theta\[0\] is",
    ),
    "family dim": (
        (THETA, X, F, lambda t: Gaussian(np.zeros(1 + (t[0] == THETA[2, 0])), 1.0)),
        r"t = 2 .*in 2 dimensions",
    ),
    "family fails": (
        (THETA, X, F, lambda t: Gamma(-t[0], 1)),
        r"no measure at theta index t = 0 .*ValueError: shape must be",
    ),
    "design": ((THETA, X, F, SHARED, "halton"), r"design must be 'iid', .* or 'adaptive', but it is 'halton'"),
}


@pytest.mark.parametrize(("arguments", "message"), REFUSED.values(), ids=REFUSED)
def test_errors_say_what_is_wrong_and_where(arguments, message):
    design = {"design": arguments[4]} if len(arguments) > 4 else {}
    with pytest.raises(ValueError, match=f"(?s){message}"):
        Samples(*arguments[:4], **design)


@pytest.mark.parametrize(
    ("f", "measure", "message"),
    [
        (F * 1j, SHARED, "f must hold real numbers, but its type is complex128"),
        (
            F,
            "gaussian",
            "a measure of cbq.measures or a scipy.stats distribution with its parameters is needed, but a str arrived",
        ),
        (F, stats.norm, "the scipy distribution norm has no parameters yet"),
        (F, [SHARED, SHARED, SHARED, 3.0], "but a float arrived"),
    ],
)
def test_wrong_types_are_refused(f, measure, message):
    with pytest.raises(TypeError, match=message):
        Samples(THETA, X, f, measure)


def test_a_failing_family_keeps_the_original_error():
    with pytest.raises(ValueError, match="no measure at theta index") as caught:
        Samples(THETA, X, F, lambda theta: theta["a"])
    assert isinstance(caught.value.__cause__, IndexError)


def test_copies_of_samples_are_read_only():
    samples = Samples([1.0, 2.0], np.ones((2, 3)), np.ones((2, 3)), Gamma([1.0, 2.0], 1.0))
    for copied in (pickle.loads(pickle.dumps(samples)), copy.deepcopy(samples), samples.select([0])):
        assert not any(a.flags.writeable for a in (copied.theta, copied.points(0), copied.values(0), copied.counts))


def test_merged_joins_equal_points_of_a_theta() -> None:
    x = [[3.0, 1.0, 3.0, 2.0], [5.0, 3.0, 3.0]]
    f = [[1.0, 7.0, 2.0, 9.0], [4.0, 6.0, 6.0]]
    merged, row = Samples([0.0, 1.0], x, f, Gaussian(0.0, 1.0)).merged()
    assert merged.counts.tolist() == [3, 2]
    assert merged.points(0)[:, 0].tolist() == [3.0, 1.0, 2.0]
    assert merged.values(0).tolist() == [1.5, 7.0, 9.0]  # f averaged
    assert merged.points(1)[:, 0].tolist() == [5.0, 3.0]  # the 3 of the other theta is another point
    assert row.tolist() == [0, 1, 0, 2, 3, 4, 4]


def test_merged_returns_samples_without_equal_points_unchanged() -> None:
    samples = Samples([0.0], [[1.0, 2.0]], [[3.0, 4.0]], Gaussian(0.0, 1.0))
    merged, row = samples.merged()
    assert merged is samples
    assert row.tolist() == [0, 1]


def test_thinned_takes_the_first_draws_and_evenly_spaced_points_of_a_chain() -> None:
    x, f = [[0.0, 1.0, 2.0, 3.0, 4.0, 5.0], [7.0, 8.0]], [[0.0] * 6, [0.0] * 2]
    first, spread = (Samples([0.0, 1.0], x, f, Gaussian(0.0, 1.0), design=d).thinned(3) for d in ("iid", "mcmc"))
    assert first.points(0)[:, 0].tolist() == [0.0, 1.0, 2.0]
    assert spread.points(0)[:, 0].tolist() == [0.0, 2.0, 4.0]
    assert first.points(1)[:, 0].tolist() == spread.points(1)[:, 0].tolist() == [7.0, 8.0]


def test_averages_and_rescaled() -> None:
    samples = Samples([0.0, 1.0], [[0.0, 1.0, 2.0], [3.0]], [[1.0, 2.0, 6.0], [5.0]], Gaussian(0.0, 1.0))
    assert samples.averages(samples.table).tolist() == [[3.0], [5.0]]
    assert samples.rescaled(1.0, 2.0).values(0).tolist() == [0.0, 0.5, 2.5]


def test_units_standardise_values_and_refuse_extreme_ones() -> None:
    f = np.array([[1.0, 5.0], [3.0, 5.0]])
    shift, scale = units(f)
    assert shift.tolist() == [2.0, 5.0]
    assert scale.tolist() == [1.0, 5.0 * np.finfo(float).eps]  # a constant output varies by rounding
    assert units(f, centred=False)[0].tolist() == [0.0, 0.0]
    with pytest.raises(ValueError, match=r"of about 3e\+150 are too large: their squares leave .*float64\. Multiply f"):
        units(1e150 * f[:, :1])
    with pytest.raises(ValueError, match=r"of about 3e-150 are too small"):
        units(1e-150 * f[:, :1])


def test_the_spread_of_a_theta_has_a_lower_bound_and_is_one_for_a_single_point() -> None:
    x = [[0.0, 1.0], [0.0, 1.0], [0.0]]
    samples = Samples([0.0, 1.0, 2.0], x, [[1.0, 3.0], [2.0, 2.0], [5.0]], Gaussian(0.0, 1.0))
    assert spread(samples).tolist() == [[1.0], [MIN_SPREAD], [1.0]]


def test_a_density_that_is_not_a_number_is_refused():
    class Unsure(Gaussian):
        def _logpdf(self, x):
            return np.full(x.shape[:-1], np.nan)

    with pytest.raises(ValueError, match="x must lie where the density of its measure is positive"):
        Samples([0.0], [[0.1, 0.2]], [[1.0, 2.0]], Unsure(0.0, 1.0))


def test_the_size_of_the_offending_output_is_named():
    f = np.stack([np.zeros((2, 3)), np.full((2, 3), 1e150)], axis=-1)
    with pytest.raises(ValueError, match=r"values of f of about 1e\+150 are too large"):
        cbq.CBQ().fit(Samples([0.0, 1.0], np.zeros((2, 3)), f, Gaussian(0.0, 1.0)))


# random f, and bounds of f


def kept_by(s):
    """The samples that each method makes of s, which has two outputs."""
    repeated = Samples(THETA, X[:, [0, 1, 2, 0, 1]], s.f, SHARED, stochastic=s.stochastic, bounds=s.bounds)
    return {
        "select": s.select([0, 2]),
        "thinned": s.thinned(2),
        "regrouped": s.regrouped([[0, 1]] * 4),
        "with_values": s.with_values(0.5 * s.f),
        "merged": repeated.merged()[0],
        "from_frame": Samples.from_frame(s.to_columns(), SHARED, stochastic=s.stochastic, bounds=s.bounds),
    }


def test_a_random_f_stays_one_in_all_samples_that_are_made_of_it():
    two = np.stack([F, F**2], axis=2)
    for stochastic in (True, False):
        s = Samples(THETA, X, two, SHARED, stochastic=stochastic)
        made = kept_by(s) | {"output": s.output(1), "rescaled": s.rescaled(1.0, 2.0)}
        assert {name: each.stochastic for name, each in made.items()} == dict.fromkeys(made, stochastic)
        assert ("stochastic" in repr(s)) is stochastic
    assert Samples(THETA, X, F, SHARED).stochastic is False


def test_bounds_are_one_pair_for_each_output_and_stay_in_all_samples_that_are_made_of_them():
    two = np.stack([np.tanh(F), F**2], axis=2)
    s = Samples(THETA, X, two, SHARED, bounds=([-1, 0], [1, np.inf]))
    assert s.bounds.tolist() == [[-1.0, 0.0], [1.0, np.inf]]
    assert not s.bounds.flags.writeable
    for name, each in kept_by(s).items():
        np.testing.assert_array_equal(each.bounds, s.bounds, err_msg=name)
    assert s.output(0).bounds.tolist() == [[-1.0], [1.0]]
    assert s.output(-1).bounds.tolist() == [[0.0], [np.inf]]
    assert s.rescaled(np.array([1.0, 2.0]), np.array([2.0, 4.0])).bounds.tolist() == [[-1.0, -0.5], [0.0, np.inf]]
    assert s.rescaled(0.0, -2.0).bounds.tolist() == [[-0.5, -np.inf], [0.5, 0.0]]
    assert Samples(THETA, X, np.tanh(F), SHARED, bounds=(-1, 1)).bounds.tolist() == [[-1.0], [1.0]]
    assert Samples(THETA, X, np.tanh(two), SHARED, bounds=(-1, 1)).bounds.tolist() == [[-1.0, -1.0], [1.0, 1.0]]
    assert Samples(THETA, X, two, SHARED, bounds=(-1, [1, np.inf])).bounds.tolist() == [[-1.0, -1.0], [1.0, np.inf]]
    assert Samples(THETA, X, two, SHARED).bounds is None
    assert "bounds=([-1.  0.], [ 1. inf])" in repr(s)
    assert "bounds=(-1, 1)" in repr(s.output(0))


def test_values_outside_their_bounds_are_refused_by_the_name_of_their_point():
    f = np.tanh(F)
    f[2, 3] = 1.5
    with pytest.raises(
        ValueError, match=r"f must lie within its bounds \(-1, 1\), but it is 1.5 at theta index t = 2.*i = 3"
    ):
        Samples(THETA, X, f, SHARED, bounds=(-1, 1))
    with pytest.raises(
        ValueError, match=r"f must lie within its bounds \(-1, 1\), but it is 1.5 at theta index t = 2.*i = 3"
    ):
        Samples(THETA, X, np.tanh(F), SHARED, bounds=(-1, 1)).with_values(f)
    assert Samples(THETA, X, f, SHARED, bounds=(-1, 1), stochastic=True).bounds.tolist() == [[-1.0], [1.0]]  # of E[f]


def test_values_may_exceed_their_bounds_by_rounding():
    f = np.full((4, 5), 0.1 + 0.2)
    assert f[0, 0] > 0.3
    np.testing.assert_array_equal(Samples(THETA, X, f, SHARED, bounds=(0, 0.3)).f, f)


@pytest.mark.parametrize(
    ("bounds", "says"),
    [
        (1.0, r"bounds must be a pair \(low, high\), such as \(0, 1\), but they are 1.0"),
        ((0, 1, 2), "bounds must be a pair"),
        ("01", "bounds must be a pair"),
        ((1, 0), "low is 1 and high is 0: swap them"),
        ((np.inf, np.inf), "low is inf and high is inf"),
        ((0, np.nan), r"bounds\[1\] must not be NaN"),
        ((0, [1, 2]), "bounds have 2 columns, one for each output, but f has no axis of outputs"),
        ((0, [[1, 2]]), r"bounds\[1\] has shape \(1, 2\), but it must be a number, or one for each output"),
        (([0, 1], [1, 2, 3]), r"bounds\[0\] has shape \(2,\), but"),
        ((0, "high"), r"bounds\[1\] must hold real numbers"),
    ],
)
def test_what_are_no_bounds_is_refused(bounds, says):
    with pytest.raises((ValueError, TypeError), match=says):
        Samples(THETA, X, F, SHARED, bounds=bounds)


def test_selecting_thetas_takes_no_memory_for_all_points_at_each_of_them():
    T, N = 400, 200
    theta = np.arange(float(T))
    given = cbq.Samples(
        theta, np.zeros((T, N, 1)) + np.arange(N)[:, None], np.zeros((T, N)), cbq.measures.Gaussian(0, 1)
    )
    tracemalloc.start()
    some = given.select(slice(None, None, 2))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    np.testing.assert_array_equal(some.x, given.x[::2])
    assert peak < 20 * given.f.nbytes
