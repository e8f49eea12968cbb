"""Runs on a Ray cluster of three nodes on this machine: what dies, and what comes out all the same.

They take minutes and start some thirty processes, so they run where ``UPDP_RAY`` is set and the extra ``ray`` is there.
"""

from __future__ import annotations

import inspect
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

import updp
from tests.conftest import PLAIN, Hospital
from tests.network.dcmtk import free_port
from tests.pipeline.conftest import download, upload
from updp.core.global_state import PINS
from updp.core.keys import Key
from updp.core.policy import Policy
from updp.methods import METHODS
from updp.pipeline.engines import EngineError
from updp.pipeline.engines import ray as engine
from updp.pipeline.run import RunError
from updp.release.signature import public_key
from updp.release.verify import verify

if not os.environ.get("UPDP_RAY"):
    pytest.skip("starts a Ray cluster; set UPDP_RAY=1 with the extra ray installed", allow_module_level=True)
pytestmark = pytest.mark.posix

KEY = Key(bytes(range(32)))
SOURCES = Path(updp.__file__).parents[1]
FILMS = 24  # six shards
SMALL = {"num_cpus": 1, "object_store_memory": 100 * 2**20}
#: Methods of another package: by one a film kills whoever makes it; the other counts as one that uses networks.
DEADLY = """
import os, signal
from dataclasses import replace
from updp.methods.keep import Keep

class Computing(Keep):
    info = replace(Keep.info, name="computing", needs=frozenset({{"autoencoder"}}))

class Deadly(Keep):
    def make(self, study, strength, rng):
        if study.film_id == {victim!r}:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().make(study, strength, rng)
"""


@pytest.fixture(scope="module")
def deadly(tmp_path_factory):
    """The folder of a package that has the methods ``deadly`` and ``computing``."""
    place = tmp_path_factory.mktemp("site")
    (place / "deadly.py").write_text(DEADLY.format(victim=KEY.film("MRN7741982-5")))
    info = place / "deadly-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: deadly\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[updp.methods]\ndeadly = deadly:Deadly\ncomputing = deadly:Computing\n")
    return place


@pytest.fixture(scope="module")
def paths(deadly):
    """Nodes and what they start find the sources, the tests and the package; a busy machine gets the time it takes."""
    from ray._private import services

    with pytest.MonkeyPatch.context() as patch:
        found = [str(deadly), str(SOURCES), str(Path.cwd()), os.environ.get("PYTHONPATH", "")]
        patch.setenv("PYTHONPATH", os.pathsep.join(found))
        patch.syspath_prepend(deadly)
        patch.setattr(METHODS, "_plugins", None)
        patch.setenv("RAY_gcs_server_port_wait_time_s", "300")
        patch.setenv("RAY_agent_register_timeout_ms", "300000")
        patch.setenv("RAY_worker_register_timeout_seconds", "300")
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setattr(engine, "_ROOM", 1800.0)  # a worker on a busy machine starts late; that there is room is known
        # A node that is killed is found out by its broken connection; a slow machine does not lose one.
        patch.setenv("RAY_health_check_timeout_ms", "120000")
        # Ray gives a node 30 seconds to start.
        patch.setattr(services, "get_node", patient(services.get_node))
        patch.setattr(services, "start_raylet", without_waiting(services.start_raylet))
        yield


@pytest.fixture(scope="module")
def cluster(paths, s3):
    """Three nodes of one core each, which know the object store. A test that kills one adds another."""
    made = one_node()
    for _ in range(2):
        add_node(made)
    yield made
    made.shutdown()


def one_node():
    from ray.cluster_utils import Cluster

    head = {**SMALL, "include_dashboard": False}
    return tried(lambda: Cluster(initialize_head=True, head_node_args={**head, **ports()}))


def patient(own, seconds=300):
    def asked(*args):
        end = time.monotonic() + seconds
        while True:
            try:
                return own(*args)
            except RuntimeError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.5)

    return asked


def without_waiting(own):
    """A node ends itself if its dashboard's agent has not written its port within 20 seconds; no test asks that agent
    anything, so what it would write if it had no port is there before it starts."""
    from ray._raylet import DASHBOARD_AGENT_LISTEN_PORT_NAME, persist_port

    def started(*args, **more):
        given = inspect.signature(own).bind(*args, **more).arguments
        persist_port(given["session_dir"], given["node_id"], DASHBOARD_AGENT_LISTEN_PORT_NAME, -1)
        return own(*args, **more)

    return started


