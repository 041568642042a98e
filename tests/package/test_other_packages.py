"""What the pages say about other packages, tried with them where they are installed."""

import importlib.util

import keras
import legacy_files
import pytest

import keras_policies

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
