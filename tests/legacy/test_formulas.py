"""Formulas as text compute what `keras.ops` does."""

import keras
import numpy as np
import pytest

from keras_policies.legacy.values.formulas import compiled


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("x + y * 2", [[7.0, 12.0]], id="precedence"),
        pytest.param("(y - x) / 2.0", [[1.0, 1.5]], id="quotient"),
        pytest.param("-(x // 2) ** 2", [[0.0, -1.0]], id="sign"),
        pytest.param("where(x >= 2, -1.5, x)", [[1.0, -1.5]], id="comparison"),
        pytest.param("sum(concatenate([x, y], 1), axis=-1)", [11.0], id="list"),
    ],
)
def test_a_formula_gives_the_same_for_arrays_and_tensors(text, expected):
    x, y = np.array([[1.0, 2.0]], "float32"), np.array([[3.0, 5.0]], "float32")
    arrays = {name: array for name, array in {"x": x, "y": y}.items() if name in text}
    inputs = {name: keras.Input((2,)) for name in arrays}
    model = keras.Model(list(inputs.values()), compiled(text)(inputs))
    assert compiled(text)(arrays).tolist() == expected
    found = model(list(arrays.values()))
    assert keras.ops.convert_to_numpy(found).tolist() == expected


@pytest.mark.parametrize("text", ["x if y else x", "x < y < 2", "[a for a in x]"])
def test_any_other_expression_is_not_a_formula(text):
    with pytest.raises(ValueError, match="is not part of a formula"):
        compiled(text)
