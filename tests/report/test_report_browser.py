"""Reports in headless Chromium: they load without errors, sliders move the numbers, and they fit a phone."""

from __future__ import annotations

import re
import shutil

import numpy as np
import pytest

import cbq
from cbq.report.charts import resolved
from cbq.voi import EvppiTable, appendix, studies
from test_report import EVIL, Known, row

BROWSER, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
FLAGS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage"),
)
PHONE, DESKTOP = 360, 1000  # pixels
OUTSIDE = """return [...document.querySelectorAll('svg text')].map((each) => each.getBoundingClientRect())
  .filter((box) => box.left < -1 || box.right > innerWidth + 1).length"""  # texts that are cut off
rng = np.random.default_rng(0)
CLIPPED = (
    "return [...document.querySelectorAll('.scroll')].filter((each) => each.scrollWidth > each.clientWidth).length"
)
OWNED = type("Named", (Known,), {"names": cbq.Names(theta=(f"theta {EVIL}",), f=(EVIL,))})

REPORTS = {
    "line": Known(np.linspace(20, 220, 9)[:, None]),
    "times": Known(1.7e9 + 1e-3 * np.linspace(0, 1, 9)[:, None]),
    "map of times": Known(1.7e9 + 1e-3 * rng.uniform(size=(12, 2))),
    "map": Known(rng.uniform(1, 2, (12, 2)), C=2),
    "slices": Known(rng.uniform(1, 2, (12, 3))),
    "six coordinates": Known(rng.uniform(1, 2, (12, 6))),
    "hostile names": OWNED([[1.0], [2.0], [3.0]]),
    "bars": EvppiTable(tuple(row(f"an input with quite a long name, number {i}", i / 3) for i in range(30))),
    "pairs": EvppiTable(tuple(row(f"{a}, {b}", ord(a) / ord(b)) for a in "abcd" for b in "abcd" if a < b)),
    "prices": EvppiTable(tuple(row(a, price, price) for a in "ab" for price in (1.0, 2.0, 3.0))),
}


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    if BROWSER is None or DRIVER is None:
        pytest.skip("chromium and chromedriver are not installed: on Debian, apt install chromium chromium-driver")
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed: pip install 'cbq[dev]'")
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    yield driver
    driver.quit()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("reports")
    for name, subject in REPORTS.items():
        known = {"truth": lambda theta: np.sum(theta, axis=1)} if name == "line" else {}
        subject.report(made / f"{name}.html", **known)
    return made


def show(browser, folder, name, width=DESKTOP, scheme="light"):
    """Open a report, and return what the console said."""
    schemes = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", schemes)
    size = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width == PHONE}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    browser.get((folder / f"{name}.html").as_uri())
    return [entry["message"] for entry in browser.get_log("browser")]


def readings(browser):
    """The values of the sliders, and for each quantity its estimate and its interval."""
    values = browser.execute_script("return [...document.querySelectorAll('.slider output')].map(e => e.textContent)")
    lines = browser.execute_script("return [...document.querySelectorAll('.readings p')].map(e => e.textContent)")
    return values, [re.split(r": |, \d+% interval | to ", line)[-3:] for line in lines]


def expected(fit, theta):
    """What the page should write at theta, for each output."""
    mean, (low, high) = fit.predict([theta]).ravel(), (end.ravel() for end in fit.interval([theta]))
    return [[resolved(v, 0.5 * (b - a)) for v in (m, a, b)] for m, a, b in zip(mean, low, high, strict=True)]


def press(browser, slider, keys):
    from selenium.webdriver.common.by import By

    browser.find_elements(By.CSS_SELECTOR, ".slider input")[slider].send_keys(keys)


@pytest.mark.parametrize("name", REPORTS)
def test_a_report_loads_without_errors_draws_and_fits_a_phone(browser, folder, name):
    for width, scheme in ((DESKTOP, "light"), (PHONE, "dark")):
        assert show(browser, folder, name, width, scheme) == []
        charts = "return [...document.querySelectorAll('.chart > svg')].map(e => e.childElementCount)"
        assert min(browser.execute_script(charts)) > 0
        page = "document.documentElement"
        assert browser.execute_script(f"return {page}.scrollWidth <= {page}.clientWidth")
        assert browser.execute_script(OUTSIDE) == 0


