"""Names of coordinates and outputs, and tables of any library, whose columns are found by these names."""

import csv
import sys
from functools import cache

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

import cbq
from cbq.measures import Gaussian, Uniform
from cbq.samples.names import named_columns
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


# Tables with named columns, in another order

PAIRS = {"theta": ["dose", "age"], "x": ["u", "v"], "f": ["cost", "qaly"]}
RNG = np.random.default_rng(0)
THETA, X = RNG.random((12, 2)), RNG.standard_normal((5, 2))


def polars(columns):
    return pytest.importorskip("polars").DataFrame(columns)


def pyarrow(columns):
    return pytest.importorskip("pyarrow").table(columns)


def record_batch(columns):
    return pytest.importorskip("pyarrow").RecordBatch.from_pydict(columns)


def lazy_frame(columns):
    return polars(columns).lazy()


def relation(columns):
    return pytest.importorskip("duckdb").from_arrow(pyarrow(columns))


def modin(columns):
    config = pytest.importorskip("modin.config")
    config.Engine.put("Python")  # rows in this process, so that no cluster of Ray or Dask starts
    return pytest.importorskip("modin.pandas").DataFrame(columns)


def dataset(columns):
    return pytest.importorskip("xarray").Dataset({name: ("row", column) for name, column in columns.items()})


def labelled_array(columns):
    labels = {"column": list(columns)}
    return pytest.importorskip("xarray").DataArray(np.column_stack(list(columns.values())), labels, ("row", "column"))


def structured(columns):
    found = np.empty(len(next(iter(columns.values()))), dtype=[(name, float) for name in columns])
    for name, column in columns.items():
        found[name] = column
    return found


LIBRARIES = [
    dict,
    pd.DataFrame,
    polars,
    pyarrow,
    record_batch,
    lazy_frame,
    relation,
    modin,
    dataset,
    labelled_array,
    structured,
]


def permuted(make, part, values):
    """A table of values (n, 2) whose columns are in the reverse order."""
    columns = {name: np.ascontiguousarray(values[:, j]) for j, name in enumerate(PAIRS[part])}
    return make(dict(reversed(columns.items())))


def two_outputs(x, theta):
    return np.column_stack([np.sin(x[:, 0]) * theta[0] + theta[1] ** 2, x[:, 1] + 3.0 * theta[0]])


def gaussian_family(theta):
    return Gaussian(theta, 1.0)


PROBLEM = cbq.Problem(
    two_outputs,
    gaussian_family,
    Uniform([0.0, 0.0], [1.0, 1.0]),
    names=PAIRS,
    exact=lambda theta: theta @ [[1, 2], [0, 3]],
)
SAMPLES = PROBLEM.collect(12, 6, rng=0)
FIT = cbq.LSMC().fit(SAMPLES)
ALONE = cbq.Problem(lambda x, theta: x, gaussian_family, PROBLEM.prior, depends_on_theta=False, names=PAIRS)
FITS = {
    "LSMC": FIT,
    "CBQ": cbq.CBQ(calibrate=False).fit(SAMPLES),
    "IS": cbq.ImportanceSampling().fit(ALONE.collect(12, 6, rng=0)),
}


def of_returned_table(make):
    returning = cbq.Problem(
        lambda x, theta: permuted(make, "f", two_outputs(x, theta)), gaussian_family, PROBLEM.prior, names=PAIRS
    )  # of which the columns are found by the names of f
    return returning.collect(3, 4, rng=1).f


def of_session(make, *, told):
    with PROBLEM.session(rtol=0.1, rng=0) as session:
        runs = session.ask(4)
        values = np.concatenate([two_outputs(x[None], theta) for x, theta in zip(runs.x, runs.theta, strict=True)])
        session.tell(runs.ids, permuted(make, "f", values) if told else values)
        return session.samples.table


def samples_of(theta, x, values, **names):
    made = cbq.Samples(theta, x, values, gaussian_family, **names)
    return np.column_stack([np.repeat(made.theta, made.counts, axis=0), made.all_points, made.table])


def first_output(values):
    return np.maximum(values[..., 0], 0.5)


VALUES = [two_outputs(X, theta) for theta in THETA]
PLAIN = samples_of(THETA, [X] * 12, VALUES)
BIG = RNG.random((500, 2))

