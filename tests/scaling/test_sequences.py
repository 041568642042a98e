"""Every order in which a loop may scale, unscale and apply, and what comes of it.

`sequences.Loop` has the grammar. A row ends well or in an error that names
`are_scaled`; `test_no_sequence_goes_wrong_silently` tries all orders, and lists the
exceptions.
"""

import copy
import itertools

import keras
import pytest
from keras import ops
from sequences import BACKEND, Loop

from keras_policies import DynamicLossScale, LossScaleOptimizer
from keras_policies.loss_scaling import loop_state
from keras_policies.loss_scaling.loop_state import LoopState

# Keras itself caches functions.
pytestmark = pytest.mark.filterwarnings("ignore:Dynamo detected a call to a")

RIGHT = [-1.0, -2.0, -3.0]
ERROR = "are_scaled=True to .* if these are gradients of the scaled loss, are_scaled=Fa"
OLD = "get_scaled_loss unscaled ~ apply_gradients"  # the loop of tf.keras, clipping
# A loop of one optimizer, after loops -> whether it goes well.
ROWS = {
    # Keras 3
    "scale_loss apply": True,
    "scale_loss apply_gradients": True,
    "scale_loss ~ apply": True,
    "(scale_loss apply)": True,
    "(scale_loss) (apply)": True,
    "(scale_loss) apply_gradients": True,
    # tf.keras
    "get_scaled_loss unscaled apply_gradients": True,
    OLD: True,
    f"({OLD})": True,
    "(get_scaled_loss unscaled ~) apply_gradients": True,
    "(get_scaled_loss unscaled) (~ apply_gradients)": True,
    "get_scaled_loss (unscaled ~) apply_gradients": True,
    "get_scaled_loss (unscaled) (apply_gradients)": True,
    # Between the two
    "get_scaled_loss apply": True,
    "get_scaled_loss ~ apply_gradients": True,
    "(get_scaled_loss) apply_gradients": True,
    "scale_loss unscaled apply_gradients": True,
    "scale_loss (unscaled apply_gradients)": True,
    "scale_loss (unscaled ~ apply_gradients)": False,
    "scale_loss (unscaled) apply_gradients": False,
    "scale_loss unscaled ~ apply_gradients": False,
    "scale_loss unscaled ~ apply_gradients=False": True,
    # `apply` takes scaled gradients
    "get_scaled_loss unscaled apply": False,
    "get_scaled_loss unscaled ~ apply": False,
    "(get_scaled_loss unscaled) apply": False,
    "get_scaled_loss (unscaled apply)": False,
    "get_scaled_loss unscaled apply=False": True,
    "(get_scaled_loss unscaled ~ apply=False)": True,
    # A norm is logged, at each step or at one
    "get_scaled_loss log@0 apply": True,
    "get_scaled_loss log apply": True,
    "(get_scaled_loss log apply)": True,
    "get_scaled_loss log ~ apply": False,
    "get_scaled_loss log ~ apply=True": True,
    "get_scaled_loss (log@0) apply": False,
    "get_scaled_loss (log@1) apply": False,
    "scale_loss log@1 apply_gradients": True,
    "scale_loss log@1 ~ apply_gradients": False,
    "get_scaled_loss log@0 apply_gradients": False,
    "get_scaled_loss log@1 ~ apply_gradients": False,
    "(get_scaled_loss) (log@1) apply_gradients": False,
    "get_scaled_loss unscale apply": True,
    "get_scaled_loss unscale@1 ~ apply_gradients": True,
    "(get_scaled_loss unscale ~ apply_gradients)": True,
    # The loop multiplies by the scale itself
    "multiply apply=True": True,
    "multiply log ~ apply_gradients=True": True,
    "multiply unscaled ~ apply_gradients": True,
}
# One loop after another with the same optimizer.
PHASES = {
    ("zeros", OLD): True,
    ("zeros", "get_scaled_loss (unscaled ~) apply_gradients"): True,
    ("zeros", "scale_loss apply_gradients"): True,
    (OLD, "(scale_loss apply_gradients)"): True,  # as `fit` on TensorFlow
    (OLD, "scale_loss apply"): True,
    (OLD, "(scale_loss) apply"): True,
    (OLD, "(scale_loss) apply_gradients"): False,
    ("(scale_loss apply_gradients)", OLD): True,
    ("(scale_loss apply_gradients)", f"({OLD})"): True,
    (OLD, "(scale_loss apply_gradients)", OLD): True,
    ("scale_loss apply", "(get_scaled_loss unscaled) apply_gradients"): False,
    ("(scale_loss) apply_gradients", OLD): False,
    ("(scale_loss apply_gradients)", "(get_scaled_loss) unscaled ~ apply_gradients"): (
        False
    ),
}
# torch.compile takes seconds, and runs our Python at each step.
COMPILED = [
    texts for texts in [*((t,) for t in ROWS), *PHASES] if "(" in "".join(texts)
]
SLOW = COMPILED[3:] if BACKEND == "torch" else []


