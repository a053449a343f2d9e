"""A context manager sets up a real Slurm with one node in a private folder, and removes it.

The packages come from the Debian archive. The code unpacks them and installs nothing. It needs
root, Linux, apt-get and dpkg; it needs no systemd, cgroups, database or user named slurm.
"""

import contextlib
import fcntl
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

PACKAGES = ("slurmctld", "slurmd", "slurm-client", "slurm-wlm-basic-plugins", "munge")
Daemon = subprocess.Popen[bytes]

# What the lines of slurm.conf do that are not obvious:
# - cred_expire is the number of seconds for which a requeued job waits (reason BeginTime). The
#   default is 120; a number below 5 counts as 120. Where slurm.conf cannot be changed,
#   `scontrol update JobId=... StartTime=now` ends the wait, once the job's state is PENDING.
# - config_overrides lets CoresPerSocket be greater than the number that the machine has.
# - EnforcePartLimits lets sbatch refuse a job that asks for too many cpus; else it waits for ever.
# - KillWait is the number of seconds between SIGTERM and SIGKILL at the time limit and at scancel.
# - MinJobAge is the number of seconds for which squeue and scontrol know a job that has ended.
SLURM_CONF = """\
ClusterName=one
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller_port}
SlurmdPort={node_port}
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={run}/munge.socket,cred_expire=5
PluginDir={plugins}
StateSaveLocation={run}/state
SlurmdSpoolDir={run}/spool
SlurmctldPidFile={run}/slurmctld.pid
SlurmdPidFile={run}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
SchedulerParameters=batch_sched_delay=0,sched_interval=2,bf_interval=2
ReturnToService=2
EnforcePartLimits=ALL
KillWait=2
MinJobAge=3600
NodeName=one NodeHostname={host} NodeAddr=127.0.0.1 CoresPerSocket={cpus} RealMemory={memory}
PartitionName=main Nodes=one Default=YES MaxTime=INFINITE DefaultTime=INFINITE State=UP
"""


class NoSlurm(RuntimeError):
    """The machine cannot have Slurm: the user is not root, or the packages cannot be had."""


@dataclass(frozen=True)
class Slurm:
    """The running Slurm: the environment for child processes, and the folder with its logs."""

    environment: dict[str, str]
    logs: Path

    def run(self, *command: str, check: bool = True) -> str:
        """Run a command with the environment of this Slurm and return its standard output."""
        done = subprocess.run(
            command, env=self.environment, text=True, capture_output=True, timeout=60
        )
        if check and done.returncode:
            raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")
        return done.stdout.strip()

    def state(self, job_id: str) -> str:
        """Return the state of a job such as "12", or of an array's task such as "12_3"."""
        return self.run("squeue", "--noheader", "--states=all", "--format=%T", f"--jobs={job_id}")

    def wait(self, job_id: str, *states: str, seconds: float = 60) -> str:
        """Wait until the job has one of the states and return that state."""
        return _wait(lambda: self.state(job_id), states, seconds)


def _wait(ask: Callable[[], str], answers: tuple[str, ...], seconds: float) -> str:
    """Ask five times per second until the answer is one of `answers` and return it."""
    end = time.monotonic() + seconds
    while (answer := ask()) not in answers:
        if time.monotonic() > end:
            raise TimeoutError(f"after {seconds} seconds: {answer!r} instead of {answers}")
        time.sleep(0.2)
    return answer


