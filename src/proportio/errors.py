"""Every error a caller may catch: each names what was received, where, and the remedy.

All derive from `ProportioError`, and each also from the built-in type that scikit-learn's users expect.
"""

from sklearn.exceptions import NotFittedError as _SklearnNotFittedError


class ProportioError(Exception):
    """Base of everything that proportio raises on purpose."""


class InputError(ProportioError, ValueError):
    """Rows, labels, weights or parameters whose values cannot be used."""


class InputTypeError(ProportioError, TypeError):
    """An argument of the wrong kind: text among the columns, sparse or complex numbers."""


class MismatchError(InputError):
    """Two things that do not belong together: sketches of different maps, columns of another table."""


class EmptyClassError(InputError):
    """A class of the reference without a single row to stand for it."""


class FileError(InputError):
    """A file that is missing, truncated, altered, of a newer schema, or not ours."""


class BoundError(InputError):
    """A certificate was asked of a feature map that declares no bound C."""


class NotFittedError(ProportioError, _SklearnNotFittedError):  # type: ignore[misc]  # scikit-learn is untyped
    """The estimator was used before `fit`."""


class ProportioWarning(UserWarning):
    """A result that is right but needs care (the estimate carries the same words in its diagnostics), or takes long to come."""


__all__ = [
    "BoundError",
    "EmptyClassError",
    "FileError",
    "InputError",
    "InputTypeError",
    "MismatchError",
    "NotFittedError",
    "ProportioError",
    "ProportioWarning",
]