def loop_of(cls=LossScaleOptimizer, **settings):
    return Loop(cls(keras.optimizers.SGD(1.0, **settings), DynamicLossScale(1024)))


@pytest.mark.parametrize(
    "texts",
    [texts for texts in [*((text,) for text in ROWS), *PHASES] if texts not in SLOW],
    ids=" / ".join,
)
def test_a_loop_is_right_or_an_error_says_what_to_pass(texts):
    is_right = ROWS.get(texts[0]) if len(texts) == 1 else PHASES[texts]
    *earlier, last = texts
    loop = loop_of()
    for text in earlier:
        loop.run(text, 1 if text == "zeros" else 3)
    loop.weight.assign([0.0])
    if is_right:
        assert loop.run(last)[-3:] == RIGHT
    else:
        with pytest.raises(ValueError, match=ERROR):
            loop.run(last)


@pytest.mark.skipif(BACKEND == "tensorflow", reason="stateless_apply: not TensorFlow")
@pytest.mark.parametrize(
    ("text", "is_right"),
    [
        ("scale_loss stateless_apply", True),
        ("get_scaled_loss log@0 stateless_apply", True),
        ("get_scaled_loss unscaled stateless_apply", False),
        ("get_scaled_loss unscaled ~ stateless_apply", False),
        ("get_scaled_loss unscaled ~ stateless_apply=False", True),
        ("multiply stateless_apply=True", True),
    ],
)
def test_stateless_apply_takes_scaled_gradients(text, is_right):
    if is_right:
        assert loop_of().run(text) == RIGHT
    else:
        with pytest.raises(ValueError, match="stateless_apply .*" + ERROR):
            loop_of().run(text)


@pytest.mark.parametrize(
    "text",
    ["scale_loss apply", "get_scaled_loss log@0 apply", OLD],
)
def test_gradients_that_accumulate_are_unscaled_once(text):
    loop = loop_of(gradient_accumulation_steps=2)
    assert loop.run(text, 4) == [0.0, -1.0, -1.0, -2.0]


@pytest.mark.parametrize("clip", [False, True])
def test_two_lists_of_variables_of_one_unscaling(clip):
    optimizer = LossScaleOptimizer(keras.optimizers.SGD(1.0), 1024)
    weights = [keras.Variable([0.0]), keras.Variable([0.0])]
    optimizer.build(weights)
    for _ in range(2):
        loss = optimizer.get_scaled_loss(ops.ones(1))
        unscaled = optimizer.get_unscaled_gradients([loss, loss * 2])
        for gradient, weight in zip(unscaled, weights, strict=True):
            optimizer.apply_gradients([(gradient + 0.0 if clip else gradient, weight)])
    assert [w.numpy().tolist() for w in weights] == [[-2.0], [-4.0]]


