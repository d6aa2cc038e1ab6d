"""Tables with named columns, of any library: columns in another order are found by their names at every door."""

from functools import cache

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

import cbq
from cbq.measures import Gaussian, Uniform
from cbq.samples.names import named_columns

NAMES = {"theta": ["dose", "age"], "x": ["u", "v"], "f": ["cost", "qaly"]}
RNG = np.random.default_rng(0)
THETA, X = RNG.random((12, 2)), RNG.standard_normal((5, 2))


def polars(columns):
    return pytest.importorskip("polars").DataFrame(columns)


def pyarrow(columns):
    return pytest.importorskip("pyarrow").table(columns)


def record_batch(columns):
    return pytest.importorskip("pyarrow").RecordBatch.from_pydict(columns)


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


LIBRARIES = [dict, pd.DataFrame, polars, pyarrow, record_batch, dataset, labelled_array, structured]


def permuted(make, part, values):
    """A table of values (n, 2) whose columns are in the reverse order."""
    columns = {name: np.ascontiguousarray(values[:, j]) for j, name in enumerate(NAMES[part])}
    return make(dict(reversed(columns.items())))


def f(x, theta):
    return np.column_stack([np.sin(x[:, 0]) * theta[0] + theta[1] ** 2, x[:, 1] + 3.0 * theta[0]])


def family(theta):
    return Gaussian(theta, 1.0)


PROBLEM = cbq.Problem(
    f, family, Uniform([0.0, 0.0], [1.0, 1.0]), names=NAMES, exact=lambda theta: theta @ [[1, 2], [0, 3]]
)
SAMPLES = PROBLEM.collect(12, 6, rng=0)
FIT = cbq.LSMC().fit(SAMPLES)
FITS = {"LSMC": FIT, "CBQ": cbq.CBQ(calibrate=False).fit(SAMPLES), "IS": cbq.ImportanceSampling().fit(
    cbq.Problem(lambda x, theta: x, family, PROBLEM.prior, depends_on_theta=False, names=NAMES).collect(12, 6, rng=0)
)}  # fmt: skip


def of_returned_table(make):
    returning = cbq.Problem(
        lambda x, theta: permuted(make, "f", f(x, theta)), family, PROBLEM.prior, names=NAMES
    )  # of which the columns are found by the names of f
    return returning.collect(3, 4, rng=1).f


def of_session(make, *, told):
    with PROBLEM.session(rtol=0.1, rng=0) as session:
        runs = session.ask(4)
        values = np.concatenate([f(x[None], theta) for x, theta in zip(runs.x, runs.theta, strict=True)])
        session.tell(runs.ids, permuted(make, "f", values) if told else values)
        return session.samples.table


def samples_of(theta, x, values, **names):
    made = cbq.Samples(theta, x, values, family, **names)
    return np.column_stack([np.repeat(made.theta, made.counts, axis=0), made.all_points, made.table])


def first_output(values):
    return np.maximum(values[..., 0], 0.5)


VALUES = [f(X, theta) for theta in THETA]
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
        lambda t: samples_of(t("theta", THETA), [t("x", X)] * 12, [t("f", v) for v in VALUES], names=NAMES),
        lambda: PLAIN,
    ),
    "with_values": (
        lambda t: (
            cbq.Samples(THETA, [X] * 12, VALUES, family, names=NAMES).with_values([t("f", v) for v in VALUES]).table
        ),
        lambda: PLAIN[:, 4:],
    ),
    "failed": (
        lambda t: cbq.Samples(THETA, [X] * 12, VALUES, family, names=NAMES, failed=[t("x", 2 * X)] * 12).failures.x,
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
    if hasattr(found, "rows"):  # of a comparison
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
    straight = make({name: THETA[:, j] for j, name in enumerate(NAMES["theta"])})
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


def test_tables_without_rows_yet_and_repeated_columns_are_refused():
    lazy = pytest.importorskip("polars").LazyFrame({"age": [1.0], "dose": [2.0]})
    assert named_columns(lazy) is None
    with pytest.raises(TypeError, match="theta must hold real numbers, but its type is LazyFrame"):
        FIT.predict(lazy)
    twice = pd.DataFrame(np.zeros((3, 3)), columns=["dose", "age", "dose"])
    with pytest.raises(ValueError, match="theta has several columns 'dose'"):
        FIT.predict(twice)
    with pytest.raises(ValueError, match="several columns called 'x'"):
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


@pytest.mark.parametrize("make", [polars, pyarrow, dataset])
@pytest.mark.parametrize("analysis", ANALYSES)
def test_analyses_of_decision_models_take_all_tables(analysis, make):
    assert str(ANALYSES[analysis](make)) == expected(analysis)
