"""The dense solver inside JAX transformations: gradient, Hessian, forward mode, vmap, jit."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mercer as mc
from mercer import kernels as k
from mercer.solvers import Dense, Sites, SolverError

RNG = np.random.default_rng(11)
X, Y = RNG.normal(size=(8, 2)), RNG.normal(size=8)
THETA = np.array([0.9, 1.4, 1.2, 0.3])


def evidence(theta):
    """Log evidence as a function of two length-scales, the variance and the noise variance."""
    return mc.log_evidence(mc.GP(k.SE(theta[:2], theta[2])), X, Y, noise_variance=theta[3])


def central(function, theta, step):
    moved = [(function(theta + h), function(theta - h)) for h in step * np.eye(len(theta))]
    return np.array([(a - b) / (2 * step) for a, b in moved])


def test_gradient_of_a_traced_evidence():
    """`jax.grad` through `log_evidence` equals the host's gradient and finite differences."""
    found = jax.jit(jax.value_and_grad(evidence))(THETA)
    value, gradient = mc.log_evidence_and_gradient(
        mc.GP(k.SE(THETA[:2], THETA[2])), X, Y, noise_variance=THETA[3]
    )
    assert float(found[0]) == pytest.approx(value, rel=1e-13)
    host = np.concatenate(
        [gradient["kernel.lengthscale"], [gradient["kernel.variance"], gradient["likelihood.noise_variance"]]]
    )
    np.testing.assert_allclose(found[1], host, rtol=1e-10)
    np.testing.assert_allclose(found[1], central(evidence, THETA, 1e-5), rtol=1e-7)


@pytest.mark.slow
def test_hessian_and_forward_mode():
    """Second derivatives come through the custom rule: symmetric,
    and central differences of the host's gradient.
    """
    hessian = np.asarray(jax.jit(jax.hessian(evidence))(THETA))

    def gradient(theta):
        g = mc.log_evidence_and_gradient(mc.GP(k.SE(theta[:2], theta[2])), X, Y, noise_variance=theta[3])[1]
        return np.concatenate(
            [g["kernel.lengthscale"], [g["kernel.variance"], g["likelihood.noise_variance"]]]
        )

    np.testing.assert_allclose(hessian, hessian.T, rtol=1e-10, atol=1e-11)
    np.testing.assert_allclose(hessian, central(gradient, THETA, 1e-5), rtol=1e-6, atol=1e-7)
    tangent = np.array([0.3, -0.2, 0.5, 0.1])
    _, along = jax.jvp(evidence, (jnp.asarray(THETA),), (jnp.asarray(tangent),))
    assert float(along) == pytest.approx(float(gradient(THETA) @ tangent), rel=1e-10)


def test_vmap_over_hyperparameters():
    """Many settings at once."""
    thetas = np.exp(RNG.normal(size=(5, 4)) * 0.3)
    found = jax.jit(jax.vmap(evidence))(thetas)
    np.testing.assert_allclose(found, [evidence(t) for t in thetas], rtol=1e-11)


def test_predictions_under_jit():
    """A posterior made inside jit predicts inside it."""
    Xs = RNG.normal(size=(3, 2))

    @jax.jit
    def predict(lengthscale):
        gp = mc.GP(k.SE(lengthscale))
        state = Dense().factor(gp, X, Sites(Y[:, None], np.full((8, 1), 10.0)))
        return state.predict(Xs)

    mean, variance = predict(jnp.array([0.9, 1.4]))
    post = mc.GP(k.SE([0.9, 1.4])).condition(X, Y, noise_variance=0.1)
    np.testing.assert_allclose(mean[:, 0], post.mean(Xs), rtol=1e-11)
    np.testing.assert_allclose(variance[:, 0], post.variance(Xs, latent=True), rtol=1e-10)


def test_lapack_cannot_be_traced():
    """The host path says so when a leaf is traced."""
    with pytest.raises(SolverError, match=r"cannot be traced: use Dense\(backend='jax'\)"):
        jax.grad(lambda l: mc.log_evidence(mc.GP(k.SE(l)), X, Y, noise_variance=0.1, solver=Dense("lapack")))(
            1.0
        )


def test_values_never_recompile():
    """New values, priors and bounds reuse the compiled tile functions: structure is all that counts."""
    from mercer.linalg import tiles

    gp = lambda l, **how: mc.GP(k.SE(mc.param(l, **how), 1.3))  # noqa: E731
    mc.log_evidence_and_gradient(gp(0.7), X, Y, noise_variance=0.2)
    gp(0.7).kernel(X)
    before = tiles.compiled.cache_info().misses
    for i, l in enumerate((0.5, 0.6, 0.9)):
        how = dict(bounds=(0.1, 5.0 + i), prior=mc.hyperpriors.LogNormal(0.1 * i, 1.0), tie=str(i))
        mc.log_evidence_and_gradient(gp(l, **how), X, Y, noise_variance=0.2 + l)
        gp(l, **how).kernel(X)
    assert tiles.compiled.cache_info().misses == before
