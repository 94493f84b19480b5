"""Lightning: a small network learns a parabola."""

import lightning
import torch
from torch.nn.functional import mse_loss
from torch.utils.data import DataLoader, TensorDataset


class Parabola(lightning.LightningModule):
    """As in the library's first example."""

    def __init__(self):
        super().__init__()
        self.net = torch.nn.Sequential(torch.nn.Linear(1, 32), torch.nn.ReLU(), torch.nn.Linear(32, 1))

    def training_step(self, batch, _):
        loss = mse_loss(self.net(batch[0]), batch[1])
        self.log("train_loss", loss, prog_bar=True)
        return loss

    def validation_step(self, batch, _):
        self.log("val_loss", mse_loss(self.net(batch[0]), batch[1]), prog_bar=True)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-2)


torch.manual_seed(0)
inputs = torch.randn(1200, 1)
data = TensorDataset(inputs, inputs**2)
training, validation = torch.utils.data.random_split(data, [1000, 200])
trainer = lightning.Trainer(max_epochs=5, accelerator="cpu", enable_checkpointing=False)
trainer.fit(Parabola(), DataLoader(training, 32, shuffle=True), DataLoader(validation, 32))
