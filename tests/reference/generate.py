"""Reference values of kernel mean embeddings, computed without the library under test.

For a measure P, an independent measure P2 and a kernel k of unit amplitude the file ``embeddings.json`` holds

    mean      mu(x) = E k(X, x),        X ~ P, at a list of points x,
    variance  z = E k(X, X'),           X, X' ~ P independent,
    cross     c = E k(X, Y),            X ~ P, Y ~ P2 independent,

with k the RBF kernel exp(-r^2 / 2 l^2) or a Matern kernel, a = sqrt(2 nu) / l,

    nu = 1/2: e^{-ar},   nu = 3/2: (1 + ar) e^{-ar},   nu = 5/2: (1 + ar + a^2 r^2 / 3) e^{-ar}.

First method (the stored values): composite Gauss-Legendre quadrature of the plain definition in extended
precision (``longdouble`` with 64 bits, unit roundoff 5e-20), constants and nodes from mpmath. Every integrand
is positive, distances to the kink and to the edges of the support are carried as separate numbers so that
no difference cancels, and panels are graded geometrically around the kink, the edges and the bulk.

Second method (``--check``): mpmath at 40 to 60 digits on a random sample of entries, by other formulas: closed
forms (Gaussian and uniform on the line); elsewhere on the line tanh-sinh quadrature for the means; for the
double integrals the spectral representation (gamma, exponential, Student) or the density of |X - Y|
(truncated, lognormal, beta); Matern kernels as scale mixtures of RBF ones in two and three dimensions. The
check also repeats the first method with more nodes on finer panels.

Usage:
    python generate.py [case ...]            compute these cases (default: all) and merge them into the file
    python generate.py --check [case ...]    compare a random sample with the second method; write nothing
"""

import argparse
import json
import math
import random
import sys
import time
from functools import cache
from itertools import pairwise, product
from pathlib import Path

import numpy as np
from mpmath import mp

LD = np.longdouble
FILE = Path(__file__).with_name("embeddings.json")
KERNELS = (("RBF", None), ("Matern", 0.5), ("Matern", 1.5), ("Matern", 2.5))
FACTORS = (1e-3, 0.03, 0.3, 1.0, 10.0, 1e3)
FACTORS_2D = (0.03, 0.3, 1.0, 10.0)
POINTS = (-6.0, -2.0, -1.0, -0.3, 0.0, 0.7, 1.5, 3.0, 6.0)
POINTS_2D = (-6.0, -1.0, 0.0, 0.7, 3.0, 6.0)
RADIUS = 160.0  # lengthscales beyond which a kernel is dropped inside a double integral (k < 1e-65)
RULE = {"order": 32, "ratio": 2.0}  # Gauss-Legendre nodes per panel, growth of the panels; --check refines it

mp.dps = 40


# ----------------------------------------------------------------------------------------------- quadrature


def extended(value):
    """Convert an mpmath number to extended precision."""
    return LD(mp.nstr(mp.mpf(value), 28))


@cache
def gauss_legendre(order):
    """Nodes and weights of the Gauss-Legendre rule on (0, 1), by Newton's method at 40 digits."""
    nodes, weights = [], []
    for start in np.polynomial.legendre.leggauss(order)[0]:
        t = mp.mpf(float(start))
        for _ in range(4):
            low, high = mp.mpf(1), t
            for j in range(2, order + 1):
                low, high = high, ((2 * j - 1) * t * high - (j - 1) * low) / j
            slope = order * (t * high - low) / (t * t - 1)
            t -= high / slope
        nodes.append(extended((1 + t) / 2))
        weights.append(extended(1 / ((1 - t * t) * slope * slope)))
    return np.array(nodes), np.array(weights)


def panels(length, cuts, power=1, first=None):
    """Composite rule on (0, length) with breakpoints ``cuts``.

    With ``power`` > 1 the origin is a branch point (s^c times analytic functions of s and s^c'): panels then
    grow geometrically from ``first`` and the innermost one, (0, h), uses s = h t^power, which makes powers
    with one decimal polynomial in t.
    """
    t, w = gauss_legendre(RULE["order"])
    cuts = np.asarray(cuts, dtype=LD)
    if power > 1:
        grown = math.ceil(math.log(max(float(length / first), 1.0)) / math.log(RULE["ratio"]))
        cuts = np.append(cuts[cuts > first], first * LD(RULE["ratio"]) ** np.arange(grown + 1))
    inner = np.unique(cuts[(cuts > 0) & (cuts < length)])
    edges = np.concatenate([[LD(0)], inner, [length]])
    width = np.diff(edges)
    s = edges[:-1, None] + width[:, None] * t
    weight = width[:, None] * w
    if power > 1:
        s[0] = width[0] * t**power
        weight[0] = width[0] * power * t ** (power - 1) * w
    return s.ravel(), weight.ravel()


def geometric(smallest, largest):
    """Breakpoints growing geometrically from smallest / 2 past ``largest``."""
    count = math.ceil(math.log(max(float(largest / smallest), 1.0)) / math.log(RULE["ratio"])) + 2
    return smallest / 2 * LD(RULE["ratio"]) ** np.arange(count)


class Nodes:
    """Points y with weights, and below = y - lower, above = upper - y, r = |y - x|, all accurate."""

    def __init__(self, parts):
        self.y, self.below, self.above, self.r, self.weight = (
            np.concatenate(column) for column in zip(*parts, strict=True)
        )