def ports():
    """Ports of a node's agents: a node that knows them does not wait for its agents to start."""
    names = ("metrics_agent_port", "metrics_export_port", "dashboard_agent_listen_port", "runtime_env_agent_port")
    return {name: free_port() for name in names}


@pytest.fixture
def by_value():
    """Functions of this file reach workers as they are, not by the name of their module."""
    from ray import cloudpickle

    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    yield
    cloudpickle.unregister_pickle_by_value(sys.modules[__name__])


def tried(start, times=4):
    """Ray ends a node whose agents take longer to start than it waits for: then another is tried."""
    for left in reversed(range(times)):
        try:
            return start()
        except (Exception, SystemExit):  # Ray does either
            if not left:
                raise


def add_node(cluster, **more):
    return tried(lambda: cluster.add_node(**SMALL, **more, **ports()))


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """An export, and its release by the local engine."""
    root = tmp_path_factory.mktemp("plain")
    source = Hospital(root / "export", films=FILMS).write()
    updp.deidentify(source, root / "out", key=KEY, policy=Policy.parse(PLAIN), workers=1)
    return source, root / "out"


def make(cluster, source, out, **more):
    policy = Policy.parse(more.pop("policy", PLAIN))
    return updp.deidentify(
        source, out, key=KEY, policy=policy, engine="ray", engine_options={"address": cluster.address},
        workers=more.pop("workers", 3), **more,
    )  # fmt: skip


def content(out: Path) -> dict[str, bytes]:
    """All of a release but its signature, which names the day."""
    found = {p.relative_to(out).as_posix(): p for p in sorted(out.rglob("*")) if p.is_file() and p.name != "signature"}
    return {name: path.read_bytes() for name, path in found.items() if name.startswith("unmeasured/")}


def same(out, plain):
    assert content(out) == content(plain[1])
    assert verify(out / "unmeasured", trusted=public_key(KEY)).intact
    assert not (out / ".work").exists()


def test_a_run_on_three_nodes_gives_the_bytes_of_the_local_engine(cluster, plain, tmp_path, monkeypatch):
    monkeypatch.chdir(plain[0].parent)
    assert make(cluster, plain[0].name, tmp_path / "out").released == FILMS
    same(tmp_path / "out", plain)


