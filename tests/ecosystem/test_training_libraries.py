"""Libraries that train: Lightning, Accelerate, transformers' Trainer, fastai, Pyro, skorch."""

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset


@pytest.fixture
def data():
    """Points with 4 coordinates, in two classes by the sign of their sum."""
    torch.manual_seed(0)
    points = torch.randn(256, 4)
    return points, (points.sum(1) > 0).long()


def make_network():
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))


def accuracy(network, points, labels) -> float:
    return (network(points).argmax(1) == labels).float().mean().item()


def test_lightning_fits_writes_a_checkpoint_and_resumes(data, tmp_path):
    lightning = pytest.importorskip("lightning")

    class Classifier(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.network = make_network()

        def training_step(self, batch, index):
            points, labels = batch
            loss = nn.functional.cross_entropy(self.network(points), labels)
            self.log("loss", loss)
            return loss

        def validation_step(self, batch, index):
            points, labels = batch
            self.log("accuracy", (self.network(points).argmax(1) == labels).float().mean())

        def configure_optimizers(self):
            optimizer = torch.optim.Adam(self.parameters(), lr=0.02)
            return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 1)]

    def trainer(epochs):
        return lightning.Trainer(
            max_epochs=epochs, accelerator="cpu", logger=False, default_root_dir=tmp_path,
            enable_progress_bar=False, enable_model_summary=False,
        )  # fmt: skip

    loader = DataLoader(TensorDataset(*data), 32, shuffle=True)
    first = trainer(2)
    model = Classifier()
    first.fit(model, loader, loader)
    assert first.callback_metrics["accuracy"] > 0.85
    first.save_checkpoint(tmp_path / "two.ckpt")

    second = trainer(4)
    resumed = Classifier()
    second.fit(resumed, loader, loader, ckpt_path=tmp_path / "two.ckpt")
    assert (second.current_epoch, second.global_step) == (4, 32)
    assert second.optimizers[0].param_groups[0]["lr"] == pytest.approx(0.02 * 0.1**4)
    loaded = Classifier.load_from_checkpoint(tmp_path / "two.ckpt")
    for ours, theirs in zip(loaded.parameters(), model.parameters(), strict=True):
        assert torch.equal(ours, theirs)


def test_accelerate_prepares_and_steps(data):
    accelerate = pytest.importorskip("accelerate")
    accelerator = accelerate.Accelerator(cpu=True)
    network = make_network()
    optimizer = torch.optim.Adam(network.parameters(), lr=0.02)
    scheduler = torch.optim.lr_scheduler.ConstantLR(optimizer)
    loader = DataLoader(TensorDataset(*data), 32, shuffle=True)
    network, optimizer, loader, scheduler = accelerator.prepare(
        network, optimizer, loader, scheduler
    )
    for _ in range(4):
        for points, labels in loader:
            optimizer.zero_grad()
            accelerator.backward(nn.functional.cross_entropy(network(points), labels))
            optimizer.step()
            scheduler.step()
    assert accuracy(network, *data) > 0.9


class Sentences(Dataset):
    """Four tokens each; the first decides the class."""

    def __len__(self) -> int:
        return 256

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        label = index % 2
        return {"input_ids": torch.tensor([5 + label, 2, 3, 4]), "labels": torch.tensor(label)}


def test_the_trainer_of_transformers_trains_saves_and_loads(tmp_path):
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("accelerate")
    transformers.set_seed(0)
    config = transformers.BertConfig(
        vocab_size=99, hidden_size=32, num_hidden_layers=1, num_attention_heads=4,
        intermediate_size=37, num_labels=2,
    )  # fmt: skip
    arguments = transformers.TrainingArguments(
        str(tmp_path), num_train_epochs=1, per_device_train_batch_size=8, learning_rate=3e-3,
        report_to=[], use_cpu=True, disable_tqdm=True, save_strategy="epoch",
    )  # fmt: skip
    model = transformers.BertForSequenceClassification(config)
    trainer = transformers.Trainer(
        model, arguments, train_dataset=Sentences(), eval_dataset=Sentences()
    )
    result = trainer.train()
    assert result.global_step == 32 and result.metrics["epoch"] == 1.0
    assert trainer.evaluate()["eval_loss"] < 0.1
    loaded = transformers.BertForSequenceClassification.from_pretrained(tmp_path / "checkpoint-32")
    for name, value in model.state_dict().items():
        assert torch.equal(loaded.state_dict()[name], value), name


@pytest.mark.slow
def test_fastai_fits_a_table(data):
    pytest.importorskip("fastai")
    pandas = pytest.importorskip("pandas")
    from fastai.tabular import all as fastai

    points, labels = data
    table = pandas.DataFrame(points.numpy(), columns=list("abcd"))
    table["sign"] = (points[:, 0] > 0).numpy().astype(str)
    table["label"] = labels.numpy().astype(str)
    loaders = fastai.TabularDataLoaders.from_df(
        table, y_names="label", cat_names=["sign"], cont_names=list("abcd"), bs=16,
        procs=[fastai.Categorify, fastai.FillMissing, fastai.Normalize],
    )  # fmt: skip
    learner = fastai.tabular_learner(loaders, metrics=fastai.accuracy)
    with learner.no_bar(), learner.no_logging():
        learner.fit_one_cycle(1, 0.02)
    assert learner.recorder.values[-1][-1] > 0.7  # accuracy on the validation set