def line_rule(window, x, below, above, cuts, reach, power, first, radius=math.inf):
    """Composite rule on window = (lower, upper), seen from the point x = lower + below = upper - above.

    When x is inside, the four pieces [lower, middle], [middle, x], [x, middle'], [middle', upper] are
    parametrised by the distance to lower, x, x and upper respectively, else the two halves of the window
    by the distance to its ends; every other distance is then a sum, or a difference with no cancellation.
    A branch point at the edge just behind x calls for panels that grow from its distance to x.
    ``cuts`` are breakpoints in y, ``reach`` breakpoints in r; pieces further than ``radius`` are left out.
    """
    lower, upper = window
    span = upper - lower
    around = np.concatenate([cuts, x - reach, x + reach])
    parts = []
    if below > 0 and above > 0:
        if below / 2 < radius:
            d, w = panels(below / 2, around - lower, power, first)
            parts.append((lower + d, d, span - d, below - d, w))
        graded = [geometric(2 * near, span) if power > 1 else [] for near in (above, below)]
        r, w = panels(min(below / 2, radius), np.concatenate([reach, x - cuts, graded[0]]))
        parts.append((x - r, below - r, above + r, r, w))
        r, w = panels(min(above / 2, radius), np.concatenate([reach, cuts - x, graded[1]]))
        parts.append((x + r, below + r, above - r, r, w))
        if above / 2 < radius:
            d, w = panels(above / 2, upper - around, power, first)
            parts.append((upper - d, span - d, d, above - d, w))
    elif max(-below, -above) < radius:
        d, w = panels(span / 2, around - lower, power, first)
        parts.append((lower + d, d, span - d, d - below if below <= 0 else (span - d) - above, w))
        d, w = panels(span / 2, upper - around, power, first)
        parts.append((upper - d, span - d, d, d - above if above <= 0 else (span - d) - below, w))
    return Nodes(parts) if parts else None


def kernels(r, lengthscale=1):
    """The four kernels at distance r, in the order of KERNELS."""
    s = r / lengthscale
    values = [np.exp(-s * s / 2), np.exp(-s)]
    s3, s5 = s * np.sqrt(LD(3)), s * np.sqrt(LD(5))
    values += [(1 + s3) * np.exp(-s3), (1 + s5 + s5 * s5 / 3) * np.exp(-s5)]
    return values


# ----------------------------------------------------------------------------------- measures on the line


class Measure:
    """A measure on the line: a window (lower, upper) with all but 1e-22 of its mass, breakpoints and a density.

    ``edges`` are the true finite ends of the support, ``power`` the substitution at the ends (``panels``),
    ``size`` a distance from the ends over which the smooth factors of the density are nearly constant.
    """

    power = 1
    edges = ()
    size = LD(1)

    def window(self, lower, upper, cuts):
        self.lower, self.upper = LD(lower), LD(upper)
        self.cuts = np.array([lower, *cuts, upper], dtype=LD)


class Gaussian(Measure):
    """Density exp(-(y - mean)^2 / 2 cov) / sqrt(2 pi cov)."""

    def __init__(self, mean, cov):
        self.mean, self.sd = mean, math.sqrt(cov)
        self.center, self.cov = LD(mean), LD(cov)
        self.scale = np.sqrt(self.cov)
        steps = self.center + self.scale * np.arange(-14, 15)
        self.window(steps[0], steps[-1], steps[1:-1])
        self.constant = extended(1 / mp.sqrt(2 * mp.pi * mp.mpf(cov)))

    def density(self, y, below, above):
        return self.constant * np.exp(-((y - self.center) ** 2) / (2 * self.cov))

    def mp_density(self, y, below, above):
        cov = mp.mpf(float(self.cov))
        return mp.exp(-((y - mp.mpf(self.mean)) ** 2) / (2 * cov)) / mp.sqrt(2 * mp.pi * cov)


class Uniform(Measure):
    """Density 1 / (upper - lower) on the interval."""

    def __init__(self, lower, upper):
        self.mean, self.sd = (lower + upper) / 2, (upper - lower) / math.sqrt(12)
        self.center, self.edges = LD(self.mean), (lower, upper)
        self.window(lower, upper, [])

    def density(self, y, below, above):
        inside = (y >= self.lower) & (y <= self.upper)
        return np.where(inside, 1 / (self.upper - self.lower), LD(0))

    def mp_density(self, y, below, above):
        return 1 / (mp.mpf(self.edges[1]) - mp.mpf(self.edges[0]))


class LogNormal(Measure):
    """exp of a Gaussian: density exp(-(log y - mean)^2 / 2 cov) / (y sqrt(2 pi cov)), y > 0."""

    def __init__(self, mean, cov):
        self.log_mean, self.cov = LD(mean), LD(cov)
        self.mean = math.exp(mean + cov / 2)
        self.sd = self.mean * math.sqrt(math.expm1(cov))
        self.edges = (0.0,)
        steps = np.exp(self.log_mean + np.sqrt(self.cov) * np.arange(-14, 15))
        self.center = steps[14]
        self.window(steps[0], steps[-1], steps[1:-1])
        self.constant = extended(1 / mp.sqrt(2 * mp.pi * mp.mpf(cov)))

    def density(self, y, below, above):
        return self.constant * np.exp(-((np.log(y) - self.log_mean) ** 2) / (2 * self.cov)) / y

    def mp_density(self, y, below, above):
        cov = mp.mpf(float(self.cov))
        return mp.exp(-((mp.log(y) - mp.mpf(float(self.log_mean))) ** 2) / (2 * cov)) / y / mp.sqrt(2 * mp.pi * cov)


class Gamma(Measure):
    """Density rate^shape y^(shape - 1) e^(-rate y) / Gamma(shape), y > 0."""

    def __init__(self, shape, rate):
        self.mean, self.sd = shape / rate, math.sqrt(shape) / rate
        self.shape, self.rate, self.edges = shape, rate, (0.0,)
        self.center, self.size = LD(self.mean), LD(0.25) / rate
        self.power = 1 if shape == int(shape) else 10
        upper = LD(200 / rate)
        self.window(0, upper, [c for c in self.size * LD(2) ** np.arange(10) if c < upper])
        self.constant = extended(mp.mpf(rate) ** shape / mp.gamma(mp.mpf(shape)))

    def density(self, y, below, above):
        return self.constant * below ** (LD(self.shape) - 1) * np.exp(-LD(self.rate) * below)

    def mp_density(self, y, below, above):
        shape, rate = mp.mpf(self.shape), mp.mpf(self.rate)
        return rate**shape * below ** (shape - 1) * mp.exp(-rate * below) / mp.gamma(shape)

    def characteristic(self, w):
        return (1 - 1j * w / mp.mpf(self.rate)) ** (-mp.mpf(self.shape))