def test_nodes_read_from_an_object_store_and_write_to_it(cluster, s3, plain, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    outcome = make(cluster, upload(plain[0], f"{s3}/export"), f"{s3}/out")
    assert outcome.address == f"{s3}/out/unmeasured"
    same(download(f"{s3}/out", tmp_path / "got"), plain)


def test_a_node_that_is_killed_in_mid_run_loses_nothing(cluster, plain, tmp_path):
    killed = []

    def progress(done, _films):
        if done and not killed:
            node = next(node for node in cluster.worker_nodes if node not in killed)
            killed.append(node)
            cluster.remove_node(node, allow_graceful=False)

    assert make(cluster, plain[0], tmp_path / "out", progress=progress).quarantined == {}
    assert killed
    add_node(cluster)
    same(tmp_path / "out", plain)


def test_a_driver_that_is_killed_and_started_again_goes_on(cluster, plain, tmp_path):
    code = textwrap.dedent(f"""
        import sys, updp
        from updp.core.keys import Key
        from updp.core.policy import Policy
        def progress(done, films):
            if done:
                print("landed", flush=True)
                sys.stdin.read()
        updp.deidentify(sys.argv[1], sys.argv[2], key=Key(bytes(range(32))), policy=Policy.parse({PLAIN!r}), workers=1,
                        engine="ray", engine_options={{"address": sys.argv[3]}}, progress=progress)
    """)
    command = [sys.executable, "-c", code, plain[0], tmp_path / "out", cluster.address]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as driver:
        assert driver.stdout.readline() == "landed\n"
        driver.send_signal(signal.SIGKILL)
    landed = {p.name: p.stat().st_mtime_ns for p in (tmp_path / "out" / ".work" / "shards").glob("*.json")}
    assert landed
    assert not (tmp_path / "out" / "unmeasured").exists()
    counts = []
    make(cluster, plain[0], tmp_path / "out", progress=lambda done, _: counts.append(done))
    assert counts[0] > 0  # what landed before was not made again
    same(tmp_path / "out", plain)


def test_a_film_that_kills_its_worker_is_kept_back_alone(cluster, plain, tmp_path):
    outcome = make(cluster, plain[0], tmp_path / "out", policy=PLAIN.replace("'keep'", "'deadly'"))
    assert outcome.quarantined == {"worker-died": 1}
    assert outcome.released == FILMS - 1


def test_two_drivers_on_one_output_the_second_is_refused(cluster, plain, tmp_path):
    refused = []

    def progress(_done, _films):
        if not refused:
            with pytest.raises(RunError, match="another run is writing"):
                make(cluster, plain[0], tmp_path / "out")
            refused.append(1)

    make(cluster, plain[0], tmp_path / "out", progress=progress)
    assert refused
    same(tmp_path / "out", plain)


def test_a_slow_node_gets_less_work_and_holds_up_no_other(cluster, by_value, tmp_path):
    """The slow node ends its tasks only when all others are done; the others begin when it holds one."""
    import ray

    ray.init(address=cluster.address, log_to_driver=False)
    try:
        slow = [node["NodeID"] for node in ray.nodes() if node["Alive"]][-1]
        done = {}
        for task, node in engine.run(slow_on(slow, tmp_path), range(30), 3, address=cluster.address):
            done[task] = node
            if len(done) == 28:
                (tmp_path / "end").touch()
    finally:
        ray.shutdown()
    assert sorted(done) == list(range(30))
    assert list(done.values()).count(slow) == 2  # what a worker holds, and no more


def slow_on(slow, place):
    def work(_task):
        import ray

        node = ray.get_runtime_context().get_node_id()
        if node == slow:
            (place / "held").touch()
        awaited = place / ("end" if node == slow else "held")
        for _ in range(3000):
            if awaited.exists():
                break
            time.sleep(0.1)
        return node

    return work


def test_a_node_that_dies_with_results_that_were_not_fetched_loses_nothing(cluster, by_value, tmp_path):
    """Results beyond 100 kB stay on their node until the driver asks for them."""
    import ray

    node = add_node(cluster, resources={"doomed": 1})
    ray.init(address=cluster.address, log_to_driver=False)
    try:
        doomed = next(one["NodeID"] for one in ray.nodes() if one["Alive"] and "doomed" in one["Resources"])
        done, killed = {}, False
        for task, size in engine.run(large_on(doomed, tmp_path), range(12), 4, address=cluster.address):
            done[task] = len(size)
            if not killed:
                assert (tmp_path / "made").exists()
                cluster.remove_node(node, allow_graceful=False)
                killed = True
    finally:
        ray.shutdown()
    assert killed
    assert done == dict.fromkeys(range(12), 1_000_000)


def large_on(doomed, place):
    def work(_task):
        import ray

        if ray.get_runtime_context().get_node_id() == doomed:
            (place / "made").touch()
        for _ in range(3000):  # the others begin when the doomed node has worked
            if (place / "made").exists():
                break
            time.sleep(0.1)
        return bytes(1_000_000)

    return work


def test_models_are_loaded_once_a_worker_and_the_driver_draws_what_is_needed(cluster, by_value):
    drawn = []

    def tasks():
        for n in range(40):
            drawn.append(n)
            yield n

    results = engine.run(which_worker, tasks(), 2, address=cluster.address)
    workers = {next(results)[1]}
    assert len(drawn) <= 2 * 2 + 1
    workers |= {worker for _, worker in results}
    assert len(workers) <= 2  # as many processes as workers, for forty tasks


def which_worker(_task):
    return os.getpid()


def test_a_processor_of_another_kind_is_refused_and_a_pin_makes_them_alike(cluster, plain, tmp_path):
    """The driver's torch computes as on a processor without AVX; the workers' as the processor is."""
    code = textwrap.dedent(f"""
        import sys, updp
        from updp.core.keys import Key
        from updp.core.policy import Policy
        from updp.pipeline.engines import EngineError
        policy = Policy.parse({PLAIN.replace("'keep'", "'computing'")!r})
        options = {{"address": sys.argv[3], **({{"pin": sys.argv[4]}} if sys.argv[4:] else {{}})}}
        try:
            updp.deidentify(sys.argv[1], sys.argv[2], key=Key(bytes(range(32))), policy=policy, workers=1,
                            **({{"engine": "ray", "engine_options": options}} if sys.argv[3] else {{}}))
        except EngineError as error:
            sys.exit(str(error))
    """)

    def drive(out, address, *pin, **variables):
        command = [sys.executable, "-c", code, plain[0], out, address, *pin]
        other = {**os.environ, **(variables or {"ATEN_CPU_CAPABILITY": "default"})}
        return subprocess.run(command, env=other, capture_output=True, text=True, check=False)

    refused = drive(tmp_path / "out", cluster.address)
    assert refused.returncode == 1
    assert "use nodes of one kind, or let all compute alike with --pin avx2" in refused.stderr
    assert not (tmp_path / "out" / "unmeasured").exists()
    assert drive(tmp_path / "pinned", cluster.address, "avx2").returncode == 0
    assert drive(tmp_path / "local", "", **PINS["avx2"]).returncode == 0
    same(tmp_path / "pinned", (plain[0], tmp_path / "local"))


def test_a_gpu_that_the_cluster_does_not_have_and_a_cluster_that_is_gone_are_sentences(cluster, plain, tmp_path):
    with pytest.raises(EngineError, match="no GPU"):
        updp.deidentify(plain[0], tmp_path / "out", key=KEY, policy=Policy.parse(PLAIN), engine="ray",
                        engine_options={"address": cluster.address, "gpus": 0.5})  # fmt: skip
    with pytest.raises(EngineError, match="no Ray cluster answers"):
        updp.deidentify(plain[0], tmp_path / "gone", key=KEY, policy=Policy.parse(PLAIN), engine="ray",
                        engine_options={"address": "127.0.0.1:9"})  # fmt: skip


def test_a_fraction_of_a_gpu_is_asked_of_the_nodes_that_have_one(cluster, by_value):
    node = add_node(cluster, num_gpus=1)
    try:
        done = dict(engine.run(visible_gpus, range(6), 1, address=cluster.address, gpus=0.5))
    finally:
        cluster.remove_node(node)
    assert set(done.values()) == {"0"}


def visible_gpus(_task):
    return os.environ.get("CUDA_VISIBLE_DEVICES")


@pytest.fixture
def doomed(paths):
    """A cluster of one node, to be lost. Last: drivers of this process that used the other cluster after it failed."""
    made = one_node()
    yield made
    made.shutdown()


def test_a_cluster_that_is_gone_in_mid_run_is_a_sentence_and_the_run_goes_on_elsewhere(doomed, plain, tmp_path):
    code = textwrap.dedent(f"""
        import sys, updp
        from updp.core.keys import Key
        from updp.core.policy import Policy
        from updp.pipeline.engines import EngineError
        def progress(done, films):
            if done and not waited:
                waited.append(1)
                print("landed", flush=True)
                sys.stdin.readline()
        waited = []
        try:
            updp.deidentify(sys.argv[1], sys.argv[2], key=Key(bytes(range(32))), policy=Policy.parse({PLAIN!r}),
                            engine="ray", engine_options={{"address": sys.argv[3]}}, workers=1, progress=progress)
        except EngineError as error:
            sys.exit("sentence: " + str(error))
    """)
    command = [sys.executable, "-c", code, plain[0], tmp_path / "out", doomed.address]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, text=True, **pipes) as driver:
        assert driver.stdout.readline() == "landed\n"
        doomed.head_node.kill_all_processes(check_alive=False, allow_graceful=False)
        said = driver.communicate("\n", timeout=600)[1]
    assert "sentence: the cluster does not answer any more; the same command resumes, also with --engine local" in said
    assert driver.returncode == 1
    counts = []
    updp.deidentify(plain[0], tmp_path / "out", key=KEY, policy=Policy.parse(PLAIN), workers=1,
                    progress=lambda done, _: counts.append(done))  # fmt: skip
    assert counts[0] > 0
    same(tmp_path / "out", plain)
