from __future__ import annotations

from typing import Any, Literal

from cbq._arrays import broadcast_batch
from cbq.embeddings.base import Delegated, Embedding
from cbq.embeddings.quadrature import Quadrature
from cbq.embeddings.registry import find
from cbq.kernels import Kernel, Warped
from cbq.measures import as_measure

Method = Literal["auto", "closed-form", "quadrature", "transport"]


def embed(kernel: Kernel, measure: Any, method: Method = "auto") -> Embedding:
    """The mean embedding of a measure for a kernel: E k(X, x), E k(X, X') and E k(X, Y).

    Parameters
    ----------
    kernel : a kernel with its lengthscales set.
    measure : a measure, or a frozen scipy.stats distribution; may be a batch.
    method : how the integrals are made, recorded in the result as `.method`.
        "closed-form": by the rule registered for the two types (see `available_pairs`), or an error if there is
        none. "auto" is the same: nothing is replaced silently.
        "quadrature": adaptive, for any kernel and any measure with a transport; z and cross on the line only.
        "transport": the kernel acts on the coordinates in which the measure is standard normal, where it has a closed
        form whatever the measure. This is another kernel, `Warped(kernel, "gaussianise")`: the result has it as
        `.kernel`, for the Gram matrices that go with it.
    """
    if not isinstance(kernel, Kernel):
        raise TypeError(f"kernel must be a cbq kernel such as cbq.kernels.RBF(0.5), but it is {kernel!r}.")
    measure = as_measure(measure)
    if method not in ("auto", "closed-form", "quadrature", "transport"):
        raise ValueError(f"method must be 'auto', 'closed-form', 'quadrature' or 'transport', but it is {method!r}.")
    if method == "transport":
        kernel = Warped(kernel, "gaussianise")
    kernel.check_dim(measure.dim)
    broadcast_batch({"lengthscale": kernel.log_lengthscales.shape[:-1], "measure": measure.batch_shape}, "embed")
    bound = kernel.bind(measure)
    if method == "quadrature":
        return Quadrature(bound, measure)
    embedding = find(bound, measure)
    return Delegated(bound, measure, embedding, method) if method == "transport" else embedding