class Exponential(Gamma):
    """Density rate e^(-rate y), y > 0."""

    def __init__(self, rate):
        super().__init__(1.0, rate)


class TruncatedGaussian(Measure):
    """N(mean, std^2) conditioned on lower < y < upper."""

    def __init__(self, mean, std, lower, upper):
        self.m, self.s, self.center_mp = LD(mean), LD(std), mp.mpf(mean)
        self.edges = tuple(e for e in (lower, upper) if math.isfinite(e))
        m, s = mp.mpf(mean), mp.mpf(std)
        a, b = (mp.mpf(lower) - m) / s, (mp.mpf(upper) - m) / s
        self.mass = (mp.erfc(a / mp.sqrt(2)) - mp.erfc(b / mp.sqrt(2))) / 2
        first = (mp.npdf(a) - mp.npdf(b)) / self.mass
        second = 1 + (a * mp.npdf(a) - (0 if mp.isinf(b) else b * mp.npdf(b))) / self.mass
        self.mean, self.sd = float(m + s * first), float(s * mp.sqrt(second - first**2))
        self.center = LD(self.mean)
        upper = min(upper, mean + 14 * std)
        steps = mean + std / 2 * np.arange(-28, 29)
        self.window(lower, upper, steps[(steps > lower) & (steps < upper)])
        self.constant = extended(1 / (self.mass * s * mp.sqrt(2 * mp.pi)))

    def density(self, y, below, above):
        inside = (y >= self.lower) & (y <= self.upper)
        return np.where(inside, self.constant * np.exp(-(((y - self.m) / self.s) ** 2) / 2), LD(0))

    def mp_density(self, y, below, above):
        s = mp.mpf(float(self.s))
        return mp.npdf((y - self.center_mp) / s) / (s * self.mass)


class Beta(Measure):
    """Density y^(a - 1) (1 - y)^(b - 1) / B(a, b) on (0, 1)."""

    power = 10
    size = LD(0.125)

    def __init__(self, a, b):
        self.a, self.b, self.edges = a, b, (0.0, 1.0)
        self.mean = a / (a + b)
        self.sd = math.sqrt(a * b / (a + b + 1)) / (a + b)
        self.center = LD(self.mean)
        self.window(0, 1, [0.25, 0.5, 0.75])
        self.mp_beta = mp.beta(mp.mpf(a), mp.mpf(b))
        self.constant = extended(1 / self.mp_beta)

    def density(self, y, below, above):
        return self.constant * below ** (LD(self.a) - 1) * above ** (LD(self.b) - 1)

    def mp_density(self, y, below, above):
        a, b = mp.mpf(self.a), mp.mpf(self.b)
        return below ** (a - 1) * above ** (b - 1) / self.mp_beta


class StudentT(Measure):
    """loc + scale times a standard Student variable with df degrees of freedom."""

    def __init__(self, df, loc, scale):
        self.mean, self.sd = loc, scale * math.sqrt(df / (df - 2))
        self.df, self.loc, self.scale, self.center = df, loc, scale, LD(loc)
        steps = np.array([0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, *(2.0 ** np.arange(4, 28))])
        steps = loc + scale * np.concatenate([-steps[::-1], [0.0], steps])
        self.window(steps[0], steps[-1], steps[1:-1])
        v = mp.mpf(df)
        self.mp_constant = mp.gamma((v + 1) / 2) / (mp.gamma(v / 2) * mp.sqrt(v * mp.pi) * mp.mpf(scale))
        self.constant = extended(self.mp_constant)

    def density(self, y, below, above):
        z = (y - self.center) / LD(self.scale)
        return self.constant * (1 + z * z / LD(self.df)) ** (-(LD(self.df) + 1) / 2)

    def mp_density(self, y, below, above):
        z = (y - mp.mpf(self.loc)) / mp.mpf(self.scale)
        return self.mp_constant * (1 + z * z / self.df) ** (-(mp.mpf(self.df) + 1) / 2)

    def characteristic(self, w):
        half, t = mp.mpf(self.df) / 2, mp.sqrt(mp.mpf(self.df)) * mp.mpf(self.scale) * abs(w)
        return mp.besselk(half, t) * t**half * 2 ** (1 - half) / mp.gamma(half) * mp.expj(w * mp.mpf(self.loc))


def line_means(measure, lengthscale, x, below=None, above=None, radius=math.inf):
    """mu(x) for the four kernels; below = x - measure.lower and above = measure.upper - x may be given accurately."""
    x, lengthscale = LD(x), LD(lengthscale)
    below = x - measure.lower if below is None else below
    above = measure.upper - x if above is None else above
    span = measure.upper - measure.lower
    reach = geometric(lengthscale, span + max(-below, -above, LD(0)))
    first = min(lengthscale / 8, measure.size)
    window = (measure.lower, measure.upper)
    nodes = line_rule(window, x, below, above, measure.cuts, reach, measure.power, first, radius * lengthscale)
    if nodes is None:
        return np.zeros(4, dtype=LD)
    mass = nodes.weight * measure.density(nodes.y, nodes.below, nodes.above)
    return np.array([mass @ k for k in kernels(nodes.r, lengthscale)])


def line_doubles(measure, other, lengthscale):
    """Variance of ``measure`` and cross with ``other``, four kernels each: int mu(x) (p(x), p2(x)) dx.

    mu is analytic away from the edges of the support of P, where it has layers of the width of the kernel.
    """
    scale = LD(lengthscale)
    lower, upper = min(measure.lower, other.lower), max(measure.upper, other.upper)
    layers = geometric(scale, min(upper - lower, RADIUS * scale))
    cuts = [measure.cuts, other.cuts] + [e + sign * layers for e in (measure.lower, measure.upper) for sign in (-1, 1)]
    power = max(measure.power, other.power)
    first = min(scale / 2, measure.size, other.size)
    center = measure.center
    none = np.zeros(0, dtype=LD)
    window = (lower, upper)
    outer = line_rule(window, center, center - lower, upper - center, np.concatenate(cuts), none, power, first)
    p = outer.weight * measure.density(outer.y, outer.below, outer.above)
    p2 = outer.weight * other.density(outer.y, outer.below, outer.above)
    total = np.zeros((2, 4), dtype=LD)
    for j in np.flatnonzero(np.maximum(p / p.max(), p2 / p2.max()) > 1e-40):
        below = outer.below[j] if measure.lower == lower else outer.y[j] - measure.lower
        above = outer.above[j] if measure.upper == upper else measure.upper - outer.y[j]
        mu = line_means(measure, scale, outer.y[j], below, above, RADIUS)
        total[0] += p[j] * mu
        total[1] += p2[j] * mu
    return total