@pytest.mark.slow
def test_fastai_fits_pictures(tmp_path):
    pytest.importorskip("fastai")
    import numpy as np
    from fastai.vision import all as fastai
    from PIL import Image

    random = np.random.default_rng(0)
    for name, largest in (("bright", 255), ("dark", 60)):
        (tmp_path / name).mkdir()
        for number in range(24):
            pixels = (random.random((32, 32, 3)) * largest).astype(np.uint8)
            Image.fromarray(pixels).save(tmp_path / name / f"{number}.png")
    torch.manual_seed(0)  # the weights are random
    loaders = fastai.ImageDataLoaders.from_folder(
        tmp_path, valid_pct=0.25, bs=8, item_tfms=fastai.Resize(32), num_workers=0, seed=1
    )
    learner = fastai.vision_learner(
        loaders, fastai.resnet18, metrics=fastai.accuracy, pretrained=False
    )
    with learner.no_bar(), learner.no_logging():
        learner.fit_one_cycle(3)
    (first_loss, *_), *_, (train_loss, valid_loss, _) = learner.recorder.values
    assert train_loss < first_loss and np.isfinite(valid_loss)


@pytest.mark.slow
def test_pyro_fits_a_normal_by_svi_and_nuts():
    pyro = pytest.importorskip("pyro")
    from pyro import distributions as dist
    from pyro.infer import MCMC, NUTS, SVI, Trace_ELBO

    pyro.set_rng_seed(0)
    values = 2 + 0.5 * torch.randn(100)

    def model(values):
        mean = pyro.sample("mean", dist.Normal(0.0, 10.0))
        scale = pyro.sample("scale", dist.LogNormal(0.0, 1.0))
        with pyro.plate("data", len(values)):
            pyro.sample("value", dist.Normal(mean, scale), obs=values)

    def guide(values):
        positive = dist.constraints.positive
        mean, spread = (
            pyro.param("m", torch.tensor(0.0)),
            pyro.param("s", torch.tensor(1.0), constraint=positive),
        )
        pyro.sample("mean", dist.Normal(mean, spread))
        pyro.sample("scale", dist.LogNormal(pyro.param("l", torch.tensor(0.0)), 0.1))

    svi = SVI(model, guide, pyro.optim.Adam({"lr": 0.05}), Trace_ELBO())
    for _ in range(500):
        svi.step(values)
    mean, std = values.mean().item(), values.std().item()
    assert pyro.param("m").item() == pytest.approx(mean, abs=0.15)
    assert pyro.param("l").exp().item() == pytest.approx(std, abs=0.1)

    chain = MCMC(NUTS(model), num_samples=150, warmup_steps=100, disable_progbar=True)
    chain.run(values)
    samples = chain.get_samples()
    assert samples["mean"].mean().item() == pytest.approx(mean, abs=0.05)
    assert samples["scale"].mean().item() == pytest.approx(std, abs=0.05)


@pytest.mark.slow
def test_smaller_libraries(data):
    """One call of each: an ODE, a scikit-learn classifier, a summary, a filter, a decoder."""
    torchdiffeq = pytest.importorskip("torchdiffeq")
    skorch = pytest.importorskip("skorch")
    torchinfo = pytest.importorskip("torchinfo")
    kornia = pytest.importorskip("kornia")
    x_transformers = pytest.importorskip("x_transformers")
    y = torchdiffeq.odeint(lambda t, y: -y, torch.tensor([1.0]), torch.linspace(0, 1, 3))
    assert y[-1].item() == pytest.approx(torch.tensor(-1.0).exp().item(), abs=1e-5)
    points, labels = (tensor.numpy() for tensor in data)
    classifier = skorch.NeuralNetClassifier(
        make_network(), max_epochs=10, lr=0.5, verbose=0, criterion=nn.CrossEntropyLoss
    )
    assert classifier.fit(points, labels).score(points, labels) > 0.9
    assert torchinfo.summary(make_network(), (2, 4), verbose=0).total_params == 114
    image = torch.ones(1, 3, 16, 16)
    assert torch.allclose(kornia.filters.gaussian_blur2d(image, (3, 3), (1.0, 1.0)), image)
    assert kornia.geometry.rotate(image, torch.tensor([30.0])).shape == image.shape
    decoder = x_transformers.TransformerWrapper(
        num_tokens=50, max_seq_len=32, attn_layers=x_transformers.Decoder(dim=32, depth=2, heads=4)
    )
    decoder(torch.randint(0, 50, (1, 8))).sum().backward()
    assert all(p.grad is not None for p in decoder.parameters())


@pytest.mark.slow
def test_sentence_transformers_encode(tmp_path):
    sentence_transformers = pytest.importorskip("sentence_transformers")
    models = pytest.importorskip("sentence_transformers.models")
    transformers = pytest.importorskip("transformers")
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "hello", "world"]
    (tmp_path / "vocab.txt").write_text("\n".join(words))
    transformers.BertTokenizer(str(tmp_path / "vocab.txt")).save_pretrained(tmp_path)
    config = transformers.BertConfig(
        vocab_size=len(words), hidden_size=32, num_hidden_layers=1, num_attention_heads=4,
        intermediate_size=37,
    )  # fmt: skip
    transformers.BertModel(config).save_pretrained(tmp_path)
    encoder = models.Transformer(str(tmp_path))
    model = sentence_transformers.SentenceTransformer(
        modules=[encoder, models.Pooling(32)], device="cpu"
    )
    vectors = model.encode(["hello world", "world hello", "hello world"])
    assert vectors.shape == (3, 32)
    assert (vectors[0] == vectors[2]).all() and not (vectors[0] == vectors[1]).all()
