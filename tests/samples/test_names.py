"""Names of parameters, inputs and outputs: given once, they are in tables, axes, summaries, files and commands."""

import csv

import numpy as np
import pytest

import cbq
from cbq.measures import Gaussian, Uniform
from command_line import ok, refused

NAMES = cbq.Names(theta="stock level", x=["demand, [units]"], f=["profit $", "Kosten; ü"])


def f(x, theta):
    return np.column_stack([x[:, 0] * theta[0], x[:, 0] ** 2])


def family(theta):
    return Gaussian(theta[0], 1.0)


def problem(names=NAMES, integrand=f):
    return cbq.Problem(integrand, family, Uniform([0.0], [1.0]), names=names)


@pytest.fixture(scope="module")
def samples():
    return problem().collect(8, 12, rng=0)


@pytest.fixture(scope="module")
def fit(samples):
    return cbq.CBQ().fit(samples)


def test_without_names_there_are_default_ones(samples):
    plain = samples.with_names(None)
    assert plain.names == cbq.Names("theta", "x", ["f_0", "f_1"])
    assert plain.output(0).names.f == ("f",)
    assert problem(None).names == cbq.Names(theta="theta")
    two = cbq.Samples(np.zeros((1, 2)), np.zeros((1, 1, 2)), np.zeros((1, 1)))
    assert two.names == cbq.Names(["theta_0", "theta_1"], ["x_0", "x_1"], "f")


def test_a_mapping_may_leave_parts_out():
    found = problem({"f": ["a", "b"]}).collect(2, 3, rng=0).names
    assert found == cbq.Names("theta", "x", ["a", "b"])


@pytest.mark.parametrize(
    ("names", "says"),
    [
        ({"theta": ["a", "b"]}, "names of theta are 'a', 'b', but theta has 1 coordinate"),
        ({"theta": "a", "x": "a"}, "names must differ, but 'a' of theta occurs twice"),
        ({"theta": ""}, "names of theta must be printable"),
        ({"theta": " a"}, "without spaces around them"),
        ({"theta": "a\nb"}, "must be printable"),
        ({"theta": "id"}, "must not be 'id'"),
        ({"theta": "a" * 201}, "at most 200 characters"),
        ({"y": "a"}, "the keys of names must be 'theta', 'x' or 'f', but one is 'y'"),
    ],
)
def test_names_that_cannot_be_are_refused(names, says):
    with pytest.raises(ValueError, match=says):
        problem(names)


@pytest.mark.parametrize("names", ["stock", 1, ["stock"]])
def test_names_are_a_mapping_or_names(names):
    with pytest.raises(TypeError, match=r"names must be cbq\.Names, or a mapping"):
        problem(names)


def test_the_number_of_outputs_is_checked_before_the_run():
    calls = []

    def integrand(x, theta):
        calls.append(len(x))
        return x[:, 0]

    with pytest.raises(ValueError, match="names of f are 'a', 'b', but f has 1 output"):
        problem({"f": ["a", "b"]}, integrand).collect(5, 100, rng=0)
    assert sum(calls) < 10
    with pytest.raises(ValueError, match="names of x are 'a', 'b', but x has 1 coordinate"):
        problem({"x": ["a", "b"]}).session(rng=0)


def test_names_carry_through_parts_and_sums_of_samples(samples):
    assert samples.select([0, 2]).names == samples[1:].names == samples.thinned(3).names == NAMES
    assert (samples + problem().collect(2, 3, rng=1)).names == NAMES
    assert (samples.with_names(None) + problem().collect(2, 3, rng=1)).names == NAMES
    assert samples.reweighted(lambda t: Gaussian(t[0], cov=1.5)).names == NAMES
    assert samples.output(1).names == cbq.Names(NAMES.theta, NAMES.x, "Kosten; ü")
    with pytest.raises(ValueError, match="the same names of theta, but they have stock level and other"):
        samples + samples.with_names({"theta": "other"})


def test_names_are_in_tables_summaries_and_axes(samples, fit):
    statistics = [f"{name}_{output}" for name in ("mean", "std", "lower", "upper") for output in NAMES.f]
    assert list(fit.to_frame()) == ["stock level", *statistics]
    assert list(samples.to_frame()) == ["stock level", "demand, [units]", *NAMES.f]
    assert "\nKosten; ü:\n" in fit.summary()
    assert "Names: theta = stock level; x = demand, [units]; f = profit $, Kosten; ü." in fit.summary()
    figure = fit.plot()
    figure.savefig("/dev/null", format="png")  # which parses mathematics
    assert figure.axes[-1].get_xlabel() == "stock level"
    assert [ax.get_ylabel() for ax in figure.axes if ax.get_ylabel() != "half-width"] == [
        r"E[profit \$]",
        "E[Kosten; ü]",
    ]
    assert list(fit.suggest(1).to_frame()) == ["stock level"]