# Each door: what it gives for a table, and for the array with columns in the right order.
DOORS = {
    "predict": (lambda t: FIT.predict(t("theta", THETA)), lambda: FIT.predict(THETA)),
    "std": (lambda t: FIT.predict(t("theta", THETA), return_std=True)[1], lambda: FIT.predict(THETA, True)[1]),
    "interval": (lambda t: FIT.interval(t("theta", THETA))[0], lambda: FIT.interval(THETA)[0]),
    "band": (lambda t: FIT.band(t("theta", THETA))[0], lambda: FIT.band(THETA)[0]),
    "sample": (lambda t: FIT.sample(t("theta", THETA), 3, 0), lambda: FIT.sample(THETA, 3, 0)),
    "to_frame": (lambda t: FIT.to_frame(t("theta", THETA)), lambda: FIT.to_frame(THETA)),
    "beyond": (lambda t: FIT.beyond(t("theta", 3 * THETA)), lambda: FIT.beyond(3 * THETA)),
    "weights of LSMC": (lambda t: FIT.weights(t("theta", THETA)), lambda: FIT.weights(THETA)),
    "weights of CBQ": (lambda t: FITS["CBQ"].weights(t("theta", THETA)), lambda: FITS["CBQ"].weights(THETA)),
    "effective size": (
        lambda t: FITS["IS"].effective_sample_size(t("theta", THETA)),
        lambda: FITS["IS"].effective_sample_size(THETA),
    ),
    "score": (
        lambda t: FIT.score(t("theta", THETA), t("f", PROBLEM.exact(THETA))),
        lambda: FIT.score(THETA, PROBLEM.exact(THETA)),
    ),
    "exact": (lambda t: PROBLEM.exact(t("theta", THETA)), lambda: PROBLEM.exact(THETA)),
    "evaluate theta": (lambda t: PROBLEM.evaluate(t("theta", THETA[:1]), X), lambda: PROBLEM.evaluate(THETA[0], X)),
    "evaluate x": (lambda t: PROBLEM.evaluate(THETA[0], t("x", X)), lambda: PROBLEM.evaluate(THETA[0], X)),
    "collect": (
        lambda t: PROBLEM.collect(None, 3, rng=0, theta=t("theta", THETA)).f,
        lambda: PROBLEM.collect(None, 3, rng=0, theta=THETA).f,
    ),
    "returned by f": (lambda t: of_returned_table(t.make), lambda: PROBLEM.collect(3, 4, rng=1).f),
    "tell": (lambda t: of_session(t.make, told=True), lambda: of_session(None, told=False)),
    "Samples(names=)": (
        lambda t: samples_of(t("theta", THETA), [t("x", X)] * 12, [t("f", v) for v in VALUES], names=PAIRS),
        lambda: PLAIN,
    ),
    "with_values": (
        lambda t: (
            cbq.Samples(THETA, [X] * 12, VALUES, gaussian_family, names=PAIRS)
            .with_values([t("f", v) for v in VALUES])
            .table
        ),
        lambda: PLAIN[:, 4:],
    ),
    "failed": (
        lambda t: (
            cbq.Samples(THETA, [X] * 12, VALUES, gaussian_family, names=PAIRS, failed=[t("x", 2 * X)] * 12).failures.x
        ),
        lambda: np.concatenate([2 * X] * 12),
    ),
    "nested": (
        lambda t: cbq.nested_expectation(FIT, first_output, t("theta", BIG)).estimate,
        lambda: cbq.nested_expectation(FIT, first_output, BIG).estimate,
    ),
    "value at risk": (
        lambda t: cbq.value_at_risk(FIT, t("theta", BIG), 0.9, output=1, rng=0).estimate,
        lambda: cbq.value_at_risk(FIT, BIG, 0.9, output=1, rng=0).estimate,
    ),
    "compare": (
        lambda t: cbq.compare(SAMPLES, [cbq.LSMC()], truth=t("f", PROBLEM.exact(THETA)), theta=t("theta", THETA)),
        lambda: cbq.compare(SAMPLES, [cbq.LSMC()], truth=PROBLEM.exact(THETA), theta=THETA),
    ),
}


class Permuted:
    """Makes tables of a library, with columns in the reverse order."""

    def __init__(self, make):
        self.make = make

    def __call__(self, part, values):
        return permuted(self.make, part, values)


def numbers(found):
    if isinstance(found, cbq.Comparison):
        return np.array([row.rmse for row in found.rows])
    return np.asarray(found, dtype=float)


