"""The two pictures: the loss scale of a training, and a model's gradients on a batch.

matplotlib is imported when a picture is drawn; its global state does not change.
"""

from keras_policies.diagnostics.plots.gradients import plot_gradients
from keras_policies.diagnostics.plots.loss_scale import plot_loss_scale

__all__ = ["plot_gradients", "plot_loss_scale"]
