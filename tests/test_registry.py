"""Names of classes: what people type, near misses, what files say; no text causes an import."""

import subprocess
import sys

import pytest

import mercer as mc
from mercer import inference, likelihoods, means, registry, solvers
from mercer.inference import AbstractInference
from mercer.learning.objectives import by_name as objective_by_name
from mercer.likelihoods import AbstractLikelihood
from mercer.solvers import AbstractSolver, SolverError


@pytest.mark.parametrize(
    "name, typed", [("StudentT", "student-t"), ("VFE", "vfe"), ("SE", "se"), ("LocalBound", "local-bound")]
)
def test_a_class_is_typed_in_lower_case_with_hyphens(name, typed):
    assert registry.spelled(name) == typed


def test_every_class_of_a_room_has_a_name():
    for by_name, room, kind, short in (
        (solvers.by_name, "solvers", AbstractSolver, solvers._SHORT),
        (inference.by_name, "inference", AbstractInference, {}),
    ):
        for cls in registry.classes(room, kind):
            if cls not in (
                solvers.WithBasis,
                solvers.CorrelatedNoise,
                solvers.Condensed,
            ):  # they wrap another
                assert type(by_name(short.get(cls.__name__, registry.spelled(cls.__name__)))) is cls
    for cls in registry.classes("likelihoods", AbstractLikelihood):
        typed = likelihoods._SHORT.get(cls.__name__, registry.spelled(cls.__name__))
        assert registry.named("likelihoods", typed, AbstractLikelihood, likelihoods._SHORT) is cls


@pytest.mark.parametrize(
    "make, given, meant",
    [
        (likelihoods.by_name, "student_t", "student-t"),
        (likelihoods.by_name, "StudentT", "student-t"),
        (likelihoods.by_name, "prohbit", "probit"),
        (solvers.by_name, "weight_space", "weight-space"),
        (solvers.by_name, "vechia", "vecchia"),
        (inference.by_name, "variatonal", "variational"),
        (means.as_mean, "linaer", "linear"),
        (objective_by_name, "evidnce", "evidence"),
        (objective_by_name, "k_fold", "k-fold"),
        (mc.kernels.parse, "Matren(nu=1.5)", "Matern"),
    ],
)
def test_a_near_miss_is_answered_with_the_right_spelling(make, given, meant):
    with pytest.raises(ValueError, match=f"did you mean {meant!r}\\? There are"):
        make(given)


def test_a_name_of_the_wrong_kind_is_unknown():
    with pytest.raises(SolverError, match="unknown solver 'sites'"):
        solvers.by_name("sites")
    with pytest.raises(ValueError, match="unknown inference 'estimate'"):
        inference.by_name("estimate")
    with pytest.raises(SolverError, match="unknown solver 3"):
        solvers.by_name(3)


def test_means_and_bases_by_name():
    gp = mc.GP(mc.kernels.SE(), "linear", "polynomial")
    assert isinstance(gp.mean, means.Linear) and isinstance(gp.basis, means.Polynomial)
    with pytest.raises(ValueError, match="did you mean 'polynomial'"):
        mc.GP(mc.kernels.SE(), basis="polinomial")


# ------------------------------------------------------------------------------------------------- files


def test_addresses_lead_back():
    for room in registry.ROOMS:
        for cls in registry.classes(room, registry.Saved):
            if (name := registry.address(cls)) is not None:
                assert registry.find(name, {}) is cls and name.split(".")[1] == cls.__name__


@pytest.mark.parametrize(
    "name",
    ["kernels", "kernels.", "kernels.Evil", "kernels.parse", "kernels.AbstractKernel", "os.system", "app.cli",
     "estimators.GPRegressor", "kernels.families.SE", "wsgiref.handlers", "wsgiref:handlers", ".", ":", ""],
)  # fmt: skip
def test_nothing_else_has_an_address(name):
    assert registry.find(name, {}) is None
    assert "wsgiref" not in sys.modules


class Mine(mc.kernels.AbstractKernel):
    def block(self, A, B):
        return A @ B.T


def test_classes_of_others_are_found_where_they_are_given():
    name = registry.address(Mine)
    assert name == f"{__name__.partition('.')[0]}:Mine"
    assert registry.find(name, {}) is None
    assert registry.find(name, registry.by_address([Mine])) is Mine
    with pytest.raises(ValueError, match="two of the classes are named"):
        registry.by_address([Mine, type("Mine", (Mine,), {"__module__": __name__})])
    for wrong in (dict, "Mine", mc.kernels.AbstractKernel):
        with pytest.raises(TypeError, match="classes= takes"):
            registry.by_address([wrong])


def test_names_are_found_without_importing_their_neighbours():
    program = (
        "import sys; from mercer import inference, likelihoods, solvers\n"
        "inference.by_name('ep'); solvers.by_name('vfe')\n"
        "inference.by_name(None, likelihoods.by_name('student-t'))\n"
        "print(*(m for m in sys.modules if m.startswith('mercer.')))"
    )
    out = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    loaded = set(out.split())
    assert {"mercer.inference.ep", "mercer.inference.scale_mixture", "mercer.solvers.lowrank"} <= loaded
    assert not {"mercer.inference.mcmc", "mercer.sampling", "mercer.solvers.vecchia", "mercer.em"} & loaded
