"""How much a compiler's count of operations leaves out, because it reads a loop's body once."""

import math


def loop_factor(jaxpr):
    """Return the matrix FLOPs of a traced program over the same with every loop run once (≥ 1).

    `jaxpr` is a `jax.core.ClosedJaxpr`. XLA's cost analysis counts the body of a loop once however
    often it runs, so a recurrent layer over 20 steps looks 20 times too cheap.
    """
    once, all_trips = _count(jaxpr.jaxpr)
    return all_trips / once if once else 1.0


def _count(jaxpr):
    """Matrix FLOPs of a jaxpr: with each loop once, and with all its trips."""
    once = all_trips = 0
    for equation in jaxpr.eqns:
        own = _matrix_flops(equation)
        inner = [_count(part) for part in _inner(equation.params)]
        trips = equation.params["length"] if equation.primitive.name == "scan" else 1
        once += own + sum(a for a, _ in inner)
        all_trips += own + trips * sum(b for _, b in inner)
    return once, all_trips


def _inner(params):
    """The jaxprs that an equation calls: a loop's body, a jitted function, a derivative rule."""
    for value in params.values():
        for part in value if isinstance(value, tuple | list) else (value,):
            part = getattr(part, "jaxpr", part)
            if hasattr(part, "eqns"):
                yield part


def _matrix_flops(equation):
    name = equation.primitive.name
    if name == "dot_general":
        (contracted, _), _ = equation.params["dimension_numbers"]
        left = equation.invars[0].aval.shape
        return 2 * equation.outvars[0].aval.size * math.prod(left[i] for i in contracted)
    if name == "conv_general_dilated":
        kernel = equation.invars[1].aval
        outputs = kernel.shape[equation.params["dimension_numbers"].rhs_spec[0]]
        return 2 * equation.outvars[0].aval.size * kernel.size // outputs
    return 0
