"""The skeletons in the documentation run, and their classes work everywhere."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "develop" / "skeletons.md"
CHECKS = {
    "A kernel": """
x = np.array([[0.0], [0.5], [2.0]])
assert np.allclose(cbq.embed(Rational(0.7), gaussian).mean(x), quadrature(Rational(0.7), gaussian).mean(x), rtol=1e-9)
""",
    "A measure": """
measure = Laplace(0.3, 0.8)
u = np.array([[1e-12], [0.2], [0.5], [0.9]])
assert np.allclose(measure.transport(u)[:, 0], stats.laplace(0.3, 0.8).ppf(u[:, 0]), rtol=1e-12)
assert np.allclose(measure.logpdf(x), stats.laplace(0.3, 0.8).logpdf(x[:, 0]), rtol=1e-12)
problem = cbq.Problem(lambda x, t: np.sin(x[:, 0]), lambda t: Laplace(t, 1.0), cbq.measures.Uniform(0.0, 1.0))
samples = problem.collect(12, 24, rng=0, design="sobol")
cbq.CBQ().fit(samples).predict([0.5])
""",
    "An embedding": """
for ell in (0.01, 0.5, 40.0):
    embedding, density = cbq.embed(cbq.kernels.RBF(ell), measure), stats.laplace(0.3, 0.8).pdf
    for point in (-3.0, 0.3, 1.7):
        near = [point - 9 * ell, point, 0.3, point + 9 * ell]
        value = quad(lambda y: density(y) * np.exp(-0.5 * ((y - point) / ell) ** 2), -30, 30, points=near, limit=500)
        assert np.allclose(embedding.mean([[point]]), value[0], rtol=1e-8), (ell, point)
assert "formula" in repr(embedding)
""",
    "An estimator": """
fit = Constant(inflation=2.0).fit(samples)
assert np.allclose(fit.predict([0.1, 0.9]), np.mean(samples.averages(samples.table)))
assert np.allclose(fit.sample([0.1, 0.9], 5, rng=0)[:, 0], fit.sample([0.1, 0.9], 5, rng=0)[:, 1])
fit.save(path)
assert cbq.load(path).predict([0.5]) == fit.predict([0.5])
assert "Constant" in {row.method for row in cbq.compare(samples, {"Constant": Constant()}).rows}
""",
    "A table with a figure": """
table = DoseTable([DoseRow(1.0, 0.2, 0.1, 0.3), DoseRow(100.0, 0.7, 0.5, 0.9)])
(ax,) = table.plot(title="Doses").axes
assert ax.get_xscale() == "log"
assert ax.lines[0].get_ydata().tolist() == [0.2, 0.7]
assert "0.7" in str(table)
table.report(path)
assert "mean response" in open(path).read()
""",
}
BEFORE = """
import sys
import warnings
from functools import partial

import cbq
from scipy import stats
from scipy.integrate import quad

warnings.simplefilter("ignore", cbq.FitWarning)
path, gaussian, quadrature = sys.argv[1], cbq.measures.Gaussian(0.3, cov=0.7), partial(cbq.embed, method="quadrature")
"""


def test_skeletons_run(tmp_path):
    """In a new process, since they register classes."""
    text = PAGE.read_text(encoding="utf-8")
    sections = dict(re.findall(r"^## (.+?)\n.*?```python\n(.*?)```", text, re.MULTILINE | re.DOTALL))
    assert list(sections) == list(CHECKS)
    program = "\n".join([BEFORE, *(code + CHECKS[title] for title, code in sections.items())])
    command = [sys.executable, "-W", "error", "-c", program, str(tmp_path / "fit.cbq")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