LINE_CASES = {
    "gaussian": (Gaussian, {"mean": 0.3, "cov": 0.83**2}, {"mean": -0.5, "cov": 1.4**2}),
    "uniform": (Uniform, {"lower": -0.7, "upper": 1.9}, {"lower": 0.2, "upper": 3.1}),
    "exponential": (Exponential, {"rate": 1.3}, {"rate": 0.4}),
    "gamma": (Gamma, {"shape": 3.2, "rate": 1.7}, {"shape": 2.1, "rate": 0.9}),
    "gamma_singular": (Gamma, {"shape": 0.6, "rate": 2.0}, {"shape": 0.8, "rate": 1.1}),
    "gamma_integer": (Gamma, {"shape": 2.0, "rate": 10.0}, {"shape": 9.0, "rate": 10.0}),
    "truncated": (
        TruncatedGaussian,
        {"mean": 0.4, "std": 1.1, "lower": -0.5, "upper": 1.6},
        {"mean": 0.0, "std": 0.8, "lower": -0.2, "upper": 2.5},
    ),
    "truncated_tail": (
        TruncatedGaussian,
        {"mean": 0.0, "std": 1.0, "lower": 3.0, "upper": 6.0},
        {"mean": 0.0, "std": 1.0, "lower": 2.5, "upper": 7.0},
    ),
    "truncated_half": (
        TruncatedGaussian,
        {"mean": 0.5, "std": 1.0, "lower": 0.0, "upper": math.inf},
        {"mean": 1.0, "std": 2.0, "lower": 0.0, "upper": math.inf},
    ),
    "lognormal": (LogNormal, {"mean": 0.2, "cov": 0.5**2}, {"mean": -0.1, "cov": 0.3**2}),
    "beta": (Beta, {"a": 2.3, "b": 1.4}, {"a": 1.2, "b": 3.0}),
    "beta_singular": (Beta, {"a": 0.6, "b": 0.7}, {"a": 0.5, "b": 0.5}),
    "student_t": (
        StudentT,
        {"df": 3.5, "loc": 0.2, "scale": 0.8},
        {"df": 5.0, "loc": -0.3, "scale": 1.2},
    ),
}


def line_case(name):
    """Records of a case on the line."""
    family, parameters, others = LINE_CASES[name]
    measure, other = family(**parameters), family(**others)
    for factor in FACTORS:
        lengthscale = float(factor * measure.sd)
        x = [float(measure.mean + c * measure.sd) for c in POINTS]
        if measure.edges:
            x.append(float(measure.edges[0] + 5e-4 * lengthscale))
        means = np.array([line_means(measure, lengthscale, point) for point in x])
        variance, cross = line_doubles(measure, other, lengthscale)
        for j, kernel in enumerate(KERNELS):
            yield record(
                name, family.__name__, parameters, others, kernel, factor, lengthscale, [[p] for p in x],
                means[:, j], variance[j], cross[j],
            )  # fmt: skip


# ----------------------------------------------------------------------------------- two and three dimensions


def plane_gaussian(delta, cov):
    """E k(|Z|) for Z ~ N(delta, cov) in the plane, lengthscale 1, the four kernels.

    Polar coordinates: int k(R) R int phi(R cos t, R sin t) dt dR, the inner one by the trapezoid rule.
    """
    delta, cov = np.asarray(delta, dtype=LD), np.asarray(cov, dtype=LD)
    determinant = cov[0, 0] * cov[1, 1] - cov[0, 1] ** 2
    precision = np.array([[cov[1, 1], -cov[0, 1]], [-cov[0, 1], cov[0, 0]]]) / determinant
    spread = np.sqrt(((cov[0, 0] - cov[1, 1]) / 2) ** 2 + cov[0, 1] ** 2)
    middle = (cov[0, 0] + cov[1, 1]) / 2
    narrow, wide = np.sqrt(middle - spread), np.sqrt(middle + spread)
    length = np.sqrt(delta @ delta) + 14 * wide
    cuts = np.concatenate([geometric(LD(1), length), narrow * np.arange(1, int(length / narrow) + 1)])
    radius, weight = panels(length, cuts)
    count = 32 * RULE["order"]
    pi = extended(mp.pi)
    angle = 2 * pi * np.arange(count) / count
    cosine, sine = np.cos(angle), np.sin(angle)
    ring = np.empty_like(radius)
    for start in range(0, radius.size, 64):
        piece = slice(start, start + 64)
        u = radius[piece, None] * cosine - delta[0]
        v = radius[piece, None] * sine - delta[1]
        form = precision[0, 0] * u * u + 2 * precision[0, 1] * u * v + precision[1, 1] * v * v
        ring[piece] = np.exp(-form / 2).sum(axis=1)
    mass = weight * radius * ring / (count * np.sqrt(determinant))
    return np.array([mass @ k for k in kernels(radius)])


def space_gaussian(delta, variance):
    """E k(|Z|) for Z ~ N(delta, variance I) in three dimensions, lengthscale 1, the four kernels.

    |Z| has density R (e^{-(R-m)^2/2v} - e^{-(R+m)^2/2v}) / (m sqrt(2 pi v)) with m = |delta|.
    """
    delta, v = np.asarray(delta, dtype=LD), LD(variance)
    m, s = np.sqrt(delta @ delta), np.sqrt(v)
    length = m + 14 * s
    radius, weight = panels(length, np.concatenate([geometric(LD(1), length), s * np.arange(1, int(length / s) + 1)]))
    if m > 0:
        ring = -np.exp(-((radius - m) ** 2) / (2 * v)) * np.expm1(-2 * radius * m / v) / m
    else:
        ring = np.exp(-radius * radius / (2 * v)) * 2 * radius / v
    mass = weight * radius * ring / np.sqrt(2 * extended(mp.pi) * v)
    return np.array([mass @ k for k in kernels(radius)])


