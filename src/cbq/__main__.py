"""`python -m cbq`: the available embeddings, each with a value checked by a second way."""

from __future__ import annotations

from cbq import measures as m
from cbq.embeddings import Embedding, Pair, available_pairs, embed
from cbq.kernels import RBF, Additive, Kernel, Matern, Product, Scaled, Stein, Sum, TensorProduct, Warped

KERNELS: dict[type[Kernel], Kernel] = {
    RBF: RBF(0.5),
    Matern: Matern(1.5, 0.5),
    TensorProduct: TensorProduct(Matern(2.5, 0.5)),
    Additive: Additive(Matern(0.5, 0.5)),
    Sum: RBF(0.5) + Matern(1.5, 2.0),
    Scaled: 3.0 * RBF(0.5),
    Product: RBF(2.0) * Matern(1.5, 0.5),
    Warped: Warped(Matern(1.5, 0.5), "gaussianise"),
    Stein: Stein(RBF(0.5)),
}
LAWS: dict[type[m.Measure], m.Measure] = {
    m.Measure: m.Gaussian(0.2, 1.0),
    m.Gaussian: m.Gaussian(0.2, 1.0),
    m.Uniform: m.Uniform(-1.0, 1.0),
    m.LogNormal: m.LogNormal(0.0, 0.25),
    m.Gamma: m.Gamma(2.0, 2.0),
    m.Exponential: m.Exponential(1.0),
    m.Beta: m.Beta(2.0, 3.0),
    m.StudentT: m.StudentT(4.0, 0.0, 1.0),
    m.TruncatedGaussian: m.TruncatedGaussian(0.0, 1.0, -0.5, 2.0),
    m.LogLaw: m.LogLaw(m.Gamma(2.0, 2.0)),
    m.Mixture: m.Mixture([0.3, 0.7], [m.Gaussian(-1.0, 0.5), m.Gaussian(1.0, 1.0)]),
    m.Product: m.Product([m.Gamma(2.0, 2.0)]),
    m.Empirical: m.Empirical([-0.5, 0.1, 0.9]),
}
POINT = 0.4


def main() -> None:
    """Print a row for each pair: E k(X, 0.4), its distance from a second way, and how it is made."""
    print(f"{'kernel':<14} {'law of X':<18} {'E k(X, 0.4)':>20} {'|second way|':>13}   rule")
    for pair in available_pairs():
        print(row(pair))


def row(pair: Pair) -> str:
    """One line of the table."""
    name = f"{pair.kernel.__name__:<14} {pair.measure.__name__.replace('Measure', '(any)'):<18}"
    if pair.kernel not in KERNELS or pair.measure not in LAWS:
        return f"{name} {'':>20} {'':>13}   {pair.rule}"
    embedding = embed(KERNELS[pair.kernel], LAWS[pair.measure])
    value = embedding.mean(POINT)[0]
    return f"{name} {value:20.15f} {abs(value - second_way(embedding)):13.0e}   {pair.rule}"


def second_way(embedding: Embedding) -> float:
    """E k(X, 0.4) by adaptive quadrature, or by its definition for a finite law."""
    law = embedding.measure
    if isinstance(law, m.Empirical):
        return float(law.weights @ embedding.kernel(law.points, POINT)[:, 0])
    return float(embed(embedding.kernel, law, method="quadrature").mean(POINT)[0])


if __name__ == "__main__":
    main()
