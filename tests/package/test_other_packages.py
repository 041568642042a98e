"""What the pages say about other packages, tried with them where they are installed."""

import importlib.util
import shutil

import keras
import legacy_files
import numpy as np
import pytest

import keras_policies

OLD = legacy_files.CORPUS / "2.4.4" / "func_conv_fixed"
H5 = legacy_files.CORPUS / "2.15.1" / "seq_dense" / "model.h5"  # it has a dropout


@pytest.mark.filterwarnings("ignore")  # Lightning gives advice in warnings
@pytest.mark.slow("Lightning, which the extras do not have", weekly=True)
@pytest.mark.skipif(
    importlib.util.find_spec("lightning") is None or keras.backend.backend() != "torch",
    reason="needs lightning, on torch",
)
def test_a_checkpoint_of_lightning_fits_a_model_that_is_opened_again(tmp_path):
    import lightning
    import torch

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            keras.utils.clear_session()
            self.model = keras_policies.load_model(H5, compile=False)

        def training_step(self, batch, _):
            return torch.mean(self.model(batch[0], training=True) ** 2)

        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters(), 1e-2)

    module = Module()
    x = torch.ones(4, *module.model.input_shape[1:])
    data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x))
    options = {"logger": False, "enable_progress_bar": False, "accelerator": "cpu"}
    trainer = lightning.Trainer(max_epochs=1, default_root_dir=tmp_path, **options)
    trainer.fit(module, data)
    trainer.save_checkpoint(tmp_path / "old.ckpt")
    again = Module.load_from_checkpoint(tmp_path / "old.ckpt")
    torch.testing.assert_close(again.model(x), module.model(x))


FOLDERS = {
    "mlflow-1.12": ("data", "model.h5", ["data/keras_module.txt", "conda.yaml"]),
    "mlflow-1.30": ("data", "model", ["data/keras_module.txt", "data/save_format.txt"]),
    "mlflow-1.30-tensorflow": (".", "tfmodel", ["conda.yaml", "python_env.yaml"]),
}


@pytest.mark.once("folders are the same on each backend")
@pytest.mark.parametrize("name", FOLDERS)
def test_the_folder_of_a_model_that_an_old_mlflow_logged_opens(name, tmp_path):
    """Laid out as `save_model` of its mlflow/keras.py and mlflow/tensorflow does."""
    folder, file, others = FOLDERS[name]
    new = tmp_path / folder / file
    new.parent.mkdir(exist_ok=True)
    if file.endswith(".h5"):
        shutil.copy(OLD / "model.h5", new)
    else:
        shutil.copytree(OLD / "saved_model", new)
    for other in ["MLmodel", *others]:
        (tmp_path / other).write_text("tf")
    found = keras_policies.load_model(tmp_path)
    wanted = keras_policies.load_model(OLD / "model.h5")
    for weight, same in zip(found.get_weights(), wanted.get_weights(), strict=True):
        np.testing.assert_array_equal(weight, same)


@pytest.mark.filterwarnings("ignore")  # mlflow warns about paths and versions
@pytest.mark.slow("mlflow, which the extras do not have", weekly=True)
@pytest.mark.skipif(importlib.util.find_spec("mlflow") is None, reason="needs mlflow")
def test_mlflow_logs_a_model_with_its_loss_scale(tmp_path, monkeypatch):
    import mlflow

    monkeypatch.chdir(tmp_path)
    mlflow.set_tracking_uri(f"sqlite:///{tmp_path}/runs.db")
    model = keras_policies.load_model(H5)
    model.optimizer.dynamic_scale.assign(64.0)
    x = np.ones((2, *model.input_shape[1:]), "float32")
    with mlflow.start_run():
        logged = mlflow.keras.log_model(model, name="model")
    again = mlflow.keras.load_model(logged.model_uri)
    np.testing.assert_allclose(again.predict(x), model.predict(x), rtol=1e-6)
    assert type(again.optimizer).__name__ == "LossScaleOptimizer"  # of plain Keras
    assert float(again.optimizer.dynamic_scale) == 64.0
    assert int(again.optimizer.iterations) == int(model.optimizer.iterations) > 0
