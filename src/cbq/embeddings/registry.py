"""Which pairs of a kernel and a measure have an embedding, and how it is found."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeVar

from cbq.embeddings.base import Embedding
from cbq.embeddings.errors import NoEmbedding
from cbq.kernels import Kernel
from cbq.measures import Measure, Unnormalised

Rule = Callable[..., Embedding]
R = TypeVar("R", bound=Rule)

_RULES: dict[tuple[type[Kernel], type[Measure]], Rule] = {}


class Pair(NamedTuple):
    """A kernel type and a measure type that have an embedding, and how it is made."""

    kernel: type[Kernel]
    measure: type[Measure]
    rule: str


def register(kernel: type[Kernel], *measures: type[Measure]) -> Callable[[R], R]:
    """Register a rule for a kernel type and one or more measure types, and for what derives from them.

    A rule is a subclass of `Embedding`, or a function of (kernel, measure) that returns an embedding or raises
    `NoEmbedding` with the reason. The first line of its docstring is what `available_pairs` says of it.

        @cbq.embeddings.register(MyKernel, cbq.measures.Gaussian)
        class MyEmbedding(cbq.embeddings.Embedding):
            def _mean(self, x): ...
    """

    def decorate(rule: R) -> R:
        for measure in measures:
            if not (isinstance(kernel, type) and isinstance(measure, type)):
                raise TypeError(
                    f"register takes types of kernel and measure, but it was given {kernel!r}, {measure!r}."
                )
            if (kernel, measure) in _RULES:
                raise ValueError(
                    f"({kernel.__name__}, {measure.__name__}) has an embedding already, "
                    f"{_RULES[kernel, measure].__name__}: derive a kernel type of your own to give it another."
                )
        _RULES.update({(kernel, measure): rule for measure in measures})
        return rule

    return decorate


def find(kernel: Kernel, measure: Measure) -> Embedding:
    """The embedding by the most specific rule for the two types; an error if there is none, or no single one."""
    keys = [key for key in _RULES if isinstance(kernel, key[0]) and isinstance(measure, key[1])]
    best = [key for key in keys if all(issubclass(key[0], k) and issubclass(key[1], m) for k, m in keys)]
    names = f"{type(kernel).__name__} under {type(measure).__name__}"
    if not keys and isinstance(measure, Unnormalised):
        raise NoEmbedding(
            f"no closed form for {names}: a measure known up to a constant can be integrated with Stein kernels only; "
            f"write Stein({kernel!r})."
        )
    if not keys:
        raise NoEmbedding(
            f"no closed form for {names}: pass method='transport' to put the kernel on the gaussianised "
            f"coordinate, where every measure with a quantile function has one, method='quadrature' to integrate "
            f"numerically, or register a rule of your own with cbq.embeddings.register."
        )
    if not best:
        listed = ", ".join(f"({k.__name__}, {m.__name__})" for k, m in keys)
        raise NoEmbedding(
            f"ambiguous embedding for {names}: the rules {listed} all apply and none is the most specific; "
            f"register one for ({type(kernel).__name__}, {type(measure).__name__})."
        )
    return _RULES[best[0]](kernel, measure)


def available_pairs() -> list[Pair]:
    """All registered pairs. A pair with a base type such as `Measure` holds for every measure its parts allow."""
    pairs = [
        Pair(kernel, measure, (rule.__doc__ or "").strip().partition("\n")[0])
        for (kernel, measure), rule in _RULES.items()
    ]
    return sorted(pairs, key=lambda pair: (pair.kernel.__name__, pair.measure.__name__))
