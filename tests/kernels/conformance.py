"""What every kernel is put through. A new kernel joins by one line in `CASES`.

`CASES` holds (name, kernel, columns): columns is their number, or a function (rng, n) -> inputs for a kernel
that wants particular ones (positive times, strings). `composites()` draws random kernels built with + * scale
power and .on, together with what they should equal.
"""

import functools
import operator

import jax.numpy as jnp
import numpy as np
from hypothesis import strategies as st

from mercer import kernels as k
from mercer.params import fixed, param


# functions and inputs that some of the kernels below want
def squares(X):
    return jnp.hstack([jnp.ones((X.shape[0], 1)), X, X**2])


def envelope(X):
    return jnp.exp(-0.3 * X[:, 0] ** 2)


def local(X):
    """A positive-definite matrix for every row of two columns."""
    a, b, c = jnp.exp(0.3 * X[:, 0]), 0.2 * jnp.sin(X[:, 1]), 0.5 + X[:, 1] ** 2
    return jnp.stack([jnp.stack([a + 0.2, b], 1), jnp.stack([b, c], 1)], 2)


def identity(X):
    return X


def swap(X):
    return X[:, ::-1]


def shared(a, b):
    """Symbols that two strings have in common."""
    return float(len(set(a) & set(b)))


FUNCTIONS = {f.__name__: f for f in (squares, envelope, local, identity, swap, shared)}


def times(rng, n):
    return rng.uniform(0.0, 1.0, (n, 1))


def labels(rng, n):
    return rng.choice(["ant", "bee", "cat", "dog"], (n, 1)).astype(object)


def dna(rng, n):
    return np.array(["".join(rng.choice(list("acgt"), rng.integers(0, 10))) for _ in range(n)], dtype=object)[
        :, None
    ]


def trees(rng, n):
    out = np.empty((n, 1), object)
    for i in range(n):
        words = rng.choice(["ant", "bee"], 3).tolist()
        out[i, 0] = (
            "S",
            ("N", words[0]),
            ("V", words[1], ("N", words[2])) if rng.random() < 0.5 else ("V", words[1]),
        )
    return out


ANTS = k.Graph([("ant", "bee"), ("bee", "cat"), ("cat", "ant"), ("bee", "dog")], [1.0, 0.4, 2.0, 1.5])


def mixed(rng, n):
    out = np.empty((n, 2), object)
    out[:, 0], out[:, 1] = rng.normal(size=n), rng.choice(["ant", "bee"], n)
    return out


def observed(rng, n):
    """Averages over intervals of c f + v f'."""
    place, width = rng.normal(size=(n, 1)), rng.uniform(0.2, 1.6, (n, 1))
    return np.hstack([place, width, rng.normal(size=(n, 1)), np.zeros((n, 1)), rng.normal(size=(n, 2))])


