"""Models of timm, one of each family that is small enough: on PyTorch and on edutorch.

    .venv/bin/python -m tests.ecosystem.oracle -m tests.ecosystem.timm_cases

What is in the golden file already is kept: remove a line to compute it anew.
"""

from __future__ import annotations

from typing import Any

import timm

from tests.ecosystem.summaries import add_to_golden, draw_input, summarize_model

IN_CI = ("convnext_atto", "efficientnet_lite0", "resnet18", "vit_tiny_patch16_224")

# Not among them: levit_128s, repvit_m0_9 and visformer_tiny. With these weights PyTorch's own
# results in float32 and float64 differ as much as ours from PyTorch's; in float64 ours are
# PyTorch's within 1e-6.
BY_SIZE = {
    64: """
        convnext_atto cspdarknet53 darknet53 densenet121 dla34 dpn48b
        efficientnet_lite0 fasternet_t0 fastvit_t8 ghostnet_050 hardcorenas_a hgnetv2_b0
        hrnet_w18_small lcnet_050 mambaout_femto mnasnet_small mobilenetv3_small_050
        mobilenetv4_conv_small mobileone_s0 mobilevit_xxs nf_regnet_b0 regnetx_002 regnety_002
        repghostnet_050 repvgg_a0 res2net50_14w_8s resnest14d resnet18 resnetv2_50
        rexnet_100 selecsls42 seresnet18 skresnet18 starnet_s1 tf_efficientnetv2_b0 vgg11_bn
        vovnet39a xception41p
    """,
    224: """
        bat_resnext26ts beit_base_patch16_224 botnet26t_256 cait_xxs24_224 coat_lite_tiny
        convit_tiny convmixer_768_32
        crossvit_9_240 deit_tiny_patch16_224 edgenext_xx_small efficientformer_l1
        eva02_tiny_patch14_224 focalnet_tiny_srf gcvit_xxtiny hiera_tiny_224
        mixer_s32_224 mvitv2_tiny
        nest_tiny pit_ti_224 poolformer_s12 pvt_v2_b0 resmlp_12_224 swin_tiny_patch4_window7_224
        tiny_vit_5m_224 twins_svt_small vit_tiny_patch16_224 volo_d1_224
        xcit_nano_12_p16_224
    """,
}
"""The models by the height and width of their input."""

SIZES = {name: size for size, names in BY_SIZE.items() for name in names.split()}
CASES = [*IN_CI, *(name for name in SIZES if name not in IN_CI)]
PAIRS = ("efficientformer_l1", "xcit_nano_12_p16_224")
"""With two images: of one, PyTorch 2.13's batch norm gives wrong gradients where tokens follow.

The gradient comes transposed there, and is read as if it were contiguous: that of the bias is not
the sum of what came.
"""

FACTOR = 0.7
"""Of the weights: with larger ones, activations grow until rounding is all that is left."""


def train(name: str) -> dict[str, Any]:
    """Return what a model computes: its output, some gradients, its output after a step."""
    model = timm.create_model(name, pretrained=False)
    _, channels, *own = (1, *model.default_cfg["input_size"])
    size = [SIZES[name]] * 2 if SIZES[name] < 224 else own
    shape = (2 if name in PAIRS else 1, channels, *size)
    return summarize_model(model, lambda model: model(draw_input(shape)), FACTOR, 4)


if __name__ == "__main__":
    add_to_golden("timm", CASES, train)
