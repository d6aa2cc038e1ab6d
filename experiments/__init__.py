"""The experiments of the paper, built on the public interface of `cbq`.

They belong to the repository and are not installed: `cbq reproduce`, run from a checkout, finds them here.
`command.py` lists them and does what that command says, `runner.py` runs one of them, and `common.py` and `record.py`
are shared with `benchmarks/`.
"""