def quadrant_integral(spans, cuts=((), ()), density=None):
    """int of k(sqrt(u^2 + v^2)) density(u, v) over a box in the quadrant u, v >= 0, for the four kernels.

    Tensor rule with panels graded towards the axes, hence towards the point singularity at the origin.
    """
    rules = []
    for (low, high), cut in zip(spans, cuts, strict=True):
        graded = geometric(min(LD(1), high) * LD(2) ** -22, high)
        s, weight = panels(high - low, np.append(graded, cut) - low)
        rules.append((low + s, weight))
    (u, wu), (v, wv) = rules
    total = np.zeros(4, dtype=LD)
    for start in range(0, u.size, 128):
        piece = slice(start, start + 128)
        mass = wu[piece, None] * wv
        if density is not None:
            mass = mass * density(u[piece, None], v)
        total += [np.sum(mass * k) for k in kernels(np.sqrt(u[piece, None] ** 2 + v**2))]
    return total


def sides(low, high):
    """The interval (low, high) as intervals of |t|: one if 0 lies outside, otherwise one on each side of 0."""
    if low >= 0:
        return [(low, high)]
    if high <= 0:
        return [(-high, -low)]
    return [(LD(0), -low), (LD(0), high)]


def box_means(lower, upper, lengthscale, x):
    """mu(x) of the uniform measure on a box, split along the axes through x."""
    scaled = [
        ((LD(a) - LD(p)) / LD(s), (LD(b) - LD(p)) / LD(s))
        for a, b, s, p in zip(lower, upper, lengthscale, x, strict=True)
    ]
    total = np.zeros(4, dtype=LD)
    for spans in product(sides(*scaled[0]), sides(*scaled[1])):
        total += quadrant_integral(spans)
    return total / ((scaled[0][1] - scaled[0][0]) * (scaled[1][1] - scaled[1][0]))


def box_double(first, second, lengthscale):
    """E k(X, Y) for uniform measures on two boxes: X_j - Y_j has a trapezoidal density."""
    ends = [[LD(e) / LD(scale) for e in axis] for *axis, scale in zip(*first, *second, lengthscale, strict=True)]

    def overlap(axis, t):
        a, b, a2, b2 = ends[axis]
        return (np.minimum(b - t, b2) - np.maximum(a - t, a2)) / (b - a) / (b2 - a2)

    total = np.zeros(4, dtype=LD)
    for signs in product((1, -1), repeat=2):
        pairs = list(zip(signs, ends, strict=True))
        spans = [(LD(0), b - a2 if sign > 0 else b2 - a) for sign, (a, b, a2, b2) in pairs]
        cuts = [(sign * (a - a2), sign * (b - b2)) for sign, (a, b, a2, b2) in pairs]
        total += quadrant_integral(
            spans, cuts, lambda u, v, signs=signs: overlap(0, signs[0] * u) * overlap(1, signs[1] * v)
        )
    return total


def gaussian_spread(parameters, lengthscale):
    """Mean vector, covariance matrix and lengthscales as extended-precision arrays."""
    mean, cov = np.array(parameters["mean"], dtype=LD), np.array(parameters["cov"], dtype=LD)
    return mean, cov, np.broadcast_to(np.array(lengthscale, dtype=LD), mean.shape)


def gaussian_expectation(delta, cov, scale):
    """E k(Z), Z ~ N(delta, cov), the four kernels, by the rule of the dimension."""
    delta, cov = delta / scale, cov / np.outer(scale, scale)
    return plane_gaussian(delta, cov) if delta.size == 2 else space_gaussian(delta, cov[0, 0])


PLANE_CASES = {
    "gaussian2_iso": (
        "Gaussian",
        {"mean": [0.3, -0.2], "cov": [[0.7**2, 0.0], [0.0, 0.7**2]]},
        {"mean": [-0.4, 0.5], "cov": [[0.9**2, 0.0], [0.0, 0.9**2]]},
        {factor: factor * 0.7 for factor in FACTORS},
    ),
    "gaussian2_full": (
        "Gaussian",
        {"mean": [0.3, -0.2], "cov": [[1.0, 0.6], [0.6, 2.0]]},
        {"mean": [-0.4, 0.5], "cov": [[1.5, -0.3], [-0.3, 0.8]]},
        {factor: [factor * 1.0, factor * 1.4] for factor in FACTORS_2D},
    ),
    "gaussian3_iso": (
        "Gaussian",
        {"mean": [0.0, 0.0, 0.0], "cov": [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]},
        {"mean": [0.5, -0.3, 0.2], "cov": [[1.3**2, 0.0, 0.0], [0.0, 1.3**2, 0.0], [0.0, 0.0, 1.3**2]]},
        {factor: factor for factor in FACTORS},
    ),
    "uniform2": (
        "Uniform",
        {"lower": [-0.7, 0.0], "upper": [1.9, 1.2]},
        {"lower": [0.2, -0.4], "upper": [3.1, 0.9]},
        {factor: [factor * 0.75, factor * 0.35] for factor in FACTORS_2D},
    ),
}


def plane_points(parameters):
    """mean + c sd (1, .5, .25), componentwise."""
    if "cov" in parameters:
        mean = np.array(parameters["mean"])
        sd = np.sqrt(np.diag(parameters["cov"]))
    else:
        lower, upper = np.array(parameters["lower"]), np.array(parameters["upper"])
        mean, sd = (lower + upper) / 2, (upper - lower) / math.sqrt(12)
    direction = np.array([1.0, 0.5, 0.25])[: mean.size]
    return [[float(v) for v in mean + c * sd * direction] for c in POINTS_2D]