def outputs_of_rows(rng, n):
    """The number of a row, and that of an output."""
    return np.column_stack([rng.integers(0, n // 2, n), rng.integers(0, 3, n)]).astype(object)


def rows_of_outputs(rng, n):
    """Two columns, and the number of an output."""
    return np.column_stack([rng.normal(size=(n, 2)), rng.integers(0, 2, n)]).astype(object)


CASES = [
    ("se", k.SE(0.7, 1.3), 1),
    ("se-ard", k.SE([0.6, 1.1, 2.0], 2.0), 3),
    ("se-six-columns", k.SE(2.5, 0.8), 6),
    ("se-forty-columns", k.SE(6.0), 40),
    ("se-loadings", k.SE([1.0, 2.0], 0.9, loadings=[[0.5], [-0.3]]), 2),
    ("matern-1/2", k.Matern(0.8, 1.5, nu=0.5), 2),
    ("matern-3/2", k.Matern(0.8, 1.5, nu=1.5), 2),
    ("matern-5/2", k.Matern([0.8, 1.4], 1.5, nu=2.5), 2),
    ("matern-7/2", k.Matern(0.8, nu=3.5), 1),
    ("matern-any-order", k.Matern(0.8, 1.5, nu=1.2), 2),
    ("matern-learned-order", k.Matern(0.8, 1.5, nu=param(1.7)), 2),
    ("rational-quadratic", k.RationalQuadratic(0.9, 1.2, alpha=0.7), 2),
    ("gamma-exponential", k.GammaExponential(0.9, 1.2, gamma=1.4), 2),
    ("compact-q0", k.PiecewisePolynomial(1.9, 1.2, q=0), 2),
    ("compact-q1", k.PiecewisePolynomial(1.9, 1.2), 1),
    ("compact-q2-ard", k.PiecewisePolynomial([1.9, 2.5, 3.1], q=2), 3),
    ("compact-q3-dimension", k.PiecewisePolynomial(1.9, q=3, dimension=4), 2),
    ("bessel-j", k.BesselJ(0.4, 1.2, nu=1.3), 2),
    ("sinc", k.Sinc(0.4, 1.2), 3),
    ("cosine", k.Cosine(0.4, 1.2), 1),
    ("spectral-mixture", k.SpectralMixture([0.7, 1.3], [0.0, 0.6], [0.2, 0.1]), 1),
    (
        "spectral-mixture-columns",
        k.SpectralMixture([0.7, 1.3], [[0.0, 0.3], [0.6, -0.2]], [[0.2, 0.1], [0.1, 0.4]]),
        2,
    ),
    ("scale-mixture", k.LengthscaleMixture([0.3, 1.0, 4.0], [0.2, 1.0, 0.5]), 2),
    ("periodic-of-matern", k.PeriodicOf(k.Matern(0.8, 1.3, nu=1.5), 1.7), 2),
    ("periodic-of-linear", k.PeriodicOf(k.Linear(0.8), 1.7), 1),
    ("periodised-se", k.Periodised(k.SE(0.3, 1.3), 1.4), 1),
    ("periodised-matern", k.Periodised(k.Matern(0.2, nu=1.5) + k.SE(0.3), 1.4), 1),
    ("locally-periodic", k.locally_periodic(0.9, 0.8, 2.5, 1.3), 1),
    ("fourier-features", k.FourierFeatures([[0.1, 0.4], [0.3, -0.2], [0.0, 0.7]], 1.2, 0.8), 2),
    ("periodic", k.Periodic(1.3, 0.8, 2.0), 1),
    ("periodic-vectors", k.Periodic([1.3, 0.7], [0.8, 1.5], 2.0), 2),
    ("zero-sum-periodic", k.ZeroSumPeriodic(1.3, 0.8, 2.0), 1),
    ("constant", k.Constant(0.6), 2),
    ("white", k.SE(0.7, 1.3) + k.White(0.3), 2),
    ("linear", k.Linear(0.6), 2),
    ("linear-ard", k.Linear([0.6, 1.7]), 2),
    ("polynomial", k.Polynomial(3, 0.5, 0.3), 2),
    ("polynomial-homogeneous", k.Polynomial(2, fixed(0.0), 0.3), 2),
    ("linear-covariance", k.LinearCovariance([[1.2, 0.0], [-0.4, 0.7]], 0.8), 2),
    ("polynomial-covariance", k.Polynomial(2, 0.5, 0.3, factor=[[1.2, 0.0], [-0.4, 0.7]]), 2),
    ("features", k.Features(squares, [0.5, 1.0, 0.2]), 1),
    ("features-factor", k.Features(squares, factor=[[1.0, 0, 0], [0.2, 0.9, 0], [0.1, -0.3, 0.5]]), 1),
    ("varying-coefficients", k.varying_coefficients(squares, [0.5, 1.0, 0.2], k.SE(0.8)), 1),
    ("neural-network", k.NeuralNetwork(2.0, [1.5, 0.7], 1.3), 2),
    (
        "neural-network-factor",
        k.NeuralNetwork(variance=1.3, factor=[[1.4, 0, 0], [0.3, 1.2, 0], [0.1, -0.5, 0.8]]),
        2,
    ),
    ("arc-cosine-0", k.ArcCosine(2.0, 1.5, 1.3, order=0), 2),
    ("arc-cosine-1", k.ArcCosine(2.0, [1.5, 0.7], 1.3), 2),
    ("arc-cosine-2", k.ArcCosine(factor=[[1.4, 0], [0.3, 1.2]], order=2), 1),
    ("gaussian-network", k.GaussianNetwork(0.7, 1.3, 2.0), 2),
    ("gibbs", k.Gibbs(envelope, 1.2), 2),
    ("gibbs-log-linear", k.Gibbs(k.LogLinear([[0.3, -0.2], [0.1, 0.4]], [0.2, -0.1]), 1.2), 2),
    ("gibbs-log-radial", k.Gibbs(k.LogRadial([[-1.0], [0.0], [1.0]], [0.4, -0.6, 0.2], 0.8, -0.3)), 1),
    ("gibbs-log-process", k.Gibbs(k.LogProcess([[-1.0], [0.0], [1.0]], [0.4, -0.6, 0.2], k.SE(0.9))), 1),
    ("paciorek-schervish", k.PaciorekSchervish(k.Matern(nu=1.5), k.LogLinear([0.3, -0.2], 0.1)), 2),
    ("paciorek-schervish-full", k.PaciorekSchervish(k.RationalQuadratic(variance=1.4, alpha=0.8), local), 2),
    ("wiener", k.Wiener(1.3), times),
    ("integrated-wiener", k.IntegratedWiener(2, 1.3), times),
    ("integrated-ou", k.IntegratedOrnsteinUhlenbeck(0.4, 1.3), times),
    ("local-linear", k.LocalLinear(0.7, 1.5, 0.2), times),
    ("seasonal", k.Seasonal(2.0, 0.6, 1.3, harmonics=3), 1),
    ("oscillator", k.Oscillator(1.1, 0.9, 1.3), 1),
    ("oscillator-overdamped", k.Oscillator(5.0, 0.3, 1.3), 1),
    ("continuous-ar-1", k.ContinuousAR([0.7], 1.3), 1),
    ("continuous-ar-2", k.ContinuousAR([1.6, 3.1], 1.3), 1),
    ("continuous-ar-4", k.ContinuousAR([1.1, 0.6, 2.2, 0.8], 1.3), 1),
    ("brownian-bridge", k.BrownianBridge(variance=1.3), times),
    ("fractional-brownian", k.FractionalBrownian(0.3, 1.3), 2),
    ("change-point", k.ChangePoint(k.SE(0.7, 1.3), k.Matern(0.3, nu=1.5), 0.2, 3.0, column=1), 2),
    ("rescaled", k.SE(0.7, 1.3).rescale(envelope), 2),
    ("rescaled-learned", k.Linear(0.7).rescale(k.LogLinear([0.3, -0.2], 0.1)), 2),
    ("warped", k.SE([0.7, 1.0, 1.5], 1.3).warp(squares), 1),
    ("warped-learned", k.Matern([0.7, 1.2], 1.3).warp(k.LinearMap(param([[0.4, 0.1], [-0.2, 0.9]]))), 2),
    ("normalised", k.Polynomial(2, 0.5, 0.3).normalised(), 2),
    ("blurred-se", k.Blurred(k.SE([0.7, 1.1], 1.3), 0.4), 2),
    ("blurred", k.Blurred(k.Matern(0.7, 1.3, nu=1.5), 0.4, nodes=5), 1),
    ("posterior", 1.2 * k.PosteriorKernel(k.SE(0.7, 1.3), [[0.1], [0.9], [-0.6]], 0.05), 1),
    ("additive", k.Additive([k.SE(0.7), k.Matern(1.1, nu=1.5), k.Linear(0.5)], 2, [0.8, 0.3]), 3),
    ("shared", k.Shared(k.Matern([0.7, 1.4], 1.3), groups=[0, 1, 1], names=["a", "b"]), 3),
    ("invariant", k.Invariant(k.SE(0.7, 1.3), [[[1.0, 0.0], [0.0, 1.0]], [[-1.0, 0.0], [0.0, -1.0]]]), 2),
    ("invariant-functions", k.Invariant(k.SE([0.7, 1.4]), [identity, swap]), 2),
    ("preference", k.Preference(k.SE([0.7, 1.4], 1.3) + k.Linear(0.4).on(0)), 4),
    ("preference-linear", k.Preference(k.Linear([0.7, 1.4])), 4),
    ("observed", k.Observed(k.SE(0.7, 1.3), columns=1), observed),
    ("real-power", k.RationalQuadratic(0.7, 1.3, alpha=0.8) ** 0.4, 2),
    ("categorical", k.Categorical(correlation=0.3, variance=1.4), labels),
    ("categorical-levels", k.Categorical(["ant", "bee"], 0.3, 1.4), labels),
    (
        "categorical-covariance",
        k.CategoricalCovariance(["ant", "cat", "dog"], [[1.0], [0.5], [-0.3]], [0.1, 0.2, 0.3]),
        labels,
    ),
    ("output-noise", k.OutputNoise([[0.4, 0.1], [-0.3, 0.2], [0.2, 0.7]]), outputs_of_rows),
    ("process-convolution", k.ProcessConvolution([[0.4, 0.9], [1.3, 0.5]], [1.1, -0.7]), rows_of_outputs),
    ("graph-matern", k.GraphMatern(ANTS, 0.8, 1.7, 1.3), labels),
    ("graph-diffusion", k.GraphDiffusion(ANTS, 0.8, 1.3), labels),
    ("mixed-table", k.SE(0.7).on(0) * k.Categorical().on(1) + 0.3, mixed),
    ("sum", k.SE(0.7, 1.3) + k.Linear(0.5) + 0.4, 2),
    ("product", k.SE(0.7, 1.3) * k.Linear(0.5), 2),
    ("scale", 1.7 * (k.SE(0.7) + k.Matern(2.0, nu=0.5)), 2),
    ("power", (k.SE(0.7) + k.Linear()) ** 2, 2),
    ("on", k.Matern([0.8, 1.1], nu=2.5).on(2, 0), 3),
    ("sum-of-columns", k.SE(0.7).on(0) + k.Linear(0.5).on(1), 2),
    ("square-of-additive", (k.Linear(0.5).on(0) + k.Constant(0.3)) ** 2 * k.Linear().on(1), 2),
    (
        "co2",
        k.SE(6.0, 2.0)
        + 2.4 * k.SE(4.0) * k.Periodic(fixed(1.0), 1.3)
        + k.RationalQuadratic(1.2, 0.6, alpha=0.78)
        + k.SE(0.3, 0.2),
        1,
    ),
    ("substring", k.Substring(0.4, variance=0.7), dna),
    ("substring-automaton", k.Substring(0.4, automaton=True), dna),
    ("spectrum", k.Spectrum(2), dna),
    ("spectrum-alphabet", k.Spectrum(2, alphabet="acgt", normalise=True, variance=1.3), dna),
    ("bag-of-characters", k.BagOfCharacters(alphabet="tgca"), dna),
    ("bag-of-words", k.BagOfWords(["ant", "bee", "cow"], [0.3, 1.0, 0.7]), labels),
    ("gap-weighted-normalised", k.GapWeighted(3, 0.6, normalise=True), dna),
    ("mismatch", k.Mismatch(2, 1, alphabet="acgt"), dna),
    ("subtree", k.Subtree(0.4), trees),
    ("pair-hmm", k.PairHMM(0.2, 0.3, alphabet="acgt", normalise=True, variance=0.8), dna),
    ("object-kernel", k.ObjectKernel(shared, variance=0.8), dna),
    (
        "strings-and-numbers",
        k.GapWeighted(2, 0.6).on(1) * k.SE(0.7).on(0) + 0.5 * k.Substring(0.3).on(1),
        mixed,
    ),
]

# much like another one: what compiles a function for each kernel takes these in the slow set
VARIANTS = {
    "observed",
    "white",
    "se-six-columns",
    "matern-1/2",
    "matern-7/2",
    "compact-q0",
    "compact-q2-ard",
    "spectral-mixture",
    "periodic-of-linear",
    "periodised-se",
    "linear",
    "polynomial-homogeneous",
    "features",
    "neural-network",
    "arc-cosine-0",
    "gibbs",
    "gibbs-log-radial",
    "paciorek-schervish",
    "oscillator-overdamped",
    "continuous-ar-1",
    "continuous-ar-4",
    "rescaled",
    "warped",
    "blurred",
    "invariant-functions",
    "categorical-levels",
    "graph-diffusion",
    "sum",
    "product",
    "sum-of-columns",
    "substring",
    "spectrum",
}


def inputs(columns, n: int, seed: int = 0):
    """n inputs for a case."""
    rng = np.random.default_rng(seed)
    return columns(rng, n) if callable(columns) else rng.normal(size=(n, columns))


# ------------------------------------------------------------------------------------------------- random
# composites

LEAVES = (
    k.SE(0.8, 1.2),
    k.Matern(0.9, nu=1.5),
    k.RationalQuadratic(1.1, alpha=0.6),
    k.Periodic(1.4, 0.9),
    k.Linear(0.7),
    k.Constant(0.5),
)


def composites(d: int = 2):
    """Strategy of (kernel, covariance): a random composite,
    and a function X -> its covariance matrix made of the leaves' own.
    """
    leaf = st.sampled_from(LEAVES).map(lambda kernel: (kernel, kernel))
    return st.recursive(leaf, lambda inner: st.one_of(*_steps(inner, d)), max_leaves=4)


def _steps(inner, d):
    pairs = st.lists(inner, min_size=2, max_size=3)
    columns = st.integers(0, d - 1)
    scales = st.sampled_from([0.25, 1.0, 3.0])
    return (
        pairs.map(lambda parts: _combine(operator.add, parts)),
        pairs.map(lambda parts: _combine(operator.mul, parts)),
        st.tuples(scales, inner).map(lambda p: (p[0] * p[1][0], lambda X: p[0] * p[1][1](X))),
        inner.map(lambda part: (part[0] ** 2, lambda X: part[1](X) ** 2)),
        st.tuples(inner, columns).map(lambda p: (p[0][0].on(0), p[0][1]) if d == 1 else _on(*p[0], p[1])),
    )


def _combine(op, parts):
    kernels, values = zip(*parts, strict=True)
    return functools.reduce(op, kernels), lambda X: functools.reduce(op, [value(X) for value in values])


def _on(kernel, value, column):
    """Only kernels that read every column can be moved to another one;
    a nested choice reads the only column left.
    """
    try:
        kernel.bind(1)
    except ValueError:
        return kernel, value
    return kernel.on(column), lambda X: value(X[:, [column]])
