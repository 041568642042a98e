"""`tf.signal`: Fourier transforms of the last axes, and the frames of a signal."""

from collections.abc import Callable
from typing import TypeAlias

from keras_policies.legacy.ops import converters
from keras_policies.legacy.ops.complex_pairs import Complex
from keras_policies.legacy.ops.converters import Pair, Value
from keras_policies.legacy.ops.registry import functions, op
from keras_policies.legacy.values import computed
from keras_policies.legacy.values.evaluator import dtype_of, evaluate, ops

Lengths: TypeAlias = tuple[int, ...] | None


@op("signal.fft FFT")
def fft(input: Pair) -> Complex:
    """Return the transform along the last axis."""
    return Complex(*evaluate("fft", input))


@op("signal.ifft IFFT")
def ifft(input: Pair) -> Complex:
    """Undo `fft`: swap the parts, transform, swap back and divide by the length."""
    real, imag = input
    length = converters.integer(computed.shape(real)[-1])
    imag, real = evaluate("fft", (imag, real))
    return Complex(ops.divide(real, length), ops.divide(imag, length))


functions(
    "input:Pair",
    (lambda pair: Complex(*evaluate("fft2", pair)), "signal.fft2d FFT2D"),
    (lambda pair: Complex(*ops.ifft2(pair)), "signal.ifft2d IFFT2D"),
)


@op("signal.rfft RFFT(input_tensor fft_length)")
def rfft(input_tensor: Value, fft_length: Lengths = None) -> Complex:
    """Return the first half of `fft` of real numbers; the other half mirrors it."""
    return Complex(*ops.rfft(input_tensor, *(fft_length or ())))


@op("signal.irfft IRFFT(input_tensor fft_length)")
def irfft(input_tensor: Pair, fft_length: Lengths = None) -> Value:
    """Undo `rfft`."""
    return ops.irfft(input_tensor, *(fft_length or ()))


def _along_rows(function: Callable[[Pair], Complex], pair: Pair) -> Complex:
    """Return a transform along the last axis but one."""
    turned = function(tuple(ops.swapaxes(part, -2, -1) for part in pair))
    return Complex(*(ops.swapaxes(part, -2, -1) for part in turned.sources))


def _check_rows(signal: object, fft_length: Lengths) -> None:
    if fft_length and fft_length[0] != computed.shape(signal)[-2]:
        raise ValueError(f"fft_length: {fft_length} of other rows")


@op("signal.rfft2d RFFT2D(input_tensor fft_length)")
def rfft2d(input_tensor: Value, fft_length: Lengths = None) -> Complex:
    """Return `fft` of the rows of `rfft`."""
    _check_rows(input_tensor, fft_length)
    return _along_rows(fft, rfft(input_tensor, fft_length and fft_length[1:]).sources)


@op("signal.irfft2d IRFFT2D(input_tensor fft_length)")
def irfft2d(input_tensor: Pair, fft_length: Lengths = None) -> Value:
    """Undo `rfft2d`."""
    _check_rows(input_tensor[0], fft_length)
    rows = _along_rows(ifft, input_tensor).sources
    return irfft(rows, fft_length and fft_length[1:])


@op("signal.frame")
def frame(
    signal: Value, frame_length: int, frame_step: int, pad_end: bool = False
) -> Value:
    """Return the pieces of the last axis that begin at every `frame_step` items."""
    if pad_end:
        raise ValueError("pad_end: expected False")
    total = converters.integer(computed.shape(signal)[-1])
    starts = computed.arange(0, total - frame_length + 1, frame_step)
    inside = computed.arange(0, frame_length)
    return ops.take(signal, ops.add(ops.expand_dims(starts, -1), inside), -1)


@op("signal.stft")
def stft(
    signals: Value,
    frame_length: int,
    frame_step: int,
    fft_length: int | None = None,
    pad_end: bool = False,
) -> Complex:
    """Return `rfft` of the frames, under the Hann window of tf.signal."""
    pieces = frame(signals, frame_length, frame_step, pad_end)
    window = ops.cast(ops.hanning(frame_length + 1)[:-1], dtype_of(signals))
    length = fft_length or 2 ** (frame_length - 1).bit_length()
    return rfft(ops.multiply(pieces, window), (length,))