@pytest.mark.parametrize("method", ["scale_loss", "get_scaled_loss"])
def test_two_losses_of_one_step(method):
    optimizer = LossScaleOptimizer(keras.optimizers.SGD(1.0), 1024)
    weight = keras.Variable([0.0])
    for _ in range(2):
        losses = [getattr(optimizer, method)(ops.ones(1)) for _ in range(2)]
        if method == "get_scaled_loss":
            parts = [optimizer.get_unscaled_gradients([loss])[0] for loss in losses]
            optimizer.apply_gradients([(parts[0] + parts[1], weight)])
        else:
            optimizer.apply_gradients([(losses[0] + losses[1], weight)])
    assert weight.numpy().tolist() == [-4.0]


def test_scaled_and_unscaled_gradients_are_not_applied_together():
    optimizer = LossScaleOptimizer(keras.optimizers.SGD(1.0), 1024)
    scaled = [ops.ones(1) * 1024, ops.ones(1) * 1024]
    unscaled = optimizer.get_unscaled_gradients(scaled)
    weights = [keras.Variable([0.0]), keras.Variable([0.0])]
    with pytest.raises(ValueError, match="some are its arguments, others its results"):
        optimizer.apply([scaled[0], unscaled[1]], weights)


def test_a_copy_goes_on_as_its_original():
    loop = loop_of()
    loop.run("get_scaled_loss (unscaled ~) apply_gradients", 1)
    copied = copy.deepcopy(loop.optimizer)
    # The compiled functions of the loop call the original.
    copied.apply_gradients([(ops.ones(1), loop.weight)])
    assert loop.weight.numpy().tolist() == [-2.0]


def test_an_error_does_not_decide_the_next_attempt():
    loop = loop_of()
    for _ in range(2):
        with pytest.raises(ValueError, match=ERROR):
            loop.run("get_scaled_loss unscaled ~ apply", 1)
    assert loop.weight.numpy().tolist() == [0.0]


@pytest.mark.skipif(BACKEND != "torch", reason="in-place operations: torch only")
def test_gradients_that_are_divided_in_place_are_not_taken_for_scaled():
    optimizer = LossScaleOptimizer(keras.optimizers.SGD(1.0), 1024)
    weight, gradient = keras.Variable([0.0]), ops.ones(1) * 1024
    gradient.copy_(optimizer.get_unscaled_gradients([gradient])[0])
    with pytest.raises(ValueError, match=ERROR):
        optimizer.apply([gradient], [weight])
    optimizer.apply_gradients([(gradient, weight)])
    assert weight.numpy().tolist() == [-1.0]


@pytest.mark.parametrize(
    "read", [lambda o: o.loss_scale, lambda o: o.dynamic_scale], ids=["loss", "dynamic"]
)
def test_reading_the_scale_does_not_count_as_scaling(read):
    loop = loop_of()
    for _ in range(2):
        read(loop.optimizer)
        if int(loop.optimizer.applied_steps):
            with pytest.warns(UserWarning, match="the loss was never multiplied by it"):
                loop.optimizer.apply([ops.ones(1)], [loop.weight])
        else:
            loop.optimizer.apply([ops.ones(1)], [loop.weight])


def test_a_loop_that_multiplies_itself_is_told_to_say_so():
    with pytest.warns(UserWarning, match="optimizer.loss_scale itself passes are_sca"):
        assert loop_of().run("multiply apply") == RIGHT


@pytest.mark.parametrize("method", ["apply", "apply_gradients", "stateless_apply"])
@pytest.mark.parametrize("said", [1, "yes", [True]], ids=repr)
def test_are_scaled_is_a_bool(method, said):
    loop = loop_of()
    values = [ops.convert_to_tensor(v) for v in loop.optimizer.variables]
    gradient, weight = ops.ones(1), loop.weight
    arguments = {
        "apply": ([gradient], [weight]),
        "apply_gradients": ([(gradient, weight)],),
        "stateless_apply": (values, [gradient], [ops.convert_to_tensor(weight)]),
    }
    with pytest.raises(TypeError, match="are_scaled must be True .* Received: are_sc"):
        getattr(loop.optimizer, method)(*arguments[method], are_scaled=said)


def test_lists_of_different_lengths_are_refused():
    loop = loop_of()
    with pytest.raises(ValueError, match="Received: 2 gradients, 1 variables"):
        loop.optimizer.apply([ops.ones(1)] * 2, [loop.weight])


