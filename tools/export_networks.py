#!/usr/bin/env python3
"""Exports networks with random weights as users export theirs, runs them with neap, compares with PyTorch.

    export_networks.py export DIR [NAME ...]      DIR/NAME/{model.pte,input.bin,expected_output.bin}
    export_networks.py run NEAP DIR [NAME ...]    one line a network: error, bytes planned and measured
    export_networks.py list

Needs torch, torchvision, timm and ExecuTorch's exporter (docs/programs.md, "Where a .pte comes from").
The networks are small and their inputs too; what is asked is which operators run and how exactly.
`run` needs NumPy alone."""
import json
import os
import struct
import subprocess
import sys
import tempfile
import time

import numpy

# name: (library, model, side of the square input)
NETWORKS = {
    "resnext50": ("torchvision", "resnext50_32x4d", 64),
    "densenet121": ("torchvision", "densenet121", 64),
    "googlenet": ("torchvision", "googlenet", 96),
    "mnasnet": ("torchvision", "mnasnet0_5", 96),
    "shufflenet": ("torchvision", "shufflenet_v2_x0_5", 96),
    "squeezenet": ("torchvision", "squeezenet1_1", 96),
    "regnet": ("torchvision", "regnet_y_400mf", 96),
    "efficientnetv2": ("torchvision", "efficientnet_v2_s", 64),
    "inception_v3": ("torchvision", "inception_v3", 128),
    "alexnet": ("torchvision", "alexnet", 128),
    "lraspp": ("torchvision.segmentation", "lraspp_mobilenet_v3_large", 96),
    "deeplabv3": ("torchvision.segmentation", "deeplabv3_mobilenet_v3_large", 96),
    "fcn": ("torchvision.segmentation", "fcn_resnet50", 64),
    "convnext": ("timm", "convnext_atto", 64),
    "deit": ("timm", "deit_tiny_patch16_224", 224),
    "swin": ("timm", "swinv2_cr_tiny_224", 224),
    "mobilevit": ("timm", "mobilevit_xxs", 128),
    "ghostnet": ("timm", "ghostnet_050", 96),
    "mixer": ("timm", "mixer_s32_224", 224),
    "pvt": ("timm", "pvt_v2_b0", 96),
    "coat": ("timm", "coat_lite_tiny", 224),
    "cait": ("timm", "cait_xxs24_224", 224),
    "poolformer": ("timm", "poolformer_s12", 96),
    "repvgg": ("timm", "repvgg_a0", 64),
    "edgenext": ("timm", "edgenext_xx_small", 96),
    "efficientformer": ("timm", "efficientformer_l1", 224),
    "xcit": ("timm", "xcit_nano_12_p16_224", 224),
    "levit": ("timm", "levit_128s", 224),
    "hrnet": ("timm", "hrnet_w18_small", 64),
    "resmlp": ("timm", "resmlp_12_224", 224),
    "nfnet": ("timm", "nfnet_l0", 64),
    "res2net": ("timm", "res2net50_26w_4s", 64),
}
# Of the file's tensors: numpy has no bf16, which is widened.
DTYPES = {0: "<f4", 1: "<f2", 2: "<i4", 3: "<i8", 4: "<u2", 5: "?", 6: "u1"}


def read_tensors(path):
    data = open(path, "rb").read()
    (count,), at, tensors = struct.unpack_from("<I", data), 4, []
    for _ in range(count):
        code, rank = struct.unpack_from("<II", data, at)
        shape = struct.unpack_from(f"<{rank}i", data, at + 8)
        at += 8 + 4 * rank
        n = int(numpy.prod(shape, dtype=numpy.int64))
        a = numpy.frombuffer(data, DTYPES[code], n, at).reshape(shape)
        at += a.nbytes
        tensors.append((a.astype("<u4") << 16).view("<f4") if code == 4 else a)
    return tensors


def build(name):
    import torch

    torch.manual_seed(0)
    library, model, side = NETWORKS[name]
    if library == "timm":
        import timm

        net = timm.create_model(model, pretrained=False)
    else:
        import torchvision

        models = torchvision.models
        if library.endswith("segmentation"):
            net = getattr(models.segmentation, model)(weights=None, weights_backbone=None)
        else:
            more = {"init_weights": False} if model in ("googlenet", "inception_v3") else {}
            net = getattr(models, model)(weights=None, **more)
    for m in net.modules():  # batch norms that do something
        if isinstance(m, torch.nn.modules.batchnorm._BatchNorm):
            m.running_mean.normal_(0, 0.1)
            m.running_var.uniform_(0.5, 1.5)
    return net.eval().requires_grad_(False), torch.randn(1, 3, side, side)