@pytest.mark.parametrize("name", ["line", "map", "slices"])
def test_sliders_move_the_numbers_to_those_of_the_fit(browser, folder, name):
    from selenium.webdriver.common.keys import Keys

    fit = REPORTS[name]
    show(browser, folder, name)
    seen = []
    for j in range(fit.p):
        for keys in (Keys.HOME, Keys.ARROW_RIGHT * 3, Keys.END):
            press(browser, j, keys)
            values, found = readings(browser)
            assert found == expected(fit, [float(value) for value in values])
            seen.append(tuple(values))
    assert len(set(seen)) >= 2 * fit.p


def test_one_coordinate_of_many_moves_at_a_time(browser, folder):
    from selenium.webdriver.common.keys import Keys

    fit = REPORTS["six coordinates"]
    show(browser, folder, "six coordinates")
    start, _ = readings(browser)
    press(browser, 1, Keys.HOME)
    press(browser, 4, Keys.END)
    values, found = readings(browser)
    assert [j for j in range(6) if values[j] != start[j]] == [4]
    assert found == expected(fit, [float(value) for value in values])


@pytest.mark.parametrize("name", ["line", "map"])
def test_pointing_at_a_chart_reads_it_there(browser, folder, name):
    from selenium.webdriver import ActionChains
    from selenium.webdriver.common.by import By

    fit = REPORTS[name]
    show(browser, folder, name)
    chart = browser.find_element(By.CSS_SELECTOR, ".chart > svg")
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", chart)
    places = []
    for right, down in ((-60, 20), (80, -30)):
        ActionChains(browser).move_to_element_with_offset(chart, right, down).perform()
        values, found = readings(browser)
        places.append([float(value) for value in values])
        assert found == expected(fit, places[-1])
    assert places[0][0] < places[1][0]
    if fit.p == 2:
        assert places[0][1] < places[1][1]


def test_the_slider_over_prices_reads_the_table(browser, folder):
    from selenium.webdriver.common.keys import Keys

    show(browser, folder, "prices")
    press(browser, 0, Keys.HOME)
    values, found = readings(browser)
    assert values == ["1"]
    assert found[0][-3:] == ["1.00", "0.80", "1.20"]


def test_names_do_not_run(browser, folder):
    assert show(browser, folder, "hostile names") == []
    assert browser.title.startswith("Expected </script>")
    assert browser.execute_script("return document.querySelectorAll('b').length") == 0


def test_pages_are_dark_where_readers_want_it(browser, folder):
    ground = "return getComputedStyle(document.body).backgroundColor"
    found = []
    for scheme in ("light", "dark"):
        show(browser, folder, "line", scheme=scheme)
        found.append(sum(map(int, re.findall(r"\d+", browser.execute_script(ground))[:3])))
    assert found[0] > 600 > 200 > found[1]


def test_everything_can_be_reached_and_is_named(browser, folder):
    show(browser, folder, "line")
    unnamed = "return [...document.querySelectorAll('svg[role=img]:not([aria-label])')].length"
    assert browser.execute_script(unnamed) == 0
    labels = "return [...document.querySelectorAll('input')].every(e => e.labels.length === 1 && e.ariaValueText)"
    assert browser.execute_script(labels)


@pytest.fixture(scope="module")
def decisions(tmp_path_factory):
    """The pages of an appendix and of a study for a population, with millions in every column and notes."""
    made, n = tmp_path_factory.mktemp("decisions"), 300
    risk, price = rng.beta(8, 12, n), rng.gamma(50, 40, n)
    effects = {"usual care": -2 * risk, "the new drug": -1.4 * risk, "both": -1.35 * risk}
    costs = {"usual care": 4000 * risk, "the new drug": 2800 * risk + price, "both": 2700 * risk + 2 * price}
    options = {"outputs": (effects, costs), "inputs": {"risk": risk, "price": price, "fixed": np.ones(n)}}
    found = appendix(**options, willingness_to_pay=[5000, 10_000, 15_000])
    found.for_population(123_456.0).in_currency("EUR").report(made / "appendix.html")
    study = cbq.evsi(**options, pars="risk", study=studies.BinomialCount(), sizes=[20, 2000], willingness_to_pay=10_000)
    cbq.enbs(study, 10_000, 123_456, fixed_cost=1e7).in_currency("EUR").report(made / "study.html")
    return made


@pytest.mark.parametrize("name", ["appendix", "study"])
def test_tables_of_decisions_fit_a_screen_and_a_printed_page(browser, decisions, name):
    assert show(browser, decisions, name, 1280) == []
    assert browser.execute_script("return document.querySelectorAll('.scroll').length") >= 1
    assert browser.execute_script(CLIPPED) == 0
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    size = {"width": 680, "height": 960, "deviceScaleFactor": 1, "mobile": False}  # A4 without margins
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    assert browser.execute_script("return document.documentElement.scrollWidth") <= 680