# All orders, for the decisions alone -----------------------------------------------

LOSSES = ["scale_loss", "get_scaled_loss"]
BETWEEN = [(), ("log",), ("log@1",), ("unscaled",)]
STEPS = ["apply", "apply_gradients"]
EARLIER = {
    "nothing": [],
    "zeros": [(False, ("zeros",))],
    "fit": [(True, ("scale_loss", "apply_gradients"))],
    "tf.keras": [
        (True, ("get_scaled_loss", "unscaled")),
        (False, ("apply_gradients",)),
    ],
}
# The calls are those of the loop of tf.keras: it applies unscaled gradients.
AS_TF_KERAS = [
    "get_scaled_loss log apply_gradients",
    "get_scaled_loss log ~ apply_gradients",
    # Once it has unscaled, too
    *("get_scaled_loss apply_gradients", "get_scaled_loss ~ apply_gradients"),
    *(
        "get_scaled_loss log@1 apply_gradients",
        "get_scaled_loss log@1 ~ apply_gradients",
    ),
]


class Decisions:
    """Runs loops with the state of an optimizer alone, which notes what is wrong.

    Tensors are pairs: one of the backend, and whether it is scaled. A compiled piece
    gets and returns new ones, and repeats its decisions without running Python again.
    """

    def __init__(self):
        self.state, self.is_wrong = LoopState(), False

    def run(self, pieces, steps):
        self._traced = {}
        for step in range(steps):
            pair = None
            for compiled, words in pieces:
                calls = [w.split("@")[0] for w in words if step or w != "log@1"]
                pair = self._piece(compiled, tuple(calls), pair)

    def _piece(self, compiled, words, pair):
        is_new = not compiled or words not in self._traced
        pair = (ops.ones(1), pair[1]) if pair and compiled else pair
        decided = [] if is_new else self._traced[words]
        for word in words:
            pair = self._word(word, pair, decided, is_new)
        self._traced.update({words: decided} if compiled else {})
        return (ops.ones(1), pair[1]) if compiled else pair

    def _word(self, word, pair, decided, is_new):
        if word in STEPS:
            if is_new:
                decided.append(self.state.are_scaled(word, [pair[0]], None))
            self.is_wrong |= decided[0] != pair[1]
        elif word == "zeros":
            self.state.are_scaled("apply_gradients", [ops.zeros(1)], None)
        elif word == "~":
            return ops.ones(1), pair[1]
        elif word in LOSSES:
            if is_new:
                self.state.called(word)
            return ops.ones(1), True
        else:
            unscaled = ops.ones(1), False
            if is_new:
                self.state.called(loop_state.UNSCALE)
                self.state.know([pair[0]], [unscaled[0]])
            return unscaled if word == "unscaled" else pair
        return pair


def in_pieces(words):
    """Yield the ways to make a loop of eager calls and compiled functions."""
    for cuts in itertools.product([False, True], repeat=len(words) - 1):
        groups = [[words[0]]]
        for is_cut, word in zip(cuts, words[1:], strict=True):
            groups.append([word]) if is_cut else groups[-1].append(word)
        for compiled in itertools.product([False, True], repeat=len(groups)):
            if (False, False) not in itertools.pairwise(compiled):
                yield [*zip(compiled, map(tuple, groups), strict=True)]


@pytest.mark.parametrize("earlier", EARLIER)
def test_no_sequence_goes_wrong_silently(earlier):
    wrong = set()
    for loss, between, clip, step in itertools.product(
        LOSSES, BETWEEN, [(), ("~",)], STEPS
    ):
        words = [loss, *between, *clip, step]
        for pieces in in_pieces(words):
            decisions = Decisions()
            decisions.run(EARLIER[earlier], 2)
            assert not decisions.is_wrong
            try:
                decisions.run(pieces, 2)
            except ValueError:
                continue
            if decisions.is_wrong:
                wrong.add(" ".join(words))
    may_be = AS_TF_KERAS if earlier == "tf.keras" else AS_TF_KERAS[:2]
    assert sorted(wrong) == sorted(may_be)
