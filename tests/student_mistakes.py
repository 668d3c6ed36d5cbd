"""The commonest mistakes of students: each gets a message that says what to do.

They are those that PyTorch's forum and Stack Overflow are asked about over and over:

     1 no batch dimension            11 targets in another order, or too many classes
     2 channels-last image           12 broadcasting where none was meant
     3 flatten forgotten             13 backward without a graph, twice, on many numbers
     4 transposed matmul             14 in-place on a leaf, or on a saved value
     5 integers or float64 in        15 .item(), float() and `if` on many numbers
     6 targets of the wrong type     16 .numpy() on what needs a gradient, or is elsewhere
     7 softmax before the loss       17 shapes for cat, stack, view, reshape
     8 scores where log-probs belong 18 dims and indices that do not exist
     9 probabilities out of range    19 optimizers without parameters
    10 tensors on two devices        20 max(dim) is a pair; lists are no tensors

Forgetting `zero_grad` is not among them: adding up gradients over several backwards is what
large batches in small parts do, so a step cannot tell. `nn.Module` without `super().__init__()`
and a batch of one in training mode are, as 21 and 22.

Each mistake is a function of the module, so that PyTorch, the oracle, makes it too: what it
raises is a class that code written for it catches here as well: `test_twenty_mistakes.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Mistake = Callable[[Any], Any]
MISTAKES: list[tuple[str, Mistake, str, str]] = []
"""A title, the code, the beginning of the message, and what the hint says."""


# fmt: off


def mistake(says: str, hint: str) -> Callable[[Mistake], Mistake]:
    def decorator(code: Mistake) -> Mistake:
        MISTAKES.append((code.__name__, code, says, hint))
        return code

    return decorator


def short(title: str, code: Mistake, says: str, hint: str) -> None:
    MISTAKES.append((title, code, says, hint))


# 1 No batch dimension ------------------------------------------------

short("a gray image without axes", lambda torch: torch.nn.Conv2d(1, 8, 3)(torch.ones(28, 28)),
      "conv2d: `input` has 2 axes, expected 4 (n c h w)", "x[None, None]")
short("gray images without channels",
      lambda torch: torch.nn.Conv2d(1, 8, 3)(torch.ones(64, 28, 28)),
      "conv2d: axis c is 64 in `input` but 1 in `weight`", "x.unsqueeze(1)")
short("one sample for BatchNorm1d", lambda torch: torch.nn.BatchNorm1d(5)(torch.ones(5)),
      "BatchNorm1d: expected 2D or 3D input (got 1D input)", "x.unsqueeze(0)")
short("features for BatchNorm2d", lambda torch: torch.nn.BatchNorm2d(5)(torch.ones(4, 5)),
      "BatchNorm2d: expected 4D input (got 2D input)", "BatchNorm1d")

# 2 Channels-last ------------------------------------------------

short("a channels-last image", lambda torch: torch.nn.Conv2d(3, 8, 3)(torch.ones(4, 32, 32, 3)),
      "conv2d: axis c is 32 in `input` but 3 in `weight`", "input.permute(0, 3, 1, 2)")
short("channels-last in a normalisation",
      lambda torch: torch.nn.BatchNorm2d(3)(torch.ones(4, 8, 8, 3)),
      "BatchNorm2d: expected 3 channels along axis 1, got 8", "x.permute(0, 3, 1, 2)")

# 3 Flatten forgotten, 4 transposed matmul ------------------------------------------------

short("flatten forgotten", lambda torch: torch.nn.Linear(784, 10)(torch.ones(8, 1, 28, 28)),
      "linear: axis k is 28 in `input` but 784 in `weight`", "x.flatten(1) gives (8, 784)")
short("another number of features", lambda torch: torch.nn.Linear(10, 5)(torch.ones(4, 9)),
      "linear: axis k is 9 in `input` but 10 in `weight`", "should be made for 9")
short("features and samples exchanged", lambda torch: torch.nn.Linear(10, 5)(torch.ones(10, 4)),
      "linear: axis k is 4 in `input` but 10 in `weight`", "x.T")
short("a matrix product with the second transposed",
      lambda torch: torch.ones(64, 784) @ torch.ones(10, 784),
      "matmul: axis k is 784 in `input` but 10 in `other`", "input @ other.mT")
short(
    "attention over other features",
    lambda torch: torch.nn.functional.scaled_dot_product_attention(
        torch.ones(2, 3, 4), torch.ones(2, 3, 5), torch.ones(2, 3, 5)
    ),
    "scaled_dot_product_attention: expected",
    "query and key share their features",
)

# 5 Integers or float64 in, 6 targets of the wrong type ------------------------------------

short("integers into a layer", lambda torch: torch.nn.Linear(3, 2)(torch.tensor([[1, 2, 3]])),
      "linear: expected all arguments to have the same dtype", "input.float()")
short("NumPy's float64 into a layer",
      lambda torch: torch.nn.Linear(3, 2)(torch.from_numpy(np.ones((4, 3)))),
      "linear: expected all arguments to have the same dtype", "float64, which is what NumPy makes")
short("integers into a mean", lambda torch: torch.tensor([1, 2]).mean(),
      "mean: expected a floating point or complex dtype, got int64", "x.float()")
short("floating numbers into an embedding",
      lambda torch: torch.nn.Embedding(10, 3)(torch.tensor([1.0])),
      "embedding: expected the numbers of rows, int64", "input.long()")
short("classes as floating numbers",
      lambda torch: torch.nn.functional.cross_entropy(torch.ones(4, 3), torch.ones(4)),
      "cross_entropy: expected scalar type Long", "target.long()")
short("classes as int32",
      lambda torch: torch.nn.CrossEntropyLoss()(torch.ones(4, 3), torch.ones(4).int()),
      "cross_entropy: expected scalar type Long", "target.long()")
short("yes and no as integers",
      lambda torch: torch.nn.BCEWithLogitsLoss()(torch.ones(4), torch.ones(4).long()),
      "binary_cross_entropy_with_logits: the target must be of floating numbers", "target.float()")
short("yes and no as integers, for probabilities",
      lambda torch: torch.nn.BCELoss()(torch.ones(4), torch.ones(4).long()),
      "binary_cross_entropy: expected both arguments to have the same dtype", "target.float()")

# 9 Out of range, 11 targets in another form ------------------------------------------------

short("scores where probabilities belong",
      lambda torch: torch.nn.BCELoss()(torch.tensor([3.0]), torch.ones(1)),
      "binary_cross_entropy: all elements of input should be between 0 and 1",
      "binary_cross_entropy_with_logits")
short("one-hot classes",
      lambda torch: torch.nn.CrossEntropyLoss()(torch.ones(4, 3), torch.ones(4, 3).long()),
      "cross_entropy: expected a target of shape (4,)", "target.argmax(1)")
short("classes in a column",
      lambda torch: torch.nn.CrossEntropyLoss()(torch.ones(4, 3), torch.ones(4, 1).long()),
      "cross_entropy: expected a target of shape (4,)", "target.squeeze(-1)")
short("classes from 1",
      lambda torch: torch.nn.CrossEntropyLoss()(torch.ones(3, 3), torch.tensor([1, 2, 3])),
      "cross_entropy: Target 3 is out of bounds", "target - 1")
short("target before scores",
      lambda torch: torch.nn.CrossEntropyLoss()(torch.tensor([0, 1, 2, 2]), torch.ones(4, 3)),
      "cross_entropy: expected scalar type Long", "cross_entropy(scores, target)")
short("fewer targets than samples",
      lambda torch: torch.nn.CrossEntropyLoss()(torch.ones(4, 3), torch.tensor([0, 1])),
      "cross_entropy: expected a target of shape (4,)", "same number of samples")
short("a word that is not in the table",
      lambda torch: torch.nn.Embedding(10, 3)(torch.tensor([10])),
      "embedding: index out of range", "the rows are 0 to 9")
short("a column of predictions for yes and no",
      lambda torch: torch.nn.BCELoss()(torch.ones(4, 1), torch.ones(4)),
      "binary_cross_entropy: input and target must have the same shape", "target.reshape_as(input)")

# 12 Broadcasting ------------------------------------------------

short("a number for each row", lambda torch: torch.ones(3, 4) * torch.ones(3),
      "mul: the shapes cannot be broadcast together: axis -1 is 4", "x.reshape(3, 1)")

# 13 Backward ------------------------------------------------


@mistake("backward: element 0 of tensors does not require grad", "requires_grad=True")
def backward_without_a_leaf(torch):
    torch.ones(3).sum().backward()


@mistake("backward: element 0 of tensors does not require grad", "no_grad()")
def backward_inside_no_grad(torch):
    with torch.no_grad():
        torch.nn.Linear(2, 1)(torch.ones(3, 2)).sum().backward()


@mistake("backward: element 0 of tensors does not require grad", "argmax")
def backward_from_a_choice(torch):
    torch.nn.Linear(2, 3)(torch.ones(3, 2)).argmax(1).sum().backward()


@mistake("backward: element 0 of tensors does not require grad", "detach()")
def a_loss_wrapped_in_a_new_tensor(torch):
    loss = torch.nn.Linear(2, 1)(torch.ones(3, 2)).sum()
    torch.tensor(loss.item()).backward()


@mistake("backward: grad can be implicitly created only for scalar outputs", "loss.mean()")
def backward_from_many_numbers(torch):
    torch.nn.Linear(2, 1)(torch.ones(3, 2)).backward()


@mistake("backward: the values saved by", "retain_graph=True")
def backward_twice(torch):
    loss = torch.ones(2, requires_grad=True).exp().sum()
    loss.backward()
    loss.backward()


@mistake("requires_grad: only Tensors of floating point", "decimal point")
def a_gradient_for_integers(torch):
    torch.tensor([1, 2, 3], requires_grad=True)


# 14 In place ------------------------------------------------


@mistake("sub_: a leaf Variable that requires grad", "with no_grad():")
def a_step_by_hand_without_no_grad(torch):
    w = torch.ones(2, requires_grad=True)
    w -= 0.1


@mistake("exp: one of the variables needed for gradient computation", "x.clone()")
def in_place_on_a_saved_value(torch):
    y = torch.ones(2, requires_grad=True).exp()
    y += 1
    y.sum().backward()


# 15 Numbers out, 16 NumPy ------------------------------------------------

short("item of many", lambda torch: torch.ones(3).item(),
      "item: a Tensor with 3 elements", "x.tolist()")
short("float of many", lambda torch: float(torch.ones(3)),
      "item: a Tensor with 3 elements", "x.mean().item()")
short("if on many", lambda torch: 1 if torch.ones(3) > 0 else 2,
      "bool: Boolean value of Tensor with more than one value is ambiguous", "torch.where(x, a, b)")
short("numpy of what needs a gradient", lambda torch: torch.ones(2, requires_grad=True).numpy(),
      "numpy: can't call numpy() on a Tensor that requires grad", "x.detach().numpy()")
short("NumPy on what needs a gradient", lambda torch: np.asarray(torch.ones(2, requires_grad=True)),
      "numpy: can't call numpy() on a Tensor that requires grad", "x.detach().numpy()")

# 17 Shapes ------------------------------------------------

short("cat of different widths", lambda torch: torch.cat([torch.ones(2, 3), torch.ones(2, 4)]),
      "cat: axis 1 is 3 in tensors[0] but 4 in tensors[1]", "only axis 0 may differ")
short("cat without a list", lambda torch: torch.cat(torch.ones(2, 3), torch.ones(2, 3)),
      "cat: argument `tensors` must be a tuple of Tensors, not Tensor", "[a, b]")
short("stack of different lengths", lambda torch: torch.stack([torch.ones(2), torch.ones(3)]),
      "stack: axis 0 is 2 in tensors[0] but 3 in tensors[1]", "")
short("view of a transposed tensor", lambda torch: torch.ones(2, 3).t().view(6),
      "view: view size is not compatible", ".reshape(...)")
short("reshape without the batch", lambda torch: torch.ones(64, 1, 28, 28).reshape(784),
      "reshape: shape [784] is invalid for input of size 50176", "(64, -1)")
short("half a size", lambda torch: torch.zeros(5 / 2, 3),
      "zeros: argument `size` must be ints, got float, int", "a // b")
short("a picture too small", lambda torch: torch.nn.Conv2d(3, 8, 5)(torch.ones(1, 3, 4, 4)),
      "conv2d: Kernel size can't be greater", "fewer poolings")

# 18 Dims and indices ------------------------------------------------

short("a dim that does not exist", lambda torch: torch.ones(2, 3).sum(2),
      "sum: Dimension out of range", "between -2 and 1")
short("a column that does not exist", lambda torch: torch.ones(3, 4)[:, 9],
      "index: index 9 is out of bounds for dimension 1 with size 4", "")
short("a floating index", lambda torch: torch.ones(3)[torch.tensor([0.0])],
      "index: tensors used as indices must be integers or bools", "x.long()")

# 19 Optimizers ------------------------------------------------


@mistake("SGD: argument `params` must be an iterable of Tensors", "model.parameters()")
def parameters_not_called(torch):
    torch.optim.SGD(torch.nn.Linear(2, 2).parameters, lr=0.1)


@mistake("SGD: argument `params` must be an iterable of Tensors", "model.parameters()")
def the_model_itself(torch):
    torch.optim.SGD(torch.nn.Linear(2, 2), lr=0.1)


@mistake("optimizer got an empty parameter list", "empty after its first use")
def a_generator_used_twice(torch):
    parameters = torch.nn.Linear(2, 2).parameters()
    print(f"training {sum(parameter.numel() for parameter in parameters)} numbers")
    torch.optim.SGD(parameters, lr=0.1)


@mistake("optimizer: can't optimize a non-leaf Tensor", "requires_grad=True")
def a_computed_parameter(torch):
    torch.optim.SGD([torch.ones(2, requires_grad=True) * 0.1], lr=0.1)


# 20 Pairs and lists ------------------------------------------------

short("max is a pair", lambda torch: torch.ones(2, 3).max(1).float(),
      "max: the result is a pair (values, indices)", "max(…).values")
short("a list is no tensor", lambda torch: torch.mean([torch.ones(1), torch.ones(1)]),
      "mean: argument `input` must be a Tensor, not list", "torch.stack")
short("a list of lists into a layer", lambda torch: torch.nn.Linear(2, 2)([[1.0, 2.0]]),
      "linear: argument `input` must be a Tensor, not list", "torch.tensor")
short("a list of tensors for `tensor`", lambda torch: torch.tensor([torch.ones(2), torch.ones(2)]),
      "tensor: only one element tensors can be converted", "torch.stack")
short("None into a layer", lambda torch: torch.nn.BatchNorm1d(3)(None),
      "BatchNorm1d: argument `input` must be a Tensor, not NoneType", "`return`")
short("a forward without return", lambda torch: torch.relu(None),
      "relu: argument `input` must be a Tensor", "without `return`")

# 21 and 22 Modules ------------------------------------------------


@mistake("cannot assign Linear before Module.__init__() call", "super().__init__()")
def no_super(torch):
    class Net(torch.nn.Module):
        def __init__(self):
            self.layer = torch.nn.Linear(2, 2)

    Net()


@mistake("list is not a Module subclass", "nn.Sequential(*layers)")
def a_list_of_layers(torch):
    torch.nn.Sequential([torch.nn.Linear(2, 2)])


@mistake("batch_norm: Expected more than 1 value per channel when training", "model.eval()")
def a_batch_of_one(torch):
    torch.nn.BatchNorm1d(5)(torch.ones(1, 5))