def plane_values(family, parameters, others, lengthscale, points):
    """Means (points by kernels), variance and cross (per kernel)."""
    if family == "Gaussian":
        mean, cov, scale = gaussian_spread(parameters, lengthscale)
        mean2, cov2, _ = gaussian_spread(others, lengthscale)
        means = [gaussian_expectation(mean - np.array(x, dtype=LD), cov, scale) for x in points]
        variance = gaussian_expectation(mean - mean, cov + cov, scale)
        return np.array(means), variance, gaussian_expectation(mean - mean2, cov + cov2, scale)
    box, box2 = (parameters["lower"], parameters["upper"]), (others["lower"], others["upper"])
    means = [box_means(*box, lengthscale, x) for x in points]
    return np.array(means), box_double(box, box, lengthscale), box_double(box, box2, lengthscale)


def plane_case(name):
    """Records of a case in two or three dimensions."""
    family, parameters, others, lengthscales = PLANE_CASES[name]
    points = plane_points(parameters)
    for factor, lengthscale in lengthscales.items():
        means, variance, cross = plane_values(family, parameters, others, lengthscale, points)
        for j, kernel in enumerate(KERNELS):
            yield record(
                name, family, parameters, others, kernel, factor, lengthscale, points,
                means[:, j], variance[j], cross[j],
            )  # fmt: skip


# ------------------------------------------------------------------------------------------------- the file


def rounded(value):
    """The nearest float64, zero below 1e-300."""
    return 0.0 if abs(value) < 1e-300 else float(value)


def record(case, measure, parameters, other, kernel, factor, lengthscale, x, mean, variance, cross):
    """One record, which is one line of the file."""

    def plain(mapping):
        return {key: str(v) if v in (math.inf, -math.inf) else v for key, v in mapping.items()}

    return {
        "case": case, "measure": measure, "parameters": plain(parameters), "other": plain(other),
        "kernel": kernel[0], "nu": kernel[1], "factor": factor, "lengthscale": lengthscale, "x": x,
        "mean": [rounded(v) for v in mean], "variance": rounded(variance), "cross": rounded(cross),
    }  # fmt: skip


def load():
    """The records in the file."""
    return json.loads(FILE.read_text()) if FILE.exists() else []


def save(records):
    """Write the records, one per line, in the order of the case tables."""
    order = [*LINE_CASES, *PLANE_CASES]
    records = sorted(records, key=lambda item: order.index(item["case"]))
    FILE.write_text("[\n" + ",\n".join(json.dumps(item) for item in records) + "\n]\n")


def say(text):
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def generate(names):
    """Compute the named cases and merge them into the file."""
    for name in names:
        start = time.perf_counter()
        fresh = list(line_case(name) if name in LINE_CASES else plane_case(name))
        save([item for item in load() if item["case"] != name] + fresh)
        say(f"{name}: {len(fresh)} records, {time.perf_counter() - start:.1f} s")


# -------------------------------------------------------------------------------------------- second method


def mpf(value):
    """Convert an extended-precision number or a float to mpmath, exactly."""
    high = float(value)
    return mp.mpf(high) + mp.mpf(float(LD(value) - LD(high)))


@cache
def double_exponential(steps=18, reach=4.4):
    """Tanh-sinh rule on (0, 1): triples (t, 1 - t, weight)."""
    rule = []
    for j in range(-int(reach * steps), int(reach * steps) + 1):
        u = mp.mpf(j) / steps
        e = mp.exp(mp.pi * mp.sinh(u))
        rule.append((e / (1 + e), 1 / (1 + e), mp.pi * mp.cosh(u) * e / (1 + e) ** 2 / steps))
    return rule


def tanh_sinh(function, lower, upper, breaks, **rule):
    """int of function(y, y - lower, upper - y) over (lower, upper), split at the breaks inside."""
    ends = [lower, *sorted({b for b in breaks if lower < b < upper}), upper]
    total = mp.mpf(0)
    for a, b in pairwise(ends):
        for t, complement, weight in double_exponential(**rule):
            up, down = (b - a) * t, (b - a) * complement
            total += (b - a) * weight * function(a + up, (a - lower) + up, (upper - b) + down)
    return total


def mp_kernel(kind, r):
    """The kernel with index ``kind`` in KERNELS, lengthscale 1."""
    if kind == 0:
        return mp.exp(-r * r / 2)
    s = r * mp.sqrt(2 * kind - 1)
    return mp.exp(-s) * (1, 1 + s, 1 + s + s * s / 3)[kind - 1]


def thinned(measure):
    """Every fifth breakpoint of a measure, for the second method."""
    return [mpf(c) for c in measure.cuts[::5]]


def second_mean(measure, kind, lengthscale, x):
    """mu(x) by tanh-sinh quadrature of the definition at 40 digits."""
    x, scale = mp.mpf(x), mp.mpf(lengthscale)
    breaks = [x + sign * scale * j for j in (0, 1, 3, 9, 27, 81) for sign in (-1, 1)] + thinned(measure)
    return tanh_sinh(
        lambda y, below, above: measure.mp_density(y, below, above) * mp_kernel(kind, abs(y - x) / scale),
        mpf(measure.lower), mpf(measure.upper), breaks,
    )  # fmt: skip


def second_double(measure, other, kind, lengthscale):
    """E k(X, Y) = int k(r) q(r) dr, q(r) = int p(y) (p2(y + r) + p2(y - r)) dy the density of |X - Y|."""
    scale, coarse = mp.mpf(lengthscale), {"steps": 11, "reach": 3.6}
    lower, upper, lower2, upper2 = map(mpf, (measure.lower, measure.upper, other.lower, other.upper))

    def difference(t):
        low, high = max(lower, lower2 - t), min(upper, upper2 - t)
        if low >= high:
            return mp.mpf(0)
        shift = [low - lower, upper - high, (low + t) - lower2, upper2 - (high + t)]
        if low > lower:
            shift[2] = mp.mpf(0)
        if high < upper:
            shift[3] = mp.mpf(0)
        breaks = [
            *thinned(measure),
            *(c - t for c in thinned(other)),
            low + abs(t),
            high - abs(t),
            (low + high) / 2,
        ]
        return tanh_sinh(
            lambda y, down, up: measure.mp_density(y, shift[0] + down, shift[1] + up)
            * other.mp_density(y + t, shift[2] + down, shift[3] + up),
            low, high, breaks, **({} if measure.power > 1 else coarse),
        )  # fmt: skip

    longest = min(max(upper - lower2, upper2 - lower), 60 * scale)
    breaks = [unit * j for j in (1, 4, 16) for unit in (scale, mp.mpf(measure.sd))]
    breaks += [abs(a - b) for a in (lower, upper) for b in (lower2, upper2)]

    def integrand(r, _, __):
        return mp_kernel(kind, r / scale) * (2 * difference(r) if other is measure else difference(r) + difference(-r))

    return tanh_sinh(integrand, mp.mpf(0), longest, breaks, **coarse)