def _apt(folder: Path, conf: str, *command: str) -> str:
    """Run apt-get with lines of configuration; return "" or the error."""
    (folder / "apt.conf").write_text(conf)
    done = subprocess.run(
        ["apt-get", "-qq", f"-c={folder}/apt.conf", *command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    return f"exit code {done.returncode} {done.stderr}".strip() if done.returncode else ""


def _packages(folder: Path) -> list[Path]:
    """Return the package files in folder/debs; download them first if the folder is not there.

    apt-get chooses the files: the packages and those dependencies that the machine lacks. It uses
    the machine's package lists. If that fails it uses fresh lists that it loads into folder/lists.
    It writes only below `folder`: it takes no lock and runs no hook of the machine's configuration.
    """
    debs, new, lists = folder / "debs", folder / "new", folder / "lists"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if debs.is_dir():
            return sorted(debs.glob("*.deb"))
        if not shutil.which("apt-get") or not shutil.which("dpkg"):
            raise NoSlurm("this machine has no apt-get or no dpkg")
        for path in (new, lists):
            (path / "partial").mkdir(parents=True, exist_ok=True)
        conf = f'Dir::Cache "{folder}/cache"; Dir::Cache::archives "{new}";\n'
        conf += 'Debug::NoLocking "true"; APT::Sandbox::User "root"; Acquire::http::Timeout "20";\n'
        load = ("-y", "--no-install-recommends", "--download-only", "--reinstall", "install")
        if error := _apt(folder, conf, *load, *PACKAGES):
            conf += f'#clear APT::Update;\nDir::State::lists "{lists}";\n'
            error += "\n" + _apt(folder, conf, "update")
            if last := _apt(folder, conf, *load, *PACKAGES):
                raise NoSlurm(f"apt-get cannot download {' '.join(PACKAGES)}: {error}\n{last}")
        new.rename(debs)
        return sorted(debs.glob("*.deb"))


def _start(slurm: Slurm, run: Path, name: str, *options: str) -> Daemon:
    """Start a daemon as a child process; its log is logs/<name>.log."""
    program = next((run / "root").rglob(f"sbin/{name}*"))  # Debian calls slurmd "slurmd-wlm"
    with (slurm.logs / f"{name}.log").open("wb") as log:
        return subprocess.Popen(
            [program, *options],
            env=slurm.environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C must not end the daemons before the jobs
        )


def _node_state(slurm: Slurm, daemons: dict[str, Daemon]) -> str:
    """Return the state of the node; raise an error with a daemon's last lines if it has ended."""
    for name, daemon in daemons.items():
        if daemon.poll() is not None:
            lines = (slurm.logs / f"{name}.log").read_text(errors="replace").splitlines()[-15:]
            raise RuntimeError("\n".join([f"{name} ended with {daemon.returncode}:", *lines]))
    return slurm.run("sinfo", "--noheader", "--format=%T", check=False)


def _left(run: Path) -> list[int]:
    """Return the processes of this Slurm: those that run its programs, and those of its jobs."""
    conf = f"SLURM_CONF={run}/slurm.conf".encode()
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            variables = (entry / "environ").read_bytes().split(b"\0")
            job = conf in variables and any(v.startswith(b"SLURM_JOB_ID=") for v in variables)
            if job or (entry / "exe").readlink().is_relative_to(run):
                found.append(int(entry.name))
    return found


def _end(slurm: Slurm, run: Path, daemons: dict[str, Daemon]) -> None:
    """Cancel all jobs, end the daemons in the reverse order of their start, kill what is left."""
    if "slurmd" in daemons and daemons["slurmctld"].poll() is None:
        with contextlib.suppress(RuntimeError, TimeoutError, subprocess.TimeoutExpired):
            slurm.run("scancel", "--user=root")
            _wait(lambda: slurm.run("squeue", "--noheader"), ("",), 10)
    for daemon in reversed(daemons.values()):
        daemon.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            daemon.wait(10)
    end = time.monotonic() + 5
    while (left := _left(run)) and time.monotonic() < end:
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.1)


@contextlib.contextmanager
def one_node_slurm(folder: Path, cpus: int = 2) -> Iterator[Slurm]:
    """Start munged, slurmctld and slurmd, give the Slurm to the block, then end everything.

    `folder` keeps the packages (folder/debs) and the logs (folder/logs/<name>) between set-ups.
    All other files are in a new folder below /tmp, because the names of sockets must be short
    (108 characters); it is removed at the end. The node has `cpus` cpus, which need not exist.
    Raise NoSlurm if the user is not root or if the packages cannot be had.
    """
    if os.geteuid() != 0:
        raise NoSlurm("the user is not root")
    folder = folder.resolve()
    debs = _packages(folder)
    run = Path(tempfile.mkdtemp(prefix="slurm-", dir="/tmp"))
    slurm = Slurm({}, folder / "logs" / run.name)
    daemons: dict[str, Daemon] = {}
    try:
        run.chmod(0o755)  # munged demands that every user can reach its socket
        slurm.logs.mkdir(parents=True)
        (run / "state").mkdir()
        for deb in debs:
            subprocess.run(["dpkg", "-x", str(deb), str(run / "root")], check=True)
        plugins = next((run / "root").rglob("auth_munge.so")).parent
        with socket.create_server(("", 0)) as one, socket.create_server(("", 0)) as two:
            controller_port, node_port = (int(free.getsockname()[1]) for free in (one, two))
        values = {"controller_port": controller_port, "node_port": node_port, "cpus": cpus}
        values["memory"] = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2**20
        host = socket.gethostname().split(".")[0]
        conf = SLURM_CONF.format(host=host, run=run, plugins=plugins, **values)
        (run / "slurm.conf").write_text(conf)
        # No plugin of slurm.conf uses cgroups. slurmd loads this one all the same; it needs none.
        (run / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")
        (run / "munge.key").touch(0o600)
        (run / "munge.key").write_bytes(os.urandom(128))
        outer = {k: v for k, v in os.environ.items() if not k.startswith(("SLURM", "SBATCH"))}
        libraries = f"{plugins}:{plugins.parent}:{outer.get('LD_LIBRARY_PATH', '')}"
        slurm.environment.update(
            outer,
            PATH=f"{run}/root/usr/bin:{outer.get('PATH', os.defpath)}",
            LD_LIBRARY_PATH=libraries.rstrip(":"),
            SLURM_CONF=f"{run}/slurm.conf",
        )
        files = {"key-file": "key", "socket": "socket", "pid-file": "pid", "seed-file": "seed"}
        options = [f"--{option}={run}/munge.{end}" for option, end in files.items()]
        daemons["munged"] = _start(slurm, run, "munged", "--foreground", *options)
        _wait(lambda: str((run / "munge.socket").exists()), ("True",), 10)
        daemons["slurmctld"] = _start(slurm, run, "slurmctld", "-D")
        stepd = next((run / "root").rglob("sbin/slurmstepd*"))
        daemons["slurmd"] = _start(slurm, run, "slurmd", "-D", "-d", str(stepd))
        _wait(lambda: _node_state(slurm, daemons), ("idle",), 30)
        yield slurm
    finally:
        _end(slurm, run, daemons)
        shutil.rmtree(run, ignore_errors=True)