@cache
def right(door):
    return numbers(DOORS[door][1]())


@pytest.mark.parametrize("make", LIBRARIES)
@pytest.mark.parametrize("door", DOORS)
def test_columns_are_found_by_their_names_at_every_door(door, make):
    assert_array_equal(numbers(DOORS[door][0](Permuted(make))), right(door))


@pytest.mark.parametrize("make", LIBRARIES)
def test_samples_take_the_names_of_the_columns_so_that_fits_know_them(make):
    made = cbq.Samples(
        permuted(make, "theta", THETA), [permuted(make, "x", X)] * 12, [permuted(make, "f", v) for v in VALUES]
    )
    assert [*made.names.theta, *made.names.x, *made.names.f] == ["age", "dose", "v", "u", "qaly", "cost"]
    assert_array_equal(made.theta, THETA[:, ::-1])
    fit = cbq.LSMC().fit(made)
    straight = make({name: THETA[:, j] for j, name in enumerate(PAIRS["theta"])})
    assert_array_equal(fit.predict(straight), fit.predict(THETA[:, ::-1]))


@pytest.mark.parametrize("make", LIBRARIES)
def test_a_long_table_is_read_by_names(make):
    table = {"theta_b": [2.0, 1.0, 2.0], "f": [5.0, 4.0, 3.0], "x": [1.0, 2.0, 3.0]}
    made = cbq.Samples.from_frame(make({name: np.array(column) for name, column in table.items()}))
    assert made.names == cbq.Names("theta_b", "x", "f")
    assert_array_equal(made.table[:, 0], [5.0, 3.0, 4.0])


@pytest.mark.parametrize("make", LIBRARIES)
def test_a_table_without_a_column_that_is_needed_is_refused(make):
    with pytest.raises(
        ValueError, match=r"theta has no column 'age': .*needs the columns 'dose', 'age', but it has 'dose', 'weight'"
    ):
        FIT.predict(make({"dose": THETA[:, 0], "weight": THETA[:, 1]}))


def test_rows_of_tables_are_single_thetas():
    row = pd.DataFrame(dict(zip(["age", "dose"], THETA.T[::-1], strict=True))).iloc[0]
    assert_array_equal(PROBLEM.evaluate(row, X), PROBLEM.evaluate(THETA[0], X))
    assert_array_equal(PROBLEM.evaluate(dict(row), X), PROBLEM.evaluate(THETA[0], X))


ONE = cbq.LSMC().fit(SAMPLES.output(0))
KINDS = {polars: "polars", lazy_frame: "polars", pyarrow: "pyarrow", relation: "pyarrow", pd.DataFrame: "pandas"}
KINDS |= {modin: "modin"}


@pytest.mark.parametrize("make", KINDS, ids=lambda make: make.__name__)
def test_answers_are_in_the_library_of_the_table(make):
    theta = permuted(make, "theta", THETA)
    both, single = FIT.predict(theta), ONE.predict(theta)
    tables = [both, *FIT.interval(theta), *FIT.band(theta), FIT.to_frame(theta)]
    columns = [single, *ONE.predict(theta, return_std=True), *ONE.interval(theta)]
    assert {type(each).__module__.partition(".")[0] for each in tables + columns} == {KINDS[make]}
    for table in tables[:-1]:
        assert list(named_columns(table).names) == PAIRS["f"]
    assert_array_equal(np.asarray(both["qaly"]), FIT.predict(THETA)[:, 1])
    assert_array_equal(np.asarray(single), ONE.predict(THETA))
    assert list(named_columns(tables[-1]).names)[:4] == ["dose", "age", "mean_cost", "mean_qaly"]
    assert np.shape(ONE.predict(theta, return_cov=True)[1]) == (12, 12)


def test_a_series_of_thetas_is_answered_with_a_series():
    fit = cbq.LSMC().fit(cbq.Samples(THETA[:, 0], X[None, :, :1].repeat(12, 0), RNG.random((12, 5))))
    series = pytest.importorskip("polars").Series("dose", THETA[:, 0])
    for theta in (series, series.to_arrow(), pytest.importorskip("pyarrow").chunked_array([THETA[:, 0]])):
        assert_array_equal(np.asarray(fit.predict(theta)), fit.predict(THETA[:, 0]))
    assert type(fit.predict(series)) is type(series)
    assert fit.predict(series).name == "f"


