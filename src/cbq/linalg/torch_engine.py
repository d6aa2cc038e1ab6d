"""The engine for PyTorch: on a GPU ("cuda"), or on the CPU ("torch"), for tests.

Features of points go to the device; Gram matrices are filled and factored there and stay there. Results are linear in
the number of points, except for whole inverses. Each call waits for the device once or twice, so that few batches are
faster than many small calls. Tiny matrices stay on the host: the transfer would take as long as the work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from math import prod, sqrt
from typing import Any

import numpy as np
import numpy.typing as npt

from cbq.common import Array, Booleans, Integers, memory
from cbq.linalg import cholesky, gram, lapack
from cbq.linalg.cholesky import Factor, matrices, nugget_rows, read_only
from cbq.linalg.gram import Features, Fills, gram_features, on_host, take
from cbq.linalg.jitter import Jitter, NotPositiveDefinite, check_jitter, not_finite
from cbq.linalg.threads import LARGE

torch: Any = import_module("torch")  # untyped, so that types are checked with and without it
Tensor = Any

SHARE = 0.5  # of the free memory, for the matrices of a chunk
MATRICES = 3.5  # in memory at a time, for one exact process
FEW = 8  # up to this number, large matrices of a batch are factored one by one
SMALLEST_TRIANGLE = 128  # inverted as a whole; larger triangles are halved


class TorchEngine:
    """Cholesky and triangular solves of batches by PyTorch, in float64.

    name : "cuda" for the GPU, or "torch" for the CPU.
    least_on_device : operations of a call on a GPU; below, the transfer takes longer than the host.
    block : numbers filled at a time, so that temporaries are small beside a large matrix.
    large : the size from which a GPU decomposes a matrix faster than the host, and from half of which a few matrices
        are factored one by one: a batched routine gives each of them a small part of the device.
    """

    largest_exact: int

    def __init__(self, name: str, *, least_on_device: int = 200**3, block: int = 2**25, large: int = LARGE) -> None:
        if name == "cuda" and not torch.cuda.is_available():
            raise ValueError(
                f"engine 'cuda' needs a CUDA device, but torch {torch.__version__} finds none: look for it with "
                f"nvidia-smi and install a build of torch for its driver, or use engine 'numpy'."
            )
        self._on_gpu = name == "cuda"
        self._least_on_device, self._block, self._large = least_on_device if self._on_gpu else 0, block, large
        self.threaded = not self._on_gpu
        self._device = torch.device("cuda", torch.cuda.current_device()) if self._on_gpu else torch.device("cpu")
        self.name = f"cuda ({torch.cuda.get_device_name(self._device)})" if self._on_gpu else "torch (CPU)"
        self.largest_exact = 10_000
        if self._on_gpu:
            bytes_of_all = torch.cuda.get_device_properties(self._device).total_memory
            self.largest_exact = 1000 * int(sqrt(bytes_of_all / (8 * MATRICES)) / 1000)

    def available_memory(self) -> float:
        if not self._on_gpu:
            return memory.available_memory()
        kept = torch.cuda.memory_reserved(self._device) - torch.cuda.memory_allocated(self._device)
        # PyTorch keeps freed memory for reuse.
        return float(torch.cuda.mem_get_info(self._device)[0] + kept)

    def chunks(self, T: int, N: int, *, arrays: int = 1) -> Iterator[slice]:
        if not self._on_gpu:
            return gram.chunks(T, N, arrays=arrays)
        return gram.chunks(T, N, arrays=arrays, limit=int(SHARE * self.available_memory()), all_at_once=True)

    def resident_gram(self, kernel: Fills, x: Array) -> Any:
        if self._is_tiny((len(x), len(x))):
            return gram.gram_matrix(kernel, x)
        a = torch.empty((1, len(x), len(x)), dtype=torch.float64, device=self._device)
        self._fill(kernel, gram_features(kernel, x[None])[0], a)
        return a[0]

    def factor(self, K: Any, *, nugget: npt.ArrayLike | None, jitter: Jitter, overwrite: bool) -> Factor:
        given = K if isinstance(K, torch.Tensor) else matrices(K)
        if isinstance(given, np.ndarray) and self._is_tiny(given.shape):
            return cholesky.factor(given, nugget=nugget, jitter=jitter, overwrite=overwrite)
        check_jitter(jitter)

        def fill(a: Tensor) -> None:
            a.copy_((self._moved(given) if isinstance(given, np.ndarray) else given).reshape(a.shape))
            finite = torch.isfinite(a).all(-1).all(-1)
            # The factorisation finds NaN on the diagonal.
            a[:, 0, 0] = torch.where(finite, a[:, 0, 0], torch.nan)

        return self._factor(fill, tuple(given.shape[:-2]), given.shape[-1], nugget, jitter)

    def factor_gram(self, kernel: Fills, x: npt.ArrayLike, *, nugget: npt.ArrayLike | None, jitter: Jitter) -> Factor:
        rows, batch, n = gram_features(kernel, x)
        if self._is_tiny((*batch, n, n)):
            return gram.factor_gram(kernel, x, nugget=nugget, jitter=jitter)
        check_jitter(jitter)
        return self._factor(lambda a: self._fill(kernel, rows, a), batch, n, nugget, jitter)

    def eigh(self, a: Array) -> tuple[Array, Array]:
        if self._on_gpu and len(a) < self._large:
            return lapack.eigh(a)
        values, vectors = torch.linalg.eigh(self._moved(a))
        return on_host(values), on_host(vectors)

    def _is_tiny(self, shape: tuple[int, ...]) -> bool:
        return prod(shape) * shape[-1] <= self._least_on_device

    def _moved(self, a: npt.NDArray[Any]) -> Tensor:
        return torch.tensor(np.ascontiguousarray(a), device=self._device)

    def _fill(self, kernel: Fills, rows: Features, a: Tensor) -> None:
        """Fill `a` (B, N, N) with the Gram matrices of features (B, N, k), in blocks."""
        for which, part in _blocks(len(a), a.shape[-1], self._block):
            gram.fill(kernel.fill, take(rows, (which, part)), take(rows, which), a[which, part])

    def _factor(
        self,
        fill: Callable[[Tensor], None],
        batch: tuple[int, ...],
        n: int,
        nugget: npt.ArrayLike | None,
        jitter: Jitter,
    ) -> Factor:
        """Factor the matrices (B, N, N) that `fill` writes, all leading axes as one; see `jitter.factor_in_place`."""
        nuggets, count = nugget_rows(nugget, batch, n), prod(batch)
        memory.require_memory(
            2 * count * n * n, f"a factor of {count} x ({n}, {n})", "pass fewer points", self.available_memory
        )
        a = torch.empty((count, n, n), dtype=torch.float64, device=self._device)
        fill(a)
        diagonal = a.diagonal(dim1=-2, dim2=-1)
        unit = torch.clamp(diagonal.sum(-1) / n, min=0.0)
        wanted = diagonal.clone() if nugget is None else diagonal + self._moved(nuggets.reshape(count, n))
        diagonal.copy_(wanted + jitter.start * unit[:, None])
        L, bad = self._cholesky(a)
        units, failed = torch.stack([unit, bad.double()]).cpu().numpy()
        relative = np.full(count, jitter.start)
        if failed.any():
            self._add_jitter(a, L, wanted, unit, relative, np.flatnonzero(failed), jitter, list(np.ndindex(batch)))
        return TorchFactor(
            L.reshape(*batch, n, n),
            read_only((relative * units).reshape(batch)),
            read_only(relative.reshape(batch)),
        )

    def _cholesky(self, a: Tensor) -> tuple[Tensor, Tensor]:
        """Factors (B, N, N) of a, which stays as it is, and whether each has failed (B,)."""
        # A batched routine gives each matrix a small part of the device.
        if len(a) <= FEW and a.shape[-1] >= self._large // 2:
            factors, infos = zip(*(torch.linalg.cholesky_ex(matrix) for matrix in a), strict=True)
            L, info = (factors[0][None], infos[0][None]) if len(a) == 1 else (torch.stack(factors), torch.stack(infos))
        else:
            L, info = torch.linalg.cholesky_ex(a)
        # libraries differ in whether NaN counts as a failure, but it always reaches the diagonal
        return L, (info != 0) | ~torch.isfinite(L.diagonal(dim1=-2, dim2=-1)).all(-1)

    def _add_jitter(
        self,
        a: Tensor,
        L: Tensor,
        wanted: Tensor,
        unit: Tensor,
        relative: Array,
        failed: Integers,
        jitter: Jitter,
        names: list[tuple[int, ...]],
    ) -> None:
        """Factor the matrices of a (B, N, N) with too small a first jitter, into L, and set their `relative` jitter.

        wanted: (B, N), the diagonals without jitter. unit: (B,), of the jitter.
        """
        n = a.shape[-1]
        errors: dict[int, ValueError] = {}
        for which, _ in _blocks(len(failed), n, max(self._block, n * n)):
            left = failed[which]
            finite = self._all_finite(a, wanted, left)
            errors |= {i: not_finite(names[i]) for i in left[~finite]}
            left, (last, *higher) = left[finite], jitter.ladder()
            for last in higher:
                if not len(left):
                    break
                part = a if len(left) == len(a) else a[left]
                part.diagonal(dim1=-2, dim2=-1).copy_(wanted[left] + last * unit[left, None])
                factors, bad = self._cholesky(part)
                good = ~bad.cpu().numpy()
                relative[left[good]] = last
                if len(left) == len(L) and good.all():
                    # Without a temporary, since the matrices may fill the memory.
                    L.copy_(factors)
                else:
                    L[left[good]] = factors[np.flatnonzero(good)]
                left = left[~good]
            errors |= {i: NotPositiveDefinite(names[i], n, last) for i in left}
        if errors:
            raise errors[min(errors)]

    def _all_finite(self, a: Tensor, wanted: Tensor, which: Integers) -> Booleans:
        """Whether the matrices `which` of a (B, N, N), with diagonals (B, N), are finite in their lower triangles."""
        n = a.shape[-1]
        finite = torch.isfinite(wanted[which]).all(-1)
        for _, rows in _blocks(1, n, max(1, self._block // len(which))):
            below = torch.tril(a[which, rows], rows.start - 1)
            finite &= torch.isfinite(below).all(-1).all(-1)
        return np.asarray(finite.cpu().numpy())


class TorchFactor(Factor):
    """Factors in tensors on a device."""

    @property
    def lower(self) -> Array:
        return on_host(torch.tril(self.storage))

    @property
    def logdet(self) -> Array:
        return on_host(2.0 * self.storage.diagonal(dim1=-2, dim2=-1).log().sum(-1))

    def inverse(self) -> Array:
        return on_host(self.resident_inverse())

    def resident_inverse(self) -> Tensor:
        half = _inverse(self._stack)
        whole = half.mT @ half
        return (torch.tril(whole) + torch.tril(whole, -1).mT).reshape(self.storage.shape)

    def resident_solve_lower(self, b: Tensor) -> Tensor:
        return torch.linalg.solve_triangular(self.storage, b, upper=False)

    def inverse_root(self) -> Array:
        return on_host(_inverse(self._stack)).reshape(self.storage.shape)

    def inverse_diagonal(self) -> Array:
        return on_host(_inverse(self._stack).square_().sum(-2)).reshape(self.storage.shape[:-1])

    def _solve_lower_rows(self, rows: Array) -> Array:
        return on_host(self._half(rows).mT)

    def _solve_rows(self, rows: Array) -> Array:
        half = self._half(rows)
        return on_host(torch.linalg.solve_triangular(self._stack.mT, half, upper=True).mT)

    def _half(self, rows: Array) -> Tensor:
        """L^-1 v as columns (B, N, M), for the rows v of rows (B, M, N)."""
        columns = torch.from_numpy(rows).to(self.storage.device).mT
        return torch.linalg.solve_triangular(self._stack, columns, upper=False)

    @property
    def _stack(self) -> Tensor:
        return self.storage.reshape(-1, self.n, self.n)


def _blocks(count: int, n: int, numbers: int) -> Iterator[tuple[slice, slice]]:
    """Pieces of `count` matrices (n, n), of about `numbers` numbers: whole matrices, or rows of one of them."""
    step, most = max(1, numbers // (n * n)), max(1, min(n, numbers // n))
    for i in range(0, count, step):
        for j in range(0, n, most):
            yield slice(i, min(i + step, count)), slice(j, min(j + most, n))


def _inverse(L: Tensor) -> Tensor:
    """L^-1 of lower triangles (B, N, N), by halves: almost all of the work is products of matrices."""
    out = torch.zeros_like(L, memory_format=torch.contiguous_format)
    _invert(L, out)
    return out


def _invert(L: Tensor, out: Tensor) -> None:
    n = L.shape[-1]
    if n <= SMALLEST_TRIANGLE:
        identity = torch.eye(n, dtype=L.dtype, device=L.device).expand(L.shape)
        out.copy_(torch.linalg.solve_triangular(L, identity, upper=False))
        return
    upper, lower = slice(n // 2), slice(n // 2, n)
    _invert(L[:, upper, upper], out[:, upper, upper])
    _invert(L[:, lower, lower], out[:, lower, lower])
    out[:, lower, upper] = out[:, lower, lower] @ (L[:, lower, upper] @ -out[:, upper, upper])