def test_a_single_named_output_is_in_its_columns(samples):
    fit = cbq.LSMC().fit(samples.output(0))
    assert list(fit.to_frame())[:2] == ["stock level", "mean_profit $"]


def test_a_parameter_that_is_called_mean_does_not_hide_the_mean():
    s = problem({"theta": "mean"}, lambda x, theta: x[:, 0]).collect(8, 5, rng=0)
    frame = cbq.LSMC().fit(s).to_frame()
    assert list(frame) == ["mean", "mean_f", "std_f", "lower_f", "upper_f"]
    np.testing.assert_array_equal(frame["mean"], s.theta[:, 0])
    clash = cbq.LSMC().fit(s.with_names({"theta": "mean_f", "f": "f"}))
    assert list(clash.to_frame())[:2] == ["mean_f", "mean"]


@pytest.mark.parametrize("method", [cbq.CBQ(), cbq.MOBQ(), cbq.LSMC(), cbq.MonteCarlo()], ids=repr)
def test_saved_fits_know_the_names(method, samples, tmp_path):
    fit = method.fit(samples)
    fit.save(tmp_path / "fit.cbq")
    assert cbq.load(tmp_path / "fit.cbq", family=family).names == fit.names == NAMES


def test_checkpoints_know_the_names_and_another_name_is_no_other_run(tmp_path):
    path = tmp_path / "run.sqlite"
    problem().collect(3, 4, rng=0, checkpoint=path)
    assert cbq.Samples.from_checkpoint(path).names == NAMES
    renamed = problem({"theta": "stock"}).collect(3, 4, rng=0, checkpoint=path, progress=False)
    assert renamed.names == cbq.Names("stock", "x", ["f_0", "f_1"])
    assert cbq.Samples.from_checkpoint(path, names={"x": "d"}).names == cbq.Names("theta", "d", ["f_0", "f_1"])


def test_comparisons_and_decisions_have_the_names_of_outputs(samples, fit):
    rows = cbq.compare(samples, [cbq.LSMC()]).rows
    assert [row.output for row in rows] == list(NAMES.f)
    both = {"effects": ["Kosten; ü", "profit $"], "costs": [0, 1], "willingness_to_pay": 2.0}
    with pytest.raises(ValueError, match=r"'Kosten; ü', 'profit \$' is listed as an effect and as a cost"):
        cbq.evppi(fit, fit.theta, **both)


SIMULATOR = """
import cbq
from cbq.measures import Gaussian, Uniform

problem = cbq.Problem(
    None, lambda theta: Gaussian(theta[0], 1.0), Uniform([0.0], [1.0]),
    names={"theta": "stock; level", "x": "demand, [units]", "f": ["profit; net", "cost"]},
)
"""


def test_the_command_line_asks_and_is_told_by_names(tmp_path):
    (tmp_path / "stock_simulator.py").write_text(SIMULATOR)
    run, points = tmp_path / "run.sqlite", tmp_path / "points.csv"
    ok("ask", run, "--problem", f"{tmp_path / 'stock_simulator.py'}:problem", "--out", points)
    with open(points, newline="", encoding="utf-8") as file:
        asked = list(csv.DictReader(file))
    assert list(asked[0]) == ["id", "stock; level", "demand, [units]"]
    (tmp_path / "bad.csv").write_text("id,profit\n0,1\n")
    assert "must have columns profit; net, cost, or a column f" in refused("tell", run, tmp_path / "bad.csv")
    with open(tmp_path / "results.csv", "w", newline="") as file:
        writer = csv.writer(file, quoting=csv.QUOTE_NONNUMERIC)
        writer.writerow(["cost", "id", "profit; net"])
        for row in asked:
            x, theta = float(row["demand, [units]"]), float(row["stock; level"])
            writer.writerow([x**2, int(row["id"]), x * theta])
    assert f"{len(asked)} new results" in ok("tell", run, tmp_path / "results.csv")
    status = ok("status", run)
    assert "profit; net:" in status
    assert "stock; level = " in status


def test_predictions_on_the_command_line_have_names(fit, tmp_path):
    fit.save(tmp_path / "fit.cbq")
    found = ok("predict", tmp_path / "fit.cbq", "--theta", "0.5")
    assert found.startswith("stock level")
    assert "Kosten; ü" in found