def spectral_double(measure, other, kind, lengthscale):
    """E k(X, Y) = 2 int_0^inf f(w) Re phi(w) conj(phi2(w)) dw, f the spectral density of the kernel.

    RBF: f normal with standard deviation 1/l; Matern: f = Gamma(nu + 1/2) / (sqrt(pi) Gamma(nu))
    a^(2 nu) / (a^2 + w^2)^(nu + 1/2). The substitution is w = e^u.
    """
    scale = mp.mpf(lengthscale)

    def density(w):
        if kind == 0:
            return scale * mp.npdf(w * scale)
        nu = mp.mpf(2 * kind - 1) / 2
        a = mp.sqrt(2 * nu) / scale
        return mp.gamma(nu + 0.5) / mp.sqrt(mp.pi) / mp.gamma(nu) * a ** (2 * nu) / (a * a + w * w) ** (nu + 0.5)

    def integrand(u, _, __):
        w = mp.exp(u)
        return 2 * w * density(w) * mp.re(measure.characteristic(w) * mp.conj(other.characteristic(w)))

    # The truncation leaves out a mass e^left below and e^(-2 nu right) above, and less where phi decays.
    right = 60 + mp.log(1 / scale) if isinstance(measure, Gamma) else mp.log(120 / mp.mpf(measure.scale))
    left = -60 - mp.log(scale)
    return tanh_sinh(integrand, left, right, mp.linspace(left, right, 30) + mp.linspace(-8, 8, 17))


def gaussian_closed(delta, variance, kind, lengthscale):
    """E k(|Z|), Z ~ N(delta, variance), by error functions at 60 digits.

    E e^{-a|Z|} = e^{v a^2 / 2} / 2 sum over signs of e^{-+ a m} erfc((v a -+ m) / sqrt(2 v)), and the
    polynomial factors of the Matern kernels are derivatives in a.
    """
    with mp.workdps(60):
        m, v, scale = mp.mpf(delta), mp.mpf(variance), mp.mpf(lengthscale)
        if kind == 0:
            return scale / mp.sqrt(v + scale**2) * mp.exp(-m * m / (2 * (v + scale**2)))

        def laplace(a):
            pair = [mp.exp(-t * a * m) * mp.erfc((v * a - t * m) / mp.sqrt(2 * v)) for t in (1, -1)]
            return mp.exp(v * a * a / 2) * sum(pair) / 2

        a = mp.sqrt(2 * kind - 1) / scale
        terms = [laplace(a)]
        if kind > 1:
            terms.append(-a * mp.diff(laplace, a))
        if kind > 2:
            terms.append(a * a * mp.diff(laplace, a, 2) / 3)
        return sum(terms)


def moments(kind, scale, t):
    """int_0^t k and int_0^t r k(r) dr for t >= 0, by error and incomplete gamma functions."""
    if kind == 0:
        first = scale * mp.sqrt(mp.pi / 2) * mp.erf(t / scale / mp.sqrt(2))
        return first, -(scale**2) * mp.expm1(-((t / scale) ** 2) / 2)
    a = mp.sqrt(2 * kind - 1) / scale
    weights = ((1,), (1, 1), (1, 1, mp.mpf(1) / 3))[kind - 1]
    partial = [mp.gammainc(n + 1, 0, a * t) for n in range(len(weights) + 1)]
    first = sum(w * partial[n] for n, w in enumerate(weights)) / a
    return first, sum(w * partial[n + 1] for n, w in enumerate(weights)) / a**2


def uniform_mean_closed(lower, upper, kind, lengthscale, x):
    """mu(x) of the uniform measure: a difference of the odd antiderivative of k, at 60 digits."""
    with mp.workdps(60):
        a, b, scale, x = map(mp.mpf, (lower, upper, lengthscale, x))
        return sum(mp.sign(t) * moments(kind, scale, abs(t))[0] for t in (b - x, x - a)) / (b - a)


def uniform_double_closed(first, second, kind, lengthscale):
    """E k(X, Y) of two uniform measures: differences of the double antiderivative of k, at 60 digits."""
    with mp.workdps(60):
        scale = mp.mpf(lengthscale)
        a, b, c, d = map(mp.mpf, (*first, *second))

        def twice(t):
            one, two = moments(kind, scale, abs(t))
            return abs(t) * one - two

        return (twice(b - c) + twice(a - d) - twice(b - d) - twice(a - c)) / ((b - a) * (d - c))


def mixture(kind, rbf):
    """A Matern expectation from RBF ones: k_nu(r) = E exp(-nu r^2 / 2 S), S ~ Gamma(nu, 1).

    ``rbf(h)`` is the expectation under the RBF kernel with squared lengthscale h; S = e^u and mpmath's quad.
    """
    if kind == 0:
        return rbf(mp.mpf(1))
    nu = mp.mpf(2 * kind - 1) / 2
    points = [*mp.linspace(-100, -20, 9), *mp.linspace(-15, 0, 7), 1, 2, 3, 4, 5, 6]
    value = mp.quad(lambda u: mp.exp(nu * u - mp.exp(u)) * rbf(mp.exp(u) / nu), points)
    return value / mp.gamma(nu)


def gaussian_mixture(delta, cov, scale, kind):
    """E k(Z), Z ~ N(delta, cov): mixture of det(I + cov/h)^(-1/2) exp(-delta' (cov + h I)^(-1) delta / 2)."""
    size = len(delta)
    delta = mp.matrix([delta[i] / scale[i] for i in range(size)])
    cov = mp.matrix(size, size) + mp.matrix(
        [[cov[i][j] / scale[i] / scale[j] for j in range(size)] for i in range(size)]
    )

    def rbf(h):
        total = cov + h * mp.eye(size)
        return mp.sqrt(h**size / mp.det(total)) * mp.exp(-(delta.T * mp.lu_solve(total, delta))[0] / 2)

    return mixture(kind, rbf)