def export(name, folder):
    import torch
    from executorch import exir
    from executorch.backends.mlx import MLXPartitioner
    from executorch.backends.mlx.passes import get_default_passes
    from executorch.backends.mlx.test.test_utils import save_tensors_to_bin
    from executorch.exir.capture._config import ExecutorchBackendConfig

    net, x = build(name)
    with torch.no_grad():
        expected = net(x)
        program = torch.export.export(net, (x,), strict=False)
    edge = exir.to_edge_transform_and_lower(
        program,
        transform_passes=get_default_passes(),
        partitioner=[MLXPartitioner()],
        compile_config=exir.EdgeCompileConfig(_check_ir_validity=False, _skip_dim_order=True),
    )
    made = edge.to_executorch(config=ExecutorchBackendConfig(extract_delegate_segments=True))
    os.makedirs(folder, exist_ok=True)
    with open(f"{folder}/model.pte", "wb") as f:
        f.write(made.buffer)
    outputs = [t for t in torch.utils._pytree.tree_leaves(expected) if isinstance(t, torch.Tensor)]
    save_tensors_to_bin([x.contiguous()], f"{folder}/input.bin")
    save_tensors_to_bin([y.contiguous() for y in outputs], f"{folder}/expected_output.bin")


def error_of(got, want):
    """Relative RMS of floats; of integers the share that differs."""
    if got.shape != want.shape:
        return float("inf")
    if want.dtype.kind not in "f":
        return float((got != want).mean()) if want.size else 0.0
    got, want = got.astype(float), want.astype(float)
    scale = numpy.sqrt((want**2).mean()) if want.size else 0
    return float(numpy.sqrt(((got - want) ** 2).mean()) / (scale or 1)) if want.size else 0.0


def run(neap, folder):
    expected = read_tensors(f"{folder}/expected_output.bin")
    with tempfile.TemporaryDirectory() as scratch:
        command = [neap, "run", f"{folder}/model.pte", "--stats", f"{scratch}/stats.json", "-q"]
        for i, a in enumerate(read_tensors(f"{folder}/input.bin")):
            numpy.save(f"{scratch}/i{i}.npy", a)
            command += ["-i", f"{scratch}/i{i}.npy"]
        for i in range(len(expected)):
            command += ["-o", f"{scratch}/o{i}.npy"]
        begin = time.perf_counter()
        done = subprocess.run(command, capture_output=True, text=True)
        seconds = time.perf_counter() - begin
        if done.returncode:
            return {"refused": done.stderr.strip()}
        stats = json.load(open(f"{scratch}/stats.json"))
        errors = [error_of(numpy.load(f"{scratch}/o{i}.npy"), e) for i, e in enumerate(expected)]
    return {"error": max(errors), "planned": stats["planned_peak_bytes"],
            "measured": stats["measured_peak_bytes"], "seconds": seconds}


def main(args):
    if args[:1] == ["list"]:
        for name, (library, model, side) in NETWORKS.items():
            print(f"{name:16} {library}: {model}, {side} x {side}")
    elif args[:1] == ["export"] and len(args) > 1:
        for name in args[2:] or NETWORKS:
            if os.path.exists(f"{args[1]}/{name}/expected_output.bin"):
                continue
            begin = time.perf_counter()
            # In a process of its own: an exporter that fails takes nothing with it.
            code = subprocess.run([sys.executable, __file__, "one", args[1], name]).returncode
            seconds = time.perf_counter() - begin
            print(f"{name}: {'exported' if code == 0 else 'not exported'}, {seconds:.0f} s", flush=True)
    elif args[:1] == ["one"]:
        export(args[2], f"{args[1]}/{args[2]}")
    elif args[:1] == ["run"] and len(args) > 2:
        names = args[3:] or sorted(os.listdir(args[2]))
        for name in names:
            r = run(args[1], f"{args[2]}/{name}")
            print(f"{name:16} " + (r["refused"] if "refused" in r else
                  f"error {r['error']:.1e}  planned {r['planned']:>11,}  measured {r['measured']:>11,}"
                  f"  {r['seconds']:.1f} s"), flush=True)
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
