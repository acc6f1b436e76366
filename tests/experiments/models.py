# SPDX-License-Identifier: Apache-2.0
"""
The models of the experiments. The small ones train on generated data of the shape of MNIST and CIFAR-10; of
the large ones only the tensors of the published shape exist, with values of no meaning.
"""
import json
import struct

TILE_BYTES = 16 << 20
BATCH = 16

# Llama 3.1: layers, width, inner width, width of keys and values, vocabulary, parameters.
LLAMA = {"llama-3.1-8b": (32, 4096, 14336, 1024, 128256, 8030261248),
         "llama-3.1-70b": (80, 8192, 28672, 1024, 128256, 70553706496)}
SMALL = ("mnist-cnn", "resnet18")
NAMES = (*SMALL, *LLAMA)


def make_mnist_cnn(torch):
    """Two convolutions and two linear layers, as in examples of federated learning."""
    nn = torch.nn
    return nn.Sequential(nn.Conv2d(1, 32, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(32, 64, 5), nn.ReLU(),
                         nn.MaxPool2d(2), nn.Flatten(), nn.Linear(1024, 512), nn.ReLU(), nn.Linear(512, 10))


def _make_block(torch, inputs, outputs, stride):
    nn = torch.nn

    class Block(nn.Module):  # pylint: disable=too-few-public-methods
        def __init__(self):
            super().__init__()
            self.body = nn.Sequential(nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.BatchNorm2d(outputs),
                                      nn.ReLU(), nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False),
                                      nn.BatchNorm2d(outputs))
            self.way = nn.Sequential() if stride == 1 and inputs == outputs else nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

        def forward(self, x):
            return torch.relu(self.body(x) + self.way(x))

    return Block()


def make_resnet18(torch):
    """ResNet-18 for images of 32 x 32 pixels: 11.2 million parameters."""
    nn, layers, width = torch.nn, [], 64
    for outputs, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
        layers += [_make_block(torch, width, outputs, stride), _make_block(torch, outputs, outputs, 1)]
        width = outputs
    return nn.Sequential(nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU(), *layers,
                         nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10))


def make(torch, name):
    """Returns a model with the same values in every process."""
    torch.manual_seed(1)
    torch.set_num_threads(1)
    return make_mnist_cnn(torch) if name == "mnist-cnn" else make_resnet18(torch)


def train(torch, name, model, client, number, steps):
    """Makes steps of SGD on data that depend on the client and the round."""
    generator = torch.Generator().manual_seed(1000 * client + number)
    shape = (1, 28, 28) if name == "mnist-cnn" else (3, 32, 32)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    model.train()
    for _ in range(steps):
        labels = torch.randint(0, 10, (BATCH,), generator=generator)
        images = torch.randn((BATCH, *shape), generator=generator) + labels.view(-1, 1, 1, 1) / 10
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
    return float(loss)


def llama_tensors(name, layers=None):
    """Yields (name, shape) of each tensor, of all layers or of the first ones."""
    count, width, inner, narrow, words, _ = LLAMA[name]
    yield "model.embed_tokens.weight", (words, width)
    for i in range(count if layers is None else layers):
        at = f"model.layers.{i}."
        yield at + "input_layernorm.weight", (width,)
        yield at + "mlp.down_proj.weight", (width, inner)
        yield at + "mlp.gate_proj.weight", (inner, width)
        yield at + "mlp.up_proj.weight", (inner, width)
        yield at + "post_attention_layernorm.weight", (width,)
        for part, rows in (("k", narrow), ("q", width), ("v", narrow)):
            yield at + f"self_attn.{part}_proj.weight", (rows, width)
        yield at + "self_attn.o_proj.weight", (width, width)
    yield "model.norm.weight", (width,)
    yield "lm_head.weight", (words, width)


def count_parameters(tensors):
    total = 0
    for _, shape in tensors:
        count = 1
        for length in shape:
            count *= length
        total += count
    return total


def write_llama(path, name, layers):
    """Writes a safetensors file in bf16 that repeats one tile of random numbers."""
    import torch  # pylint: disable=import-outside-toplevel

    torch.manual_seed(1)
    tile = (torch.randn(TILE_BYTES // 2) / 50).bfloat16().view(torch.int16).numpy().tobytes()
    header, at = {}, 0
    for tensor, shape in llama_tensors(name, layers):
        size = 2 * count_parameters([(tensor, shape)])
        header[tensor] = {"dtype": "BF16", "shape": list(shape), "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for begin in range(0, at, TILE_BYTES):
            file.write(tile[:at - begin])


def write_first(path, name, layers):
    """Writes the model of round 0 as a safetensors file."""
    if name in LLAMA:
        write_llama(path, name, layers)
        return
    import torch  # pylint: disable=import-outside-toplevel
    from flmem import _safetensors  # pylint: disable=import-outside-toplevel

    state = make(torch, name).state_dict()
    _safetensors.write(path, ((key, _safetensors.of_value(key, value)) for key, value in state.items()))


if __name__ == "__main__":
    import sys

    write_first(sys.argv[1], sys.argv[2], int(sys.argv[3]))
