"""The call and its table: against closed forms, from fits, samples and tables of draws."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import cbq
from cbq.indices import Sensitivity, SensitivityOptions
from cbq.measures import Gaussian, Uniform

FAST = SensitivityOptions(points=2**13, drawn=128)
NAMES = {"theta": "k", "x": ["a", "b"], "f": ["u", "v"]}


def two_outputs(**options):
    """u = a + k b and v = a b, for independent a, b ~ U(0, 1) and k ~ U(1/2, 2)."""
    return cbq.Problem(
        lambda x, theta: np.stack([x[:, 0] + theta[0] * x[:, 1], x[:, 0] * x[:, 1]], axis=1),
        lambda theta: Uniform([0.0, 0.0], [1.0, 1.0]),
        Uniform(0.5, 2.0),
        names=NAMES,
        **options,
    )


@pytest.fixture(scope="module")
def fit():
    return cbq.MOBQ().fit(two_outputs().collect(6, 10, rng=0, design="sobol"))


def column(table, name):
    return np.array([getattr(row, name) for row in table.rows])


def test_x_at_each_theta(fit):
    found = cbq.sensitivity(fit, theta=[1.0, 2.0], second_order=True, shapley=True, options=FAST)
    assert [(row.theta, row.output, row.input) for row in found.rows[:3]] == [
        ((1.0,), "u", "a"),
        ((1.0,), "u", "b"),
        ((1.0,), "v", "a"),
    ]
    # Var(ab) = 7/144, of which a explains (1/4)(1/12) = 3/144, and both together 1/144.
    first = [0.5, 0.5, 3 / 7, 3 / 7, 0.2, 0.8, 3 / 7, 3 / 7]
    total = [0.5, 0.5, 4 / 7, 4 / 7, 0.2, 0.8, 4 / 7, 4 / 7]
    assert_allclose(column(found, "first"), first, atol=0.004)
    assert_allclose(column(found, "total"), total, atol=0.004)
    assert_allclose(column(found, "shapley"), 0.5 * (np.array(first) + total), atol=0.004)
    assert found.second_order is not None
    assert_allclose([row.second for row in found.second_order.rows], [0, 1 / 7, 0, 1 / 7], atol=0.004)
    assert list(found.to_frame().columns[:4]) == ["k", "input", "output", "first"]
    assert list(found.second_order.to_frame().columns[:4]) == ["k", "input", "other", "output"]


def test_theta_and_x_together_and_groups(fit):
    prior = two_outputs().prior
    found = cbq.sensitivity(fit, prior, groups={"x": ["a", 2]}, options=FAST)
    k, b, both = 0.1875, 1 / 12, 1 / 12  # variances; E k = 1.25
    of_k, of_x = k / 4, both + b * 1.25**2
    V = of_k + of_x + k * b
    rows = [row for row in found.rows if row.output == "u"]
    assert [row.input for row in rows] == ["k", "x"]
    assert_allclose([row.first for row in rows], [of_k / V, of_x / V], atol=0.004)
    assert_allclose([row.total for row in rows], [1 - of_x / V, 1 - of_k / V], atol=0.004)


def test_x_is_informative_about_theta():
    """theta and x jointly Gaussian, through the family: the indices of a correlated Gaussian."""
    problem = cbq.Problem(
        lambda x, theta: 2 * theta[0] + x[:, 0] + x[:, 1],
        lambda theta: Gaussian([theta[0], 0.0], std=[0.5, 1.0]),
        Gaussian(0.0, std=1.0),
    )
    found = cbq.sensitivity(problem.collect(8, 8, rng=0, design="sobol"), problem.prior, shapley=True, options=FAST)
    cov, beta = np.array([[1.0, 1.0, 0.0], [1.0, 1.25, 0.0], [0.0, 0.0, 1.0]]), np.array([2.0, 1.0, 1.0])
    whole = beta @ cov @ beta
    first = (cov @ beta) ** 2 / np.diag(cov) / whole
    total = beta**2 / np.diag(np.linalg.inv(cov)) / whole
    assert_allclose(column(found, "first"), first, atol=0.005)
    assert_allclose(column(found, "total"), total, atol=0.005)
    assert_allclose(np.sum(column(found, "shapley")), 1.0, atol=1e-6)
    # Shapley effects of two dependent inputs share what both have.
    assert_allclose(column(found, "shapley")[:2], 0.5 * (first + total)[:2], atol=0.005)


def test_the_g_function_of_the_paper_of_saltelli_and_sobol():
    problem = cbq.problems.get("sobol-g")
    fit = cbq.MOBQ().fit(problem.collect(32, 16, rng=0, design="sobol"))
    found = cbq.sensitivity(fit, problem.prior)
    row = found.rows[0]
    exact = cbq.problems.sobol_g.index()
    assert abs(row.first - exact) < 0.02
    assert row.first_low < exact < row.first_high


def test_a_random_f_has_the_indices_of_its_mean():
    problem = cbq.Problem(
        lambda x, theta, rng: x @ [1.0, 2.0] + rng.standard_normal(len(x)),
        lambda theta: Gaussian([0.0, 0.0], std=1.0),
        Uniform(0.0, 1.0),
        depends_on_theta=False,
        stochastic=True,
    )
    fit = cbq.MOBQ().fit(problem.collect(theta=[0.5], N=400, rng=0, design="sobol"))
    for row, exact in zip(cbq.sensitivity(fit, options=FAST).rows, (0.2, 0.8), strict=True):
        assert row.first_low < exact < row.first_high


def test_a_table_keeps_its_dependence_and_leaves_out_noise():
    rng = np.random.default_rng(0)
    cov = np.array([[1.0, 0.6], [0.6, 1.0]])
    x = rng.multivariate_normal([0.0, 0.0], cov, 3000)
    y = x @ [1.0, 2.0] + rng.standard_normal(3000)
    found = cbq.sensitivity({"y": y}, inputs={"a": x[:, 0], "b": x[:, 1]}, shapley=True)
    V = 1 + 4 + 4 * 0.6 + 1
    exact = {
        "first": np.array([2.2**2, 2.6**2]) / V,
        "total": np.array([1.0, 4.0]) * (1 - 0.36) / V,
    }
    exact["shapley"] = 0.5 * (exact["first"] + exact["total"])
    for name, values in exact.items():
        assert np.all((column(found, f"{name}_low") < values) & (values < column(found, f"{name}_high"))), name
        assert np.all(column(found, f"{name}_high") - column(found, f"{name}_low") < 0.2)
    assert "The inputs explain" in str(found)


def test_columns_of_a_table_go_by_their_names():
    """Names that are numbers are no positions."""
    rng = np.random.default_rng(0)
    first, second = rng.standard_normal((2, 200))
    found = cbq.sensitivity(first, inputs={"1": first, "0": second})
    assert [row.input for row in found.rows] == ["1", "0"]
    assert found.rows[0].first > 0.9
    assert found.rows[1].first < 0.1


def test_figures_and_reports(fit, tmp_path):
    found = cbq.sensitivity(fit, theta=[1.0], shapley=True, options=FAST)
    assert isinstance(found, Sensitivity)
    assert len(found.plot().axes) == 8  # three kinds of indices and a tornado, for two outputs
    several = cbq.sensitivity(fit, theta=[0.6, 1.0, 1.5], options=FAST)
    assert [axis.get_xlabel() for axis in several.plot().axes] == ["k"] * 4
    fit.report(tmp_path / "fit.html", more=[found])
    found.report(tmp_path / "own.html")
    for name in ("fit.html", "own.html"):
        assert "Which inputs matter" in (tmp_path / name).read_text(encoding="utf-8")


def test_one_input_explains_everything():
    problem = cbq.problems.get("butterfly")
    fit = cbq.MOBQ().fit(problem.collect(4, 8, rng=0))
    (row,) = cbq.sensitivity(fit, theta=[100.0], options=FAST).rows
    assert (row.first, row.first_low, row.total, row.total_high) == (1.0, 1.0, 1.0, 1.0)


def test_thetas_beyond_the_observed_ones_are_reported(fit):
    with pytest.warns(cbq.FitWarning, match="beyond"):
        found = cbq.sensitivity(fit, theta=[9.0], options=FAST)
    assert "beyond" in str(found)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda fit: cbq.sensitivity(fit), "needs prior, the distribution of theta"),
        (lambda fit: cbq.sensitivity(fit, Uniform(0.5, 2.0), theta=[1.0]), "omit one of them"),
        (lambda fit: cbq.sensitivity(fit, inputs=np.ones((4, 2))), "inputs is the table"),
        (lambda fit: cbq.sensitivity("fit"), "must be a fit, samples, or outputs"),
        (lambda fit: cbq.sensitivity(fit, theta=[1.0], groups={"g": ["c"]}), "'c', which is not an input"),
        (lambda fit: cbq.sensitivity(fit, theta=[1.0], groups={"g": []}), "must be a list of inputs"),
        (lambda fit: cbq.sensitivity(fit, theta=[1.0], groups={"g": ["a"], "h": ["a"]}), "more than once"),
        (lambda fit: cbq.sensitivity(fit, theta=[1.0], groups=["a"]), "groups must map"),
        (lambda fit: cbq.sensitivity(fit, theta=[1.0], groups={"b": ["a"]}), "name of an input in no group"),
        (lambda fit: cbq.sensitivity(fit, theta=[1.0], options={}), "options must be"),
        (lambda fit: fit.report("page.html", more=fit), "more must be a list"),
    ],
)
def test_what_cannot_be_done_is_said(fit, call, message):
    with pytest.raises((TypeError, ValueError), match=message):
        call(fit)


def test_estimates_of_the_curve_alone_are_refused():
    problem = cbq.problems.get("butterfly")
    fit = cbq.LSMC().fit(problem.collect(12, 10, rng=0))
    with pytest.raises(ValueError, match="has no emulator"):
        cbq.sensitivity(fit, theta=[100.0])


def test_coordinates_of_theta_stay_together_if_x_depends_on_them():
    problem = cbq.Problem(
        lambda x, theta: x[:, 0] * theta[1],
        lambda theta: Gaussian(theta[0], std=1.0),
        Uniform([0.0, 0.0], [1.0, 1.0]),
    )
    fit = cbq.MOBQ().fit(problem.collect(14, 5, rng=0, design="sobol"))
    found = cbq.sensitivity(fit, problem.prior, options=FAST)
    assert [row.input for row in found.rows] == ["theta", "x"]
    with pytest.raises(ValueError, match="all coordinates of theta are in one group"):
        cbq.sensitivity(fit, problem.prior, groups={"g": ["theta_0", "x"]})