def test_decimals_of_sql_are_numbers():
    asked = pytest.importorskip("duckdb").sql("select 0.5 as age, 0.25 as dose union all select 0.125, 0.75")
    assert_array_equal(np.asarray(ONE.predict(asked)), ONE.predict([[0.25, 0.5], [0.75, 0.125]]))


def test_answers_in_other_libraries_ask_for_narwhals_in_a_sentence(monkeypatch):
    monkeypatch.setitem(sys.modules, "narwhals.stable.v2", None)
    theta = permuted(polars, "theta", THETA)
    with pytest.raises(ImportError, match=r"a table of polars needs narwhals here: python -m pip install narwhals, or"):
        FIT.predict(theta)
    assert_array_equal(FIT.predict(permuted(pd.DataFrame, "theta", THETA)), FIT.predict(THETA))
    assert_array_equal(FIT.sample(theta, 3, 0), FIT.sample(THETA, 3, 0))  # arrays in any case


def test_repeated_columns_are_refused():
    twice = pd.DataFrame(np.zeros((3, 3)), columns=["dose", "age", "dose"])
    with pytest.raises(ValueError, match="theta has several columns 'dose'"):
        FIT.predict(twice)
    with pytest.raises(ValueError, match="several columns 'x'"):
        cbq.Samples.from_frame(pd.DataFrame(np.zeros((3, 4)), columns=["theta", "x", "x", "f"]))


def test_gaps_and_words_in_columns_are_refused_by_name():
    frame = pytest.importorskip("polars").DataFrame({"age": [1.0, None], "dose": [2.0, 1.0]})
    with pytest.raises(ValueError, match=r"theta must be finite, but it is \[ 1. nan\]"):
        FIT.predict(frame)
    with pytest.raises(TypeError, match="column 'age' of theta must hold real numbers"):
        FIT.predict(frame.with_columns(age=pytest.importorskip("polars").lit("old")))


def test_raw_bytes_are_no_numbers():
    for raw in (bytearray(b"\x01\x02"), memoryview(b"\x01\x02")):
        with pytest.raises(TypeError, match="theta must hold real numbers, but it holds raw bytes"):
            FIT.predict(raw)


# --- draws of decision models

DRAWS = np.random.default_rng(1).normal(size=(200, 3))
MODEL = {
    "price": DRAWS[:, 0], "p": DRAWS[:, 1], "nb_new": DRAWS[:, 0] + DRAWS[:, 2], "nb_old": np.zeros(200)
}  # fmt: skip
PAYS = {
    "cost_new": 5 + DRAWS[:, 0],
    "qaly_old": DRAWS[:, 1],
    "qaly_new": DRAWS[:, 1] + DRAWS[:, 2],
    "cost_old": DRAWS[:, 2],
}
PRICED = {"effects": ["qaly_old", "qaly_new"], "costs": ["cost_old", "cost_new"], "willingness_to_pay": 2.0}
ANALYSES = {
    "evppi": lambda make: cbq.evppi(make(only(MODEL, "nb_old", "nb_new")), make(only(MODEL, "p", "price")), "all"),
    "evppi of effects and costs": lambda make: cbq.evppi(make(PAYS), make(MODEL), [["price"]], **PRICED),
    "evsi": lambda make: cbq.evsi(
        make(only(MODEL, "nb_old", "nb_new")), make(MODEL), ["price"], study=cbq.voi.studies.Normal(sd=1.0), sizes=[10]
    ),
    "evpi": lambda make: cbq.voi.evpi(make(PAYS), **PRICED),
    "ceac": lambda make: cbq.voi.ceac(make(PAYS), **PRICED),
    "icers": lambda make: cbq.voi.icers(make(PAYS), effects=PRICED["effects"], costs=PRICED["costs"]),
    "pair": lambda make: cbq.voi.ceac(
        (make(only(PAYS, "qaly_old", "qaly_new")), make(only(PAYS, "cost_old", "cost_new"))), willingness_to_pay=2.0
    ),
}


def only(columns, *names):
    return {name: columns[name] for name in names}


@cache
def expected(analysis):
    return str(ANALYSES[analysis](pd.DataFrame))


@pytest.mark.parametrize("make", [polars, pyarrow, relation, dataset])
@pytest.mark.parametrize("analysis", ANALYSES)
def test_analyses_of_decision_models_take_all_tables(analysis, make):
    assert str(ANALYSES[analysis](make)) == expected(analysis)