def second_method(item, entry):
    """An entry by the second method: "variance", "cross", or the mean at the point x of this index."""
    kind = KERNELS.index((item["kernel"], item["nu"]))
    scale, case = item["lengthscale"], item["case"]
    p, q = ({k: float(v) if isinstance(v, str) else v for k, v in item[key].items()} for key in ("parameters", "other"))
    q = p if entry == "variance" else q
    if case in PLANE_CASES and item["measure"] == "Gaussian":
        size = len(p["mean"])
        lengths = [mp.mpf(s) for s in (scale if isinstance(scale, list) else [scale] * size)]
        double = entry in ("variance", "cross")
        target = q["mean"] if double else item["x"][entry]
        delta = [mp.mpf(a) - mp.mpf(b) for a, b in zip(p["mean"], target, strict=True)]
        extra = mp.matrix(q["cov"]) if double else mp.zeros(size)
        return gaussian_mixture(delta, (mp.matrix(p["cov"]) + extra).tolist(), lengths, kind)
    if case in PLANE_CASES:

        def axis(j, h):
            ends, length = (p["lower"][j], p["upper"][j]), mp.sqrt(h) * mp.mpf(scale[j])
            if entry in ("variance", "cross"):
                return uniform_double_closed(ends, (q["lower"][j], q["upper"][j]), 0, length)
            return uniform_mean_closed(*ends, 0, length, item["x"][entry][j])

        return mixture(kind, lambda h: axis(0, h) * axis(1, h))
    if case == "gaussian":
        if entry in ("variance", "cross"):
            delta, variance = mp.mpf(p["mean"]) - mp.mpf(q["mean"]), mp.mpf(p["cov"]) + mp.mpf(q["cov"])
        else:
            delta, variance = mp.mpf(p["mean"]) - mp.mpf(item["x"][entry][0]), p["cov"]
        return gaussian_closed(delta, variance, kind, scale)
    if case == "uniform":
        if entry in ("variance", "cross"):
            return uniform_double_closed((p["lower"], p["upper"]), (q["lower"], q["upper"]), kind, scale)
        return uniform_mean_closed(p["lower"], p["upper"], kind, scale, item["x"][entry][0])
    family = LINE_CASES[case][0]
    measure = family(**p)
    other = measure if entry == "variance" else family(**q)
    if entry not in ("variance", "cross"):
        return second_mean(measure, kind, scale, item["x"][entry][0])
    if isinstance(measure, (Gamma, StudentT)):
        return spectral_double(measure, other, kind, scale)
    return second_double(measure, other, kind, scale)


def refined_difference(case, rng):
    """Largest relative change of the means, variance and cross of one lengthscale under a finer first method."""
    values = []
    choice = rng.random()
    for order, ratio in ((32, 2.0), (44, 1.7)):
        RULE.update(order=order, ratio=ratio)
        if case in LINE_CASES:
            family, parameters, others = LINE_CASES[case]
            measure, other = family(**parameters), family(**others)
            scale = float(FACTORS[int(choice * len(FACTORS))] * measure.sd)
            points = [measure.mean + c * measure.sd for c in POINTS] + [e + 5e-4 * scale for e in measure.edges]
            means = np.array([line_means(measure, scale, point) for point in points])
            doubles = line_doubles(measure, other, scale)
        else:
            family, parameters, others, lengthscales = PLANE_CASES[case]
            scale = list(lengthscales.values())[int(choice * len(lengthscales))]
            means, *doubles = plane_values(family, parameters, others, scale, plane_points(parameters))
        values.append(np.concatenate([np.maximum(means, 1e-17 * means.max(axis=0)), doubles]))
    RULE.update(order=32, ratio=2.0)
    return float(np.max(np.abs(values[0] / values[1] - 1)))


def check(names, count, seed):
    """Compare a sample of every named case on file with the second method; true if all agree to 5e-16."""
    rng, good = random.Random(seed), True
    records = load()
    for name in names:
        start, worst = time.perf_counter(), {"mean": 0.0, "variance": 0.0, "cross": 0.0}
        items = [item for item in records if item["case"] == name]
        for kind in worst:
            for j, item in enumerate(rng.sample(items, count)):
                # the last point lies beside an edge of the support, if there is one
                entry = kind if kind != "mean" else rng.randrange(len(item["x"])) if j else len(item["x"]) - 1
                stored = item["mean"][entry] if kind == "mean" else item[kind]
                floor = 1e-17 * max(item["mean"]) if kind == "mean" else 0.0
                value = second_method(item, entry)
                error = float(abs(stored - value) / max(value, floor))
                worst[kind] = max(worst[kind], error)
                if error > 5e-16:
                    good = False
                    label = f"{name} {entry} {item['kernel']} {item['nu']} factor {item['factor']}"
                    say(f"  {label}: {stored!r} and {mp.nstr(value, 20)}")
        summary = ", ".join(f"{kind} {error:.1e}" for kind, error in worst.items())
        refined = refined_difference(name, rng)
        good = good and refined < 1e-16
        say(f"{name}: {summary}; refined rule {refined:.1e}; {time.perf_counter() - start:.1f} s")
    return good


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", help="names of cases (default: all)")
    parser.add_argument("--check", action="store_true", help="compare a sample with the second method")
    parser.add_argument("--count", type=int, default=3, help="entries of each kind to check per case")
    parser.add_argument("--seed", type=int, default=0, help="seed of the sample")
    arguments = parser.parse_args()
    if np.finfo(LD).nmant < 63:
        parser.error("this platform's longdouble has fewer than 64 bits of mantissa")
    names = arguments.cases or [*LINE_CASES, *PLANE_CASES]
    if arguments.check:
        sys.exit(0 if check(names, arguments.count, arguments.seed) else 1)
    generate(names)


if __name__ == "__main__":
    main()
