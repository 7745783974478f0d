"""The offline door: scikit-learn estimators that learn exactly as a deployment would.

from secvm.estimator import SecVMClassifier

model = SecVMClassifier()
model.fit([["tea", "rain"], ["sun", "sea", "sea"]], ["north", "south"])
model.predict([["rain"]])
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from secvm.errors import NotInstalledError

if TYPE_CHECKING:
    from secvm.estimator.binner import FeatureBinner
    from secvm.estimator.classifier import SecVMClassifier
    from secvm.estimator.classifier_cv import SecVMClassifierCV
    from secvm.estimator.privacy import PrivacyWarning
    from secvm.estimator.regressor import SecVMRegressor

__all__ = ["FeatureBinner", "PrivacyWarning", "SecVMClassifier", "SecVMClassifierCV", "SecVMRegressor"]


#: Where each name is defined.
_MODULES = {
    "FeatureBinner": "secvm.estimator.binner",
    "PrivacyWarning": "secvm.estimator.privacy",
    "SecVMClassifier": "secvm.estimator.classifier",
    "SecVMClassifierCV": "secvm.estimator.classifier_cv",
    "SecVMRegressor": "secvm.estimator.regressor",
}


def __getattr__(name: str) -> Any:
    """The estimators are imported when they are asked for: the command line trains without waiting for scikit-learn."""
    if name not in _MODULES:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    try:
        return getattr(import_module(_MODULES[name]), name)
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in {"sklearn", "scipy", "numba"}:
            raise
        raise NotInstalledError(f"secvm.estimator.{name}", package, "estimator") from None
