"""One file: what comes back predicts the same;
a damaged or hostile file is one clear error and runs nothing.
"""

import contextlib
import io
import json
import pickle
import subprocess
import sys
import tempfile
import threading
import warnings
import zipfile
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.exceptions import NotFittedError

import mercer as mc
from mercer import kernels as k
from mercer import means, solvers
from mercer.estimators import GPRegressor
from mercer.params import hyper
from mercer.persist import ModelFileError, SerialiseError, load, save
from mercer.persist.file import SCHEMA

RNG = np.random.default_rng(0)
X = RNG.uniform(-2, 2, (20, 2))
Y = 3.0 + np.sin(2 * X[:, 0]) + 0.3 * X[:, 1] + 0.05 * RNG.standard_normal(20)
XS = RNG.uniform(-2, 2, (7, 2))
FRAME, FRAME_S = (pl.DataFrame(a, schema=["a", "b"]) for a in (X, XS))


def drift(X):
    return 0.3 * X[:, 1]


def features(X):
    return X[:, 1:]


MODELS = {
    "default": lambda: GPRegressor().fit(X, Y),
    "frame": lambda: GPRegressor(k.SE(1.0).on("a") + k.Linear().on("b"), restarts=1).fit(FRAME, Y),
    "text": lambda: GPRegressor("fixed(0.5) * Matern(lengthscale=[1, 2], nu=1.5)", objective="loo").fit(X, Y),
    "priors": lambda: GPRegressor(
        k.Matern(
            mc.param(1.0, prior=mc.hyperpriors.Gamma(2.0, 1.0), tie="l", bounds=(0.01, np.inf)),
            nu=mc.param(1.2),
        )
        + k.SE(mc.param(1.0, tie="l"), mc.fixed(0.1))
    ).fit(X, Y),
    "basis": lambda: GPRegressor(
        k.SE(1.0), basis=means.Polynomial(1, covariance=4.0), solver=solvers.Dense("lapack")
    ).fit(X, Y),
    "noise of each row": lambda: GPRegressor(noise_variance=np.linspace(0.01, 0.2, 20)).fit(X, Y),
    "many known variances": lambda: GPRegressor(k.SE(1.0), noise_variance=mc.fixed(np.full(40, 0.1))).fit(
        np.r_[X, X], np.r_[Y, Y]
    ),
    "learned mean": lambda: GPRegressor(
        k.SE(1.0), mean=means.Linear([0.0, 0.0]), noise_variance=mc.param(0.1)
    ).fit(X, Y),
    "one row": lambda: GPRegressor().fit(X[:1], Y[:1]),
}


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A saved model: the estimator, and the two entries of its file."""
    model = GPRegressor(k.SE([1.0, 2.0], mc.fixed(1.0)), noise_variance=mc.fixed(0.01)).fit(X, Y)
    path = tmp_path_factory.mktemp("saved") / "m.mercer"
    model.save(path)
    with zipfile.ZipFile(path) as archive:
        return model, {name: archive.read(name) for name in archive.namelist()}, path.read_bytes()


def factored(model):
    """Whether a loaded model has made its State."""
    return "_state" in vars(model.posterior_.source)


@pytest.mark.representative("text", "basis", "default")
@pytest.mark.parametrize("name", MODELS)
def test_what_comes_back_predicts_the_same(name, tmp_path):
    model, path = MODELS[name](), tmp_path / "m.mercer"
    model.save(path)
    again = mc.load(path)
    plain = FRAME_S if name == "frame" else XS
    np.testing.assert_allclose(again.predict(plain), model.predict(plain), rtol=1e-12, atol=1e-12)
    assert not factored(again)
    at = dict(X=FRAME_S if name == "frame" else XS, return_cov=True, latent=True)
    for ours, theirs in zip(again.predict(**at), model.predict(**at), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(again.noise_variance_, model.noise_variance_)
    assert again.log_marginal_likelihood_ == pytest.approx(model.log_marginal_likelihood_, rel=1e-12)
    assert again.summary() == model.summary() and again.fit_.history == model.fit_.history
    assert (
        repr(again.kernel_) == repr(model.kernel_)
        and again.model_.gp.kernel.info == model.model_.gp.kernel.info
    )
    assert str(again.get_params()) == str(model.get_params())
    assert [p.name for p in tmp_path.iterdir()] == ["m.mercer"]


def test_names_and_validation_come_back(tmp_path):
    model = MODELS["frame"]()
    save(model, tmp_path / "m")
    again = load(tmp_path / "m")
    assert list(again.feature_names_in_) == ["a", "b"] and again.n_features_in_ == 2
    with pytest.raises(ValueError, match="lacks the column 'b'"):
        again.predict(FRAME_S[["a"]])
    refitted = again.fit(FRAME, Y)  # settings are there too
    assert refitted.log_marginal_likelihood_ == pytest.approx(model.log_marginal_likelihood_, rel=1e-9)


def test_the_file_is_two_plain_entries(saved):
    _, entries, content = saved
    manifest = json.loads(entries["manifest.json"])
    assert set(entries) == {"manifest.json", "arrays.safetensors"}
    assert (
        manifest["schema"] == SCHEMA
        and manifest["class"] == "GPRegressor"
        and len(manifest["learned"]["data"]["sha256"]) == 64
    )
    assert {"mercer", "jax", "numpy", "python"} <= set(manifest["versions"])
    assert manifest["learned"]["fits"][0]["model"]["gp"]["kernel"]["info"] == {"variance": {"free": False}}
    assert b"pickle" not in content


def test_nothing_is_pickled(monkeypatch, tmp_path):
    def forbidden(*_, **__):
        raise AssertionError("pickle was used")

    model = MODELS["default"]()
    for name in ("dumps", "dump", "loads", "load"):
        monkeypatch.setattr(pickle, name, forbidden)
    model.save(tmp_path / "m")
    assert isinstance(load(tmp_path / "m"), GPRegressor)


def test_saving_is_all_or_nothing(tmp_path):
    path = tmp_path / "m.mercer"
    MODELS["one row"]().save(path)
    before = path.read_bytes()
    bad = GPRegressor(random_state=np.random.RandomState(0)).fit(X, Y)
    with pytest.raises(SerialiseError, match="RandomState cannot be saved"):
        bad.save(path)
    with pytest.raises(NotFittedError):
        GPRegressor().save(path)
    with pytest.raises(TypeError, match=r"one of \[.*'GPClassifier', .*'GPRegressor'.*\], got dict"):
        save({}, path)
    assert path.read_bytes() == before and len(list(tmp_path.iterdir())) == 1


class Lengths(k.AbstractKernel):
    """A kernel on words: SE of the number of letters."""

    lengthscale: float = hyper(2.0)

    def reads_objects(self):
        return True

    def encode(self, X):
        return np.array([[float(len(word))] for word in X[:, 0]])

    def block(self, A, B):
        return jnp.exp(-0.5 * ((A - B.T) / self.lengthscale) ** 2)


def test_inputs_that_are_objects_come_back(tmp_path):
    words = ["a", "bb", "ccc", "äöüß€"]
    model = GPRegressor(Lengths()).fit(words, [1.0, 2.0, 3.0, 5.0])
    model.save(tmp_path / "m")
    with pytest.raises(
        ModelFileError, match=r"\['tests:Lengths'\] are not part of mercer: .* pass classes=\[Lengths\]"
    ):
        load(tmp_path / "m")
    again = load(tmp_path / "m", classes=[Lengths])
    np.testing.assert_allclose(again.predict(words), model.predict(words), rtol=1e-12)
    assert again.posterior_.inputs.values.tolist() == [[word] for word in words]
    with zipfile.ZipFile(tmp_path / "m") as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    with pytest.raises(ModelFileError, match="do not match their hash"):
        load(
            written(
                tmp_path / "m",
                entries | {"manifest.json": entries["manifest.json"].replace(b'"ccc"', b'"ccd"')},
            ),
            classes=[Lengths],
        )
    with pytest.raises(ModelFileError, match="not a table"):
        change = put(*DATA, "X", value=[["a"], []])
        load(changed((None, entries), tmp_path / "m", change), classes=[Lengths])


# ------------------------------------------------------------------------------------------------- the user's
# functions


def test_functions_are_saved_by_name_and_given_on_loading(tmp_path):
    path = tmp_path / "m"
    basis = means.Features(features, name="h")
    model = GPRegressor(k.SE(1.0), mean=drift, basis=basis, noise_variance=0.01).fit(X, Y)
    model.save(path)
    with pytest.raises(ModelFileError, match=r"\['drift', 'h'\] are not part of the file: pass functions="):
        load(path)
    with pytest.raises(ModelFileError, match=r"the functions \['h'\]"):
        load(path, functions={"drift": drift})
    again = load(path, functions={"drift": drift, "h": features})
    np.testing.assert_allclose(again.predict(XS), model.predict(XS), rtol=1e-12)
    assert again.mean is drift
    other = load(path, functions={"drift": lambda X: 5.0 * X[:, 0], "h": features})
    with pytest.warns(UserWarning, match="functions given differ"):
        other.predict(XS)
    with pytest.warns(UserWarning, match="functions given differ"):
        other.predict(XS, return_std=True)


def test_nameless_functions_are_named_on_saving(tmp_path):
    model = GPRegressor(k.SE(1.0), mean=lambda X: X[:, 0], noise_variance=0.01).fit(X, Y)
    with pytest.raises(SerialiseError, match="without a name cannot be saved"):
        model.save(tmp_path / "m")
    model.save(tmp_path / "m", functions={"u": model.mean})
    np.testing.assert_allclose(
        load(tmp_path / "m", {"u": lambda X: X[:, 0]}).predict(XS), model.predict(XS), rtol=1e-12
    )


# ------------------------------------------------------------------------------------------------- damaged
# and hostile files


def written(path, entries, compression=zipfile.ZIP_STORED):
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, content in entries.items():
            archive.writestr(name, content)
    return path


def changed(saved, path, change):
    """The saved file with its manifest changed by `change(manifest)`."""
    manifest = json.loads(saved[1]["manifest.json"])
    change(manifest)
    return written(path, saved[1] | {"manifest.json": json.dumps(manifest)})


def test_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "nothing")


def test_truncated_files(saved, tmp_path):
    path, content = tmp_path / "m", saved[2]
    for size in [0, 1, 10, 100, *range(300, len(content), 700), len(content) - 1]:
        path.write_bytes(content[:size])
        with pytest.raises(ModelFileError, match="not a saved model, or damaged"):
            load(path)


def test_flipped_bits(saved, tmp_path):
    path, content = tmp_path / "m", saved[2]
    for where in np.random.default_rng(0).integers(0, len(content), 60):
        damaged = bytearray(content)
        damaged[where] ^= 0x10
        path.write_bytes(damaged)
        try:
            again = load(path)
        except ModelFileError:
            continue
        np.testing.assert_array_equal(again.predict(XS), saved[0].predict(XS))  # a byte that means nothing


@pytest.mark.parametrize("name", ["../evil", "/evil", "manifest.json/../evil", "evil.py"])
def test_other_entries_are_refused(saved, tmp_path, name):
    path = written(tmp_path / "m", saved[1] | {name: b"x"})
    with pytest.raises(ModelFileError, match="nothing else"):
        load(path)
    assert [p.name for p in tmp_path.iterdir()] == ["m"] and not (tmp_path.parent / "evil").exists()


def test_entries_twice_or_missing_are_refused(saved, tmp_path):
    with pytest.raises(ModelFileError, match="nothing else"):
        load(written(tmp_path / "m", {"manifest.json": saved[1]["manifest.json"]}))
    with zipfile.ZipFile(tmp_path / "m", "w") as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in ("manifest.json", "manifest.json", "arrays.safetensors"):
            archive.writestr(name, saved[1][name])
    with pytest.raises(ModelFileError, match="nothing else"):
        load(tmp_path / "m")


def test_bombs_are_refused_unread(saved, tmp_path):
    bomb = saved[1] | {"arrays.safetensors": bytes(50_000_000)}
    with pytest.raises(ModelFileError, match="is compressed"):
        load(written(tmp_path / "m", bomb, zipfile.ZIP_DEFLATED))
    content = bytearray(written(tmp_path / "m", saved[1]).read_bytes())
    # declare 4 GB, stored and compressed
    for signature, offset in ((b"PK\x01\x02", 20), (b"PK\x03\x04", 18)):
        at = content.find(signature)
        content[at + offset : at + offset + 8] = b"\xf0\xff\xff\xff" * 2
    (tmp_path / "m").write_bytes(content)
    with pytest.raises(ModelFileError, match=r"impossible size|damaged"):
        load(tmp_path / "m")
    long = saved[1] | {"manifest.json": b" " * (65 * 2**20)}
    with pytest.raises(ModelFileError, match="larger than 64 MB"):
        load(written(tmp_path / "m", long))


MANIFESTS = {
    "not JSON": (b"{", "not readable"),
    "not text": (b"\xff\xfe", "not readable"),
    "a list": (b"[]", "not that of a saved model"),
    "another format": (b'{"format": "other"}', "not that of a saved model"),
    "a later schema": (
        b'{"format": "mercer", "schema": 99}',
        f"schema 99, but this version of mercer reads schema {SCHEMA}",
    ),
    "no model": (
        b'{"format": "mercer", "schema": %d, "class": "GPRegressor"}' % SCHEMA,
        "no valid 'settings'",
    ),
    "deep nesting": (b'{"format": ' + b"[" * 200_000 + b"]" * 200_000 + b"}", "not readable"),
    "deep objects": (b'{"a":' * 200_000 + b"1" + b"}" * 200_000, "not readable"),
    "NaN": (b'{"format": NaN}', "NaN is not JSON"),
    "Infinity": (b'{"format": -Infinity}', "-Infinity is not JSON"),
    "overflow": (b'{"format": 1e999}', "1e999 is not JSON"),
    "endless integer": (b'{"format": ' + b"9" * 10_000 + b"}", "not readable"),
}


@pytest.mark.parametrize("case", MANIFESTS)
def test_bad_manifests(saved, tmp_path, case):
    text, message = MANIFESTS[case]
    with pytest.raises(ModelFileError, match=message):
        load(written(tmp_path / "m", saved[1] | {"manifest.json": text}))


def put(*path, value):
    def change(manifest):
        for key in path[:-1]:
            manifest = manifest[key]
        manifest[path[-1]] = value

    return change


DATA, FIT = ("learned", "data"), ("learned", "fits", 0)
KERNEL = (*FIT, "model", "gp", "kernel")
CHANGES = {
    "estimator": (put("class", value="Popen"), "no estimator 'Popen'"),
    "class": (put(*KERNEL, "class", value="os.system"), "no class 'os.system'"),
    "class that is not a kernel": (put(*KERNEL, value={"class": "means.Zero"}), "a GP needs a kernel"),
    "model that is not a model": (put(*FIT, "model", value={"class": "kernels.SE"}), "not a Model"),
    "negative": (put(*KERNEL, "lengthscale", value=-1.0), "must be positive"),
    "not finite": (
        put(*KERNEL, "lengthscale", value={"kind": "float", "value": "inf"}),
        "lengthscale is not finite",
    ),
    "another length": (put(*KERNEL, "lengthscale", value=[1.0, 2.0, 3.0]), "3 entries but the kernel sees 2"),
    "unknown field": (put(*KERNEL, "run", value="rm"), r"no \['run'\]"),
    "sum of numbers": (put(*KERNEL, value={"class": "kernels.Sum", "terms": [1, 2]}), "cannot be built"),
    "unknown setting": (put("settings", "evil", value=1), "cannot be built"),
    "solver": (put("settings", "solver", value="evil"), "unknown solver 'evil'"),
    "columns": (put(*DATA, "columns", "named", value=None), "named must be bool, got NoneType"),
    "no columns": (put(*DATA, "columns", value=None), "does not say what the columns are"),
    "names instead of columns": (put(*DATA, "columns", value=["a", "b"]), "the columns are not said"),
    "too few columns": (
        put(*DATA, "columns", "columns", "items", value=[{"class": "columns.Raw", "name": "a"}]),
        "2 columns of training data but",
    ),
    "hash": (put(*DATA, "sha256", value="0" * 64), "do not match their hash"),
    "status": (put(*FIT, "course", "status", value=3), "cannot be built"),
    "history": (put(*FIT, "course", "history", value=None), "cannot be built"),
    "missing array": (
        put(*KERNEL, "lengthscale", value={"kind": "array", "name": "gone"}),
        "'gone' is missing",
    ),
    "a function": (
        put("settings", "mean", value={"kind": "function", "name": "eval"}),
        r"the functions \['eval'\] are not part",
    ),
}


@pytest.mark.parametrize("case", CHANGES)
def test_changed_manifests(saved, tmp_path, case):
    change, message = CHANGES[case]
    with pytest.raises(ModelFileError, match=message):
        load(changed(saved, tmp_path / "m", change))


def test_a_changed_hyperparameter_is_noticed(saved, tmp_path):
    again = load(changed(saved, tmp_path / "m", put(*KERNEL, "lengthscale", value=[0.1, 0.1])))
    with pytest.warns(UserWarning, match="the file was changed"):
        again.predict(XS)
    with pytest.warns(UserWarning, match="the file was changed"):
        again.predict(XS, return_std=True)


def test_nothing_is_imported_because_a_file_names_it(saved, tmp_path):
    name = "wsgiref"
    assert name not in sys.modules
    for where in (KERNEL, ("settings", "solver")):
        with pytest.raises(ModelFileError):
            load(changed(saved, tmp_path / "m", put(*where, value={"class": f"{name}.handlers"})))
    assert name not in sys.modules


def test_bad_arrays(saved, tmp_path):
    from safetensors.numpy import load as unpack
    from safetensors.numpy import save as pack

    (name, inputs) = next(iter(unpack(saved[1]["arrays.safetensors"]).items()))
    assert name == "learned.data.X"
    cases = {
        "damaged": b"\x00" * 100,
        "is damaged": b"\xff" * 8 + b"{}",
        "'learned.data.X' is missing": pack({"X": inputs}),
        "missing or have": pack({name: inputs[:3]}),
        "have no sensible": pack({name: inputs.astype(np.float32)}),
        "not finite": pack({name: np.full((20, 2), np.nan)}),
        "do not match their hash": pack({name: inputs + 1e-9}),
    }
    for message, packed in cases.items():
        with pytest.raises(ModelFileError, match=message):
            load(written(tmp_path / "m", saved[1] | {"arrays.safetensors": packed}))


# ------------------------------------------------------------------------- small files, large asks


def nested(levels):
    kernel = {"class": "kernels.SE"}
    for _ in range(levels):
        kernel = {"class": "kernels.Normalised", "kernel": kernel}
    return kernel


GREEDY = {
    "draws": (put("settings", "inference", value={"class": "inference.MCMC", "draws": 10**9}), "draws = 10"),
    "levels": (
        put(*FIT, "model", "likelihood", value={"class": "likelihoods.Ordinal", "levels": 10**9}),
        "levels = 1000000000 is more than the 4,096",
    ),
    "degree": (
        put(*FIT, "model", "gp", "basis", value={"class": "means.Polynomial", "degree": 10**8}),
        "degree = 100000000 is more than",
    ),
    "features": (
        put(*FIT, "solver", value={"class": "solvers.RandomFeatures", "m": 10**9}),
        "m = 1000000000 is more than the 100,000",
    ),
    "classes": (
        put(*FIT, "model", "likelihood", value={"class": "likelihoods.Softmax", "classes": 4096}),
        "the model cannot be built",
    ),
    "latent functions": (
        put(*FIT, "model", "likelihood", value={"class": "likelihoods.Heteroscedastic"}),
        "does not go with 20 data and 2 latent functions",
    ),
    "basis functions": (
        put(*FIT, "model", "gp", "basis", value={"class": "means.Polynomial", "degree": 4096}),
        "the saved weights of the mean do not go with the model",
    ),
    "nesting": (put(*KERNEL, value=nested(80)), "more than 32 values nested in one another"),
    "posterior": (put(*FIT, "posterior", value="os"), "no posterior 'os'"),
    "posterior without a file form": (put(*FIT, "posterior", value="EnumeratedPosterior"), "is not saved"),
}


@pytest.mark.parametrize("case", GREEDY)
def test_a_small_file_cannot_ask_for_much(saved, tmp_path, case):
    change, message = GREEDY[case]
    with pytest.raises(ModelFileError, match=message):
        load(changed(saved, tmp_path / "m", change))


def test_seeds_may_be_large(tmp_path):
    model = GPRegressor(k.SE(1.0), solver=solvers.VFE(m=5, seed=2**31), noise_variance=mc.fixed(0.1))
    model.fit(X, Y).save(tmp_path / "m")
    assert load(tmp_path / "m").solver.seed == 2**31


def test_many_may_save_to_one_path_at_once(saved, tmp_path):
    path, errors = tmp_path / "m.mercer", []

    def write():
        try:
            saved[0].save(path)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=write) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors and [p.name for p in tmp_path.iterdir()] == ["m.mercer"]
    np.testing.assert_array_equal(load(path).predict(XS), saved[0].predict(XS))


def imported(program):
    """The modules of mercer that a program imports."""
    show = "print(*(m for m in sys.modules if m.partition('.')[0] == 'mercer'))"
    program = f"import sys, mercer\n{program}\n{show}"
    out = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    return set(out.split())


# what loading or fitting a plain model does without
ROOMS = ["app", "decide", "em", "relatives", "sampling", "series", "theory", "viz"]
LEARNING = ["assessment", "by_draws", "comparison", "from_batches", "integration", "stochastic"]
ELSEWHERE = {"mercer.inference.mcmc", "mercer.solvers.vecchia", "mercer.kernels.text"}
ELSEWHERE |= {f"mercer.{room}" for room in ROOMS} | {f"mercer.learning.{name}" for name in LEARNING}


def test_loading_imports_what_the_model_is_made_of(saved, tmp_path):
    loaded = imported(f"mercer.load({str(written(tmp_path / 'm', saved[1]))!r})")
    assert not ELSEWHERE & loaded
    assert "mercer.kernels.families.stationary" in loaded and len(loaded) <= 150


@pytest.mark.parametrize(
    "call",
    [
        "mercer.fit(mercer.Model(mercer.GP(mercer.kernels.SE()), mercer.likelihoods.Gaussian()), X, y)",
        "mercer.GPRegressor().fit(X, y)",
    ],
)
def test_a_plain_fit_imports_what_it_uses(call):
    data = "import numpy as np; X = np.linspace(0, 1, 12)[:, None]; y = np.sin(9 * X[:, 0]) + X[:, 0] % 0.1"
    loaded = imported(f"{data}\n{call}")
    assert not ELSEWHERE & loaded
    assert "mercer.learning.by_gradient" in loaded and len(loaded) <= 155


def nodes(tree, path=()):
    yield path
    children = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, child in children:
        yield from nodes(child, (*path, key))


@given(st.data())
def test_any_change_loads_or_is_one_clear_error(saved, data):
    manifest = json.loads(saved[1]["manifest.json"])
    course = manifest["learned"]["fits"][0]["course"]
    course["history"] = {key: values[:1] for key, values in course["history"].items()}
    values = [
        None,
        True,
        -1,
        0,
        1e300,
        "",
        "X",
        [],
        [1.0],
        {},
        {"kind": "tuple", "items": []},
        {"class": "kernels.Linear"},
    ]
    for _ in range(data.draw(st.integers(1, 3))):
        path = data.draw(st.sampled_from([p for p in nodes(manifest) if p]))
        put(*path, value=data.draw(st.sampled_from(values)))(manifest)
    buffer = io.BytesIO()
    written(buffer, saved[1] | {"manifest.json": json.dumps(manifest)})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        with contextlib.suppress(ModelFileError):
            assert isinstance(load_bytes(buffer.getvalue()), GPRegressor)


def load_bytes(content):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "m"
        path.write_bytes(content)
        return load(path)
