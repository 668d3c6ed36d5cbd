"""What networks for segmentation share: features of a backbone, a head, enlargement."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any

from .... import nn
from ....core.tensor import Tensor
from ....errors import InvalidValueError
from ..registry import get_model

__all__ = ["IntermediateLayerGetter", "SegmentationModel"]


class IntermediateLayerGetter(nn.ModuleDict):
    """The first layers of a model, run one after another; it returns what some of them give.

    Args:
        model: its children are run in their order; those after the last wanted are left out.
        return_layers: name of a child → name of its output in the result.

    >>> from edutorch.vision.models import resnet18
    >>> from edutorch.vision.models.segmentation.base import IntermediateLayerGetter
    >>> features = IntermediateLayerGetter(resnet18(), {"layer1": "fine", "layer4": "coarse"})
    >>> {name: tuple(x.shape) for name, x in features(zeros(1, 3, 64, 64)).items()}
    {'fine': (1, 64, 16, 16), 'coarse': (1, 512, 2, 2)}
    """

    def __init__(self, model: nn.Module, return_layers: Mapping[str, str]) -> None:
        children = dict(model.named_children())
        unknown = [name for name in return_layers if name not in children]
        if unknown:
            raise InvalidValueError(
                "IntermediateLayerGetter", f"the model has no layer {unknown[0]!r}",
                {"layers": ", ".join(children)},
            )  # fmt: skip
        names = list(children)
        last = max(names.index(name) for name in return_layers)
        super().__init__({name: children[name] for name in names[: last + 1]})
        self.return_layers = dict(return_layers)

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        outputs: dict[str, Tensor] = OrderedDict()
        for name, layer in self.items():
            x = layer(x)
            if name in self.return_layers:
                outputs[self.return_layers[name]] = x
        return outputs


class SegmentationModel(nn.Module):
    """Scores of each pixel: the head on the features, enlarged to the size of the picture.

    Args:
        backbone: returns a dict of features: "out", and "aux" where there is a second head.
        classifier: the head on "out".
        aux_classifier: a head on the earlier features "aux", for a second loss while training.

    Shape: input (N, 3, H, W); output: a dict with "out", and perhaps "aux": (N, classes, H, W).
    """

    def __init__(
        self, backbone: nn.Module, classifier: nn.Module, aux_classifier: nn.Module | None = None
    ) -> None:
        super().__init__()
        self.backbone = backbone
        self.classifier = classifier
        self.aux_classifier = aux_classifier

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        features = self.backbone(x)
        scores = OrderedDict(out=self.classifier(features["out"]))
        if self.aux_classifier is not None:
            scores["aux"] = self.aux_classifier(features["aux"])
        return OrderedDict((name, enlarge(value, x)) for name, value in scores.items())


def enlarge(scores: Tensor, picture: Tensor) -> Tensor:
    """Interpolate scores to the height and width of the picture."""
    size = tuple(picture.shape[-2:])
    return nn.functional.interpolate(scores, size=size, mode="bilinear", align_corners=False)


def resnet_backbone(name: str, weights: Any, has_aux: bool | None) -> IntermediateLayerGetter:
    """Return the features of a ResNet: its last stages look further instead of halving."""
    model = get_model(name, weights=weights, replace_stride_with_dilation=[False, True, True])
    aux = {"layer3": "aux"} if has_aux else {}
    return IntermediateLayerGetter(model, {**aux, "layer4": "out"})


Head = Callable[[int, int], nn.Module]
"""Makes a head from the number of channels of its input, and of classes."""
