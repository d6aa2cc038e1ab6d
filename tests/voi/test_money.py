"""Money: net benefits and expected losses, populations whose decisions follow slowly, numbers and currencies."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.integrate import quad

import cbq
from cbq.voi import appendix, ceac, net_benefits, population
from cbq.voi.money import money

N = 300
RNG = np.random.default_rng(8)
P, Q = RNG.normal(size=(2, N))
EFFECTS = {"none": 10 + 0.1 * Q, "drug A": 10.6 + 0.3 * P, "drug B": 11.0 + 0.2 * P + 0.1 * Q}
COSTS = {"none": 1000 + 50 * P, "drug A": 4000 + 500 * Q, "drug B": 16_000 + 900 * Q}
PRICES = [0.0, 10_000.0, 30_000.0]


def test_net_benefits_and_losses_are_those_of_each_draw():
    table = net_benefits((EFFECTS, COSTS), willingness_to_pay=PRICES, level=0.9)
    for price in PRICES:
        draws = np.stack([price * EFFECTS[name] - COSTS[name] for name in EFFECTS], axis=1)
        loss = np.max(draws, axis=1, keepdims=True) - draws
        rows = table.at(price)
        assert [row.decision for row in rows] == list(EFFECTS)
        assert_allclose([row.net_benefit for row in rows], draws.mean(0), rtol=1e-12)
        assert_allclose(
            [[row.lower, row.upper] for row in rows], np.quantile(draws, [0.05, 0.95], axis=0).T, rtol=1e-12
        )
        assert_allclose([row.loss for row in rows], loss.mean(0), rtol=1e-9, atol=1e-9)
        assert_allclose([row.loss_se for row in rows], loss.std(0, ddof=1) / np.sqrt(N), rtol=1e-9, atol=1e-12)
        assert [row.chosen for row in rows].index(True) == int(np.argmax(draws.mean(0)))


def test_the_smallest_expected_loss_is_evpi():
    table = net_benefits((EFFECTS, COSTS), willingness_to_pay=PRICES)
    evpi = cbq.evpi((EFFECTS, COSTS), willingness_to_pay=PRICES).estimate
    best = [min(table.at(price), key=lambda row: row.loss) for price in PRICES]
    assert all(row.chosen for row in best)
    assert_allclose([row.loss for row in best], evpi, rtol=1e-12)


@pytest.mark.parametrize("prices", [PRICES, [20_000.0]])
def test_expected_losses_are_drawn(prices):
    pytest.importorskip("matplotlib")
    figure = net_benefits((EFFECTS, COSTS), willingness_to_pay=prices).in_currency("EUR").plot()
    labels = [figure.axes[0].get_xlabel(), figure.axes[0].get_ylabel()]
    assert any("expected loss (EUR)" in label for label in labels)


@pytest.mark.parametrize("rate", [0.0, 1e-9, 0.035, 3.0])
@pytest.mark.parametrize("years", [0.0, 0.5, 3.0, 20.0])
def test_the_share_of_decisions_that_follow_grows_in_proportion(rate, years):
    def people(t):
        share = 1.0 if years == 0 else min((t - 2.0) / years, 1.0)
        return 1000 * share * (1 + rate) ** -t

    expected = quad(people, 2, 10, points=[2 + years] if 0 < years < 8 else None, epsabs=1e-9, epsrel=1e-12)[0]
    found = population(1000, 10, rate, delay=2, uptake=years)
    assert found == pytest.approx(expected, rel=1e-9)
    if years:
        by_function = population(1000, 10, rate, delay=2, uptake=lambda t: min(t / years, 1.0))
        assert by_function == pytest.approx(expected, rel=1e-4)  # panels do not end at the kink


def test_a_share_that_is_none_is_refused():
    with pytest.raises(ValueError, match=r"uptake must return a share from 0 to 1, but at .* it is 2"):
        population(10, 5, uptake=lambda t: 2)
    with pytest.raises(ValueError, match="uptake must be a number"):
        population(10, 5, uptake=-1)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (12.3456, "12.35"),
        (123456, "123500"),
        (1234567, "1,235,000"),
        (-15_940_100, "-15,940,000"),
        (2e15, "2e+15"),
        (float("inf"), "inf"),
        (float("nan"), "-"),
    ],
)
def test_money_has_no_exponent(value, text):
    assert money(value) == text


def test_a_currency_is_on_all_parts_and_changes_no_number():
    inputs = {"p": P, "q": Q}
    plain = appendix((EFFECTS, COSTS), inputs, willingness_to_pay=PRICES)
    stated = plain.in_currency("EUR")
    assert set(stated.parts) == {"icers", "plane", "net_benefits", "ceac", "evpi", "evppi", "tornado"}
    for name, part in stated.parts.items():
        assert "Money is in EUR." in str(part), name
        assert "Money" not in str(plain.parts[name])
    assert str(stated).replace("\nMoney is in EUR.", "") == str(plain)


def test_the_line_is_one_of_the_prices_and_shown_first(tmp_path):
    found = appendix((EFFECTS, COSTS), {"p": P}, willingness_to_pay=PRICES, line=12_345)
    assert found.ceac.willingness_to_pay.tolist() == [0, 10_000, 12_345, 30_000]
    assert found.line == found.tornado.rows[0].willingness_to_pay == 12_345
    text = str(found)
    assert text.count("3 more values of the willingness to pay are not shown.") == 2  # of net benefits and EVPPI
    found.report(tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text("utf-8")
    assert page.count("at a willingness to pay of 12345") >= 4
    assert page.count('value="2"><output for="') == 2  # both sliders start at the third price


def test_probabilities_have_no_money_but_a_price():
    pytest.importorskip("matplotlib")
    figure = ceac((EFFECTS, COSTS), willingness_to_pay=PRICES).in_currency("EUR").plot()
    assert figure.axes[0].get_xlabel() == "willingness to pay (EUR)"
